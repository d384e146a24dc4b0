"""The reference: two matrix products and a softmax, the small factor scaled."""

import math

import torch


def scaled_dot_product_attention(q, k, v, keep=None, scale=None):
    """q (..., Lq, D), k (..., Lk, D), v (..., Lk, Dv) -> output and weights."""
    weights = torch.softmax(q * (1 / math.sqrt(q.shape[-1])) @ k.mT, -1)
    return weights @ v, weights
