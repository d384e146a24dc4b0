"""Limits processor time and memory of code that may never end or may fill the memory."""

import math
import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

BYTES_PER_GIB = 1 << 30
RAISE_AGAIN_SECONDS = 1.0  # until the exception is raised again if the code swallowed it
SPARE_SECONDS = 10  # until the system ends a process that no exception can reach


class EndlessCode(BaseException):
    """Raised if code uses more than its time. `except Exception` does not catch it."""


@contextmanager
def limit_seconds_of_proof(seconds: float) -> Iterator[None]:
    """Raise `EndlessCode` in the enclosed code when it has used `seconds` of processor time.

    Time on the processor is counted, not time on the clock, so a busy machine changes nothing.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    before = signal.signal(signal.SIGPROF, _end_endless_proof)
    resource.setrlimit(
        resource.RLIMIT_CPU, (_read_seconds_of_proof() + math.ceil(seconds) + SPARE_SECONDS, hard)
    )
    signal.setitimer(signal.ITIMER_PROF, seconds, RAISE_AGAIN_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        resource.setrlimit(resource.RLIMIT_CPU, (hard, hard))
        signal.signal(signal.SIGPROF, before)


def limit_memory_of_proof(gib: float) -> None:
    """Limit this process to so many GiB more than it uses now, if the system has /proc."""
    status = Path("/proc/self/statm")
    if status.is_file():
        now = int(status.read_text().split()[0]) * resource.getpagesize()
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (now + int(gib * BYTES_PER_GIB), hard))


def lift_memory_limit_of_proof() -> None:
    """End a limit on the memory of this process: each mistake that is tried reserves 128 MiB."""
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (hard, hard))


def _read_seconds_of_proof() -> int:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return math.ceil(usage.ru_utime + usage.ru_stime)


def _end_endless_proof(number: int, frame: FrameType | None) -> None:
    raise EndlessCode
