"""Records which lines of a file run, so that a change elsewhere need not be tried."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


@contextmanager
def record_reached_lines(file: str) -> Iterator[set[int]]:
    """Collect the lines of the code with this file name that this thread runs."""
    lines: set[int] = set()

    def trace_line(frame: FrameType, event: str, arg: Any) -> Any:
        lines.add(frame.f_lineno)
        return trace_line

    def trace_call(frame: FrameType, event: str, arg: Any) -> Any:
        return trace_line(frame, event, arg) if frame.f_code.co_filename == file else None

    before = sys.gettrace()
    sys.settrace(trace_call)
    try:
        yield lines
    finally:
        sys.settrace(before)
