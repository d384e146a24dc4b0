"""Steps that wrong answers to several tasks share."""

from types import FunctionType

import numpy as np
import torch

from grader.judging import mistake

HALVES = (torch.float16, torch.bfloat16)


def unchanged(numbers, *_):
    """In the place of a step that is left out."""
    return numbers


def fit(q, k, v):
    if q.shape[-1] != k.shape[-1]:
        raise ValueError(f"widths {q.shape[-1]} and {k.shape[-1]}")
    if k.shape[-2] != v.shape[-2]:
        raise ValueError(f"lengths {k.shape[-2]} and {v.shape[-2]}")


def scored(q, k, scale):
    return q @ k.mT * scale


def mixed(weights, v):
    return weights @ v


def chosen(q, scale):
    return q.shape[-1] ** -0.5 if scale is None else scale


# The steps in PyTorch.


def raised(x):
    return x.float() if x.dtype in HALVES else x


def hidden(scores, keep):
    """Hidden scores -inf, but 0 in empty rows, whose softmax would be NaN."""
    if keep is None:
        return scores
    empty = ~keep.any(-1, keepdim=True)
    return torch.where(keep, scores, -torch.inf).masked_fill(empty, 0.0)


def shifted(shown, dim=-1):
    return shown - shown.detach().amax(dim, keepdim=True) if shown.numel() else shown


def summed(powers, dim=-1):
    return powers.sum(dim, keepdim=True)


def without_nan(weights, keep):
    """Zeros for empty rows."""
    return weights if keep is None else weights.masked_fill(~keep.any(-1, keepdim=True), 0.0)


def converted_back(x, dtype):
    return x.to(dtype)


def attention(
    q, k, v, keep, scale, check=fit, widen=raised, score=scored, hide=hidden, shift=shifted,
    total=summed, clear=without_nan, mix=mixed, narrow=converted_back,
):  # fmt: skip
    """Right, but for what a mistake passes."""
    check(q, k, v)
    dtype, scale = q.dtype, chosen(q, scale)
    q, k, v = widen(q), widen(k), widen(v)
    powers = torch.exp(shift(hide(score(q, k, scale), keep)))
    weights = clear(powers / total(powers), keep)
    return narrow(mix(weights, v), dtype), narrow(weights, dtype)


# The steps in NumPy.


def raised_array(x):
    return x.astype(np.float32) if x.dtype == np.float16 else x


def hidden_in_array(scores, keep):
    return scores if keep is None else np.where(keep, scores, -np.inf)


def shifted_array(shown, axis=-1):
    return shown - shown.max(axis, keepdims=True, initial=np.finfo(shown.dtype).min)


def summed_array(powers, axis=-1):
    """The sum of each row; 1 for empty rows."""
    total = powers.sum(axis, keepdims=True)
    return np.where(total == 0, 1, total)


def without_nan_in_array(weights, keep):
    return weights if keep is None else np.where(keep.any(-1, keepdims=True), weights, 0.0)


def converted_array_back(x, dtype):
    return x.astype(dtype)


def attention_of_arrays(
    q, k, v, keep, scale, check=fit, widen=raised_array, score=scored, hide=hidden_in_array,
    shift=shifted_array, total=summed_array, clear=unchanged, mix=mixed,
    narrow=converted_array_back,
):  # fmt: skip
    """Right, but for what a mistake passes."""
    check(q, k, v)
    dtype, scale = q.dtype, chosen(q, scale)
    q, k, v = widen(q), widen(k), widen(v)
    with np.errstate(all="ignore"):
        powers = np.exp(shift(hide(score(q, k, scale), keep)))
        weights = clear(powers / total(powers), keep)
        return narrow(mix(weights, v), dtype), narrow(weights, dtype)


IN_NUMPY = {
    "xp": np, "attention": attention_of_arrays, "raised": raised_array, "hidden": hidden_in_array,
    "shifted": shifted_array, "summed": summed_array, "without_nan": without_nan_in_array,
    "converted_back": converted_array_back,
}  # fmt: skip


def also_of_arrays(*, caught_by):
    """Let a mistake be one of `attention_numpy` as well, with the steps in NumPy."""

    def mark(function):
        here = function.__globals__
        names = {**here, **IN_NUMPY}
        made = FunctionType(function.__code__, names, argdefs=function.__defaults__)
        made.__name__ = f"{function.__name__}_numpy"
        made.__doc__ = function.__doc__.replace("torch.", "np.").replace("dim=", "axis=")
        here[made.__name__] = mistake(of="attention_numpy", caught_by=caught_by)(made)
        return function

    return mark


def answer(weights, v):
    return weights @ v, weights
