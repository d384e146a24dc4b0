"""Locks this process by Landlock and seccomp: the wall that needs no privilege. Linux only."""

import ctypes
import json
import os
import socket
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from . import landlock, linux, seccomp

# Files where numpy, torch and the C library read about the machine and their process.
_MACHINE_FILES = ("/proc/self", "/proc/cpuinfo", "/proc/meminfo", "/proc/sys/vm/overcommit_memory",
                 "/sys/devices/system/cpu", "/sys/devices/system/node", "/dev/urandom",
                 "/dev/random", "/dev/zero")  # fmt: skip

_CUDA_PROBE_BYTES = 1 << 20


def lock_sandbox(
    files: Mapping[str, Any], own: Sequence[str], programs: Sequence[str] = ()
) -> None:
    """Lock this process, for good, against other files, other processes and the network.

    `files` names paths to read, to list only, and devices to use; `own` names paths to write to.
    The process may start these `programs`, each behind the same lock; without any, it cannot fork.
    """
    linux.set_process_attribute(linux.PR_SET_NO_NEW_PRIVS, 1)
    linux.drop_worker_capabilities()
    if files["landlock"]:
        landlock.restrict_files_by_landlock(
            read=[*files["read"], *_MACHINE_FILES],
            list_only=files["list_only"],
            write=own,
            devices=["/dev/null", *files["devices"]],
            execute=programs,
        )
    seccomp.install_seccomp_filter(may_start=bool(programs and files["landlock"]))


def probe_sandbox(
    files: Mapping[str, Any], needed: Sequence[str], outside: str, on_cuda: bool
) -> list[str]:
    """Lock this throw-away process, try what the lock must refuse, and return what is wrong.

    `needed` are files that must still open, `outside` is an existing file that must not.
    """
    if not seccomp.has_seccomp_call_numbers():
        return ["the system calls of this processor are not listed"]
    if files["landlock"] and not landlock.read_landlock_version():
        return ["the kernel has no Landlock (Linux 5.13 and later have, unless it is switched off)"]
    try:
        lock_sandbox(files, [os.getcwd()])
    except OSError as error:
        return [f"the kernel refuses to lock a process ({error.strerror})"]
    attempts: dict[str, Callable[[], object]] = {
        "other files can be read": Path(outside).read_bytes,
        "sockets can be opened": socket.socket,
        "processes can be started": _fork_in_sandbox,
        "other processes can be signalled": lambda: os.kill(os.getppid(), 0),
    }
    wrong = [says for says, attempt in attempts.items() if _is_allowed_in_sandbox(attempt)]
    wrong += [
        f"{path} cannot be read"
        for path in needed
        if not _is_allowed_in_sandbox(Path(path).read_bytes)
    ]
    return wrong + (
        ["CUDA cannot be started"]
        if on_cuda and not _is_allowed_in_sandbox(_start_cuda_in_sandbox)
        else []
    )


def _is_allowed_in_sandbox(attempt: Callable[[], object]) -> bool:
    try:
        attempt()
    except OSError:
        return False
    return True


def _start_cuda_in_sandbox() -> None:
    """Make a context on the first device, fill some device memory and synchronise."""
    driver = ctypes.CDLL("libcuda.so.1")
    device, context, memory = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_uint64()
    size = ctypes.c_size_t(_CUDA_PROBE_BYTES)
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


def _fork_in_sandbox() -> None:
    if os.fork() == 0:
        os._exit(0)


def run_sandbox_probe(request: str) -> None:
    """Run a probe and print what is wrong, for the parent to read."""
    print(json.dumps(probe_sandbox(**json.loads(request))))
