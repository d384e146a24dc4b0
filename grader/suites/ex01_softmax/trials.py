"""Random calls that tell two answers apart."""

import numpy as np
import torch
from torch import bfloat16, float16, float32, float64

from grader.judging import called, differentiated, trial

SCALES = (0.1, 1.0, 30.0, 1e4)
LONG = 66_000  # more scores than half precision can count


def scores(draw, dtype):
    """Scores of any rank, near to each other or far apart, strided, empty, falling or jumping."""
    s = draw.sizes(B=4, Lq=6, Lk=9)
    shape = draw.choice(
        (s["Lk"],), (s["Lq"], s["Lk"]), (s["B"], s["Lq"], s["Lk"]), (0, 3), (2, 0, 3)
    )
    x = draw.normal(*shape, dtype=dtype, scale=draw.choice(*SCALES))
    hard = draw.scores(*shape, dtype=dtype) if shape[-1] > 1 else {}
    x = draw.choice(x, x, *hard.values())
    return draw.choice(x, x, x.movedim(0, -1), x[..., ::2], x[..., :1].expand(shape), x + 100)


def axis(draw, x, name):
    """An axis along which there is something, under its name; or the default."""
    found = [{name: i} for i in range(-x.ndim, x.ndim) if x.shape[i]]
    return draw.choice({}, *found)


@trial(of="softmax_numpy")
def in_numpy(student, draw):
    """Arrays of any shape, along any axis."""
    x = scores(draw, draw.choice(float16, float32, float64))
    yield from called(student.softmax_numpy, x.numpy(), **axis(draw, x, "axis"))


@trial(of="softmax")
def in_pytorch(student, draw):
    """Tensors of any shape, along any dimension, with their gradients."""
    x = scores(draw, draw.choice(float16, bfloat16, float32, float64))
    yield from differentiated(draw, student.softmax, x, **axis(draw, x, "dim"))


@trial(of="softmax_numpy")
def long_in_numpy(student, draw):
    """A row whose sum is beyond half precision."""
    yield from called(student.softmax_numpy, np.zeros(LONG, np.float16))


@trial(of="softmax")
def long_and_elsewhere(student, draw):
    """A row whose sum is beyond half precision; tensors on another device."""
    level = draw.normal(1, dtype=draw.choice(float16, bfloat16)).expand(LONG)
    yield from called(student.softmax, level)
    yield from called(student.softmax, torch.zeros(2, 3, device="meta", dtype=float16))
