"""Cancels a grading whose file was saved again."""

import signal
from collections.abc import Callable
from types import FrameType, TracebackType

PATIENCE_SECONDS = 2.0  # a longer grading is not worth waiting for; most take one second
CHECK_INTERVAL_SECONDS = 0.2


class Overtaken:
    """A context that raises a KeyboardInterrupt in the main thread once `changed()` is true.

    A grading that calls `stop_between_cases` ends before that, after a whole case.
    `happened` tells such an interrupt from Ctrl-C. Without the context, an answer that never
    returns would delay the next grading until its own time limit.
    """

    def __init__(self, changed: Callable[[], bool]) -> None:
        self._changed = changed
        self._armed = False
        self.happened = False
        self.cuts_off = False  # whether it came in the middle of something

    def __enter__(self) -> "Overtaken":
        self._armed = True
        self._before = signal.signal(signal.SIGALRM, self._interrupt_if_changed)
        signal.setitimer(signal.ITIMER_REAL, PATIENCE_SECONDS, CHECK_INTERVAL_SECONDS)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._armed = False
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, self._before)

    def stop_between_cases(self) -> None:
        """Raise a KeyboardInterrupt at once if `changed()` is true; nothing is cut off here."""
        if self._armed and self._changed():
            self._armed = False
            self.happened = True
            raise KeyboardInterrupt

    def _interrupt_if_changed(self, number: int, frame: FrameType | None) -> None:
        if self._armed and self._changed():
            self.happened = self.cuts_off = True
            raise KeyboardInterrupt
