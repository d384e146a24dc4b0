"""Random calls that tell two answers apart."""

import math

import torch
from torch import bfloat16, float16, float32, float64

from grader.judging import called, differentiated, trial

HALVES = (float16, bfloat16)
DTYPES = (*HALVES, float32, float64)


def inputs(draw, dtype):
    """Queries, keys, values: leading dimensions of any number that broadcast, strided, empty."""
    s = draw.sizes(B=3, H=3, Lq=5, Lk=7, D=6, Dv=4)
    leading = draw.choice((), (s["H"],), (s["B"], s["H"]), (0, 2), (2, 1, s["H"]))
    scale = draw.choice(0.1, 1.0, 5.0)
    q = draw.normal(*leading, s["Lq"], s["D"], dtype=dtype, scale=scale)
    k = draw.normal(*leading, s["Lk"], s["D"], dtype=dtype, scale=scale)
    v = draw.normal(*leading, s["Lk"], s["Dv"], dtype=dtype)
    return draw.choice(
        (q, k, v),
        (q, k, v),
        tuple(x.mT.contiguous().mT for x in (q, k, v)),
        (q, q, q),
        (q, k[..., :1, :].expand(k.shape), v[..., :1].expand(v.shape)),
        (q[..., :0, :], k, v),
    )


def mask(draw, q, k):
    """A mask that broadcasts to the scores, rows that keep nothing among them; or None."""
    full = (*q.shape[:-1], k.shape[-2])
    shape = [draw.choice(n, n, 1) for n in full]
    shape = shape[draw.choice(0, 0, draw.integer(0, len(full) - 1)) :]
    keep = draw.integers(0, 3, *shape) < draw.integer(0, 4)
    causal = torch.ones(full[-2:]).tril().bool()
    return draw.choice(None, keep, keep, causal)


def scale(draw):
    """A scale of every kind, or none."""
    return draw.choice({}, {}, {"scale": None}, *[{"scale": x} for x in (0, 0.0, -0.3, 0.7, 1.5)])


@trial(of="attention_numpy")
def in_numpy(student, draw):
    """Every option, alone and with the others."""
    q, k, v = inputs(draw, draw.choice(float16, float32, float64))
    keep = mask(draw, q, k)
    options = draw.choice({"keep": None}, {}) if keep is None else {"keep": keep.numpy()}
    arrays = (x.numpy() for x in (q, k, v))
    yield from called(student.attention_numpy, *arrays, **options, **scale(draw))


@trial(of="scaled_dot_product_attention")
def in_pytorch(student, draw):
    """Every option, alone and with the others, with gradients."""
    q, k, v = inputs(draw, draw.choice(*DTYPES))
    keep = draw.choice({}, {"keep": mask(draw, q, k)}, {"keep": mask(draw, q, k)})
    attend = student.scaled_dot_product_attention
    yield from differentiated(draw, attend, q, k, v, **keep, **scale(draw))


@trial(of=("attention_numpy", "scaled_dot_product_attention"))
def beyond_half_precision(student, draw):
    """Products of 256s, and hidden keys that hold what no number is."""
    dtype = draw.choice(*HALVES, float32)
    signs = draw.integers(0, 1, 5, 16) * 2 - 1
    q = k = (signs * 256).to(dtype)
    v, keep = draw.normal(5, 3, dtype=dtype), draw.integers(0, 3, 5) > 0
    hidden = draw.choice(0.0, math.inf, -math.inf, math.nan, 6e4)
    k = torch.where(keep[:, None], k, hidden)
    yield from called(student.scaled_dot_product_attention, q, k, v, keep)
    if dtype != bfloat16:
        yield from called(student.attention_numpy, *(x.numpy() for x in (q, k, v, keep)))


@trial(of=("attention_numpy", "scaled_dot_product_attention"))
def close_or_low(student, draw):
    """Scores that half precision cannot tell apart, and scores below what people fill in."""
    dtype = draw.choice(*HALVES, float32)
    q, k = draw.choice(draw.ties(3, 8, dtype), draw.low(3, 8, 8, dtype))
    v, keep = draw.normal(8, 3, dtype=dtype), draw.keep(3, 8)
    yield from called(student.scaled_dot_product_attention, q, k, v, keep)
    if dtype != bfloat16:
        yield from called(student.attention_numpy, *(x.numpy() for x in (q, k, v, keep)))


@trial(of=("attention_numpy", "scaled_dot_product_attention"))
def misfits(student, draw):
    """Widths and lengths that do not fit, in both directions, with a mask or without."""
    n, m = draw.integer(1, 6), draw.integer(1, 6)
    q, k = draw.normal(2, 3, n), draw.normal(2, 4, draw.choice(n, m))
    v = draw.normal(2, draw.choice(4, m), 5)
    keep = draw.choice(None, draw.keep(3, 4))
    yield from called(student.scaled_dot_product_attention, q, k, v, keep)
    arrays = (x if x is None else x.numpy() for x in (q, k, v, keep))
    yield from called(student.attention_numpy, *arrays)
    no_numbers = (x if x is None else x.to("meta") for x in (q, k, v, keep))
    yield from called(student.scaled_dot_product_attention, *no_numbers)
