"""Shows grouped queries for `make show`: four query heads share two key/value heads."""

import math

import torch

from reference.ex07_mqa_gqa import plain_grouped_query_attention

HEADS, KV_HEADS, WIDTH = 4, 2, 4


def inputs(sentence):
    """Return queries of four heads, and keys and values of two heads."""
    counts = {"q": HEADS, "k": KV_HEADS, "v": KV_HEADS}
    return {name: sentence.heads(name, count, WIDTH) for name, count in counts.items()}


def steps(q, k, v):
    """Return keys and values repeated group by group, then the steps of attention."""
    group = q.shape[-3] // k.shape[-3]
    repeated = k.repeat_interleave(group, -3)
    scores = q @ repeated.mT / math.sqrt(q.shape[-1])
    return {
        "q": ("B H Lq D", q),
        "k": ("B Hk Lk D", k),
        "v": ("B Hk Lk Dv", v),
        "k repeated": ("B H Lk D", repeated),
        "scores": ("B H Lq Lk", scores),
        "weights": ("B H Lq Lk", torch.softmax(scores, -1)),
        "output": ("B H Lq Dv", plain_grouped_query_attention(q, k, v)),
    }


def asked(student, q, k, v):
    """Return the student's calls; identity values make the output the weights."""
    length = k.shape[-2]
    identity = torch.eye(length).expand(1, KV_HEADS, length, length)
    return {
        "k repeated": lambda: student.repeat_kv(k, HEADS // KV_HEADS),
        "weights": lambda: student.grouped_query_attention(q, k, identity),
        "output": lambda: student.grouped_query_attention(q, k, v),
    }
