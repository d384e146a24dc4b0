"""Shows masking for `make show`: a causal and a padding mask, both together, and the weights."""

import math

import torch

from reference.ex02_masking import (
    plain_additive_mask,
    plain_combine_masks,
    plain_keep_from_blocked,
    plain_masked_softmax,
    plain_padding_mask,
)

PADDED = 2  # places after the sentence


def inputs(sentence):
    """Return the scores of a sentence, and its padding with arbitrary scores."""
    q, k = (sentence.heads(name, 1, 4)[0, 0] for name in ("q", "k"))  # (n, D)
    q, k = (torch.cat([x, x[-1:].expand(PADDED, -1)]) for x in (q, k))  # (L, D)
    return {"scores": (q @ k.mT / math.sqrt(q.shape[-1]))[None, None]}


def steps(scores):
    """Return the steps from two masks, one of them inverted, to the weights."""
    blocked, lengths = _given(scores)
    causal = plain_keep_from_blocked(blocked)
    padding = plain_padding_mask(lengths, scores.shape[-1])
    keep = plain_combine_masks(causal, padding)
    return {
        "scores": ("B H Lq Lk", scores),
        "blocked": ("Lq Lk", blocked),
        "keep": ("Lq Lk", causal),
        "padding": ("B 1 1 Lk", padding),
        "both": ("B 1 Lq Lk", keep),
        "additive": ("B 1 Lq Lk", plain_additive_mask(keep, scores.dtype)),
        "weights": ("B H Lq Lk", plain_masked_softmax(scores, keep)),
    }


def asked(student, scores):
    """Return the student's masks, each from the reference's own parts: one mistake shows once."""
    blocked, lengths = _given(scores)
    right = {name: value for name, (_, value) in steps(scores).items()}
    return {
        "keep": lambda: student.keep_from_blocked(blocked),
        "padding": lambda: student.padding_mask(lengths, scores.shape[-1]),
        "both": lambda: student.combine_masks(right["keep"], right["padding"]),
        "additive": lambda: student.additive_mask(right["both"], scores.dtype),
        "weights": lambda: student.masked_softmax(scores, right["both"]),
    }


def _given(scores):
    """Return the inverted causal mask (True = hidden), and the length of the sentence."""
    length = scores.shape[-1]
    blocked = torch.ones(length, length, dtype=torch.bool).triu(1)
    return blocked, torch.tensor([length - PADDED])
