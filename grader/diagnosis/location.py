"""Locates what is wrong in an answer: rows, heads or batches, from the entries that differ."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from grader.core.diagnosis_records import WrongPlaces
from grader.core.records import Exercise
from grader.judging.case import ValueDifference

Wrong = np.ndarray[Any, np.dtype[np.bool_]]

# What an axis is called, by its letter in the manifest; columns of a vector tell nothing.
AXES = {"B": "batch", "H": "head", "Hk": "kv_head", "L": "row", "Lq": "row", "t": "row", "n": "row",
        "Lk": "key", "q_len": "row", "k_len": "key", "max_len": "key"}  # fmt: skip
# Where the manifest says "..." before rows: of four axes these two, of three any one.
APART = 10  # how many times as large as those of right numbers errors are that stand out
LEADING_AXES, LEADING_AXIS = ["batch", "head"], ["leading"]


def locate_wrong_places(
    exercise: Exercise, differs: ValueDifference | None
) -> tuple[WrongPlaces, ...]:
    """Find the wrong places of a failure's values; none where right values differ as much."""
    if differs is None or not _is_wrong_apart(differs):
        return ()
    letters = list_judged_letters(exercise, differs.call, differs.subject)
    return locate_judged_errors(differs.wrong, letters)


def _is_wrong_apart(differs: ValueDifference) -> bool:
    """Return whether the wrong numbers stand out: else the line between them is the allowance's."""
    if np.asarray(differs.exact).dtype.kind in "biu":
        return True
    with np.errstate(invalid="ignore"):
        error = np.abs(differs.got - differs.exact)
    wrong, right = error[differs.wrong], error[~differs.wrong]
    typical = np.median(np.nan_to_num(wrong, nan=np.inf)) if wrong.size else 0.0
    return not right.size or bool(typical >= APART * np.nan_to_num(right).max())


def locate_judged_errors(wrong: Wrong, letters: Sequence[str]) -> tuple[WrongPlaces, ...]:
    """Find the axes along which some places are wrong and others right, and the wrong places.

    letters  the letters of the last axes, as in the manifest
    """
    names = _name_judged_axes(wrong.ndim, letters)
    found = []
    for axis, name in enumerate(names):
        others = tuple(i for i in range(wrong.ndim) if i != axis)
        along = np.asarray(wrong.any(axis=others))
        if name and along.any() and not along.all():
            numbers = tuple(int(i) for i in np.flatnonzero(along))
            found.append(WrongPlaces(axis=name, wrong=numbers, size=len(along)))
    return tuple(found)


def list_judged_letters(exercise: Exercise, call: str, subject: str) -> list[str]:
    """Return the declared shape letters of the `subject` of a call; [] if none are declared."""
    name, _, method = call.partition("(")[0].partition(".")
    function = exercise.functions.get(name)
    if function is None and name in exercise.classes:
        methods = exercise.classes[name].methods
        function = methods.get(call.rpartition(").")[2].partition("(")[0] or method or "forward",
                               methods.get("forward"))  # fmt: skip
    returns = {} if function is None else function.returns
    shape = returns.get(subject.partition(" ")[0])
    return shape.split()[1:] if isinstance(shape, str) else []


def _name_judged_axes(rank: int, letters: Sequence[str]) -> list[str]:
    named = [AXES.get(letter, "") for letter in letters if letter != "..."]
    if named and letters[-1] == "n":  # the numbers of a vector, not the rows before them
        named[-1] = ""
    missing = rank - len(named)
    if missing < 0 or not named:  # "..." alone may be anything
        return [""] * rank
    leading = [""] * missing
    if missing and {"head", "kv_head"} & set(named):
        leading[-1] = "batch"
    elif "row" in named or "key" in named:
        leading = {1: LEADING_AXIS, 2: LEADING_AXES}.get(missing, leading)
    return [*leading, *named]
