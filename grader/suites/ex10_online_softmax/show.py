"""Shows tiled attention for `make show`: two statistics, two parts, and the merged answer."""

import math

import torch

from reference.ex02_masking import plain_masked_softmax
from reference.ex10_online_softmax import (
    plain_flash_attention,
    plain_merge_partials,
    plain_online_softmax,
)

HEADS, WIDTH, BLOCK = 2, 4, 2


def inputs(sentence):
    """Return queries, keys and values of every token."""
    return {name: sentence.heads(name, HEADS, WIDTH) for name in "qkv"}


def steps(q, k, v):
    """Return the statistics of the scores, of the first keys, of the others, and both merged."""
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    row_max, row_sum = plain_online_softmax(scores, BLOCK)
    first, rest = _parts(plain_flash_attention, q, k, v)
    output, lse = plain_merge_partials(first, rest)
    return {
        "q": ("B H Lq D", q),
        "k": ("B H Lk D", k),
        "v": ("B H Lk Dv", v),
        "scores": ("B H Lq Lk", scores),
        "row_max": ("B H Lq", row_max),
        "row_sum": ("B H Lq", row_sum),
        "output, first keys": ("B H Lq Dv", first[0]),
        "lse, first keys": ("B H Lq", first[1]),
        "output, other keys": ("B H Lq Dv", rest[0]),
        "lse, other keys": ("B H Lq", rest[1]),
        "output, merged": ("B H Lq Dv", output),
        "lse, merged": ("B H Lq", lse),
        "lse": ("B H Lq", plain_flash_attention(q, k, v)[1]),
        "weights": ("B H Lq Lk", plain_masked_softmax(scores, None)),
        "output": ("B H Lq Dv", plain_flash_attention(q, k, v)[0]),
    }


def asked(student, q, k, v):
    """Return the student's calls; identity values make the output the weights."""
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    identity = torch.eye(k.shape[-2]).expand(1, HEADS, -1, -1)
    answers = {
        "row_max": lambda: student.online_softmax(scores, BLOCK)[0],
        "row_sum": lambda: student.online_softmax(scores, BLOCK)[1],
        "lse": lambda: student.flash_attention(q, k, v, block_size=BLOCK)[1],
        "weights": lambda: student.flash_attention(q, k, identity, block_size=BLOCK)[0],
        "output": lambda: student.flash_attention(q, k, v, block_size=BLOCK)[0],
    }
    right = _parts(plain_flash_attention, q, k, v)
    for i, name in enumerate(("output", "lse")):
        for part, which in enumerate(("first", "other")):
            answers[f"{name}, {which} keys"] = lambda part=part, i=i: _parts(
                student.flash_attention, q, k, v
            )[part][i]
        answers[f"{name}, merged"] = lambda i=i: student.merge_partials(*right)[i]
    return answers


def _parts(attend, q, k, v):
    """Return attention to the first keys, and attention to the others."""
    size = min(BLOCK, k.shape[-2] - 1) or 1
    rest = k[..., size:, :], v[..., size:, :]
    first = attend(q, k[..., :size, :], v[..., :size, :], block_size=BLOCK)
    if not rest[0].shape[-2]:  # a sentence of one token
        rest = k, v
    return first, attend(q, *rest, block_size=BLOCK)
