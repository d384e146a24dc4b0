"""The programs that turn a kernel in Triton into code for a GPU: a C compiler and NVIDIA's ptxas.

Triton starts them in the process that calls a kernel. A locked worker may start no program; one
whose exercise compiles on CUDA may start these, and everything else stays refused.
"""

import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from functools import cache
from pathlib import Path

_COMPILERS = ("gcc", "clang", "cc")
_COMPILER_PARTS = ("cc1", "collect2", "as", "ld")  # programs that it starts
_PTXAS = "backends/nvidia/bin/*"
_LOADERS = ("/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1")
_ASK_SECONDS = 10.0


@cache
def find_worker_compilers() -> tuple[str, ...]:
    """Return the programs to start, with the links that lead to each; () if no compiler is here."""
    compiler = next(filter(None, map(shutil.which, _COMPILERS)), None)
    if compiler is None or sys.platform != "linux":
        return ()
    parts = (_find_worker_compiler_part(compiler, name) for name in _COMPILER_PARTS)
    triton = importlib.util.find_spec("triton")
    folders = (triton and triton.submodule_search_locations) or ()
    ptxas = (str(path) for folder in folders for path in Path(folder).glob(_PTXAS))
    found = [compiler, *parts, *ptxas, *_LOADERS]
    return tuple(
        dict.fromkeys(path for one in found if one for path in _follow_worker_compiler_links(one))
    )


def list_worker_compiler_paths() -> tuple[str, ...]:
    """Return the programs, and the folders of headers that they read."""
    headers = ("/usr/include", sysconfig.get_path("include"))
    return (
        *find_worker_compilers(),
        *(path for path in headers if path and find_worker_compilers()),
    )


def _find_worker_compiler_part(compiler: str, name: str) -> str | None:
    """Return the path of a program that the compiler starts, as the compiler finds it."""
    try:
        said = subprocess.run(
            [compiler, f"-print-prog-name={name}"], stdin=subprocess.DEVNULL, capture_output=True,
            text=True, check=False, timeout=_ASK_SECONDS,
        ).stdout.strip()  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return None
    return shutil.which(said or name)


def _follow_worker_compiler_links(path: str) -> Iterator[str]:
    """Yield a path and what each link leads to, the file itself last."""
    while os.path.lexists(path):
        yield path
        if not os.path.islink(path):
            return
        path = os.path.normpath(os.path.join(os.path.dirname(path), os.readlink(path)))
