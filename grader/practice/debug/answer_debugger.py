"""Opens the debugger in the frame of an answer: pdb, or the one that is attached already."""

import os
import pdb
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from types import FrameType, TracebackType
from typing import Any

# Modules in which `n` and `s` do not stop.
_NOT_STUDENTS = ("grader.*", "reference.*", "torch.*", "numpy.*", "contextlib", "functools")


class AnswerPdb(pdb.Pdb):
    """A pdb that shows and steps through the frames of one file: the answer's."""

    def __init__(self, file: str) -> None:
        super().__init__(skip=_NOT_STUDENTS)
        self._file = file

    def get_stack(
        self, f: FrameType | None, t: TracebackType | None
    ) -> tuple[list[tuple[FrameType, int]], int]:
        """Return the frames that `w`, `u` and `d` know, and the place of the current one."""
        stack, at = super().get_stack(f, t)
        current = stack[at]
        kept = [
            entry
            for entry in stack
            if entry is current or entry[0].f_code.co_filename == self._file
        ]
        return kept, kept.index(current)


def is_other_debugger_there() -> bool:
    """Return whether `breakpoint()` leads elsewhere than to pdb: to an editor's debugger, say."""
    set_by_variable = os.environ.get("PYTHONBREAKPOINT", "pdb.set_trace") != "pdb.set_trace"
    return sys.breakpointhook is not sys.__breakpointhook__ or set_by_variable


@contextmanager
def breakpoints_ignored() -> Iterator[list[bool]]:
    """Let `breakpoint()` and `pdb.set_trace()` only lengthen the list that this yields."""
    reached: list[bool] = []
    with _breakpoints_lead_to(lambda *args, **kwargs: reached.append(True)):
        yield reached


@contextmanager
def breakpoints_open_pdb(file: str) -> Iterator[None]:
    """Let `breakpoint()` open pdb in an answer's file; another debugger stays in its place."""

    def stop(*args: Any, **kwargs: Any) -> None:
        AnswerPdb(file).set_trace(sys._getframe(1))

    with nullcontext() if is_other_debugger_there() else _breakpoints_lead_to(stop):
        yield


def open_pdb_after(error: BaseException, file: str) -> bool:
    """Open pdb where an answer raised, its own frame on top; False if none of its frames did."""
    trace = keep_answer_frames(error.__traceback__, file)
    if trace is None:
        return False
    debugger = AnswerPdb(file)
    debugger.reset()
    debugger.interaction(None, trace)
    return True


def keep_answer_frames(trace: TracebackType | None, file: str) -> TracebackType | None:
    """Return a traceback with only the frames of the answer's file."""
    if trace is None:
        return None
    rest = keep_answer_frames(trace.tb_next, file)
    frame: FrameType = trace.tb_frame
    if frame.f_code.co_filename != file:
        return rest
    return TracebackType(rest, frame, trace.tb_lasti, trace.tb_lineno)


@contextmanager
def _breakpoints_lead_to(hook: Callable[..., Any]) -> Iterator[None]:
    before = sys.breakpointhook, pdb.set_trace
    sys.breakpointhook, pdb.set_trace = hook, hook
    try:
        yield
    finally:
        sys.breakpointhook, pdb.set_trace = before
