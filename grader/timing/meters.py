"""Measures one call: seconds of the grader's own clock, or bytes of a fresh process."""

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
from grader.worker.parent.client import Client
from grader.worker.parent.supervisor import Supervisor

PAGE_BYTES = 4096
MAX_UNSEEN_BYTES = 64 << 20  # that an honest call may seem to have held beyond the peak


class Party:
    """A participant, in a process of its own that is stopped except during its calls."""

    def __init__(self, name: str, student: Student, worker: Supervisor, client: Client) -> None:
        self.name = name
        self.student = student
        self.worker = worker
        self._client = client

    @contextmanager
    def awake(self) -> Iterator[None]:
        """Let the process run inside the `with` block, which begins once it is ready for a call."""
        self.worker.resume()
        try:
            self._client.ping()
            yield
        finally:
            self.worker.stop()


Meter = Callable[[Party, Callable[[], Any]], tuple[float, Any]]


def time_elapsed_seconds(party: Party, call: Callable[[], Any]) -> tuple[float, Any]:
    """Return the seconds that a call takes, and its answer."""
    with party.awake():
        return _time_call_unscheduled(call)


def time_party_call(party: Party, call: Callable[[], Any]) -> tuple[float, Any]:
    """Return the seconds that a call takes by the grader's clock, and its answer.

    Time in which the system ran other programs in the party's place does not count. If the
    party's processor time, on all processors together, is longer than the rest, it counts instead.
    """
    with party.awake():
        before = party.worker.usage()
        taken, answer = _time_call_unscheduled(call)
        after = party.worker.usage()
    if not (before and after):
        return taken, answer
    waited, used = (after[name] - before[name] for name in ("waited_ns", "cpu_ns"))
    return max(taken - waited / 1e9, used / 1e9), answer


def build_peak_memory_meter(empty: Mapping[str, int]) -> Meter:
    """Return a meter of memory: the bytes by which a call's peak exceeds an `empty` process's.

    The peak (VmHWM, since the process was started) is reduced by the bytes of the inputs, which lie
    in the memory of the process once they are read.
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
        if held > rise + MAX_UNSEEN_BYTES:
            raise StudentFault("the peak of its memory was set back while it ran")
        return max(rise - party.worker.inputs.most, PAGE_BYTES), answer

    return measure


def find_timing_processor() -> int | None:
    """Return the processor to which all parties are bound; None where binding is impossible."""
    return max(os.sched_getaffinity(0)) if sys.platform == "linux" else None


def _time_call_unscheduled(call: Callable[[], Any]) -> tuple[float, Any]:
    """Time a call, without the seconds for which this thread waited; return also the answer."""
    gc.collect(0)
    gc.disable()
    try:
        waited, started = _read_waited_nanoseconds(), time.perf_counter()
        answer = call()
        return time.perf_counter() - started - (_read_waited_nanoseconds() - waited) / 1e9, answer
    finally:
        gc.enable()


def _read_waited_nanoseconds() -> int:
    """Read for how many nanoseconds this thread was ready to run while others ran."""
    try:
        return int(Path("/proc/thread-self/schedstat").read_text().split()[1])
    except OSError:  # not Linux, or a kernel that does not count them
        return 0
