"""The zero: keys and values copied once for every query head."""

import math

import torch


def grouped_query_attention(q, k, v, keep=None):
    """q (B, H, Lq, D), k (B, Hk, Lk, D), v (B, Hk, Lk, Dv) -> (B, H, Lq, Dv)."""
    times = q.shape[-3] // k.shape[-3]
    k, v = k.repeat_interleave(times, -3), v.repeat_interleave(times, -3)
    return torch.softmax(q @ k.mT / math.sqrt(q.shape[-1]), -1) @ v
