"""Attention as a CUDA kernel computes it: q (N, Lq, D), k (N, Lk, D), v (N, Lk, D), float32.

`scale` multiplies the scores. With `causal`, query `i` stands at position `i + Lk - Lq`, and a row
that sees nothing is 0. Both kernels compute the same.
"""

from torch import Tensor

from reference.ex03_sdpa import exact_attention, plain_attention
from reference.ex05_causal_mask import exact_window_mask, plain_causal_mask
from reference.expected import Expected, f64, largest, nudged, summed


def naive_attention(q: Tensor, k: Tensor, v: Tensor, scale: float, causal: bool) -> Expected:
    """The output (N, Lq, D)."""
    q_len, k_len = q.shape[-2], k.shape[-2]
    keep = exact_window_mask(q_len, k_len, q_len + k_len) if causal else None
    exact, _ = exact_attention(f64(q), f64(k), f64(v), keep, scale)
    # Products and sums: of a score one number after another, of an output one key after another.
    size = summed(largest(v), 2 * (q.shape[-1] + k_len))
    [worst] = nudged(
        lambda q, k, v: [plain_cuda_attention(q, k, v, scale, causal)], q, k, v, exact=[exact]
    )
    plain = plain_cuda_attention(q, k, v, scale, causal)
    return Expected(exact, plain, size, nudged=worst)


tiled_attention = naive_attention


def plain_cuda_attention(q: Tensor, k: Tensor, v: Tensor, scale: float, causal: bool) -> Tensor:
    """The yardstick: the textbook's formula, with the whole matrix of scores."""
    keep = plain_causal_mask(q.shape[-2], k.shape[-2], q.device) if causal else None
    return plain_attention(q, k, v, keep, scale)[0]


def last_row(q: Tensor, k: Tensor, v: Tensor, scale: float) -> Expected:
    """The output (D) of one query q (D), with k and v (Lk, D)."""
    found = naive_attention(q[None, None], k[None], v[None], scale, False)
    plain = found.plain
    assert isinstance(plain, Tensor)
    return found._replace(exact=found.exact[0, 0], plain=plain[0, 0])
