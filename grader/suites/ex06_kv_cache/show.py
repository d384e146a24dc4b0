"""Shows the cache for `make show`: half of the sentence as past, and the rest in one step."""

import math

import torch

from reference.ex02_masking import plain_masked_softmax
from reference.ex05_causal_mask import plain_causal_mask
from reference.ex06_kv_cache import plain_attend_with_past

HEADS, WIDTH = 2, 4


def inputs(sentence):
    """Return keys and values of every token, and queries of the new tokens."""
    q, k, v = (sentence.heads(name, HEADS, WIDTH) for name in "qkv")
    return {"q": q[..., len(sentence) // 2 :, :].contiguous(), "k": k, "v": v}


def steps(q, k, v):
    """Return the steps: joined keys of past and new tokens, and a mask aligned bottom-right."""
    past, (new_k, new_v) = _parts(q, k, v)
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    keep = plain_causal_mask(q.shape[-2], k.shape[-2])
    return {
        "past k": ("B H n-t D", past[0]),
        "q": ("B H t D", q),
        "new k": ("B H t D", new_k),
        "k": ("B H n D", torch.cat([past[0], new_k], -2)),
        "v": ("B H n Dv", torch.cat([past[1], new_v], -2)),
        "scores": ("B H t n", scores),
        "mask": ("t n", keep),
        "weights": ("B H t n", plain_masked_softmax(scores, keep)),
        "output": ("B H t Dv", plain_attend_with_past(q, new_k, new_v, past)[0]),
    }


def asked(student, q, k, v):
    """Return the student's calls; identity values make the output the weights."""
    length = k.shape[-2]
    identity = torch.eye(length).expand(1, HEADS, length, length)

    def answer(values):
        past, new = _parts(q, k, values)
        return student.attend_with_past(q, *new, past if past[0].shape[-2] else None)

    return {
        "k": lambda: answer(v)[1][0],
        "v": lambda: answer(v)[1][1],
        "weights": lambda: answer(identity)[0],
        "output": lambda: answer(v)[0],
    }


def _parts(q, k, v):
    """Return the keys and values of the past, and those of the new tokens."""
    seen = k.shape[-2] - q.shape[-2]
    return (k[..., :seen, :], v[..., :seen, :]), (k[..., seen:, :], v[..., seen:, :])
