"""Limits for code that may never end or may ask for any amount of memory."""

import math
import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

GIB = 1 << 30
AGAIN = 1.0  # seconds after which the exception is raised again, where it was swallowed
SPARE = 10  # seconds after which the system ends a process that no exception can reach


class Endless(BaseException):
    """Code used more than its time. No `except Exception` catches it."""


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Raise `Endless` in what uses more than so many seconds of the processor.

    Time on the processor is counted, not time on the clock, so a busy machine changes nothing.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    before = signal.signal(signal.SIGPROF, _raise)
    resource.setrlimit(resource.RLIMIT_CPU, (_used() + math.ceil(seconds) + SPARE, hard))
    signal.setitimer(signal.ITIMER_PROF, seconds, AGAIN)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        resource.setrlimit(resource.RLIMIT_CPU, (hard, hard))
        signal.signal(signal.SIGPROF, before)


def limit_memory(gib: float) -> None:
    """Let this process have so much memory beside what it has, where the system tells that."""
    status = Path("/proc/self/statm")
    if status.is_file():
        now = int(status.read_text().split()[0]) * resource.getpagesize()
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (now + int(gib * GIB), hard))


def _used() -> int:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return math.ceil(usage.ru_utime + usage.ru_stime)


def _raise(number: int, frame: FrameType | None) -> None:
    raise Endless
