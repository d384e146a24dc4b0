"""Causal masks, aligned bottom-right: query `i` stands at position `i + Lk - Lq`.

The alignment is FlashAttention's (2.1 and later) and that of PyTorch's `causal_lower_right`; a
window counts the query's own key, as `sliding_window` does in Hugging Face's Mistral.
"""

import numpy as np
import torch
from torch import Tensor

from reference.ex03_sdpa import exact_attention, plain_attention
from reference.expected import Array, Expected, attended, f64, gradients, largest, with_nudges

Device = torch.device | str | None


def causal_mask(q_len: int, k_len: int, device: Device = None) -> Expected:
    """Keep (q_len, k_len), boolean: True where the key is not ahead of the query."""
    plain = plain_causal_mask(q_len, k_len, device)
    return Expected(exact_window_mask(q_len, k_len, q_len + k_len), plain, 1.0)


def sliding_window_mask(q_len: int, k_len: int, window: int, device: Device = None) -> Expected:
    """Keep (q_len, k_len), boolean: the last `window` keys up to the query's own."""
    plain = plain_sliding_window_mask(q_len, k_len, window, device)
    return Expected(exact_window_mask(q_len, k_len, window), plain, 1.0)


def causal_attention(q: Tensor, k: Tensor, v: Tensor) -> Expected:
    """The output (..., Lq, Dv) of q (..., Lq, D), k (..., Lk, D), v (..., Lk, Dv)."""
    exact = exact_causal_attention(f64(q), f64(k), f64(v))
    expected = Expected(exact, plain_causal_attention(q, k, v), attended(q, v))
    return with_nudges([expected], lambda *qkv: [plain_causal_attention(*qkv)], q, k, v)[0]


def causal_attention_gradients(
    q: Tensor, k: Tensor, v: Tensor, *, upstream: Tensor
) -> tuple[Expected, ...]:
    """The gradients of the output with respect to q, k and v, for the gradient `upstream` of it."""
    magnitude = largest(upstream) * max(1.0, largest(v)) * max(1.0, largest(q, k))
    return gradients(plain_causal_attention, q, k, v, upstream=upstream, magnitude=magnitude)


def exact_window_mask(q_len: int, k_len: int, window: int) -> Array:
    """The oracle, row by row: one slice of keys; a window of `q_len + k_len` hides no past."""
    keep = np.zeros((q_len, k_len), dtype=bool)
    for i in range(q_len):
        stop = max(i + 1 + k_len - q_len, 0)
        keep[i, max(stop - window, 0) : stop] = True
    return keep


def exact_causal_attention(q: Array, k: Array, v: Array) -> Array:
    """The oracle, float64, row by row: a row is given no key that it may not see."""
    leading = np.broadcast_shapes(q.shape[:-2], k.shape[:-2], v.shape[:-2])
    q_len, k_len = q.shape[-2], k.shape[-2]
    output = np.zeros((*leading, q_len, v.shape[-1]))  # (..., Lq, Dv)
    for i in range(max(q_len - k_len, 0), q_len):
        seen = i + 1 + k_len - q_len
        row, _ = exact_attention(q[..., i : i + 1, :], k[..., :seen, :], v[..., :seen, :])
        output[..., i : i + 1, :] = row
    return output


def plain_causal_mask(q_len: int, k_len: int, device: Device = None) -> Tensor:
    """The yardstick: a triangle of ones, its diagonal moved to the last column of the last row."""
    return torch.ones(q_len, k_len, dtype=torch.bool, device=device).tril(k_len - q_len)


def plain_sliding_window_mask(q_len: int, k_len: int, window: int, device: Device = None) -> Tensor:
    """The yardstick: a band, the causal triangle without the one that lies behind the window."""
    return plain_causal_mask(q_len, k_len, device).triu(k_len - q_len - window + 1)


def plain_causal_attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """The yardstick: the textbook's attention under the whole mask, in the dtype of the inputs."""
    keep = plain_causal_mask(q.shape[-2], k.shape[-2], q.device)
    return plain_attention(q, k, v, keep)[0]
