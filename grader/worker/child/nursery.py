"""The nursery's loop, and the first moments of a worker (see `__main__` for the protocol)."""

import ctypes
import gc
import io
import mmap
import os
import random
import resource
import signal
import socket
import sys
from typing import Any, NoReturn

import numpy as np
import torch

from . import frames, wire
from .room import Room

PRINT_LIMIT = 1 << 20  # bytes that a submission may print before the rest is dropped
FILE_LIMIT = 16 << 20  # bytes of the largest file that it may write
_PR_SET_PDEATHSIG = 1


def serve(descriptor: int) -> None:
    """Fork workers until the parent goes away."""
    torch.set_num_threads(1)
    gc.collect()
    gc.freeze()
    parent = socket.socket(fileno=descriptor)
    frames.send(parent, {"ready": True})
    while True:
        try:
            request, descriptors = _receive_with_descriptors(parent)
        except (EOFError, ConnectionError):
            return
        if request["op"] == "status":
            frames.send(parent, _wait(request["pid"]))
            continue
        pid = os.fork()
        if pid == 0:
            _become_worker(request, descriptors)
        for fd in descriptors:
            os.close(fd)
        frames.send(parent, {"pid": pid})


def _wait(pid: int) -> dict[str, int]:
    """How a worker ended."""
    try:
        _, status = os.waitpid(pid, 0)
    except ChildProcessError:  # it belonged to a nursery that is no more
        return {"signal": signal.SIGKILL}
    if os.WIFSIGNALED(status):
        return {"signal": os.WTERMSIG(status)}
    return {"exit": os.WEXITSTATUS(status)}


def _receive_with_descriptors(sock: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """One frame, and the descriptors that came with its first bytes."""
    start, descriptors, _, _ = socket.recv_fds(sock, 1 << 16, 4)
    buffer = bytearray(start)

    def read(count: int) -> bytes:
        while len(buffer) < count:
            more = sock.recv(1 << 16)
            if not more:
                raise EOFError
            buffer.extend(more)
        taken = bytes(buffer[:count])
        del buffer[:count]
        return taken

    if not start:
        raise EOFError
    return frames.receive(read), descriptors


def _become_worker(request: dict[str, Any], descriptors: list[int]) -> NoReturn:
    """Turn this fork into a worker: own session, own files, limits, then the loop."""
    status = 70  # our own failure, should one of the next lines raise
    try:
        os.setsid()
        _end_with_parent()
        control, inputs, answers = _own_files(descriptors)
        os.chdir(request["home"])
        os.environ.update(HOME=request["home"], TMPDIR=request["home"])
        _limit(request["limits"])
        _reseed()
        _loop(socket.socket(fileno=control), _map(inputs), _map(answers))
        status = 0
    finally:
        os._exit(status)


def _own_files(descriptors: list[int]) -> tuple[int, int, int]:
    """Standard streams, the socket and the arenas, and nothing else that was open."""
    control, inputs, answers, printed = descriptors
    null = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((null, 0), (printed, 1), (printed, 2)):
        os.dup2(source, target)
    keep = sorted((control, inputs, answers))
    for low, high in zip([2, *keep], [*keep, 4096], strict=True):
        os.closerange(low + 1, high)
    sys.stdout = sys.stderr = _Capped(1)
    np.seterr(all="ignore")  # what overflows is judged by its values, not by warnings
    return control, inputs, answers


def _end_with_parent() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def _limit(limits: dict[str, Any]) -> None:
    """The limits that the system enforces; wall time is the parent's business."""
    wanted = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_CPU: limits["cpu_seconds"],
    }
    if limits["memory_bytes"] is not None:  # CUDA maps more, opens more, and keeps caches in files
        wanted[resource.RLIMIT_AS] = limits["memory_bytes"]
        wanted[resource.RLIMIT_FSIZE] = FILE_LIMIT
        wanted[resource.RLIMIT_NOFILE] = 256
    for which, value in wanted.items():
        hard = resource.getrlimit(which)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        try:
            resource.setrlimit(which, (value, value))
        except (ValueError, OSError):  # macOS refuses some of them; the parent's clock remains
            continue
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)


def _reseed() -> None:
    random.seed()
    np.random.seed()
    torch.seed()


def _map(descriptor: int) -> wire.Arena:
    memory = mmap.mmap(descriptor, 0)
    os.close(descriptor)
    return wire.Arena(memory)


def _loop(control: socket.socket, inputs: wire.Arena, answers: wire.Arena) -> None:
    room = Room(inputs, answers)

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
        try:
            frames.send(control, reply)
        except (frames.WireError, ValueError):
            message = "the answer cannot be sent: it is too long, or holds too many objects"
            frames.send(control, {"error": {"type": "WireError", "message": message, "line": None}})


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
