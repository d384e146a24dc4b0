"""Finds the stage at which an attention goes wrong: scores, mask, weights or output.

The stage is found from calls alone, whatever the code looks like, by comparing weights and outputs
with the solution's. Where a call returns only the output, the values are the identity, so that the
output is the weights. Scores are seen in the logarithms of the weights, which differ within a row
as the scores do.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from grader.core.diagnosis_records import Stage
from grader.core.records import DeclaredFunction, Exercise
from grader.judging.case import CURRENT_CASE, Case, LastCall, StudentFault
from grader.judging.contract import list_judged_parameters
from grader.judging.draw import Draw
from grader.judging.student import Student
from grader.judging.tolerance import as_judged_numbers

PROBE_LENGTH, PROBE_WIDTH = 6, 4
MAX_STAGE_DIFFERENCE = 1e-3

Array = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True, slots=True)
class WrongStage:
    """The first stage at which a function differs, and whether only calls with a mask show it."""

    stage: Stage
    masked: bool

    def explains(self, function: DeclaredFunction, call: LastCall | None) -> bool:
        """Return whether a failed call can show the stage: one without a mask does not use it."""
        if not self.masked or call is None:
            return not self.masked
        given = dict(zip(list_judged_parameters(function.signature), call.args, strict=False))
        return (given | call.kwargs).get("keep") is not None


def diagnose_first_wrong_stage(
    exercise: Exercise, name: str, student: Student, right: Student
) -> WrongStage | None:
    """Find the first stage at which `student` differs from `right` in the function `name`."""
    function = exercise.functions.get(name)
    if function is None or list_judged_parameters(function.signature)[:3] != ("q", "k", "v"):
        return None
    draw = Draw("stage", exercise.slug)
    q, k = (2 * draw.normal(1, 1, PROBE_LENGTH, PROBE_WIDTH) for _ in range(2))
    keep = torch.ones(PROBE_LENGTH, PROBE_LENGTH, dtype=torch.bool).tril(1)
    identity, values = (
        torch.eye(PROBE_LENGTH)[None, None],
        draw.normal(1, 1, PROBE_LENGTH, PROBE_WIDTH),
    )
    tries = [(identity, None), (identity, keep), (values, None), (values, keep)]
    if "keep" not in list_judged_parameters(function.signature):
        tries = tries[::2]
    try:
        for v, mask in tries:
            got, wanted = (
                _run_diagnosed_head(one, function, q, k, v, mask) for one in (student, right)
            )
            if not got or len(got) != len(wanted):
                return None
            if (v is identity or len(got) > 1) and (
                found := _diagnose_weights(got[-1], wanted[-1])
            ):
                return WrongStage(found, masked=mask is not None)
            if not _is_diagnosis_close(got[0], wanted[0]):
                return WrongStage(Stage(name="output"), masked=mask is not None)
    except StudentFault:
        pass
    return None


def _run_diagnosed_head(
    student: Student, function: DeclaredFunction, q: Tensor, k: Tensor, v: Tensor,
    keep: Tensor | None,
) -> list[Array]:  # fmt: skip
    """Call a function on one head; return a list: output (L, Dv), and weights (L, L) if returned.

    The list is empty if the function returns something else.
    """
    CURRENT_CASE.set(Case())
    student.begin_case()
    given: list[Any] = [q, k, v] if keep is None else [q, k, v, keep]
    if any("array" in str(kind) for kind in function.returns.values()):
        given = [x.numpy() for x in given]
    elif any("rows" in str(kind) for kind in function.returns.values()):
        given = [x.reshape(x.shape[-2:]).tolist() for x in given]
    answer = getattr(student, function.name)(*given)
    parts = [
        np.array(part, float)[None, None] if isinstance(part, list) else part
        for part in (answer if isinstance(answer, tuple) else (answer,))
    ]
    shapes = ((*q.shape[:-1], v.shape[-1]), (*q.shape[:-1], k.shape[-2]))
    for part, shape in zip(parts, shapes, strict=False):
        if not isinstance(part, Tensor | np.ndarray) or part.shape != shape:
            return []
    return [as_judged_numbers(part)[0, 0].astype(np.float64) for part in parts]


def _diagnose_weights(got: Array, right: Array) -> Stage | None:
    if _is_diagnosis_close(got, right):
        return None
    hidden, factor = right < 1e-12, None
    finite = np.isfinite(got)
    if (got[hidden & finite] > MAX_STAGE_DIFFERENCE).any() or ((got == 0) & (right > 0.02)).any():
        name = "mask"
    elif (
        not finite.all()
        or (got < -MAX_STAGE_DIFFERENCE).any()
        or not _is_diagnosis_close(got.sum(-1), right.sum(-1))
    ):
        name = "weights"
    else:
        name, factor = "scores", _diagnose_score_factor(got, right, ~hidden)
    return Stage(
        name=name, factor=factor, got=_round_diagnosed_rows(got), right=_round_diagnosed_rows(right)
    )


def _diagnose_score_factor(got: Array, right: Array, seen: Any) -> float | None:
    """Return the factor on the scores; None if a factor alone does not explain the weights."""
    ours, theirs = (np.where(seen, np.log(np.where(seen, x, 1.0)), 0.0) for x in (got, right))
    ours, theirs = (x - _average_diagnosed_keys(x, seen) for x in (ours, theirs))
    ours, theirs = ours[seen], theirs[seen]
    factor = float(ours @ theirs / (theirs @ theirs))
    fits = np.abs(ours - factor * theirs).max() <= 0.01 * np.abs(ours).max()
    return factor if fits and math.isfinite(factor) else None


def _average_diagnosed_keys(x: Array, seen: Any) -> Array:
    total: Array = x.sum(-1, keepdims=True) / seen.sum(-1, keepdims=True).clip(min=1)
    return total


def _is_diagnosis_close(a: Array, b: Array) -> bool:
    return bool(np.isfinite(a).all() and np.abs(a - b).max() <= MAX_STAGE_DIFFERENCE)


def _round_diagnosed_rows(x: Array) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(round(float(value), 4) for value in row) for row in x)
