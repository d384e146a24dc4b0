"""Records what each statement of an answer computes: for a diagnosis, never in a judged call.

A call is traced with `sys.settrace`. After each statement of the answer's file, those variables
that changed and hold numbers, arrays or tensors are copied, with what they were computed from: the
latest values of the names that the statement reads, and what the functions it calls return.
"""

import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from inspect import CO_GENERATOR
from types import FrameType, FunctionType, ModuleType
from typing import Any

import numpy as np
import torch

from .arrays import ARRAY_DTYPES, TENSOR_DTYPES
from .exact_types import make_worker_tensor_plain
from .statements import read_statement

MAX_RECORDED_VALUES = 200
MAX_RECORDED_NUMBERS = 1 << 14  # of one value; a larger one is recorded without its numbers
MAX_TRACED_STATEMENTS = 4000
MAX_PARTS = 16  # of a list or a tuple
MAX_OUTER_FRAMES = 12  # between a call in the answer and the function that it leads to

Recorded = list[tuple[int, str, str, list[int], Any]]


def record_worker_call(call: Callable[[], Any], files: Collection[str], recorded: Recorded) -> Any:
    """Return what `call` returns; add each value to `recorded`: (line, name, kind, sources, value).

    What was computed before an exception is recorded, too.

    files    the names of the files whose frames are traced
    line     the number of the statement's first line
    kind     "input" or "answer" of the whole call, "argument" or "return" of a function in it, or
             "variable"
    sources  the places in this list of the values from which this value was computed
    value    None if it has too many numbers. The list is empty if there are too many values.
    """
    tracer, before = _Tracer(files, recorded), sys.gettrace()
    sys.settrace(tracer.enter_frame)
    try:
        return call()
    finally:
        sys.settrace(before)
        if tracer.overflowed:
            recorded.clear()


def list_code_files(module: ModuleType) -> set[str]:
    """Return the names of the files in which the functions of a module stand."""
    own = [x for x in vars(module).values() if isinstance(x, type) and not _is_foreign(x)]
    methods = [x for c in own for x in vars(c).values()]
    found = [*vars(module).values(), *methods]
    own_functions = [x for x in found if isinstance(x, FunctionType) and not _is_foreign(x)]
    return {x.__code__.co_filename for x in own_functions}


def _is_foreign(one: type | FunctionType) -> bool:
    """Return whether a class or a function was imported from PyTorch, NumPy or Python itself."""
    package = str(one.__module__).partition(".")[0]
    return package in ("torch", "numpy") or package in sys.stdlib_module_names


@dataclass(slots=True)
class _Frame:
    """A function of the answer that is running."""

    outer: "_Frame | None"
    line: int = 0
    last: dict[str, tuple[Any, Any, int]] = field(default_factory=dict)  # object, state, place
    returned: list[int] = field(default_factory=list)  # by functions that the statement calls
    raised: bool = False


class _Tracer:
    def __init__(self, files: Collection[str], recorded: Recorded) -> None:
        self._files = files
        self._frames: dict[FrameType, _Frame] = {}
        self._statements = 0
        self.recorded = recorded
        self.overflowed = False

    def enter_frame(self, frame: FrameType, event: str, arg: Any) -> Any:
        code = frame.f_code
        plain = not code.co_name.startswith("<") and not code.co_flags & CO_GENERATOR
        if code.co_filename not in self._files or not plain or self.overflowed:
            return None
        outer = self._find_outer(frame)
        mine = self._frames[frame] = _Frame(outer, frame.f_lineno)
        if outer is None:
            kind, line, sources = "input", frame.f_lineno, []
        else:
            kind, line, sources = "argument", outer.line, self._list_sources(outer, frame.f_code)
        self._record_changes(mine, frame, kind, line, sources)
        return self.trace_frame

    def trace_frame(self, frame: FrameType, event: str, arg: Any) -> Any:
        mine = self._frames[frame]
        if event == "exception":
            mine.raised = True
        elif event == "line":
            mine.raised = False
            now, _ = read_statement(frame.f_code.co_filename, frame.f_lineno)
            if now != mine.line:
                self._finish_statement(mine, frame)
                mine.line = now
        elif event == "return":
            sources = self._list_sources(mine, frame.f_code)
            self._finish_statement(mine, frame)
            del self._frames[frame]
            if not mine.raised:
                kind = "answer" if mine.outer is None else "return"
                places = [
                    self._record(mine.line, name, kind, sources, value)
                    for name, value in _list_parts("return", arg)
                ]
                if mine.outer is not None:
                    mine.outer.returned += places
        return self.trace_frame

    def _find_outer(self, frame: FrameType) -> _Frame | None:
        back = frame.f_back
        for _ in range(MAX_OUTER_FRAMES):
            if back is None or back in self._frames:
                return None if back is None else self._frames[back]
            back = back.f_back
        return None

    def _finish_statement(self, mine: _Frame, frame: FrameType) -> None:
        self._statements += 1
        sources = self._list_sources(mine, frame.f_code)
        self._record_changes(mine, frame, "variable", mine.line, sources)
        mine.returned = []
        if self._statements > MAX_TRACED_STATEMENTS or self.overflowed:
            self.overflowed = True
            sys.settrace(None)

    def _list_sources(self, mine: _Frame, code: Any) -> list[int]:
        _, reads = read_statement(code.co_filename, mine.line)
        found = {at for name, (_, _, at) in mine.last.items() if name.partition("[")[0] in reads}
        return sorted(found | set(mine.returned))

    def _record_changes(
        self, mine: _Frame, frame: FrameType, kind: str, line: int, sources: list[int]
    ) -> None:
        for name, value in _list_variables(frame.f_locals):
            known = mine.last.get(name)
            state = _read_state(value)
            if known is None or known[0] is not value or not _is_same_state(known[1], state):
                at = self._record(line, name, kind, sources, value)
                mine.last[name] = value, state, at

    def _record(self, line: int, name: str, kind: str, sources: list[int], value: Any) -> int:
        if len(self.recorded) >= MAX_RECORDED_VALUES:
            self.overflowed = True
            return 0
        self.recorded.append((line, name, kind, sources, _copy_value(value)))
        return len(self.recorded) - 1


def _list_variables(names: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in names.items():
        if name == "self" and isinstance(getattr(value, "__dict__", None), dict):
            for attribute, part in vars(value).items():
                yield from _list_parts(f"self.{attribute}", part)
        else:
            yield from _list_parts(name, value)


def _list_parts(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield a value if it is one to record; of a tuple or list of such values, each of them."""
    if _is_recordable(value):
        yield name, value
    elif isinstance(value, list | tuple) and len(value) <= MAX_PARTS:
        for i, part in enumerate(value):
            if _is_recordable(part):
                yield f"{name}[{i}]", part


def _is_recordable(value: Any) -> bool:
    if isinstance(value, torch.Tensor):
        return value.dtype in TENSOR_DTYPES.values() and value.device.type != "meta"
    if isinstance(value, np.ndarray | np.generic):
        return value.dtype.name in ARRAY_DTYPES or value.dtype == np.longdouble
    return isinstance(value, bool | int | float) or _is_number_list(value)


def _is_number_list(value: Any) -> bool:
    if not isinstance(value, list) or not 0 < len(value) <= MAX_RECORDED_NUMBERS:
        return False
    if all(type(x) in (bool, int, float) for x in value):
        return True
    rows: Iterable[Any] = value
    return all(isinstance(row, list) and len(row) == len(value[0]) for row in rows) and all(
        type(x) in (bool, int, float) for row in rows for x in row
    )


def _read_state(value: Any) -> Any:
    """Return what tells whether an object is as it was."""
    if isinstance(value, torch.Tensor):
        return None if value.is_inference() else value._version
    if isinstance(value, np.ndarray):
        return value.copy() if value.size <= MAX_RECORDED_NUMBERS else None
    return [list(x) if isinstance(x, list) else x for x in value] if type(value) is list else None


def _is_same_state(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray):
        return isinstance(other, np.ndarray) and np.array_equal(one, other, equal_nan=True)
    return bool(one == other)


def _copy_value(value: Any) -> Any:
    size = value.numel() if isinstance(value, torch.Tensor) else np.size(value)
    if size > MAX_RECORDED_NUMBERS:
        return None
    if isinstance(value, torch.Tensor):
        plain = make_worker_tensor_plain(value)
        with torch._C._DisableTorchDispatch():  # what is copied here is not the answer's use
            return plain.detach().cpu().clone()
    found = np.array(value)
    return found.astype(np.float64) if found.dtype == np.longdouble else found
