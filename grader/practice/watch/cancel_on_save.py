"""Breaks off a grading whose file was saved again."""

import signal
from collections.abc import Callable
from types import FrameType, TracebackType

PATIENCE = 2.0  # seconds after which a grading is not worth waiting for; most take one
TICK = 0.2


class Overtaken:
    """Within it, a KeyboardInterrupt is raised in the main thread once `changed()`.

    `happened` tells it from one that a person caused. An answer that never returns would otherwise
    hold up the next one until it has used up all its time.
    """

    def __init__(self, changed: Callable[[], bool]) -> None:
        self._changed = changed
        self._armed = False
        self.happened = False

    def __enter__(self) -> "Overtaken":
        self._armed = True
        self._before = signal.signal(signal.SIGALRM, self._look)
        signal.setitimer(signal.ITIMER_REAL, PATIENCE, TICK)
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

    def _look(self, number: int, frame: FrameType | None) -> None:
        if self._armed and self._changed():
            self.happened = True
            raise KeyboardInterrupt
