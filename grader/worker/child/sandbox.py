"""Locks this process in: the wall that needs no privilege. Linux only."""

import ctypes
import json
import os
import socket
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from . import landlock, linux, seccomp

# What numpy, torch and the C library ask about the machine and about themselves.
_ABOUT_ITSELF = ("/proc/self", "/proc/cpuinfo", "/proc/meminfo", "/proc/sys/vm/overcommit_memory",
                 "/sys/devices/system/cpu", "/sys/devices/system/node", "/dev/urandom",
                 "/dev/random", "/dev/zero")  # fmt: skip

_SOME_BYTES = 1 << 20


def lock(files: Mapping[str, Any], own: Sequence[str]) -> None:
    """Refuse other files, other processes, the network, and every way back.

    `files` says what may be read, only listed, and used as a device; to `own` it may write.
    """
    linux.prctl(linux.PR_SET_NO_NEW_PRIVS, 1)
    linux.drop_capabilities()
    if files["landlock"]:
        landlock.restrict(
            read=[*files["read"], *_ABOUT_ITSELF],
            list_only=files["list_only"],
            write=own,
            devices=["/dev/null", *files["devices"]],
        )
    seccomp.install()


def probe(
    files: Mapping[str, Any], needed: Sequence[str], outside: str, on_cuda: bool
) -> list[str]:
    """Lock this process, try what must be refused, and say what is wrong. For a throw-away child.

    `needed` are files that must open all the same, `outside` one that is there and must not.
    """
    if not seccomp.known():
        return ["the system calls of this processor are not listed"]
    if files["landlock"] and not landlock.abi():
        return ["the kernel has no Landlock (Linux 5.13 and later have, unless it is switched off)"]
    try:
        lock(files, [os.getcwd()])
    except OSError as error:
        return [f"the kernel refuses to lock a process ({error.strerror})"]
    attempts: dict[str, Callable[[], object]] = {
        "other files can be read": Path(outside).read_bytes,
        "sockets can be opened": socket.socket,
        "processes can be started": _fork,
        "other processes can be signalled": lambda: os.kill(os.getppid(), 0),
    }
    wrong = [says for says, attempt in attempts.items() if _succeeds(attempt)]
    wrong += [f"{path} cannot be read" for path in needed if not _succeeds(Path(path).read_bytes)]
    return wrong + (["CUDA cannot be started"] if on_cuda and not _succeeds(_start_cuda) else [])


def _succeeds(attempt: Callable[[], object]) -> bool:
    try:
        attempt()
    except OSError:
        return False
    return True


def _start_cuda() -> None:
    """Make a context on the first device, fill some of its memory and wait for that."""
    driver = ctypes.CDLL("libcuda.so.1")
    device, context, memory = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_uint64()
    size = ctypes.c_size_t(_SOME_BYTES)
    calls: list[tuple[str, tuple[Any, ...]]] = [
        ("cuInit", (0,)),
        ("cuDeviceGet", (ctypes.byref(device), 0)),
        ("cuDevicePrimaryCtxRetain", (ctypes.byref(context), device)),
        ("cuCtxSetCurrent", (context,)),
        ("cuMemAlloc_v2", (ctypes.byref(memory), size)),
        ("cuMemsetD8_v2", (memory, ctypes.c_ubyte(1), size)),
        ("cuCtxSynchronize", ()),
    ]
    for name, arguments in calls:
        if (code := getattr(driver, name)(*arguments)) != 0:
            raise OSError(code, name)


def _fork() -> None:
    if os.fork() == 0:
        os._exit(0)


def main(request: str) -> None:
    """Print what `probe` found, for the parent to read."""
    print(json.dumps(probe(**json.loads(request))))
