"""Shows attention on lists for `make show`: one head step by step, and at the end with a mask."""

import math

import torch

from reference.ex03_sdpa import plain_attention

WIDTH = 4


def inputs(sentence):
    """Return queries, keys and values of every token, as matrices."""
    return {name: sentence.heads(name, 1, WIDTH)[0, 0] for name in "qkv"}


def steps(q, k, v):
    """Return each step of attention from the step before, as the five functions compute it."""
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    output, weights = plain_attention(q, k, v)
    return {
        "q": ("Lq D", q),
        "k": ("Lk D", k),
        "v": ("Lk Dv", v),
        "transpose(k)": ("D Lk", k.mT),
        "q k^T": ("Lq Lk", q @ k.mT),
        "scores": ("Lq Lk", scores),
        "weights": ("Lq Lk", weights),
        "output": ("Lq Dv", output),
        "output, one key hidden": ("Lq Dv", plain_attention(q, k, v, _keep(q, k))[0]),
    }


def asked(student, q, k, v):
    """Return calls of the student's functions, on lists."""
    keep = _keep(q, k).tolist()
    q, k, v = (x.tolist() for x in (q, k, v))
    return {
        "transpose(k)": lambda: student.transpose(k),
        "q k^T": lambda: student.matmul(q, [list(column) for column in zip(*k, strict=True)]),
        "weights": lambda: student.attention(q, k, v)[1],
        "output": lambda: student.attention(q, k, v)[0],
        "output, one key hidden": lambda: student.attention(q, k, v, keep)[0],
    }


def _keep(q, k):
    """Return a mask that hides the last key, as if it were padding."""
    keep = torch.ones(len(q), len(k), dtype=torch.bool)
    keep[:, -1] = False
    return keep
