"""Sets up a forked worker (session, files, limits, lock) and serves its requests."""

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
import warnings
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import numpy as np
import torch

from . import companion, frames, linux, seccomp, wire
from .executor import Executor
from .sandbox import lock_sandbox

MAX_PRINTED_BYTES = 1 << 20  # bytes that a submission may print before the rest is dropped
MAX_FILE_BYTES = 16 << 20  # bytes of the largest file that a submission may write
INTERRUPT_SIGNAL = signal.SIGUSR1  # breaks off a call that has timed out
_WORKER_FAILURE_STATUS = 70
# A worker maps less than this before it runs an answer. PyTorch's builds for CUDA map 3 GiB of
# libraries; what is beyond this is no use of the answer's, and is added to its limit.
_LEAN_BYTES = 1 << 30


def become_worker(
    request: dict[str, Any], home: Path, kernels: Path | None, descriptors: list[int], nursery: int
) -> NoReturn:
    """Turn this fork of the nursery into a worker, serve its requests, and exit."""
    status = _WORKER_FAILURE_STATUS
    try:
        os.setsid()
        _end_worker_with_nursery(nursery)
        control, inputs, answers, *program = _redirect_worker_files(descriptors)
        os.chdir(home)
        os.environ.update(HOME=str(home), TMPDIR=str(home))
        tempfile.tempdir = str(home)  # tempfile may have cached the nursery's folder
        if kernels is not None:
            os.environ["TRITON_CACHE_DIR"] = str(kernels)
        _set_worker_limits(request["limits"])
        if request["core"] is not None and sys.platform == "linux":
            os.sched_setaffinity(0, {request["core"]})
        if request["gives_back"] and sys.platform == "linux":
            linux.return_worker_memory()
            _confine_worker_to_memory()
        _reseed_worker_generators()
        signal.signal(INTERRUPT_SIGNAL, _break_off_call)
        room = Executor(_map_worker_arena(inputs), _map_worker_arena(answers))
        if program:
            talk = companion.start_companion_of_worker(*program)
            os.environ[companion.SOCKET_VARIABLE] = str(talk.detach())
        if request["lock"] is not None:
            own = [str(place) for place in (home, kernels) if place is not None]
            lock_sandbox(request["lock"], own, request["compilers"])
        elif sys.platform == "linux":
            linux.drop_worker_capabilities()
            _refuse_lasting_worker_calls()
        _serve_worker_requests(socket.socket(fileno=control), room)
        status = 0
    finally:
        os._exit(status)


def _end_worker_with_nursery(nursery: int) -> None:
    if sys.platform == "linux":
        linux.set_process_attribute(linux.PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != nursery:  # the nursery ended before this call
            os._exit(_WORKER_FAILURE_STATUS)


def _redirect_worker_files(descriptors: list[int]) -> tuple[int, ...]:
    """Set the standard streams, and close all but the socket, the arenas and the program."""
    control, inputs, answers, printed, *program = descriptors
    null = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((null, 0), (printed, 1), (printed, 2)):
        os.dup2(source, target)
    keep = sorted((control, inputs, answers, *program))
    for low, high in zip([2, *keep], [*keep, 4096], strict=True):
        os.closerange(low + 1, high)
    sys.stdout = sys.stderr = _Capped(1)
    np.seterr(all="ignore")  # overflows are judged by values, not by warnings
    warnings.simplefilter("ignore")  # those of a library help nobody with what was asked
    return control, inputs, answers, *program


def _set_worker_limits(limits: dict[str, Any]) -> None:
    """Set the limits that the system enforces; the parent times calls."""
    seconds = limits["cpu_seconds"]
    wanted = {resource.RLIMIT_CORE: (0, 0), resource.RLIMIT_CPU: (seconds, seconds + 1)}
    if limits["memory_bytes"] is not None:  # CUDA maps and opens more, and keeps caches in files
        more = max(0, _measure_mapped_bytes() - _LEAN_BYTES)
        wanted[resource.RLIMIT_AS] = (limits["memory_bytes"] + more,) * 2
        wanted[resource.RLIMIT_FSIZE] = (MAX_FILE_BYTES,) * 2
        wanted[resource.RLIMIT_NOFILE] = (256, 256)
    for which, values in wanted.items():
        hard = resource.getrlimit(which)[1]
        soft, most = (v if hard == resource.RLIM_INFINITY else min(v, hard) for v in values)
        try:
            resource.setrlimit(which, (soft, most))
        except (ValueError, OSError):  # macOS refuses some of them; the parent's clock remains
            continue
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)


def _measure_mapped_bytes() -> int:
    """Return the size of this process's address space; 0 where the system does not tell."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[0]) * mmap.PAGESIZE
    except OSError:
        return 0


def _refuse_lasting_worker_calls() -> None:
    """Refuse calls that could outlive this worker, where the kernel and processor allow that."""
    if seccomp.has_seccomp_call_numbers():
        with contextlib.suppress(OSError):
            linux.set_process_attribute(linux.PR_SET_NO_NEW_PRIVS, 1)
            seccomp.install_lasting_seccomp_filter()


def _confine_worker_to_memory() -> None:
    """Refuse new files and pipes, and limit output: for workers whose memory is measured."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (MAX_PRINTED_BYTES, MAX_PRINTED_BYTES))
    if seccomp.has_seccomp_call_numbers():
        with contextlib.suppress(OSError):
            linux.set_process_attribute(linux.PR_SET_NO_NEW_PRIVS, 1)
            seccomp.install_holding_seccomp_filter()


class CallInterrupted(BaseException):
    """Raised in the submission when its time is over: the reply tells at which line that was."""


def _break_off_call(number: int, frame: FrameType | None) -> NoReturn:
    raise CallInterrupted


def _reseed_worker_generators() -> None:
    random.seed()
    np.random.seed()
    torch.seed()


def _map_worker_arena(descriptor: int) -> wire.Arena:
    memory = mmap.mmap(descriptor, 0)
    os.close(descriptor)
    return wire.Arena(memory)


def _serve_worker_requests(control: socket.socket, room: Executor) -> None:
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
            request = frames.receive_frame(read)
        except EOFError:
            return
        reply = room.answer(request)
        if room.device_lost:  # the next request goes to a new process
            os._exit(frames.DEVICE_LOST_STATUS)
        try:
            frames.send_frame(control, reply)
        except (frames.WireError, MemoryError) as problem:
            frames.send_frame(control, room.refuse_reply(request, problem))


class _Capped(io.TextIOBase):
    """A text stream that drops all text beyond `MAX_PRINTED_BYTES`."""

    encoding = "utf-8"
    errors = "replace"

    def __init__(self, descriptor: int) -> None:
        super().__init__()
        self._descriptor = descriptor
        self._left = MAX_PRINTED_BYTES

    def write(self, text: str) -> int:
        data = text.encode("utf-8", "replace")[: self._left]
        self._left -= len(data)
        while data:
            data = data[os.write(self._descriptor, data) :]
        return len(text)

    def writable(self) -> bool:
        return True

    def reconfigure(self, **_: object) -> None:
        """Ignore the request: the stream keeps its settings."""

    def fileno(self) -> int:
        return self._descriptor
