"""Scaled dot-product attention: `softmax(q k^T / sqrt(D)) v` (Vaswani et al. 2017, section 3.2.1).

What a query may not attend to has no influence on its row: 1e30 in hidden keys and values, NaN and
inf in hidden keys. Compare such rows with what clean inputs give, whose size sets the tolerance.
"""

import math

import numpy as np
import torch
from torch import Tensor

from reference.ex02_masking import exact_masked_softmax, plain_masked_softmax
from reference.expected import (
    Array,
    Expected,
    attended,
    boolean,
    f64,
    gradients,
    largest,
    summed,
    with_nudges,
)


def scaled_dot_product_attention(
    q: Tensor, k: Tensor, v: Tensor, keep: Tensor | None = None, scale: float | None = None
) -> tuple[Expected, Expected]:
    """`(output, weights)` of q (..., Lq, D), k (..., Lk, D), v (..., Lk, Dv)."""
    exact = exact_attention(f64(q), f64(k), f64(v), boolean(keep), scale)
    plain = plain_attention(q, k, v, keep, scale)
    expected = (
        Expected(exact[0], plain[0], attended(q, v)),
        Expected(exact[1], plain[1], summed(1.0, q.shape[-1])),
    )
    output, weights = with_nudges(expected, plain_attention, q, k, v, keep, scale)
    return output, weights


def attention_numpy(
    q: Array, k: Array, v: Array, keep: Array | None = None, scale: float | None = None
) -> tuple[Expected, Expected]:
    """`(output, weights)`, as `scaled_dot_product_attention`, on arrays."""
    exact = exact_attention(f64(q), f64(k), f64(v), keep, scale)
    mask = None if keep is None else _tensor(keep)
    given = _tensor(q), _tensor(k), _tensor(v), mask, scale
    plain = [x.numpy() for x in plain_attention(*given)]
    expected = (
        Expected(exact[0], plain[0], attended(q, v)),
        Expected(exact[1], plain[1], summed(1.0, q.shape[-1])),
    )
    output, weights = with_nudges(expected, plain_attention, *given)
    return output, weights


def attention_gradients(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    keep: Tensor | None = None,
    scale: float | None = None,
    *,
    upstream: Tensor,
) -> tuple[Expected, ...]:
    """The gradients of the output with respect to q, k and v, for the gradient `upstream` of it."""
    magnitude = largest(upstream) * max(1.0, largest(v)) * max(1.0, largest(q, k))
    return gradients(
        lambda q, k, v: plain_attention(q, k, v, keep, scale)[0],
        *(q, k, v),
        upstream=upstream,
        magnitude=magnitude,
    )


def exact_attention(
    q: Array,
    k: Array,
    v: Array,
    keep: Array | None = None,
    scale: float | None = None,
    bias: Array | None = None,
) -> tuple[Array, Array]:
    """The oracle, float64: `(output, weights)`; an empty row has weights 0 and output 0."""
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    with np.errstate(invalid="ignore", over="ignore"):  # hidden keys may hold inf or 1e300
        scores = q @ np.swapaxes(k, -1, -2) * scale  # (..., Lq, Lk)
        if bias is not None:
            scores = scores + bias
        weights = exact_masked_softmax(scores, keep)
    return weights @ v, weights


def plain_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    keep: Tensor | None = None,
    scale: float | None = None,
    bias: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """The yardstick: the same formula in PyTorch, every operator in the dtype of the inputs."""
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    scores = q @ k.mT * scale  # (..., Lq, Lk)
    if bias is not None:
        scores = scores + bias
    weights = plain_masked_softmax(scores, keep)
    return weights @ v, weights


def _tensor(x: Array) -> Tensor:
    return torch.from_numpy(x.copy())  # a tensor cannot have negative strides
