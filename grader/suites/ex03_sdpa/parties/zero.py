"""The zero: the formula as it is read aloud, for one head and one query at a time."""

import math

import torch


def scaled_dot_product_attention(q, k, v, keep=None, scale=None):
    """q (B, H, Lq, D), k (B, H, Lk, D), v (B, H, Lk, Dv) -> output and weights."""
    scale = 1 / math.sqrt(q.shape[-1])
    output = torch.empty(*q.shape[:-1], v.shape[-1])
    weights = torch.empty(*q.shape[:-1], k.shape[-2])
    for b in range(q.shape[0]):
        for h in range(q.shape[1]):
            for i in range(q.shape[2]):
                weights[b, h, i] = torch.softmax(k[b, h] @ q[b, h, i] * scale, -1)
                output[b, h, i] = weights[b, h, i] @ v[b, h]
    return output, weights
