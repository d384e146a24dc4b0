"""Softmax: `softmax(x)_i = exp(x_i) / sum_j exp(x_j)`."""

import numpy as np
import torch
from torch import Tensor

from reference.expected import Array, Expected, f64, gradients, largest


def softmax(x: Tensor, dim: int = -1) -> Expected:
    """The softmax of a tensor of any shape along `dim`."""
    return Expected(exact_softmax(f64(x), dim), torch.softmax(x, dim), 1.0)


def softmax_numpy(x: Array, axis: int = -1) -> Expected:
    """The softmax of an array of any shape along `axis`."""
    return Expected(exact_softmax(f64(x), axis), plain_softmax_numpy(x, axis), 1.0)


def exact_softmax(x: Array, axis: int = -1) -> Array:
    """The oracle, float64. A constant taken from every logit changes nothing, so the largest is."""
    powers = np.exp(x - x.max(axis, keepdims=True, initial=-np.inf))
    return powers / powers.sum(axis, keepdims=True)  # type: ignore[no-any-return]


def plain_softmax_numpy(x: Array, axis: int = -1) -> Array:
    """The yardstick: the same formula, every operator in the dtype of `x`."""
    return exact_softmax(x, axis)


def softmax_gradients(x: Tensor, dim: int = -1, *, upstream: Tensor) -> tuple[Expected, ...]:
    """The gradient with respect to `x`, for the gradient `upstream` of the weights."""
    return gradients(
        lambda x: torch.softmax(x, dim), x, upstream=upstream, magnitude=largest(upstream)
    )
