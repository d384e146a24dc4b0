"""What is measured of one call: seconds of the grader's own clock, or bytes of a fresh process."""

import gc
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from grader.judging.case import StudentFault
from grader.judging.student import Student
from grader.worker.client import Client
from grader.worker.supervisor import Supervisor

PAGE_BYTES = 4096  # bytes
MAX_HIDDEN_BYTES = 64 << 20  # bytes beyond the peak that an honest call may seem to have held


class Party:
    """One of the three, in a process of its own that stands still unless it is asked."""

    def __init__(self, name: str, student: Student, worker: Supervisor, client: Client) -> None:
        self.name = name
        self.student = student
        self.worker = worker
        self._client = client

    @contextmanager
    def awake(self) -> Iterator[None]:
        """Let it run meanwhile, from when it waits to be asked."""
        self.worker.resume()
        try:
            self._client.ping()
            yield
        finally:
            self.worker.stop()


Meter = Callable[[Party, Callable[[], Any]], tuple[float, Any]]


def wall_seconds(party: Party, call: Callable[[], Any]) -> tuple[float, Any]:
    """How long a call takes, and its answer."""
    with party.awake():
        return _time_call(call)


def seconds(party: Party, call: Callable[[], Any]) -> tuple[float, Any]:
    """How long a call takes by the grader's clock, and its answer.

    Without the time for which the kernel let other programs run on the processor in its place, of
    which the party knows nothing; and never less than the time of all processors that it used.
    """
    with party.awake():
        before = party.worker.usage()
        taken, answer = _time_call(call)
        after = party.worker.usage()
    if not (before and after):
        return taken, answer
    waited, used = (after[name] - before[name] for name in ("waited_ns", "cpu_ns"))
    return max(taken - waited / 1e9, used / 1e9), answer


def peak_bytes(empty: Mapping[str, int]) -> Meter:
    """How far a call takes a process's peak above what an `empty` one has used, and its answer.

    The peak is the kernel's (VmHWM), of everything since the process was started, less what was
    sent to it: that lies in its memory once it has read it.
    """

    def measure(party: Party, call: Callable[[], Any]) -> tuple[float, Any]:
        with party.awake():
            answer = call()
        usage = party.worker.usage()
        if not usage:
            raise StudentFault("its process ended after its answer")
        rise, mapped, touched, by_children = (
            usage[name] - empty[name]
            for name in ("peak_bytes", "mapped_bytes", "faults", "child_faults")
        )
        # What is freed and taken again is touched again, and not all that is mapped is touched.
        held = min(mapped, touched * PAGE_BYTES) + by_children * PAGE_BYTES
        if held > rise + MAX_HIDDEN_BYTES:
            raise StudentFault("the peak of its memory was set back while it ran")
        return max(rise - party.worker.inputs.most, PAGE_BYTES), answer

    return measure


def core() -> int | None:
    """The processor to which all parties are bound; None where that cannot be done."""
    return max(os.sched_getaffinity(0)) if sys.platform == "linux" else None


def _time_call(call: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds, without those for which this thread waited for a processor; and the answer."""
    gc.collect(0)
    gc.disable()
    try:
        waited, started = _waited_nanoseconds(), time.perf_counter()
        answer = call()
        return time.perf_counter() - started - (_waited_nanoseconds() - waited) / 1e9, answer
    finally:
        gc.enable()


def _waited_nanoseconds() -> int:
    """Nanoseconds for which this thread was ready to run and others ran instead."""
    try:
        return int(Path("/proc/thread-self/schedstat").read_text().split()[1])
    except OSError:  # not Linux, or a kernel that does not count them
        return 0
