"""Compiles translated answers with g++, and the files themselves with nvcc, if installed.

A compiler that reads a hostile text can be trusted no more than the text's author. So it runs in a
child process with limits, a clean environment and a folder of its own. If the wall (the isolation)
has Landlock, the child can open no other files. What comes out is bytes, which only a worker loads.
"""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from grader.core.this_python import build_pip_install_command
from grader.cuda import symbols
from grader.worker.parent import traces
from grader.worker.parent.readable_paths import find_worker_site_folders
from grader.worker.parent.walls import PROCESS, Wall

RUNTIME = Path(__file__).resolve().parent / "runtime"
COMPILE_SECONDS = 40.0  # of the clock
COMPILE_LIMITS = {"cpu_seconds": 20, "memory_bytes": 6 << 30}
_SYSTEM_FOLDERS = ("/usr", "/bin", "/lib", "/lib64", "/etc/alternatives", "/etc/ld.so.cache",
                   "/nix/store", "/etc/ld.so.conf", "/etc/ld.so.conf.d")  # fmt: skip
_CXX_OPTIONS = ["-std=gnu++17", "-fPIE", "-fno-exceptions", "-fno-rtti", "-U_FORTIFY_SOURCE",
                "-fdiagnostics-color=never", "-fno-diagnostics-show-caret",
                "-fno-dollars-in-identifiers"]  # fmt: skip
# Calls before every access to memory, and at what has no meaning in C++: see runtime/hooks.h.
_WATCH_OPTIONS = [
    "-fsanitize=kernel-address", "--param", "asan-globals=1", "-fno-strict-aliasing",
    "-fsanitize=bounds-strict,signed-integer-overflow,integer-divide-by-zero,alignment",
    "-ffp-contract=off", "-fstack-clash-protection",
]  # fmt: skip
_ANSWER_OPTIONS = [
    "-g1",
    "-w",
    "-fmax-errors=5",
    "-ftemplate-depth=200",
    *_CXX_OPTIONS,
    *_WATCH_OPTIONS,
]
_LINK_OPTIONS = [
    "-pie",
    "-Wl,-z,relro,-z,now,-z,noexecstack",
    "-static-libgcc",
    "-static-libstdc++",
]
_TOOLKIT = "/usr/local/cuda/bin"
_OBJDUMP_ROW = re.compile(r"^(\S+)\s+(\d+|-)\s+0x([0-9a-f]+)", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledProgram:
    """A program of compiled answers, and the source line of each address in its code."""

    content: bytes
    places: tuple[int, ...]  # ascending
    lines: tuple[int, ...]  # 0 where it is no line of a student's


@dataclass(frozen=True, slots=True)
class CompilationFailure:
    """The message of a compiler that failed."""

    says: str
    told: bool = False  # it is the student's sentence already


class NoCompiler(Exception):
    """Raised if g++ is missing; the message says how to install it."""


def compile_cuda_for_cpu(
    source: str, wall: Wall = PROCESS, *, quick: bool = False
) -> CompiledProgram | CompilationFailure:
    """Compile translated answers into a program, which `kernel_machine.Machine` calls.

    quick  compile fast, since the program is not run
    """
    if sys.platform != "linux" or not (shutil.which("g++") and shutil.which("objdump")):
        cure = "apt-get install g++" if sys.platform == "linux" else "use Linux; on Windows, WSL"
        raise NoCompiler(f"needs g++, with which kernels run on the CPU: {cure}")
    files = {"answer.cpp": source.encode(), "runtime.o": _compile_cuda_runtime()}
    files |= {path.name: path.read_bytes() for path in RUNTIME.glob("*.h")}
    flags = [*_ANSWER_OPTIONS, *_choose_cpp_options(), "-Og" if quick else "-O1"]
    stages = [
        [["g++", *flags, "-c", "answer.cpp", "-o", "answer.o"]],
        [
            ["nm", "--undefined-only", "--format=just-symbols", "answer.o"],
            ["nm", "--defined-only", "--format=posix", "answer.o"],
            ["objdump", "--section-headers", "answer.o"],
            ["objcopy", *symbols.RENAMING_OPTIONS, "answer.o", "watched.o"],
        ],
        [["g++", *_LINK_OPTIONS, "watched.o", "runtime.o", "-o", "program"]],
        [["objdump", "--dwarf=decodedline", "program"]],
        [["strip", "-s", "-o", "stripped", "program"]],
    ]
    done = run_cuda_compiler(
        files, stages, ["stripped", "said-1", "said-2", "said-3", "said-6"], wall
    )
    if isinstance(done, CompilationFailure):
        return done
    needs, has, sections, rows = (_decode_cpp_output(done[f"said-{n}"]) for n in (1, 2, 3, 6))
    if problem := symbols.explain_cuda_object(needs, has, sections):
        return CompilationFailure(problem, told=True)
    table = _read_cuda_line_table(rows)
    return CompiledProgram(
        content=done["stripped"], places=tuple(table), lines=tuple(table.values())
    )


@cache
def _choose_cpp_options() -> list[str]:
    """Return the options by which new variables hold no old bytes of the stack (g++ 12)."""
    said = subprocess.run(["g++", "-dumpversion"], capture_output=True, text=True, check=False)
    new = said.stdout.partition(".")[0].strip()
    return ["-ftrivial-auto-var-init=pattern"] if new.isdigit() and int(new) >= 12 else []


@cache
def _compile_cuda_runtime() -> bytes:
    """Compile the grader's C++ runtime, which all answers share, once per process."""
    files = {path.name: path.read_bytes() for path in RUNTIME.iterdir()}
    compiling = ["g++", "-O2", *_CXX_OPTIONS, "-c", "runtime.cpp", "-o", "runtime.o"]
    stages = [[compiling], [["nm", "--defined-only", "--format=posix", "runtime.o"]]]
    done = run_cuda_compiler(files, stages, ["runtime.o", "said-1"], PROCESS)
    if not isinstance(
        done, CompilationFailure
    ):  # what it calls is its own, whatever an answer calls alike
        own = [
            f"--localize-symbol={name}"
            for name in symbols.list_cuda_runtime_names(_decode_cpp_output(done["said-1"]))
        ]
        files = {"runtime.o": done["runtime.o"]}
        done = run_cuda_compiler(
            files, [[["objcopy", *own, "runtime.o", "own.o"]]], ["own.o"], PROCESS
        )
    if isinstance(done, CompilationFailure):
        raise RuntimeError(f"the machine for kernels cannot be compiled: {done.says}")
    return done["own.o"]


def _decode_cpp_output(said: bytes) -> str:
    return said.decode("utf-8", "replace")


def _read_cuda_line_table(said: str) -> dict[int, int]:
    """Return, by address, the line whose code begins there, from objdump's output; ascending.

    A header's code belongs to the line that calls it. If an address has several rows, the last
    counts. Code after a row without a number ("-") is the grader's.
    """
    found: dict[int, int] = {}
    line = 0
    rows = ((int(row[3], 16), row[1], row[2]) for row in _OBJDUMP_ROW.finditer(said))
    for place, file, number in sorted(rows, key=lambda row: (row[0], row[2] != "-")):
        if number == "-":
            line = 0
        elif not file.endswith(".h"):
            line = int(number) if file.startswith("answer_") else 0
        found[place] = line
    return found


def find_nvcc() -> str | None:
    """Return the path of nvcc: on PATH, in the usual folder, or of a package; None without one."""
    found = shutil.which("nvcc") or shutil.which("nvcc", path=_TOOLKIT)
    packages = (Path(folder) / "nvidia" for folder in find_worker_site_folders())
    places = (p for folder in packages for p in sorted(folder.glob("*/bin/nvcc")))
    return found or next((str(path) for path in places), None)


def read_nvcc_complaint(text: str, wall: Wall = PROCESS) -> CompilationFailure | None:
    """Return nvcc's message about a file, if nvcc is installed; keep nothing that it builds."""
    program = find_nvcc()
    if program is None:
        return None
    command = [program, "-std=c++17", "-cubin", "-o", "answer.cubin", "answer_0.cu"]
    done = run_cuda_compiler({"answer_0.cu": text.encode()}, [[command]], [], wall, program)
    return done if isinstance(done, CompilationFailure) else None


def find_cuda_sanitizer() -> str:
    """Return the path of compute-sanitizer: on PATH, or beside nvcc; "" without one."""
    beside = str(Path(os.path.realpath(find_nvcc() or "nvcc")).parent)
    found = (shutil.which("compute-sanitizer", path=p) for p in (None, beside, _TOOLKIT))
    return next((path for path in found if path), "")


def compile_cuda_for_gpu(
    library: str, program: str, architecture: str, wall: Wall = PROCESS
) -> tuple[bytes, bytes] | CompilationFailure:
    """Compile two texts for a GPU: a library, and a program if one is wanted.

    architecture  such as "sm_90"; behind a wall nvcc sees no device to choose it by
    """
    found = find_nvcc()
    if found is None:
        cure = build_pip_install_command("nvidia-cuda-nvcc")
        raise NoCompiler(f"needs nvcc, with which kernels run on the GPU: {cure}")
    files = {"answer_0.cu": library, "program.cu": program}
    outputs = [["-shared", "-Xcompiler", "-fPIC", "-o", "library.so", "answer_0.cu"]]
    if program:
        outputs.append(["-lineinfo", "-o", "program", "program.cu"])
    commands = [
        [found, "-std=c++17", "-O3", f"-arch={architecture}", *output] for output in outputs
    ]
    wanted = ["library.so", *(["program"] if program else [])]
    done = run_cuda_compiler(
        {n: t.encode() for n, t in files.items()}, [commands], wanted, wall, found
    )
    return (
        done
        if isinstance(done, CompilationFailure)
        else (done["library.so"], done.get("program", b""))
    )


def run_cuda_compiler(
    files: Mapping[str, bytes], stages: Sequence[Sequence[Sequence[str]]], wanted: Sequence[str],
    wall: Wall, program: str = "",
) -> dict[str, bytes] | CompilationFailure:  # fmt: skip
    """Run commands on files in a folder of their own; return the wanted files."""
    with tempfile.TemporaryDirectory(prefix=traces.build_worker_trace_prefix()) as folder:
        for name, content in files.items():
            (Path(folder) / name).write_bytes(content)
        locked = wall.files is not None and bool(wall.files["landlock"])
        request = {
            "stages": stages,
            "limits": COMPILE_LIMITS,
            "files": [*_SYSTEM_FOLDERS, *_find_cuda_toolkit_folder(program)] if locked else None,
        }
        code, said = _run_cuda_compiler_child(json.dumps(request), folder)
        if code is None:
            return CompilationFailure(
                f"It takes longer than {COMPILE_SECONDS:g} seconds to compile."
            )
        try:
            told = json.loads(said)
        except ValueError:
            return CompilationFailure("The compiler used too much memory or processor time.")
        if told["failed"] is not None:
            return CompilationFailure(told["output"])
        return {name: (Path(folder) / name).read_bytes() for name in wanted}


def _find_cuda_toolkit_folder(program: str) -> list[str]:
    """Return the folder of a toolkit that lies outside of the system's folders."""
    return [str(Path(os.path.realpath(program)).parent.parent)] if program else []


def _run_cuda_compiler_child(request: str, folder: str) -> tuple[int | None, str]:
    """Return the exit status of the child (None: it took too long) and its output."""
    environment = {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "HOME": folder,
                   "TMPDIR": folder}  # fmt: skip
    child = subprocess.Popen(
        PROCESS.command("compile", request), cwd=folder, env=environment, text=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        start_new_session=True,
    )  # fmt: skip
    try:
        said, _ = child.communicate(timeout=COMPILE_SECONDS)
        return child.returncode, said
    except subprocess.TimeoutExpired:
        return None, ""
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)  # whatever is left of it
        child.wait()
