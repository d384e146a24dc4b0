"""Answers calls to an answer in this process, and remembers what a debugger needs of them."""

import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any

from grader.worker.child.executor import Executor


@dataclass(frozen=True, slots=True, kw_only=True)
class DebuggedCall:
    """One call of a case: its number in the case, and the function or method that it runs."""

    number: int
    owner: str  # the class of a method; empty for a function
    name: str


class DebuggedCalls(Executor):
    """Keeps the last call of a case, and the exception that it raised.

    seconds  processor time after which a call raises a TimeoutError where it is; 0: no limit
    stop_at  the number of the call at which `take_stop` says once that the debugger should stop
    """

    seconds = 0.0
    stop_at = 0
    call: DebuggedCall | None = None
    raised: BaseException | None = None
    _stops = False

    def describe_error(self, error: BaseException) -> dict[str, Any]:
        """Keep the exception, and return its description."""
        self.raised = error
        return super().describe_error(error)

    def take_stop(self) -> bool:
        """Return whether the debugger should stop in this call; True at most once a call."""
        stops, self._stops = self._stops, False
        return stops

    def answer(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Run one request, within the seconds that a call may take."""
        self.raised = None
        with _limit_call_seconds(self.seconds):
            return super().answer(request)

    def _call(self, request: Mapping[str, Any]) -> dict[str, Any]:
        number = 1 if self.call is None or request.get("forget") else self.call.number + 1
        self.call = self._describe_debugged_call(request, number)
        self._stops = number == self.stop_at
        return super()._call(request)

    def _describe_debugged_call(self, request: Mapping[str, Any], number: int) -> DebuggedCall:
        name = request["name"]
        if request["on"] is not None:
            owner = type(self.handles[request["on"]]).__name__
            return DebuggedCall(number=number, owner=owner, name=name or "forward")
        if isinstance(getattr(self.module, name, None), type):
            return DebuggedCall(number=number, owner=name, name="__init__")
        return DebuggedCall(number=number, owner="", name=name)


@contextmanager
def _limit_call_seconds(seconds: float) -> Iterator[None]:
    """Raise a TimeoutError in the main thread, at the line it has reached, after these seconds.

    0 means never. Only processor time counts, so neither a busy machine nor a person at a prompt
    is taken for an endless loop.
    """
    if not seconds or threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        raise TimeoutError(f"no answer within {seconds:g} s")

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
