"""The zero: causal attention as textbooks have it, with a mask over all scores."""

import math

import torch


def causal_attention(q, k, v):
    """q (..., L, D), k (..., L, D), v (..., L, Dv) -> (..., L, Dv)."""
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    ahead = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
    return torch.softmax(scores.masked_fill(ahead, -torch.inf), -1) @ v
