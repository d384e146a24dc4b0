"""Random calls that tell two answers apart."""

import math

import torch
from torch import bfloat16, float16, float32, float64, int16, int32, int64

from grader.judging import called, differentiated, trial

DTYPES = (float16, bfloat16, float32, float64)


def mask(draw, *shape):
    """A mask of any share, strided, expanded, all False or all True; rows may keep nothing."""
    keep = draw.integers(0, 3, *shape) < draw.integer(0, 4)
    alike = draw.integers(0, 1, *shape[:-1], 1).bool().expand(shape)
    if len(shape) < 2:
        return draw.choice(keep, alike)
    return draw.choice(keep, keep, alike, keep.mT.contiguous().mT)


def shape(draw):
    """From one to four dimensions, any of which may be 1; or a batch of none."""
    s = draw.sizes(B=4, H=3, Lq=5, Lk=7)
    leading = draw.choice((), (s["H"],), (s["B"], s["H"]), (0, s["H"]))
    return draw.choice((s["Lk"],), (*leading, s["Lq"], s["Lk"]), (*leading, s["Lq"], s["Lk"]))


def broadcast(draw, full):
    """A shape that broadcasts to `full`: some sizes 1, some of the first left out."""
    ones = [draw.choice(n, n, 1) for n in full]
    return tuple(ones[draw.choice(0, 0, draw.integer(0, len(full) - 1)) :])


@trial(of="additive_mask")
def added(student, draw):
    """Masks of any shape, in any dtype, on a device that has no numbers."""
    keep, dtype = mask(draw, *shape(draw)), draw.choice(*DTYPES)
    yield from called(student.additive_mask, keep, dtype)
    yield from called(student.additive_mask, keep.to("meta"), dtype=dtype)


@trial(of="keep_from_blocked")
def turned(student, draw):
    """Masks of any shape."""
    blocked = mask(draw, *shape(draw))
    yield from called(student.keep_from_blocked, blocked)


@trial(of="padding_mask")
def padding(student, draw):
    """Lengths from 0 to all, of any integer dtype, strided, in a batch that may be of none."""
    s = draw.sizes(B=5, Lk=9)
    lengths = draw.integers(0, s["Lk"], s["B"]).to(draw.choice(int16, int32, int64))
    lengths = draw.choice(lengths, lengths[::2], lengths[:1], lengths[:0])
    yield from called(student.padding_mask, lengths, s["Lk"])
    yield from called(student.padding_mask, lengths.to("meta"), max_len=s["Lk"])


@trial(of="combine_masks")
def combined(student, draw):
    """Any number of masks that broadcast, with None among them."""
    full = shape(draw)
    masks = [
        None if draw.integer(1, 3) == 1 else mask(draw, *broadcast(draw, full))
        for _ in range(draw.integer(0, 4))
    ]
    yield from called(student.combine_masks, *masks)
    yield from called(student.combine_masks, *[m if m is None else m.to("meta") for m in masks])


@trial(of="masked_softmax")
def weights(student, draw):
    """Scores and masks of every kind, hidden scores of every value, with gradients."""
    full, dtype = shape(draw), draw.choice(*DTYPES)
    scores = draw.normal(*full, dtype=dtype, scale=draw.choice(0.1, 1.0, 30.0, 1e4))
    hard = draw.scores(*full, dtype=dtype)
    scores = draw.choice(scores, scores, scores - 1e4, *hard.values())
    keep = draw.choice(None, mask(draw, *broadcast(draw, full)), mask(draw, *full))
    if keep is not None:
        scores = scores.masked_fill(~keep, draw.choice(0.0, 1e4, math.inf, -math.inf, math.nan))
    yield from differentiated(draw, student.masked_softmax, scores, keep)


@trial(of="masked_softmax")
def long_rows(student, draw):
    """A row whose sum is beyond half precision."""
    level = draw.normal(2, 1, dtype=draw.choice(float16, bfloat16)).expand(2, 70_000)
    keep = torch.arange(70_000) < draw.integer(66_000, 70_000)
    yield from called(student.masked_softmax, level, draw.choice(keep, None))
    elsewhere = torch.ones(2, 1, dtype=torch.bool, device="meta")
    yield from called(student.masked_softmax, level.to("meta"), draw.choice(elsewhere, None))
