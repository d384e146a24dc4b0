"""Shows softmax for `make show`: the scores of a small sentence, and their weights."""

import math

import torch


def inputs(sentence):
    """Return a table of scores: the dot products of every token with every token."""
    q, k = (sentence.heads(name, 1, 4)[0, 0] for name in ("q", "k"))
    return {"x": q @ k.mT / math.sqrt(q.shape[-1])}


def steps(x):
    """Return softmax over the last axis, step by step."""
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
    """Return the student's weights; from the NumPy version while PyTorch's is not written."""
    return {
        "weights": [
            lambda: student.softmax(x, dim=-1),
            lambda: student.softmax_numpy(x.detach().numpy(), axis=-1),
        ]
    }
