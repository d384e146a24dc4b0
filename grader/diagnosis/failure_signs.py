"""Says what a failure shows by itself: whom to blame, of which precision it is, or nothing."""

import re

import numpy as np

from grader.diagnosis import likeness
from grader.judging.case import StudentFault
from grader.judging.judge import CheckFailure, Judge
from grader.judging.trials import name_raised_kind

_OTHER_PRECISION = re.compile("float16|float64")  # bfloat16 too
_SHAPE_MISMATCH = re.compile(  # what PyTorch and NumPy say of shapes
    "must match|broadcast|cannot be multiplied|is invalid for input|[Ee]xpected size|mismatch"
    "|cannot reshape|not aligned|do not match"
)


def find_blamed_names(failure: CheckFailure, judge: Judge) -> frozenset[str]:
    """Return the names that a failure may be blamed on: all that its check calls, or fewer.

    If a check that calls only some of them failed too, the rest may be right: with a wrong cache, a
    right layer answers wrongly too. Then only the names in such smaller checks are blamed.
    """
    alone = [other.calls for other in judge.failures if other.calls < failure.calls]
    return frozenset[str]().union(*alone) if alone else failure.calls


def shows_nothing_of_mistake(failure: CheckFailure) -> bool:
    """Return whether a failure can be matched by chance only."""
    fault = failure.fault
    return fault.says_all_itself or bool(_SHAPE_MISMATCH.search(fault.detail))


def is_of_precision(failure: CheckFailure) -> bool:
    """Return whether a check failed in half precision or in float64."""
    return bool(_OTHER_PRECISION.search(failure.last_call))


def is_nan_of_precision(failure: CheckFailure) -> bool:
    """Return whether such a check failed with NaN or infinity."""
    differs = failure.fault.differs
    return is_of_precision(failure) and differs is not None and not np.isfinite(differs.got).all()


def is_fault_like_that_of_mistake(one: StudentFault, other: StudentFault | None) -> bool:
    """Return whether two faults are alike; two errors of one kind may have other messages."""
    if other is not None and one.kind and name_raised_kind(one) == name_raised_kind(other):
        return True
    return likeness.are_judged_faults_alike(one, other)
