"""Shows causal attention for `make show`: no query sees a later key."""

import math

import torch

from reference.ex02_masking import plain_masked_softmax
from reference.ex05_causal_mask import (
    plain_causal_attention,
    plain_causal_mask,
    plain_sliding_window_mask,
)

HEADS, WIDTH, WINDOW = 2, 4, 2


def inputs(sentence):
    """Return queries, keys and values of every token."""
    return {name: sentence.heads(name, HEADS, WIDTH) for name in "qkv"}


def steps(q, k, v):
    """Return the scores, the mask and the masked scores; and a window of two keys."""
    length = q.shape[-2]
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    keep = plain_causal_mask(length, length)
    return {
        "q": ("B H Lq D", q),
        "k": ("B H Lk D", k),
        "v": ("B H Lk Dv", v),
        "scores": ("B H Lq Lk", scores),
        "mask": ("Lq Lk", keep),
        "window": ("Lq Lk", plain_sliding_window_mask(length, length, WINDOW)),
        "weights": ("B H Lq Lk", plain_masked_softmax(scores, keep)),
        "output": ("B H Lq Dv", plain_causal_attention(q, k, v)),
    }


def asked(student, q, k, v):
    """Return the student's calls; identity values make the output the weights."""
    length = q.shape[-2]
    identity = torch.eye(length).expand(1, HEADS, length, length)
    return {
        "mask": lambda: student.causal_mask(length, length),
        "window": lambda: student.sliding_window_mask(length, length, WINDOW),
        "weights": lambda: student.causal_attention(q, k, identity),
        "output": lambda: student.causal_attention(q, k, v),
    }
