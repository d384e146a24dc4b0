"""At which stage an attention goes wrong: scores, mask, weights or output.

It is found from outside, whatever the code looks like. With the identity for values the output is
the weights; the logarithms of weights in one row differ as the scores do. Beside the student's
stand those of the solution, where that is at hand.
"""

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from grader.judging.case import CASE, Case, StudentFault
from grader.judging.compare import as_numbers
from grader.judging.contract import parameters
from grader.judging.draw import Draw
from grader.judging.student import Student
from grader.records import Exercise, Function, Stage

LENGTH, WIDTH = 6, 4
CLOSE = 1e-3

Array = np.ndarray[Any, np.dtype[np.float64]]


def stage(exercise: Exercise, name: str, student: Student, right: Student) -> Stage | None:
    """The first stage at which `student` differs from `right` in the function called `name`."""
    function = exercise.functions.get(name)
    if function is None or parameters(function.signature)[:3] != ["q", "k", "v"]:
        return None
    draw = Draw("stage", exercise.slug)
    q, k = (2 * draw.normal(1, 1, LENGTH, WIDTH) for _ in range(2))
    keep = torch.ones(LENGTH, LENGTH, dtype=torch.bool).tril(1)
    masks = [None, keep] if "keep" in parameters(function.signature) else [None]
    try:
        for mask in masks:
            inputs = (q, k, torch.eye(LENGTH)[None, None], mask)
            got, wanted = (_asked(one, function, *inputs) for one in (student, right))
            if got is None or wanted is None:
                return None
            if found := _in_weights(got, wanted):
                return found
        v = draw.normal(1, 1, LENGTH, WIDTH)
        got, wanted = (_asked(one, function, q, k, v, None) for one in (student, right))
    except StudentFault:
        return None
    if got is None or wanted is None or _alike(got, wanted):
        return None
    return Stage(name="output")


def _asked(student: Student, function: Function, q: Tensor, k: Tensor, v: Tensor,
           keep: Tensor | None) -> Array | None:  # fmt: skip
    """The output for one head, (L, Dv); None if it is no such thing."""
    CASE.set(Case())
    student.begin_case()
    given: list[Any] = [q, k, v] if keep is None else [q, k, v, keep]
    if any("array" in str(kind) for kind in function.returns.values()):
        given = [x.numpy() for x in given]
    answer = getattr(student, function.name)(*given)
    output = answer[0] if isinstance(answer, tuple) else answer
    if not isinstance(output, Tensor | np.ndarray) or output.shape != (*q.shape[:-1], v.shape[-1]):
        return None
    numbers: Array = as_numbers(output)[0, 0].astype(np.float64)
    return numbers


def _in_weights(got: Array, right: Array) -> Stage | None:
    if _alike(got, right):
        return None
    hidden, factor = right < 1e-12, None
    finite = np.isfinite(got)
    if (got[hidden & finite] > CLOSE).any() or ((got == 0) & (right > 0.02)).any():
        name = "mask"
    elif not finite.all() or (got < -CLOSE).any() or not _alike(got.sum(-1), right.sum(-1)):
        name = "weights"
    else:
        name, factor = "scores", _factor(got, right, ~hidden)
    return Stage(name=name, factor=factor, got=_rows(got), right=_rows(right))


def _factor(got: Array, right: Array, seen: Any) -> float | None:
    """By what the scores are multiplied, if that is all that is wrong with them."""
    ours, theirs = (np.where(seen, np.log(np.where(seen, x, 1.0)), 0.0) for x in (got, right))
    ours, theirs = (x - _mean(x, seen) for x in (ours, theirs))
    ours, theirs = ours[seen], theirs[seen]
    factor = float(ours @ theirs / (theirs @ theirs))
    fits = np.abs(ours - factor * theirs).max() <= 0.01 * np.abs(ours).max()
    return factor if fits and math.isfinite(factor) else None


def _mean(x: Array, seen: Any) -> Array:
    total: Array = x.sum(-1, keepdims=True) / seen.sum(-1, keepdims=True).clip(min=1)
    return total


def _alike(a: Array, b: Array) -> bool:
    return bool(np.isfinite(a).all() and np.abs(a - b).max() <= CLOSE)


def _rows(x: Array) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(round(float(value), 4) for value in row) for row in x)
