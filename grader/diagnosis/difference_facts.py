"""Facts that the wrong numbers themselves tell: a factor, an offset, wrong places, lost digits."""

import itertools
import re
from collections.abc import Iterator

import numpy as np
from torch import Tensor

from grader.core.diagnosis_records import Fact
from grader.diagnosis.probed_function import Array
from grader.judging.judge import CheckFailure

# Such values were changed by another call, or by the check: they do not tell how they are computed.
_CHANGED_SINCE = re.compile(r"\ban earlier (?:one|answer)\b")
FITS = 1e-3  # the share of the largest number by which a factor or an offset may miss
MIN_NUMBERS = 3  # different right numbers: with fewer of them a factor is chance
SMALL_ERROR = 1e-3  # relative errors that an epsilon may leave
LEAST_SHARE = 1e-13  # of a number, above the rounding errors of float64
ALIKE = 0.05  # the share by which what numbers of a row lack may differ
FLOAT32_ERRORS = (1e-10, 1e-6)  # relative errors of float64 numbers that went through float32


def list_difference_facts(failure: CheckFailure) -> Iterator[Fact]:
    """Yield the facts that a failure's wrong values tell by themselves, at most two."""
    differs = failure.fault.differs
    if differs is None or _CHANGED_SINCE.search(differs.subject):
        return
    got, exact = np.asarray(differs.got), np.asarray(differs.exact)
    if got.shape != exact.shape or got.size < MIN_NUMBERS:
        return
    if exact.dtype == bool:
        found = _find_bool_fact(got, exact)
    elif np.isfinite(got).all() and np.isfinite(exact).all():
        got, exact = got.astype(np.float64), exact.astype(np.float64)
        found = _find_digits_fact(got, exact, failure) or _find_number_fact(got, exact)
    else:
        found = None
    if found is not None:
        yield found


def _find_bool_fact(got: Array, exact: Array) -> Fact | None:
    if (got == ~exact).all():
        return Fact(key="all_inverted")
    if _find_swapped_axes(got, exact):
        return Fact(key="transposed")
    more, fewer = int((got & ~exact).sum()), int((exact & ~got).sum())
    if more and not fewer:
        return Fact(key="more_true", values={"count": float(more)})
    return Fact(key="fewer_true", values={"count": float(fewer)}) if not more else None


def _find_digits_fact(got: Array, exact: Array, failure: CheckFailure) -> Fact | None:
    """Return what a small error of float64 numbers tells: rounding, or too large a sum."""
    asked = failure.asked
    given = [] if asked is None else [*asked.args, *asked.kwargs.values()]
    if not any(map(_is_float64, given)):
        return None
    error = float(np.abs(got - exact).max() / max(np.abs(exact).max(), 1e-300))
    if FLOAT32_ERRORS[0] <= error <= FLOAT32_ERRORS[1] and _is_rounded(got, exact):
        return Fact(key="float32_digits", values={"error": error})
    if error <= SMALL_ERROR and (share := _measure_lacking_share(got, exact)):
        return Fact(key="rows_too_small", values={"share": share})
    return None


def _is_float64(x: object) -> bool:
    """Return whether an argument holds float64; of a student's object nothing is read."""
    if isinstance(x, list):
        return bool(x) and (isinstance(x[0], float) or _is_float64(x[0]))
    return isinstance(x, Tensor | np.ndarray) and "float64" in str(x.dtype)


def _measure_lacking_share(got: Array, exact: Array) -> float:
    """Return the largest share that all numbers of a row lack alike, as by an epsilon in their sum.

    A row lies along any one axis; 0 if there is no such axis.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        lacking = np.where(exact == 0, np.nan, 1 - got / exact)
    for axis in reversed(range(got.ndim)):
        rows = np.moveaxis(lacking, axis, -1).reshape(-1, got.shape[axis])
        rows = rows[(~np.isnan(rows)).sum(-1) >= MIN_NUMBERS]
        if not rows.size:
            continue
        low, high = np.nanmin(rows, -1), np.nanmax(rows, -1)
        if (low > LEAST_SHARE).all() and (high - low <= ALIKE * high + LEAST_SHARE).all():
            return float(high.max())
    return 0.0


def _is_rounded(got: Array, exact: Array) -> bool:
    """Return whether numbers are rounded, up and down; not shifted one way, as by an epsilon."""
    if (got == got.astype(np.float32)).all() and (exact != exact.astype(np.float32)).any():
        return True
    off = (got / np.where(exact == 0, 1, exact) - 1)[(exact != 0) & (got != exact)]
    up = int((off > 0).sum())
    return bool(min(up, off.size - up) > max(2, off.size // 4))


def _find_number_fact(got: Array, exact: Array) -> Fact | None:
    largest = float(np.abs(got).max())
    if largest == 0:
        return Fact(key="all_zero")
    if np.abs(got - exact).max() <= 10 * FITS * largest or len(np.unique(exact)) < MIN_NUMBERS:
        return None
    factor = float((got * exact).sum() / (exact * exact).sum())
    if np.abs(got - factor * exact).max() <= FITS * largest:
        return Fact(key="factor", values={"factor": factor})
    offset = float((got - exact).mean())
    if np.abs(got - exact - offset).max() <= FITS * abs(offset):
        return Fact(key="offset", values={"offset": offset})
    if _find_swapped_axes(got, exact):
        return Fact(key="transposed")
    ours, theirs = np.sort(got, axis=None), np.sort(exact, axis=None)
    if len(np.unique(exact)) > got.size // 2 and np.abs(ours - theirs).max() <= 1e-5 * largest:
        return Fact(key="other_places")
    return None


def _find_swapped_axes(got: Array, exact: Array) -> bool:
    """Return whether the values are right but for two axes that are exchanged."""
    scale = 1.0 if exact.dtype == bool else max(float(np.abs(exact).max()), 1e-300)
    for one, other in itertools.combinations(range(got.ndim), 2):
        swapped = np.swapaxes(exact, one, other)
        if swapped.shape == got.shape and got.shape[one] > 1:
            apart = np.abs(swapped.astype(float) - got.astype(float)).max()
            if apart <= 1e-5 * scale and (swapped != exact).any():
                return True
    return False
