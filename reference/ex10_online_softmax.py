"""Softmax in one pass (Milakov and Gimelshein 2018), and attention in tiles (Dao et al. 2022).

Neither the oracle nor the yardstick has tiles: they look at whole rows. The statistics of half
precision are float32 numbers. Those of `online_softmax` are held to what float32 can do; where
products go before, as in `flash_attention`, the yardstick takes them in half precision.
"""

import math

import numpy as np
import torch
from torch import Tensor

from reference.ex03_sdpa import exact_attention, plain_attention
from reference.ex05_causal_mask import exact_window_mask, plain_causal_mask
from reference.expected import Array, Expected, attended, f64, gradients, largest, nudged, summed

Partial = tuple[Tensor, Tensor]  # an output (..., L, Dv) and its log-sum-exp (..., L)


def online_softmax(x: Tensor, block_size: int) -> tuple[Expected, Expected]:
    """`(row_max, row_sum)` of x (..., n); `block_size` changes nothing."""
    row_max, row_sum = exact_statistics(f64(x))
    plain_max, plain_sum = plain_online_softmax(x, block_size)
    # A block rounds differences, exponentials (by a whole unit each), a product and a sum.
    size = summed(largest(row_sum), 16 * math.ceil(x.shape[-1] / max(1, block_size)))
    return (
        Expected(row_max, plain_max, _largest_finite(row_max)),
        Expected(row_sum, plain_sum, size),
    )


def merge_partials(a: Partial, b: Partial) -> tuple[Expected, Expected]:
    """`(output, lse)` over both sets of keys.

    A weight is as exact as the lse in its exponent, so the magnitude of the output grows with that.
    """
    weights_a, weights_b = (np.exp(f64(lse)) for _, lse in _lowered(a, b))
    total = weights_a + weights_b
    with np.errstate(invalid="ignore", divide="ignore"):
        shares = [np.where(w > 0, w / total, 0.0)[..., None] for w in (weights_a, weights_b)]
    outputs = [np.where(w > 0, f64(o), 0.0) for w, (o, _) in zip(shares, (a, b), strict=True)]
    output = shares[0] * outputs[0] + shares[1] * outputs[1]
    lse = np.logaddexp(f64(a[1]), f64(b[1]))
    plain_output, plain_lse = plain_merge_partials(a, b)
    size = max(1.0, _largest_finite(f64(a[1])), _largest_finite(f64(b[1])))
    return Expected(output, plain_output, largest(*outputs) * size), Expected(lse, plain_lse, size)


def flash_attention(
    q: Tensor, k: Tensor, v: Tensor, causal: bool = False, scale: float | None = None,
    block_size: int = 64,
) -> tuple[Expected, Expected]:  # fmt: skip
    """`(output, lse)` of q (..., Lq, D), k (..., Lk, D), v (..., Lk, Dv)."""
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    q64, k64 = f64(q), f64(k)
    keep = _exact_keep(q, k, causal)
    output, _ = exact_attention(q64, k64, f64(v), keep, scale)
    scores = np.where(keep, q64 @ np.swapaxes(k64, -1, -2) * scale, -np.inf)
    row_max, row_sum = exact_statistics(scores)
    with np.errstate(divide="ignore"):
        lse = row_max + np.log(row_sum)
    plain_output, plain_lse = plain_flash_attention(q, k, v, causal, scale)
    exact = output, lse
    worst = nudged(plain_flash_attention, q, k, v, causal, scale, exact=exact)
    # What a score is added up from: in small cases it may cancel and leave next to nothing.
    terms = np.abs(q64) @ np.swapaxes(np.abs(k64), -1, -2) * abs(scale)
    size = max(1.0, largest(np.where(keep, terms, 0.0)))
    return (
        Expected(output, plain_output, attended(q, v), nudged=worst[0]),
        Expected(lse, plain_lse, size, nudged=worst[1]),
    )


def online_softmax_gradients(x: Tensor, *, upstream: Tensor) -> tuple[Expected, ...]:
    """The gradient of `row_max + log(row_sum)`, which is that of the log-sum-exp: softmax."""
    return gradients(
        lambda x: torch.logsumexp(x.float() if x.dtype.itemsize == 2 else x, -1),
        x,
        upstream=upstream,
        magnitude=largest(upstream),
    )


def merge_partials_gradients(
    a: Partial, b: Partial, *, upstream: Tensor, of: int
) -> tuple[Expected, ...]:
    """The gradients for `upstream`, that of the output (of=0) or of lse (of=1).

    With respect to both outputs and both lse, in the order of the arguments; for lse, to those two.
    """
    parts = [torch.where(lse[..., None] == -torch.inf, 0.0, output) for output, lse in (a, b)]
    size = largest(upstream) * max(1.0, 2 * largest(*parts))
    if of:
        return gradients(
            lambda x, y: plain_merge_partials((a[0], x), (b[0], y))[1],
            *(a[1], b[1]),
            upstream=upstream,
            magnitude=size,
        )
    return gradients(
        lambda p, x, r, y: plain_merge_partials((p, x), (r, y))[0],
        *(*a, *b),
        upstream=upstream,
        magnitude=size,
    )


def flash_attention_gradients(
    q: Tensor, k: Tensor, v: Tensor, causal: bool = False, scale: float | None = None,
    *, upstream: Tensor, of: int,
) -> tuple[Expected, ...]:  # fmt: skip
    """The gradients for `upstream`, that of the output (of=0: for q, k, v) or of lse (q, k)."""
    magnitude = largest(upstream) * max(1.0, largest(v)) * max(1.0, largest(q, k))
    if of:
        return gradients(
            lambda q, k: plain_flash_attention(q, k, v.to(q.dtype), causal, scale)[1],
            *(q, k),
            upstream=upstream,
            magnitude=magnitude,
        )
    return gradients(
        lambda q, k, v: plain_flash_attention(q, k, v, causal, scale)[0],
        *(q, k, v),
        upstream=upstream,
        magnitude=magnitude,
    )


def exact_statistics(x: Array) -> tuple[Array, Array]:
    """The oracle, float64: maximum (...) and sum of exp(x - maximum) of each row of x (..., n)."""
    row_max = x.max(axis=-1)
    base = np.where(row_max == -np.inf, 0.0, row_max)
    return row_max, np.exp(x - base[..., None]).sum(axis=-1)


def plain_online_softmax(x: Tensor, block_size: int) -> tuple[Tensor, Tensor]:
    """The yardstick of `online_softmax`, in float32 for half precision."""
    if block_size < 1:
        raise ValueError(f"block_size is {block_size}")
    x = x.to(torch.promote_types(x.dtype, torch.float32))
    row_max = x.amax(-1)
    base = torch.where(row_max == -torch.inf, 0.0, row_max)
    return row_max, torch.exp(x - base[..., None]).sum(-1)


def plain_merge_partials(a: Partial, b: Partial) -> tuple[Tensor, Tensor]:
    """The yardstick: outputs weighted by exp(lse_a - lse), the weights in the outputs' dtype."""
    empty_a, empty_b = (lse == -torch.inf for _, lse in (a, b))
    # Nothing is taken of -inf, not even a gradient: what is empty borrows the lse of the other.
    lse_a = torch.where(empty_a, torch.where(empty_b, 0.0, b[1]), a[1])
    lse_b = torch.where(empty_b, lse_a, b[1])
    lse = torch.where(empty_a | empty_b, torch.where(empty_a, lse_b, lse_a),
                      torch.logaddexp(lse_a, lse_b))  # fmt: skip
    output = torch.zeros_like(a[0])
    for (part, _), own, empty in zip((a, b), (lse_a, lse_b), (empty_a, empty_b), strict=True):
        weight = torch.where(empty, 0.0, torch.exp(own - lse))[..., None]
        output = output + weight.to(part.dtype) * torch.where(empty[..., None], 0.0, part)
    return output, lse.masked_fill(empty_a & empty_b, -torch.inf)


def plain_flash_attention(
    q: Tensor, k: Tensor, v: Tensor, causal: bool = False, scale: float | None = None,
    block_size: int = 64,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The yardstick: the whole table of scores, in the dtype of the inputs; lse from that table."""
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    keep = plain_causal_mask(q.shape[-2], k.shape[-2], q.device)
    keep = keep if causal else torch.ones_like(keep)
    output, _ = plain_attention(q, k, v, keep, scale)
    wide = torch.promote_types(q.dtype, torch.float32)
    empty = ~keep.any(-1)  # (Lq)
    scores = torch.where(keep, q @ k.mT * scale, torch.where(empty, 0.0, -torch.inf)[:, None])
    return output, torch.logsumexp(scores.to(wide), -1).masked_fill(empty, -torch.inf)


def _lowered(a: Partial, b: Partial) -> list[Partial]:
    """The parts with the larger lse of each row subtracted, in float64."""
    lse_a, lse_b = a[1].detach().double(), b[1].detach().double()
    top = torch.maximum(lse_a, lse_b)
    base = torch.where(top == -torch.inf, 0.0, top)
    return [(a[0], lse_a - base), (b[0], lse_b - base)]


def _exact_keep(q: Tensor, k: Tensor, causal: bool) -> Array:
    q_len, k_len = q.shape[-2], k.shape[-2]
    if causal:
        return exact_window_mask(q_len, k_len, q_len + k_len)
    return np.ones((q_len, k_len), dtype=bool)


def _largest_finite(x: Array) -> float:
    return largest(x[np.isfinite(x)])
