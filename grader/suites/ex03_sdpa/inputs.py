"""Draws the inputs of ex03: sizes, masks, scores, and what lies in hidden places."""

import numpy as np
import torch
from torch import float32

from grader.judging import Hard

RAGGED = (2, 3), 17, 65, 16, 16  # leading dimensions, Lq, Lk, D, Dv
MASKED = (2, 3), 9, 17, 8, 5
SIZES = {
    "one matrix": ((), 3, 5, 4, 2),
    "all of length 1": ((2,), 1, 1, 1, 3),
    "few queries": RAGGED,
    "few keys": ((1, 2, 3), 65, 3, 3, 17),
    "all alike": ((4,), 4, 4, 4, 4),
}
ORDINARY = {"B": 2, "H": 3, "Lq": 5, "Lk": 7, "D": 4, "Dv": 6}
HARD = Hard.SQUARE, Hard.ONE, Hard.LONG
MANY = 300  # keys: more than a tile holds
MASKS = [(9, 17), (3, 9, 17), (2, 1, 1, 17), (1, 3, 9, 17), (2, 1, 9, 17), (17,), (1, 17), (9, 1)]
SCALES = 0, -0.3, 0.7, 2
GARBAGE = {
    "1e30 in keys": ("k", 1e30),
    "-1e30 in values": ("v", -1e30),
    "NaN in keys": ("k", np.nan),
    "infinity in keys": ("k", np.inf),
}


def inputs(draw, sizes, dtype=float32):
    leading, q_len, k_len, dim, value_dim = sizes
    shapes = (q_len, dim), (k_len, dim), (k_len, value_dim)
    return [draw.normal(*leading, *shape, dtype=dtype) for shape in shapes]


def in_order(sizes):
    """Sizes by name, as `inputs` takes them."""
    return (sizes["B"], sizes["H"]), *(sizes[name] for name in ("Lq", "Lk", "D", "Dv"))


def hard_inputs(draw, kind):
    """Queries, keys and values of every size of a hard kind; of the long ones, more keys or queries
    than 2,048 too."""
    for sizes in draw.hard(kind, **ORDINARY):
        yield inputs(draw, in_order(sizes))
    if kind is Hard.LONG:
        yield inputs(draw, ((), 3, draw.integer(2049, 6000), 4, 4))
        yield inputs(draw, ((), draw.integer(2049, 6000), 3, 4, 4))


def some_mask(draw, q, k):
    """A mask of one of the shapes that broadcast to the table of scores."""
    table = *q.shape[:-1], k.shape[-2]
    shapes = table, table[-2:], table[-1:], (1, table[-1]), (*table[:-2], 1, table[-1])
    return draw.keep(*draw.choice(*shapes))


def with_empty_rows(draw):
    """A mask in which every other query of the first batch, and all of the second, see nothing."""
    keep = draw.keep(2, 1, 9, 17)
    keep[0, :, ::2] = keep[1] = False
    return keep


def queries_at_random(draw):
    """A mask by the query alone: it sees all keys, or none."""
    return draw.integers(0, 1, 9, 1) == 1


def hard_scores(draw):
    """Queries and keys whose scores, with the default scale, are hard ones to the last digit.

    The rows lie hundreds apart as well, some of them far below the others.
    """
    k = torch.eye(64, device=draw.normal(1).device)
    for scores in draw.scores(5, 64).values():
        scores = scores + 200 * draw.normal(5, 1)
        yield 8 * scores, k, draw.normal(64, 3, scale=1e6)  # 8 is the square root of the width


def faint(draw, below, dtype=float32):
    """A query, keys and values, and scores so far below the last that they count together alone."""
    k = (draw.normal(1, dtype=dtype) - below).repeat(10_000)[:, None]
    k[-1] += below  # last, so that a sum from left to right loses nothing
    return [torch.ones_like(k[:1]), k, draw.normal(10_000, 1, dtype=dtype)]


def spoilt(draw, dtype, part, garbage):
    """Inputs, a padding mask, and the same inputs with garbage where it hides keys or values."""
    clean = dict(zip("qkv", inputs(draw, MASKED, dtype), strict=True))
    lengths = draw.integers(1, 16, 2, 1, 1, 1)
    keep = torch.arange(17, device=lengths.device) < lengths  # (B, 1, 1, Lk)
    return clean, keep, clean | {part: torch.where(keep.mT, clean[part], garbage)}


def needle(draw, dtype):
    """Draw queries that each match one of nine keys, keys, values, and a mask that keeps the match.

    The scores are 2^20 for the match, and a multiple of 2^15 for the rest, which may tie.
    """
    signs, match = draw.integers(0, 1, 9, 16) * 2 - 1, draw.integers(0, 8, 1025)
    k, keep = (signs * 256).to(dtype), draw.keep(1025, 9)
    keep[torch.arange(1025), match] = True
    return (k[match], k, draw.normal(9, 5, dtype=dtype)), keep


def finely_scaled(draw, dtype):
    """Draw a query, keys and values, and a scale whose last digits half precision cannot hold.

    One key has half of the weight, and thousands share the rest, so that its score has to be exact.
    """
    q, k = torch.full((1, 1), 8.0, dtype=dtype), draw.normal(3000, 1, dtype=dtype, scale=0.25)
    k[draw.integer(0, 2999)] = 8.0
    scale = 0.125 * (1 + 0.45 * torch.finfo(dtype).eps)
    return (q.to(k.device), k, draw.normal(3000, 3, dtype=dtype)), scale


def for_function(name, *tensors):
    """Tensors as the function of this name takes them: its own kind, None left out."""
    if name == "attention_numpy":
        return [None if x is None else x.cpu().numpy() for x in tensors]
    return list(tensors)
