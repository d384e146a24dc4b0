"""Compares copied values coarsely: do two answers make the same mistake, however they round?"""

import math
from typing import Any

import numpy as np
import torch

from grader.diagnosis.copied_values import Items, Numbers, find_largest_copied_number
from grader.diagnosis.likeness import MATCH_RTOL, measure_judged_distance
from grader.judging.trials import Summed

NOISE = 1e-5  # of the largest number of a call's gradients: what rounding in float32 leaves of a 0


def has_half_precision(value: Any) -> bool:
    """Return whether a copied value has numbers in half precision."""
    match value:
        case Numbers():
            return value.dtype in ("float16", "bfloat16")
        case Items():
            return any(map(has_half_precision, value.items))
    return False


def is_single_precision(value: Any) -> bool:
    """Return whether a copied value has numbers, all of them float32."""
    match value:
        case Numbers():
            return value.dtype == "float32"
        case Items():
            return bool(value.items) and all(map(is_single_precision, value.items))
    return False


def has_infinity_or_nan(value: Any) -> bool:
    """Return whether a copied value has a number that is infinite, or NaN."""
    match value:
        case Numbers(data=data):
            return not data.is_meta and not bool(torch.isfinite(data).all())
        case Items():
            return any(map(has_infinity_or_nan, value.items))
    return isinstance(value, float) and not math.isfinite(value)


def compare_numbers_coarsely(one: Any, other: Any, noise: float = 0.0) -> str:
    """Describe how the numbers of two copied values differ by over 2 % of the largest number.

    Return "" if they do not. Dtypes and whether a gradient is required make no difference; a
    missing gradient counts as zeros. A row with a NaN in both is not compared further.

    noise  a difference that rounding may have made: of gradients one may be 0 but for that
    """
    match one, other:
        case Numbers(), Numbers():
            return _compare_arrays_coarsely(one, other, noise)
        case (Numbers(data=data), None) | (None, Numbers(data=data)) if not data.any():
            return ""
        case Items(), Items() if (one.keys, len(one.items)) == (other.keys, len(other.items)):
            pairs = zip(one.items, other.items, strict=True)
            if one.kind == Summed.__name__:
                noise = NOISE * find_largest_copied_number(one)
            told = (compare_numbers_coarsely(a, b, noise) for a, b in pairs)
            return next((f"[{i}]: {why}" for i, why in enumerate(told) if why), "")
        case Items(), Items():  # which hold tensors, so that `==` would raise
            return f"{other}, not {one}"
        case (Items(items=items), None) | (None, Items(items=items)):
            told = (compare_numbers_coarsely(item, None) for item in items)
            return next((why for why in told if why), "")
        case (float() | int(), float() | int()):
            a, b = np.array(float(one)), np.array(float(other))
            return "" if _is_distance_small(a, b, noise) else f"{other}, not {one}"
    return "" if one == other else f"{other}, not {one}"


def _compare_arrays_coarsely(one: Numbers, other: Numbers, noise: float) -> str:
    if one.data.shape != other.data.shape:
        return f"{other}, not {one}"
    if "meta" in (one.device, other.device):
        return ""
    a, b = (x.data.double().numpy() for x in (one, other))
    if a.ndim:  # how far a NaN spreads in its row depends on the order of the operators
        spoilt = np.isnan(a).any(-1, keepdims=True) & np.isnan(b).any(-1, keepdims=True)
        a, b = (np.where(spoilt, 0.0, x) for x in (a, b))
    return "" if _is_distance_small(a, b, noise) else "the numbers are others"


def _is_distance_small(a: Any, b: Any, noise: float) -> bool:
    largest = float(np.abs(a[np.isfinite(a)]).max(initial=0.0))
    return measure_judged_distance(a, b) <= max(MATCH_RTOL * largest, noise)
