"""The reference: tiles of few keys under all queries, with a running maximum and a running sum."""

import math

import torch


def online_softmax(x, block_size):
    """x (..., n) in float32, no row of -inf -> (...) and (...)."""
    top = torch.full_like(x[..., 0], -torch.inf)
    total = torch.zeros_like(top)
    for piece in x.split(block_size, -1):
        new_top = torch.maximum(top, piece.amax(-1))
        powers = torch.exp(piece - new_top[..., None])
        total = total * torch.exp(top - new_top) + powers.sum(-1)
        top = new_top
    return top, total


def flash_attention(q, k, v, causal=False, scale=None, block_size=64):
    """q (..., Lq, D), k (..., Lk, D), v (..., Lk, Dv) -> (..., Lq, Dv) and (..., Lq).

    No query comes before the first key.
    """
    q_len, k_len = q.shape[-2], k.shape[-2]
    q = q / math.sqrt(q.shape[-1])
    position = torch.arange(k_len - q_len, k_len)[:, None]
    top = q.new_full((*q.shape[:-1], 1), -torch.inf)
    total, output = torch.zeros_like(top), q.new_zeros(*q.shape[:-1], v.shape[-1])
    for start in range(0, k_len, block_size):
        keys = torch.arange(start, min(start + block_size, k_len))
        scores = q @ k[..., keys, :].mT
        if causal:
            scores = scores.masked_fill(keys > position, -torch.inf)
        new_top = torch.maximum(top, scores.amax(-1, keepdim=True))
        powers, shrink = torch.exp(scores - new_top), torch.exp(top - new_top)
        total = total * shrink + powers.sum(-1, keepdim=True)
        output = output * shrink + powers @ v[..., keys, :]
        top = new_top
    return output / total, (top + torch.log(total)).squeeze(-1)
