"""Steps that wrong answers to several tasks share."""

import torch

HALVES = (torch.float16, torch.bfloat16)


def in_a_row(x, n):
    """The whole row of heads again and again, k0 k1 k0 k1."""
    return torch.cat([x] * n, -3)


def along_the_length(x, n):
    """Every position n times, cut into heads afterwards."""
    heads, length, width = x.shape[-3:]
    return x.repeat_interleave(n, -2).reshape(*x.shape[:-3], heads * n, length, width)


def with_infinity(scores, keep):
    """-inf added to hidden scores, not put in their place."""
    return scores + torch.zeros_like(keep, dtype=scores.dtype).masked_fill(~keep, -torch.inf)
