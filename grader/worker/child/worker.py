"""A worker's first moments and its loop: own session, own files, limits, lock, then requests."""

import contextlib
import io
import mmap
import os
import random
import resource
import signal
import socket
import sys
import tempfile
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import torch

from . import companion, frames, linux, seccomp, wire
from .executor import Room
from .sandbox import lock

PRINT_LIMIT = 1 << 20  # bytes that a submission may print before the rest is dropped
FILE_LIMIT = 16 << 20  # bytes of the largest file that it may write
_OUR_OWN_FAILURE = 70


def become_worker(
    request: dict[str, Any], home: Path, kernels: Path | None, descriptors: list[int], nursery: int
) -> NoReturn:
    """Turn this fork of the nursery into a worker. When it returns to nobody, it is over."""
    status = _OUR_OWN_FAILURE
    try:
        os.setsid()
        _end_with(nursery)
        control, inputs, answers, *program = _own_files(descriptors)
        os.chdir(home)
        os.environ.update(HOME=str(home), TMPDIR=str(home))
        tempfile.tempdir = str(home)  # the nursery may have asked, and its answer is remembered
        if kernels is not None:
            os.environ["TRITON_CACHE_DIR"] = str(kernels)
        _limit(request["limits"])
        if request["core"] is not None and sys.platform == "linux":
            os.sched_setaffinity(0, {request["core"]})
        if request["gives_back"] and sys.platform == "linux":
            linux.give_memory_back()
            _hold_all_in_memory()
        _reseed()
        room = Room(_map(inputs), _map(answers))
        if program:
            talk = companion.start(*program)
            os.environ[companion.NAME] = str(talk.detach())
        if request["lock"] is not None:
            lock(request["lock"], [str(place) for place in (home, kernels) if place is not None])
        elif sys.platform == "linux":
            linux.drop_capabilities()
            _refuse_what_lasts()
        _loop(socket.socket(fileno=control), room)
        status = 0
    finally:
        os._exit(status)


def _end_with(nursery: int) -> None:
    if sys.platform == "linux":
        linux.prctl(linux.PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != nursery:  # it ended before this was said
            os._exit(_OUR_OWN_FAILURE)


def _own_files(descriptors: list[int]) -> tuple[int, ...]:
    """Standard streams, the socket, the arenas, a program if there is one, and nothing else."""
    control, inputs, answers, printed, *program = descriptors
    null = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((null, 0), (printed, 1), (printed, 2)):
        os.dup2(source, target)
    keep = sorted((control, inputs, answers, *program))
    for low, high in zip([2, *keep], [*keep, 4096], strict=True):
        os.closerange(low + 1, high)
    sys.stdout = sys.stderr = _Capped(1)
    np.seterr(all="ignore")  # what overflows is judged by its values, not by warnings
    return control, inputs, answers, *program


def _limit(limits: dict[str, Any]) -> None:
    """The limits that the system enforces; wall time is the parent's business."""
    seconds = limits["cpu_seconds"]
    wanted = {resource.RLIMIT_CORE: (0, 0), resource.RLIMIT_CPU: (seconds, seconds + 1)}
    if limits["memory_bytes"] is not None:  # CUDA maps more, opens more, and keeps caches in files
        wanted[resource.RLIMIT_AS] = (limits["memory_bytes"],) * 2
        wanted[resource.RLIMIT_FSIZE] = (FILE_LIMIT,) * 2
        wanted[resource.RLIMIT_NOFILE] = (256, 256)
    for which, values in wanted.items():
        hard = resource.getrlimit(which)[1]
        soft, most = (v if hard == resource.RLIM_INFINITY else min(v, hard) for v in values)
        try:
            resource.setrlimit(which, (soft, most))
        except (ValueError, OSError):  # macOS refuses some of them; the parent's clock remains
            continue
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)


def _refuse_what_lasts() -> None:
    """What no wall but the weakest leaves open, where this kernel and processor can refuse it."""
    if seccomp.known():
        with contextlib.suppress(OSError):
            linux.prctl(linux.PR_SET_NO_NEW_PRIVS, 1)
            seccomp.install_lasting()


def _hold_all_in_memory() -> None:
    """Where memory is measured: no new files, no pipes, and what is printed stays small."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (PRINT_LIMIT, PRINT_LIMIT))
    if seccomp.known():
        with contextlib.suppress(OSError):
            linux.prctl(linux.PR_SET_NO_NEW_PRIVS, 1)
            seccomp.install_holding()


def _reseed() -> None:
    random.seed()
    np.random.seed()
    torch.seed()


def _map(descriptor: int) -> wire.Arena:
    memory = mmap.mmap(descriptor, 0)
    os.close(descriptor)
    return wire.Arena(memory)


def _loop(control: socket.socket, room: Room) -> None:
    def read(count: int) -> bytes:
        data = bytearray()
        while len(data) < count:
            more = control.recv(count - len(data))
            if not more:
                raise EOFError
            data.extend(more)
        return bytes(data)

    while True:
        try:
            request = frames.receive(read)
        except EOFError:
            return
        reply = room.answer(request)
        if room.device_lost:  # the next request meets a process of its own
            os._exit(frames.DEVICE_LOST)
        frames.send(control, reply)


class _Capped(io.TextIOBase):
    """A text stream that drops what exceeds `PRINT_LIMIT`, so that printing costs nothing."""

    encoding = "utf-8"
    errors = "replace"

    def __init__(self, descriptor: int) -> None:
        super().__init__()
        self._descriptor = descriptor
        self._left = PRINT_LIMIT

    def write(self, text: str) -> int:
        data = text.encode("utf-8", "replace")[: self._left]
        self._left -= len(data)
        while data:
            data = data[os.write(self._descriptor, data) :]
        return len(text)

    def writable(self) -> bool:
        return True

    def reconfigure(self, **_: object) -> None:
        """It stays as it is."""

    def fileno(self) -> int:
        return self._descriptor
