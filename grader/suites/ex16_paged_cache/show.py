"""Shows a ragged batch for `make show`: the sentence as two sequences, cut in the middle."""

import math

import torch

from reference.ex02_masking import plain_masked_softmax
from reference.ex16_paged_cache import plain_ragged_attention

HEADS, WIDTH = 2, 4


def inputs(sentence):
    """Return the inputs heads first, as elsewhere; the functions take tokens first."""
    return {name: sentence.heads(name, HEADS, WIDTH)[0] for name in "qkv"}


def steps(q, k, v):
    """Return the steps: two triangles, one for each sequence, and nothing between them."""
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    keep = _triangles(q.shape[1])
    return {
        "q": ("H Tq D", q),
        "k": ("H Tk D", k),
        "v": ("H Tk Dv", v),
        "scores": ("H Tq Tk", scores),
        "mask": ("Tq Tk", keep),
        "weights": ("H Tq Tk", plain_masked_softmax(scores, keep)),
        "output": ("H Tq Dv", _heads_first(plain_ragged_attention, q, k, v)),
    }


def asked(student, q, k, v):
    """Return the student's calls; identity values make the output the weights."""
    length = k.shape[1]
    identity = torch.eye(length).expand(HEADS, length, length)
    return {
        "weights": lambda: _heads_first(student.ragged_attention, q, k, identity),
        "output": lambda: _heads_first(student.ragged_attention, q, k, v),
    }


def _heads_first(ragged_attention, *given):
    """Return the output (H, T, Dv) for q, k and v (H, T, ...)."""
    bounds = torch.tensor([0, given[0].shape[1] // 2, given[0].shape[1]])
    return ragged_attention(*(x.transpose(0, 1) for x in given), bounds, bounds).transpose(0, 1)


def _triangles(length):
    """Return a mask (length, length): the keys of the same half that are not ahead."""
    token = torch.arange(length)
    half = token >= length // 2
    return (half[:, None] == half) & (token <= token[:, None])
