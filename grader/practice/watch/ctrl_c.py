"""Ends a watch at Ctrl-C, wherever that comes.

What runs in the middle of a grading may swallow a KeyboardInterrupt (PyTorch does, while it
imports), so the watch remembers that it came, and asks before each grading and while it waits.
While it ends, more of them are ignored: they would leave something behind.
"""

import signal
from types import FrameType
from typing import NoReturn

_ENDS = signal.SIGINT, signal.SIGTERM, signal.SIGHUP
_pressed = False


def end_watch_at_signals() -> None:
    """Have Ctrl-C end the watch, and every signal that closes a window.

    A script's background ignores Ctrl-C by default.
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
