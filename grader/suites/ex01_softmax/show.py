"""What `make show` shows of softmax: the scores of a small sentence, and what becomes of them."""

import math

import torch


def inputs(sentence):
    """A table of scores: the dot products of every token with every token."""
    q, k = (sentence.heads(name, 1, 4)[0, 0] for name in ("q", "k"))
    return {"x": q @ k.mT / math.sqrt(q.shape[-1])}


def steps(x):
    """Softmax over the last axis, a step at a time."""
    largest = x.amax(-1, keepdim=True)
    powers = torch.exp(x - largest)
    total = powers.sum(-1, keepdim=True)
    return {
        "x": ("Lq Lk", x),
        "row maximum": ("Lq 1", largest),
        "x - maximum": ("Lq Lk", x - largest),
        "exp": ("Lq Lk", powers),
        "row sum": ("Lq 1", total),
        "weights": ("Lq Lk", powers / total),
    }


def asked(student, x):
    """The weights; of the NumPy version while the other is not written."""
    return {
        "weights": [
            lambda: student.softmax(x, dim=-1),
            lambda: student.softmax_numpy(x.detach().numpy(), axis=-1),
        ]
    }
