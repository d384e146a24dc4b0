"""The zero: the latents of all tokens are expanded to keys and values at every step."""

import math

import torch
from torch import nn


class LatentCache:
    def __init__(self, batch, max_len, kv_rank, rope_dim, dtype=torch.float32, device=None):
        self.latents = torch.zeros(batch, max_len, kv_rank)
        self.k_ropes = torch.zeros(batch, max_len, rope_dim)
        self.length = 0


class RMSNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return self.weight * (x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6))


class MultiHeadLatentAttention(nn.Module):
    def __init__(self, d_model, num_heads, nope_dim, rope_dim, value_dim, kv_rank):
        super().__init__()
        self.widths = num_heads, nope_dim, rope_dim, kv_rank
        self.q_proj = nn.Linear(d_model, num_heads * (nope_dim + rope_dim), bias=False)
        self.kv_a_proj_with_mqa = nn.Linear(d_model, kv_rank + rope_dim, bias=False)
        self.kv_a_layernorm = RMSNorm(kv_rank)
        self.kv_b_proj = nn.Linear(kv_rank, num_heads * (nope_dim + value_dim), bias=False)
        self.o_proj = nn.Linear(num_heads * value_dim, d_model, bias=False)
        self.register_buffer("rates", 10000.0 ** (-torch.arange(0, rope_dim, 2) / rope_dim), False)

    def rotated(self, x, start):
        angles = torch.arange(start, start + x.shape[-2])[:, None] * self.rates
        cos, sin = angles.cos(), angles.sin()
        a, b = x[..., 0::2], x[..., 1::2]
        return torch.stack([a * cos - b * sin, a * sin + b * cos], -1).flatten(-2)

    def forward(self, x, cache=None, absorbed=False):
        """x (1, t, E) -> (1, t, E)."""
        heads, nope, rope, rank = self.widths
        t, start = x.shape[1], cache.length
        end = cache.length = start + t
        q = self.q_proj(x).unflatten(-1, (heads, -1)).transpose(1, 2)
        made = self.kv_a_proj_with_mqa(x)
        cache.latents[:, start:end] = self.kv_a_layernorm(made[..., :rank])
        cache.k_ropes[:, start:end] = self.rotated(made[..., rank:], start)
        latents, k_ropes = cache.latents[:, :end], cache.k_ropes[:, :end]
        expanded = self.kv_b_proj(latents).unflatten(-1, (heads, -1)).transpose(1, 2)
        k = torch.cat([expanded[..., :nope], k_ropes[:, None].expand(-1, heads, -1, -1)], -1)
        q = torch.cat([q[..., :nope], self.rotated(q[..., nope:], start)], -1)
        scores = q @ k.mT * (1 / math.sqrt(nope + rope))
        if t > 1:
            scores = scores + torch.full((t, end), -torch.inf).triu(start + 1)
        mixed = torch.softmax(scores, -1) @ expanded[..., nope:]
        return self.o_proj(mixed.transpose(1, 2).flatten(2))
