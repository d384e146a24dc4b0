"""The tolerances: how far an answer may be from the exact values, and why that far.

The error of an answer is held to that of the plain formula in the same dtype on the same inputs
(the yardstick), with a floor of a few rounding errors of the inputs. The rules
were chosen by trial on tens of thousands of right answers written in different ways, none of which
they reject, and on answers with a scale 1 % off, all of which they reject; `tests/judging/
test_tolerances.py` repeats such a trial.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from grader.core.errors import GraderFault
from grader.judging.case import Rule
from reference.expected import NUDGES, UNIT, Array, Errors, Expected, errors, f64, name_of

# The share of an allowance from which the nudged yardsticks are run. They only widen allowances, so
# that no verdict depends on this number; below 1 it serves `make headroom`.
NUDGE_FROM_SHARE = 0.5
NUDGE_TO_SHARE = 4.0  # beyond it, more yardsticks than the first few would not help
MEAN_ERROR = "mean error"  # the measure that nudged yardsticks do not widen
MIN_MEAN_ERROR_ELEMENTS = 1024  # the mean error of fewer elements is left to chance


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """How an answer differs from the exact values."""

    index: tuple[int, ...]  # the first entry that differs
    where: Array  # which entries do, bool
    wrong: int
    total: int
    error: float
    allowed: float
    measure: str  # what `error` is: "largest error", "RMS error", ...


def judge_numbers(
    got: Array, expected: Expected, applied: list[Rule] | None = None
) -> Difference | None:
    """Return how `got` (float64, bool or int) differs, by the first rule broken; None if right.

    The shapes must be equal. Not-a-number agrees with nothing; an infinity only with itself.

    applied  the list to which every rule is added, broken or not; None: the yardstick is looked at
             only where rounding alone does not explain the errors, which gives the same verdict
    """
    exact = expected.exact
    if exact.dtype.kind in "biu":
        return _find_unequal_judged_value(got, got != exact)
    if applied is None and _is_within_rounding(got, expected):
        return None
    finite = np.isfinite(exact)
    wrong_infinity = ~finite & (got != exact) | finite & ~np.isfinite(got)
    if wrong_infinity.any():
        return _find_unequal_judged_value(got, wrong_infinity)
    error = np.where(finite, np.abs(got - np.where(finite, exact, 0.0)), 0.0)
    error[~finite] = 0.0
    dtype = name_of(expected.plain.dtype)
    yardstick = _measure_yardstick_error(expected, finite)
    rules = list(_build_tolerance_rules(error, yardstick, Errors(), expected, dtype))
    for number, count in enumerate(NUDGES):
        if _are_errors_within(rules, NUDGE_FROM_SHARE):
            break
        if number and not _are_errors_within(rules, NUDGE_TO_SHARE):
            break
        worst = expected.nudged(count)
        rules = list(_build_tolerance_rules(error, yardstick, worst, expected, dtype))
    if applied is not None:
        applied += rules
    broken = [rule for rule in rules if not rule.error <= rule.allowed]
    return _apply_tolerance_rule(got, error, expected, broken[0]) if broken else None


def judge_within(
    got: Array, exact: Array, within: float, applied: list[Rule] | None = None
) -> Difference | None:
    """Return how `got` differs from `exact` by more than `within`; None if no entry does."""
    error = np.abs(got - exact)
    wrong = ~(error <= within)
    known = error[~np.isnan(error)]
    largest = float(known.max()) if known.size else math.nan if error.size else 0.0
    if applied is not None:
        applied.append(Rule("largest error", largest, within))
    if not wrong.any():
        return None
    return Difference(
        index=tuple(int(i) for i in np.argwhere(wrong)[0]),
        where=wrong,
        wrong=int(wrong.sum()),
        total=wrong.size,
        error=largest,
        allowed=within,
        measure="largest error",
    )


def compute_rounding_tolerance(dtype: str, magnitude: float) -> float:
    """Return the error that rounding alone may leave on numbers of this magnitude."""
    match dtype:
        case "float64":
            return 1e-10 * max(1.0, magnitude)
        case "float32":
            return 16 * UNIT[dtype] * magnitude
    return 2 * UNIT[dtype] * magnitude


def _is_within_rounding(got: Array, expected: Expected) -> bool:
    """Return whether every error is so small that each rule allows it, whatever the yardstick."""
    dtype = name_of(expected.plain.dtype)
    least = compute_rounding_tolerance(dtype, expected.magnitude)
    if not math.isfinite(least) or _has_mean_rule(expected, dtype):
        return False
    with np.errstate(invalid="ignore"):  # an infinity that agrees leaves a NaN, for the rules
        largest = float(np.abs(got - expected.exact).max(initial=0.0))
    return largest <= (least / 4 if dtype == "float32" else least)


def _are_errors_within(rules: Sequence[Rule], share: float) -> bool:
    """Return whether every error that nudged yardsticks allow keeps within a share of its limit."""
    return all(r.error <= share * r.allowed for r in rules if r.measure != MEAN_ERROR)


def _has_mean_rule(expected: Expected, dtype: str) -> bool:
    # Not for gradients: a right answer may add gradients up in half precision, row by row.
    enough = expected.exact.size >= MIN_MEAN_ERROR_ELEMENTS
    return dtype not in ("float32", "float64") and enough and not expected.gradient


def _build_tolerance_rules(
    error: Array, yardstick: Array, nudged: Errors, expected: Expected, dtype: str
) -> Iterator[Rule]:
    least = compute_rounding_tolerance(dtype, expected.magnitude)
    found = errors(error)
    worst = Errors(*map(max, errors(yardstick), nudged))
    if dtype in ("float32", "float64"):
        yield Rule("largest error", found.largest, max(4 * worst.largest, least))
    else:
        allowed = (3 if expected.gradient else 2) * worst.largest + least
        yield Rule("largest error", found.largest, allowed)
        if _has_mean_rule(expected, dtype):
            # Twice, because the weights may be rounded too: in half precision many models do.
            yield Rule(MEAN_ERROR, float(error.mean()), 2 * float(yardstick.mean()))
    if dtype == "float32":
        size = errors(expected.exact[np.isfinite(expected.exact)]).rms
        yield Rule("RMS error", found.rms, max(1e-5 * size, 4 * worst.rms, least / 4))
    allowed = max(5 * worst.worst_row, least)
    yield Rule("RMS error of the worst row", found.worst_row, allowed)


def _measure_yardstick_error(expected: Expected, finite: Array) -> Array:
    plain = f64(expected.plain)
    if not np.isfinite(plain[finite]).all() or not math.isfinite(expected.magnitude):
        raise GraderFault("the yardstick is not finite: this case needs `raised`")
    error: Array = np.abs(np.where(finite, plain, 0.0) - np.where(finite, expected.exact, 0.0))
    return error


def _find_unequal_judged_value(got: Array, wrong: Array) -> Difference | None:
    if not wrong.any():
        return None
    first = tuple(int(i) for i in np.argwhere(wrong)[0])
    return Difference(
        index=first, where=wrong, wrong=int(wrong.sum()), total=got.size, error=math.inf,
        allowed=0.0, measure="",
    )  # fmt: skip


def _apply_tolerance_rule(got: Array, error: Array, expected: Expected, rule: Rule) -> Difference:
    """Point at the first entry beyond the bound, or at the largest error if none is.

    An entry that is the exact number, rounded once, is not wrong, though a bound on the mean of all
    errors may be less than its error.
    """
    plain, exact = expected.plain, torch.as_tensor(expected.exact)
    dtype = plain.dtype if isinstance(plain, torch.Tensor) else torch.as_tensor(plain).dtype
    wrong = (error > rule.allowed) & (got != f64(exact.to(dtype)))
    place = np.argwhere(wrong)[0] if wrong.any() else np.unravel_index(error.argmax(), error.shape)
    return Difference(
        index=tuple(int(i) for i in place),
        where=wrong,
        wrong=int(wrong.sum()),
        total=error.size,
        error=rule.error,
        allowed=rule.allowed,
        measure=rule.measure,
    )


def as_judged_numbers(x: torch.Tensor | Array) -> Array:
    """Return the values of an answer as float64; bool and int stay as they are."""
    plain = x.detach().cpu() if isinstance(x, torch.Tensor) else x
    if isinstance(plain, torch.Tensor):
        return f64(plain) if plain.dtype.is_floating_point else plain.numpy()
    return f64(plain) if plain.dtype.kind == "f" else plain
