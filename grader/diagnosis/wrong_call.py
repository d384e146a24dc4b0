"""Makes the call again that raised, or was wrong: the quickest test of a changed answer."""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch import Tensor

from grader.judging.case import CURRENT_CASE, Case, LastCall, StudentFault, ValueDifference
from grader.judging.student import Student
from grader.judging.tolerance import as_judged_numbers

_PLAIN = (bool, int, float, str, Tensor, np.ndarray, torch.dtype, torch.device)
MAX_SHARE_OF_ERROR = 0.5  # of the largest error; what mends leaves less of it


@dataclass(frozen=True, slots=True)
class WrongCall:
    """A call of a function, and which part of what it returned is wrong; none if it raised."""

    asked: LastCall
    part: int = 0
    differs: ValueDifference | None = None

    @property
    def given(self) -> tuple[Any, ...]:
        """The arguments of the call."""
        return *self.asked.args, *self.asked.kwargs.values()

    def compare(self, student: Student) -> str:
        """Return "" if the call may be mended, else the exception raised, or "wrong".

        It may be if it does not raise, and if the largest error at the wrong places is less than
        half of what it was.
        """
        CURRENT_CASE.set(Case(takes_any_form=True))
        student.begin_case()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # what a library warns of is judged by its values
                answer = getattr(student, self.asked.name)(*self.asked.args, **self.asked.kwargs)
        except StudentFault as fault:
            return fault.kind or "wrong"
        if self.differs is None:
            return ""
        numbers = next(islice(_list_parts(answer), self.part, None), None)
        return "" if _is_closer(numbers, self.differs) else "wrong"


def find_wrong_call(
    fault: StudentFault, asked: LastCall | None, right: Student
) -> WrongCall | None:
    """Return the last call of a failed case, if it raised or returned the wrong values.

    right  makes the call too, and must be right: what it was given may have changed meanwhile
    """
    found = WrongCall(fault.raised_by) if fault.raised_by is not None else None
    differs = fault.differs
    if differs is not None and asked is not None:
        for n, numbers in enumerate(_list_parts(asked.value)):
            if np.array_equal(numbers, differs.got, equal_nan=numbers.dtype.kind == "f"):
                found = WrongCall(asked, n, differs)
    if found is None or not all(map(_is_plain, found.given)):
        return None
    return None if found.compare(right) else found


def _is_plain(value: Any) -> bool:
    """Return whether a value means the same to every answer, as no object of a student's does."""
    if isinstance(value, tuple | list):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, _PLAIN)


def _list_parts(value: Any) -> Iterator[Any]:
    """Yield the numbers of every tensor and array that a call returned."""
    for part in value if isinstance(value, tuple | list) else [value]:
        if isinstance(part, Tensor | np.ndarray):
            yield as_judged_numbers(part)


def _is_closer(numbers: Any, differs: ValueDifference) -> bool:
    if numbers is None or numbers.shape != differs.got.shape:
        return False
    before, after = (_find_largest_error(x, differs) for x in (differs.got, numbers))
    return after < MAX_SHARE_OF_ERROR * before


def _find_largest_error(numbers: Any, differs: ValueDifference) -> float:
    """Return the largest error at the places that were wrong; infinite for NaN or infinity."""
    one, right = (np.asarray(x, np.float64)[differs.wrong] for x in (numbers, differs.exact))
    same = (one == right) | (np.isnan(one) & np.isnan(right))
    with np.errstate(invalid="ignore"):  # equal infinities
        error = np.where(same, 0.0, np.abs(one - right))
    return float(np.nan_to_num(error, nan=np.inf, posinf=np.inf).max(initial=0.0))
