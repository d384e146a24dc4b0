"""Reads the traces of calls: the values that each statement of an answer computed.

A trace comes from the worker, which may lie. So only the form of a trace is checked here, and
nothing but feedback depends on it.
"""

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from grader.worker.child.tracing import MAX_RECORDED_VALUES
from grader.worker.parent.client import MAX_LINE_NUMBER

KINDS = ("input", "argument", "variable", "return", "answer")
MAX_TRACED_NAME = 60  # characters
CLOSE, CLOSE_IN_HALF = 1e-3, 2e-2  # of the largest number of a value
_NAME = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)?(\[[0-9]{1,3}\])?")

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, slots=True)
class TracedValue:
    """A value that a statement computed."""

    line: int  # of the submission
    name: str  # of the variable, or "return"
    kind: str
    sources: tuple[int, ...]  # places in the trace, all before this one
    value: Array | None  # float64, bool or int64; None if it was too large
    close: float = CLOSE

    @property
    def whole(self) -> bool:
        """Return whether the value is a single whole number, as sizes and positions are."""
        return self.value is not None and self.value.ndim == 0 and self.value.dtype.kind in "ib"


Trace = tuple[TracedValue, ...]


def read_trace(sent: Any) -> Trace:
    """Return the values of a trace; none if it has not the form of one."""
    if not isinstance(sent, list) or len(sent) > MAX_RECORDED_VALUES:
        return ()
    found = [_read_traced_value(item, at) for at, item in enumerate(sent)]
    return () if None in found else tuple(x for x in found if x is not None)


def _read_traced_value(item: Any, at: int) -> TracedValue | None:
    match item:
        case (int(line), str(name), str(kind), [*sources], value) if (
            type(line) is int
            and 0 < line <= MAX_LINE_NUMBER
            and kind in KINDS
            and len(name) <= MAX_TRACED_NAME
            and _NAME.fullmatch(name)
            and all(type(x) is int and 0 <= x < at for x in sources)
            and isinstance(value, torch.Tensor | np.ndarray | bool | int | float | None)
        ):
            return TracedValue(
                line, name, kind, tuple(sources), *_read_numbers_of_traced_value(value)
            )
    return None


def _read_numbers_of_traced_value(value: Any) -> tuple[Array | None, float]:
    """Return a value as float64, bool or int64, and how close another must be to equal it."""
    if value is None:
        return None, CLOSE
    half = isinstance(value, torch.Tensor) and value.dtype in (torch.float16, torch.bfloat16)
    if isinstance(value, torch.Tensor):
        value = (value.double() if value.is_floating_point() else value).numpy()
    numbers = np.asarray(value)
    half = half or numbers.dtype == np.float16
    kind = {"b": np.bool_, "i": np.int64, "u": np.int64}.get(numbers.dtype.kind, np.float64)
    return numbers.astype(kind), CLOSE_IN_HALF if half else CLOSE


def are_traced_values_equal(one: TracedValue, other: TracedValue) -> bool:
    """Return whether two values have close numbers and, but for axes of length 1, one shape."""
    a, b = one.value, other.value
    if a is None or b is None:
        return False
    a, b = np.squeeze(a), np.squeeze(b)
    return a.shape == b.shape and are_traced_numbers_close(a, b, max(one.close, other.close))


def are_traced_numbers_close(a: Array, b: Array, close: float) -> bool:
    if a.dtype != float or b.dtype != float:
        return bool((a == b).all())
    finite = np.isfinite(b)
    if not (np.isfinite(a) == finite).all() or not np.array_equal(
        a[~finite], b[~finite], equal_nan=True
    ):
        return False
    largest = np.abs(b[finite]).max(initial=0.0)
    return bool((np.abs(a[finite] - b[finite]) <= close * largest).all())
