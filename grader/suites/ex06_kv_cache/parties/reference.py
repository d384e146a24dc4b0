"""The reference: keys and values in memory that is taken once."""

import math

import torch
from torch import nn


class KVCache:
    def __init__(self, batch, num_heads, max_len, head_dim, dtype=torch.float32, device=None):
        self.keys = torch.zeros(batch, num_heads, max_len, head_dim)
        self.values = torch.zeros(batch, num_heads, max_len, head_dim)
        self.length = 0


class CachedAttention(nn.Module):
    def __init__(self, d_model, num_heads, bias=False):
        super().__init__()
        self.num_heads = num_heads
        self.w_q, self.w_k, self.w_v, self.w_o = (
            nn.Linear(d_model, d_model, bias=bias) for _ in range(4)
        )

    def forward(self, x, cache=None):
        """x (B, t, E) -> (B, t, E)."""
        q, k, v = (
            w(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
            for w in (self.w_q, self.w_k, self.w_v)
        )
        start, end = cache.length, cache.length + x.shape[1]
        cache.keys[:, :, start:end] = k
        cache.values[:, :, start:end] = v
        cache.length = end
        scores = q * (1 / math.sqrt(q.shape[-1])) @ cache.keys[:, :, :end].mT
        if x.shape[1] > 1:
            scores = scores + torch.full(scores.shape[-2:], -torch.inf).triu(start + 1)
        heads = torch.softmax(scores, -1) @ cache.values[:, :, :end]
        return self.w_o(heads.transpose(1, 2).flatten(2))
