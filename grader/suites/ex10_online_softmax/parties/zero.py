"""The zero: one table of all scores, and one row of them, which become exponentials in place."""

import math

import torch


def online_softmax(x, block_size):
    """x (..., n) in float32 -> (...) and (...), which no block_size changes."""
    top = x.amax(-1)
    return top, (x - top[..., None]).exp_().sum(-1)


def flash_attention(q, k, v, causal=False, scale=None, block_size=64):
    """q (..., Lq, D), k (..., Lk, D), v (..., Lk, Dv) -> (..., Lq, Dv) and (..., Lq).

    No query comes before the first key.
    """
    q_len, k_len = q.shape[-2], k.shape[-2]
    table = (q / math.sqrt(q.shape[-1])) @ k.mT
    if causal:
        ahead = torch.ones(q_len, q_len, dtype=torch.bool).triu(1)
        table[..., k_len - q_len :].masked_fill_(ahead, -torch.inf)
    top = table.amax(-1, keepdim=True)
    total = table.sub_(top).exp_().sum(-1, keepdim=True)
    return (table @ v) / total, (top + torch.log(total)).squeeze(-1)
