"""Shows the fast path for `make show`: causal, four query heads on two key heads."""

import math

import torch

from reference.ex02_masking import plain_masked_softmax
from reference.ex05_causal_mask import plain_causal_mask
from reference.ex08_cuda_sdpa import plain_fast_attention

HEADS, KV_HEADS, WIDTH = 4, 2, 4


def inputs(sentence):
    """Return queries of four heads, and keys and values of two heads."""
    counts = {"q": HEADS, "k": KV_HEADS, "v": KV_HEADS}
    return {name: sentence.heads(name, count, WIDTH) for name, count in counts.items()}


def steps(q, k, v):
    """Return the steps that a fused kernel computes without ever storing them."""
    repeated = k.repeat_interleave(q.shape[-3] // k.shape[-3], -3)
    keep = plain_causal_mask(q.shape[-2], k.shape[-2])
    scores = q @ repeated.mT / math.sqrt(q.shape[-1])
    return {
        "q": ("B H Lq D", q),
        "k": ("B Hk Lk D", k),
        "v": ("B Hk Lk Dv", v),
        "scores": ("B H Lq Lk", scores),
        "mask": ("Lq Lk", keep),
        "weights": ("B H Lq Lk", plain_masked_softmax(scores, keep)),
        "output": ("B H Lq Dv", plain_fast_attention(q, k, v, causal=True)),
    }


def asked(student, q, k, v):
    """Return the student's calls; identity values make the output the weights."""
    length = k.shape[-2]
    identity = torch.eye(length).expand(1, KV_HEADS, length, length)
    return {
        "weights": lambda: student.fast_attention(q, k, identity, causal=True),
        "output": lambda: student.fast_attention(q, k, v, causal=True),
    }
