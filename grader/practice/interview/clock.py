"""Runs the clock of an interview, and shows it as a line that changes, or as lines."""

import math
import time
from collections.abc import Callable
from types import TracebackType
from typing import Protocol

from rich.console import Console
from rich.live import Live
from rich.text import Text

from grader.core.translation import Words

DONE_WORDS = ("", "done")
_POLL_SECONDS = 1.0
_WARNING_SECONDS = 60  # before the end: the line changes its colour
_LINE_INTERVAL_SECONDS = 300  # between two lines, where there is no screen


class InterviewClock:
    """A clock of seconds that ignores the machine's date; on Linux it stops while that sleeps."""

    def __init__(self, seconds: float, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._begun = now()
        self._seconds = seconds

    @property
    def used(self) -> float:
        return self._now() - self._begun

    @property
    def left(self) -> float:
        """Return the seconds until the end; less than 0 after it."""
        return self._seconds - self.used

    def run(self, typed: Callable[[float], str | None], show: Callable[[float], None]) -> bool:
        """Wait for the end of the time; return whether the answer was handed in before it.

        typed  waits for a line, at most so many seconds; returns None if no line came
        show   is called with the seconds that are left, about once a second
        """
        while (left := self.left) > 0:
            show(left)
            line = typed(min(left, _POLL_SECONDS))
            if line is not None and line.strip().lower() in DONE_WORDS and self.left > 0:
                return True
        return False


class Face(Protocol):
    """A display of the time that is left."""

    def show(self, left: float) -> None: ...

    def __enter__(self) -> "Face": ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


def draw_interview_clock(console: Console, words: Words) -> Face:
    """Return a line that counts down on a terminal; elsewhere a line every five minutes."""
    return Screen(console, words) if console.is_terminal else Lines(console, words)


class Screen:
    """A display of one line, drawn in place."""

    def __init__(self, console: Console, words: Words) -> None:
        self._words = words
        self._live = Live(console=console, auto_refresh=False, transient=True)

    def __enter__(self) -> "Screen":
        self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._live.stop()

    def show(self, left: float) -> None:
        late = left <= _WARNING_SECONDS
        told = "{time} left. Save your file: it counts as it is saved." if late else (
            "{time} left. Enter hands in, Ctrl-C ends it without a verdict."
        )  # fmt: skip
        line = Text(
            self._words(told, time=format_interview_time(left)),
            style="bold red" if late else "bold",
        )
        line.no_wrap, line.overflow = True, "ellipsis"
        self._live.update(line, refresh=True)


class Lines:
    """A display that prints a line at the beginning and every five minutes."""

    def __init__(self, console: Console, words: Words) -> None:
        self._console = console
        self._words = words
        self._next = math.inf

    def __enter__(self) -> "Lines":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        pass

    def show(self, left: float) -> None:
        if left <= self._next:
            self._next = (math.ceil(left / _LINE_INTERVAL_SECONDS) - 1) * _LINE_INTERVAL_SECONDS
            told = self._words("{time} left.", time=format_interview_time(left))
            self._console.print(told, markup=False, highlight=False)


def format_interview_time(seconds: float) -> str:
    """ "12:05" """
    whole = math.ceil(seconds)
    return f"{whole // 60}:{whole % 60:02}"
