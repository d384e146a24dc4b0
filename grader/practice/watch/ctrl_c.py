"""Ends a watch at Ctrl-C, whenever it is pressed.

What runs in the middle of a grading may swallow a KeyboardInterrupt (PyTorch does, while it is
imported). So the watch remembers the interrupt, and looks for it before each grading and while it
waits. While the watch ends, further interrupts are ignored: they would leave something behind.
"""

import signal
from types import FrameType
from typing import NoReturn

_ENDS = signal.SIGINT, signal.SIGTERM, signal.SIGHUP
_pressed = False


def end_watch_at_signals() -> None:
    """Have the watch end at Ctrl-C, and at every signal that comes when a window is closed.

    A process that a script runs in the background ignores Ctrl-C by default.
    """
    for number in _ENDS:
        signal.signal(number, _interrupt_watch)


def check_watch_interrupt() -> None:
    """Raise a KeyboardInterrupt if one came and was swallowed."""
    if _pressed:
        raise KeyboardInterrupt


def _interrupt_watch(number: int, frame: FrameType | None) -> NoReturn:
    global _pressed
    for other in _ENDS:
        signal.signal(other, signal.SIG_IGN)
    _pressed = True
    raise KeyboardInterrupt
