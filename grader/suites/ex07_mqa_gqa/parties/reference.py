"""The reference: the query heads of a group become rows that meet the same keys."""

import math

import torch


def grouped_query_attention(q, k, v, keep=None):
    """q (B, H, Lq, D), k (B, Hk, Lk, D), v (B, Hk, Lk, Dv) -> (B, H, Lq, Dv)."""
    groups = q.shape[-3] // k.shape[-3]
    rows = q.unflatten(-3, (-1, groups)).flatten(-3, -2) * (1 / math.sqrt(q.shape[-1]))
    output = torch.softmax(rows @ k.mT, -1) @ v
    return output.unflatten(-2, (groups, -1)).flatten(-4, -3)
