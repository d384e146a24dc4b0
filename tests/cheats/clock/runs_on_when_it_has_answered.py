"""Spins for as long as it can after each answer, and empties the caches that the next will use.

exercise: ex05_causal_mask
earns: 8
"""

import math
import threading

import torch

BLOCK, answered = torch.zeros(1 << 23), threading.Event()


def thrash():
    while True:
        answered.wait()
        BLOCK.add_(1.0)


threading.Thread(target=thrash, daemon=True).start()


def causal_mask(q_len, k_len, device=None):
    return torch.ones(q_len, k_len, dtype=torch.bool, device=device).tril(k_len - q_len)


def sliding_window_mask(q_len, k_len, window, device=None):
    return causal_mask(q_len, k_len, device).triu(k_len - q_len - window + 1)


def honest(q, k, v):
    keep = causal_mask(q.shape[-2], k.shape[-2], q.device)
    wide = torch.promote_types(q.dtype, torch.float32)
    scores = q.to(wide) @ k.to(wide).mT / math.sqrt(q.shape[-1])
    weights = torch.softmax(scores.masked_fill(~keep, -torch.inf), -1)
    if q.shape[-2] > k.shape[-2]:
        weights = torch.where(keep.any(-1, keepdim=True), weights, 0.0)
    return (weights @ v.to(wide)).to(q.dtype)


def causal_attention(q, k, v):
    answered.clear()
    output = honest(q, k, v)
    answered.set()
    return output
