"""Random calls that tell two answers apart."""

import math

import torch
from torch import bfloat16, float16, float32, float64

from grader.judging import called, differentiated, trial

HALVES = (float16, bfloat16)
DTYPES = (*HALVES, float32, float32, float64)


def sizes(draw, **largest):
    """Ordinary sizes, and once in twenty times those of a hard kind, which take longer."""
    if draw.integer(1, 20) == 1:
        return draw.sizes(**largest)
    return {name: draw.integer(1, n) for name, n in largest.items()}


def lengths(draw):
    """Two lengths, 0 among them."""
    s = sizes(draw, Lq=7, Lk=7)
    return draw.choice(s["Lq"], s["Lq"], s["Lq"], 0), draw.choice(s["Lk"], s["Lk"], s["Lk"], 0)


def device(draw):
    """A device in every form, or none."""
    forms = (torch.device("cpu"), "cpu", "meta", None)
    return draw.choice({}, *[{"device": form} for form in forms])


@trial(of="causal_mask")
def triangles(student, draw):
    """Any two lengths, with a device or without."""
    yield from called(student.causal_mask, *lengths(draw), **device(draw))


@trial(of="sliding_window_mask")
def bands(student, draw):
    """Any two lengths and any window, with a device or without."""
    window = draw.choice(1, draw.integer(1, 9), draw.integer(1, 2000))
    yield from called(student.sliding_window_mask, *lengths(draw), window, **device(draw))


@trial(of=("causal_mask", "sliding_window_mask"))
def long_masks(student, draw):
    """One query and more keys than a small integer can count."""
    n = draw.choice(300, 3000, *[40_000] * (draw.integer(1, 20) == 1))
    yield from called(student.causal_mask, *draw.choice((1, n), (n, 1), (n, 2)))
    yield from called(student.sliding_window_mask, 1, n, draw.integer(1, n))


def inputs(draw, dtype):
    """Queries, keys, values: any leading dimensions, layouts, sizes of scores."""
    s = sizes(draw, B=3, H=3, Lq=9, Lk=9, D=5, Dv=4)
    if draw.integer(1, 10) == 1:  # as many as a chunk has rows, and more
        s |= {"Lq": draw.integer(30, 140), "Lk": draw.integer(30, 140)}
    leading = draw.choice((), (s["B"],), (s["B"], s["H"]), (0, 2))
    scale = draw.choice(0.1, 1.0, 1.0, 5.0, 100.0)
    q = draw.normal(*leading, s["Lq"], s["D"], dtype=dtype, scale=scale)
    k = draw.normal(*leading, s["Lk"], s["D"], dtype=dtype)
    v = draw.normal(*leading, s["Lk"], s["Dv"], dtype=dtype)
    turned = tuple(x.mT.contiguous().mT for x in (q, k, v))
    wide = (q, k[..., :1].expand(k.shape), v[..., :1, :].expand(v.shape))
    return draw.choice((q, k, v), (q, k, v), turned, wide, (q, q, q), (q, k, k))


@trial(of="causal_attention")
def attended(student, draw):
    """Any leading dimensions, lengths, layouts and sizes of scores, with gradients."""
    args = inputs(draw, draw.choice(*DTYPES))
    yield from differentiated(draw, student.causal_attention, *args)
    yield from called(student.causal_attention, *(x.to("meta") for x in args))


@trial(of="causal_attention")
def later_keys(student, draw):
    """Products of 256s, and later keys that hold what no number is."""
    dtype = draw.choice(*HALVES, float32)
    signs = draw.integers(0, 1, draw.choice(5, 5, 5, 100), 16) * 2 - 1
    q = k = (signs * 256).to(dtype)
    v, past = draw.normal(len(k), 3, dtype=dtype), draw.integer(1, len(k))
    hidden = draw.choice(0.0, math.inf, -math.inf, math.nan, 6e4)
    k = torch.where(torch.arange(len(k))[:, None] < past, k, hidden)
    yield student.causal_attention(q, k, v)[:past]


@trial(of="causal_attention")
def hard_scores(student, draw):
    """Scores that fall, rise, are all negative, or jump by hundreds."""
    scores = draw.choice(*draw.scores(16, 16).values()) - draw.choice(0, 100, 1000)
    yield from called(student.causal_attention, scores * 4, torch.eye(16), draw.normal(16, 2))
