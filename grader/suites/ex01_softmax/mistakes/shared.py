"""Steps that wrong answers to several tasks share."""

import numpy as np
import torch

HALVES = (torch.float16, torch.bfloat16)


def unchanged(numbers, *_):
    """In the place of a step that is left out."""
    return numbers


# The steps in PyTorch.


def raised(x):
    """Half precision raised to float32; the other two as they are."""
    return x.float() if x.dtype in HALVES else x


def shifted(wide, dim):
    return wide - wide.amax(dim, keepdim=True)


def summed(powers, dim):
    return powers.sum(dim, keepdim=True)


def summed_as_a_constant(powers, dim):
    return powers.sum(dim, keepdim=True).detach()


def converted_back(weights, x):
    return weights.to(x.dtype)


def softmax_of_tensor(
    x, dim, widen=raised, shift=shifted, power=torch.exp, total=summed, narrow=converted_back
):
    """Right, but for the step that a mistake replaces."""
    powers = power(shift(widen(x), dim))
    return narrow(powers / total(powers, dim), x)


def is_last(tensor, dim):
    return dim in (-1, tensor.ndim - 1)


# The steps in NumPy.


def raised_array(x):
    """float16 raised to float32; the other two as they are."""
    return x.astype(np.float32) if x.dtype == np.float16 else x


def shifted_array(wide, axis):
    return wide - wide.max(axis, keepdims=True)


def shifted_array_in_place(wide, axis):
    wide -= wide.max(axis, keepdims=True)
    return wide


def summed_array(powers, axis):
    return powers.sum(axis, keepdims=True)


def converted_array_back(weights, x):
    return weights.astype(x.dtype)


def softmax_of_array(
    x, axis, widen=raised_array, shift=shifted_array, power=np.exp, total=summed_array,
    narrow=converted_array_back,
):  # fmt: skip
    """Right, but for the step that a mistake replaces."""
    with np.errstate(all="ignore"):
        powers = power(shift(widen(x), axis))
        return narrow(powers / total(powers, axis), x)
