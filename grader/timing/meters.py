"""What is measured of one call: seconds of the grader's own clock, or bytes of a fresh process."""

import gc
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from grader.judging.case import StudentFault
from grader.judging.student import Student
from grader.worker.supervisor import Supervisor

PAGE = 4096  # bytes
UNSEEN = 64 << 20  # bytes of pages touched beyond the peak that an honest call may show
MORE_THAN_ONE = 1.25  # seconds of processors in a second
START = 0.25  # seconds of a worker's first moments, before it first stands still


class Party:
    """One of the three, in a process of its own that stands still unless it is asked."""

    def __init__(self, name: str, student: Student, worker: Supervisor) -> None:
        self.name = name
        self.student = student
        self.worker = worker
        self._running = 0.0  # seconds in which it did not stand still

    @contextmanager
    def awake(self) -> Iterator[None]:
        """Let it run meanwhile."""
        started = time.perf_counter()
        self.worker.resume()
        try:
            yield
        finally:
            self.worker.stop()
            self._running += time.perf_counter() - started

    def used_one_processor(self) -> bool:
        """Whether its threads together had no more than one processor's time; true if unknown."""
        seconds = self.worker.usage().get("cpu_ns", 0) / 1e9
        return seconds <= START + MORE_THAN_ONE * self._running


Meter = Callable[[Party, Callable[[], Any]], tuple[float, Any]]


def seconds(party: Party, call: Callable[[], Any]) -> tuple[float, Any]:
    """How long a call takes, and its answer."""
    gc.collect(0)
    gc.disable()
    try:
        with party.awake():
            started = time.perf_counter()
            answer = call()
            return time.perf_counter() - started, answer
    finally:
        gc.enable()


def peak_bytes(empty: Mapping[str, int]) -> Meter:
    """How far a call takes a process's peak above what an `empty` one has used, and its answer.

    The peak is the kernel's (VmHWM), of everything since the process was started.
    """

    def measure(party: Party, call: Callable[[], Any]) -> tuple[float, Any]:
        with party.awake():
            answer = call()
        usage = party.worker.usage()
        rise = usage["peak_bytes"] - empty["peak_bytes"]
        if (usage["faults"] - empty["faults"]) * PAGE > rise + UNSEEN:
            raise StudentFault("the peak of its memory was set back while it ran")
        return max(rise, PAGE), answer

    return measure


def core() -> int | None:
    """The processor to which all parties are bound; None where that cannot be done."""
    return max(os.sched_getaffinity(0)) if sys.platform == "linux" else None


def check_processors(parties: Iterable[Party], student: str) -> None:
    """Refuse the times of a student who used several processors at once."""
    for party in parties:
        if party.name == student and not party.used_one_processor():
            raise StudentFault("it used more than one processor at a time, where one is given")
