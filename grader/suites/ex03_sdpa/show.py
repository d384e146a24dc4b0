"""Shows scaled dot-product attention for `make show`: two heads, and at the end a mask."""

import math

import torch

from reference.ex03_sdpa import plain_attention

HEADS, WIDTH = 2, 4


def inputs(sentence):
    """Return queries, keys and values of every token."""
    return {name: sentence.heads(name, HEADS, WIDTH) for name in "qkv"}


def steps(q, k, v):
    """Return the steps of the formula, from the inside out."""
    output, weights = plain_attention(q, k, v)
    return {
        "q": ("B H Lq D", q),
        "k": ("B H Lk D", k),
        "v": ("B H Lk Dv", v),
        "q k^T": ("B H Lq Lk", q @ k.mT),
        "scores": ("B H Lq Lk", q @ k.mT / math.sqrt(q.shape[-1])),
        "weights": ("B H Lq Lk", weights),
        "output": ("B H Lq Dv", output),
        "output, one key hidden": ("B H Lq Dv", plain_attention(q, k, v, _keep(k))[0]),
    }


def asked(student, q, k, v):
    """Return the student's weights and output; from NumPy while the PyTorch one is not written."""
    arrays = [x.detach().numpy() for x in (q, k, v)]
    return {
        "weights": [
            lambda: student.scaled_dot_product_attention(q, k, v)[1],
            lambda: student.attention_numpy(*arrays)[1],
        ],
        "output": [
            lambda: student.scaled_dot_product_attention(q, k, v)[0],
            lambda: student.attention_numpy(*arrays)[0],
        ],
        "output, one key hidden": [
            lambda: student.scaled_dot_product_attention(q, k, v, _keep(k))[0],
            lambda: student.attention_numpy(*arrays, _keep(k).numpy())[0],
        ],
    }


def _keep(k):
    """Return a mask for all queries that hides the last key, as if it were padding."""
    keep = torch.ones(k.shape[-2], dtype=torch.bool)
    keep[-1] = False
    return keep[None, None, None]
