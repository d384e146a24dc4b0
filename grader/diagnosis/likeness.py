"""Decides whether two answers, or two faults, are so alike that they show the same mistake."""

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
from torch import Tensor

from grader.judging.case import StudentFault, ValueDifference
from grader.judging.tolerance import as_judged_numbers

Array = np.ndarray[Any, np.dtype[Any]]

MATCH_RTOL = 0.02  # of the distance from the right answer
MIN_DISTINCT = 4  # different wrong values: a match of fewer may be chance
_NUMBERS = re.compile(r"\b\d+\b")
_QUOTED_MESSAGE = re.compile(r"(?<= does not name )([^:]+): .*")
_NUMBERS_FOR_BOOLEANS = re.compile(r"\b(?:u?int|b?float)\d+(?=, but should be bool\b)")


def are_judged_answers_alike(one: Any, other: Any) -> bool:
    """Return whether two answers have the same tensors, arrays and lists, with close numbers."""
    ours, theirs = list(_list_judged_numbers(one)), list(_list_judged_numbers(other))
    return len(ours) == len(theirs) and all(map(_are_judged_numbers_close, ours, theirs))


def _list_judged_numbers(value: Any) -> Iterator[Tensor | Array]:
    """Yield every tensor, array and list of numbers in nested lists and tuples, in order."""
    match value:
        case Tensor() | np.ndarray():
            yield value
        case [float() | int(), *_] if all(type(x) in (float, int) for x in value):
            yield np.array(value, np.float64)
        case list() | tuple():
            for item in value:
                yield from _list_judged_numbers(item)


def _are_judged_numbers_close(a: Tensor | Array, b: Tensor | Array) -> bool:
    if a.shape != b.shape:
        return False
    one, other = as_judged_numbers(a), as_judged_numbers(b)
    if a.dtype != b.dtype:
        return _are_truth_values(one, other) and bool((one == other).all())
    size = np.abs(np.asarray(other, np.float64))
    largest = size[np.isfinite(size)].max(initial=0.0)
    return measure_judged_distance(one, other) <= MATCH_RTOL * float(largest)


def _are_truth_values(one: Array, other: Array) -> bool:
    """Return whether both arrays hold the numbers 0 and 1 in the place of booleans."""
    return all(x.dtype != bool and bool(((x == 0) | (x == 1)).all()) for x in (one, other))


def _hide_chosen_words(fault: StudentFault) -> str:
    """Return the fault's sentence without what answers with one mistake may choose differently.

    That is which numbers stand for booleans, the words of a message, and the numbers in a call.
    """
    line = str(fault).partition("\n")[0]
    start = line.rfind("  [") if "  [" in line else len(line)  # of the call
    sentence = _QUOTED_MESSAGE.sub(r"\1", _NUMBERS_FOR_BOOLEANS.sub("numbers", line[:start]))
    return sentence + _hide_call_numbers(line[start:])


def _hide_call_numbers(call: str) -> str:
    """Return a call without its numbers, which an answer may have chosen: that of a sequence."""
    return _NUMBERS.sub("#", call)


def are_judged_faults_alike(one: StudentFault | None, other: StudentFault | None) -> bool:
    """Return whether two faults are the same: both none, the same sentence or close values."""
    if one is None or other is None:
        return one is other
    a, b = one.differs, other.differs
    if a is None or b is None:
        same = a is b and _hide_chosen_words(one) == _hide_chosen_words(other)
        return same and are_judged_answers_alike(one.came, other.came)
    if (a.subject, a.got.shape) != (b.subject, b.got.shape):
        return False
    if _hide_call_numbers(a.call) != _hide_call_numbers(b.call):
        return False
    between = measure_judged_distance(a.got, b.got)
    return between < np.inf and between <= MATCH_RTOL * measure_judged_distance(a.got, a.exact)


def measure_judged_distance(a: Any, b: Any) -> float:
    """Return the root mean square of a - b; infinite if only one of them has a NaN somewhere."""
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    if a.size == b.size == 0:
        return 0.0
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    with np.errstate(invalid="ignore"):  # equal infinities
        between = np.where(same, 0.0, a - b)
    if not between.size:
        return 0.0
    return float(np.sqrt(np.mean(np.square(between)))) if np.isfinite(between).all() else np.inf


def is_distinctive_mistake(differs: ValueDifference | None) -> bool:
    """Return whether enough wrong values differ from each other that a match is no chance."""
    if differs is None:
        return False
    values = np.asarray(differs.got, np.float64)[differs.wrong]
    return len(np.unique(values[np.isfinite(values)])) >= MIN_DISTINCT
