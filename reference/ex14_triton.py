"""The two functions that launch kernels: a softmax of rows, and attention.

On a GPU the yardstick multiplies float32 as PyTorch does by default, without TF32.
"""

import math

import numpy as np
import torch
from torch import Tensor

from reference.expected import Array, Expected, attended, f64, nudged


def softmax(x: Tensor) -> Expected:
    """The softmax of each row of x (M, N); zeros for a row of minus infinity."""
    return Expected(exact_softmax(f64(x)), plain_softmax(x), 1.0)


def exact_softmax(x: Array) -> Array:
    """The oracle, float64, over the last axis."""
    top = x.max(-1, keepdims=True, initial=-np.inf)
    powers = np.exp(x - np.where(np.isneginf(top), 0.0, top))
    total = powers.sum(-1, keepdims=True)
    weights: Array = powers / np.where(total == 0.0, 1.0, total)
    return weights


def plain_softmax(x: Tensor) -> Tensor:
    """The yardstick: PyTorch's operator, and zeros where it has nothing to share out."""
    empty = x.isneginf().all(-1, keepdim=True)  # (M, 1)
    return x.masked_fill(empty, 0.0).softmax(-1).masked_fill(empty, 0.0)


def flash_attention(
    q: Tensor, k: Tensor, v: Tensor, causal: bool = False, scale: float | None = None
) -> Expected:
    """The output (B, H, Lq, D) of q (B, H, Lq, D), k and v (B, H, Lk, D)."""
    exact = exact_attention(f64(q), f64(k), f64(v), causal, scale)
    [worst] = nudged(
        lambda q, k, v: [plain_attention(q, k, v, causal, scale)], q, k, v, exact=[exact]
    )
    plain = plain_attention(q, k, v, causal, scale)
    return Expected(exact, plain, attended(q, v), nudged=worst)


def exact_attention(
    q: Array, k: Array, v: Array, causal: bool = False, scale: float | None = None
) -> Array:
    """The oracle, float64: a query that sees no key has the output 0."""
    q_len, k_len = q.shape[-2], k.shape[-2]
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    scores = q @ np.swapaxes(k, -1, -2) * scale  # (B, H, Lq, Lk)
    if causal:
        position = np.arange(q_len)[:, None] + k_len - q_len
        scores = np.where(np.arange(k_len) <= position, scores, -np.inf)
    return exact_softmax(scores) @ v


def plain_attention(
    q: Tensor, k: Tensor, v: Tensor, causal: bool = False, scale: float | None = None
) -> Tensor:
    """The yardstick: the textbook formula, every operator in the dtype of the inputs."""
    scores = plain_scores(q, k, scale)  # (B, H, Lq, Lk)
    keep = plain_keep(q, k) if causal else torch.ones_like(scores, dtype=torch.bool)
    return plain_softmax(scores.masked_fill(~keep, -torch.inf)) @ v


def plain_scores(q: Tensor, k: Tensor, scale: float | None = None) -> Tensor:
    """The scaled products of all queries and keys."""
    return q @ k.mT * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)


def plain_keep(q: Tensor, k: Tensor) -> Tensor:
    """Who sees whom (Lq, Lk), aligned at the bottom right."""
    q_len, k_len = q.shape[-2], k.shape[-2]
    return torch.ones(q_len, k_len, dtype=torch.bool, device=q.device).tril(k_len - q_len)
