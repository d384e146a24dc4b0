"""How the two backward passes are called on random inputs."""

import torch
from torch import float16, float32, float64

from grader.judging import called, trial

DTYPES = float16, float32, float64


@trial(of="softmax_backward")
def rows(student, draw):
    """Weights of any shape, some of them 0, some rows of them all 0."""
    sizes, dtype = draw.sizes(B=3, L=4, n=7), draw.choice(*DTYPES)
    scores = draw.normal(*sizes.values(), dtype=float64, scale=draw.choice(1.0, 20.0))
    weights = torch.softmax(scores, -1).to(dtype)
    if draw.integer(0, 1):
        weights[:, ::2] *= draw.integers(0, 1, *weights[:, ::2].shape)
    grad = draw.normal(*sizes.values(), dtype=dtype, scale=draw.choice(1.0, 100.0))
    turned = draw.integer(0, 1) == 1
    yield from called(student.softmax_backward, *(_array(x, turned) for x in (weights, grad)))


@trial(of="attention_backward")
def attention(student, draw):
    """Attention of any sizes, with any mask and any scale."""
    sizes, dtype = draw.sizes(B=2, H=2, Lq=5, Lk=5, D=4, Dv=4), draw.choice(*DTYPES)
    leading = (sizes["B"], sizes["H"])[: draw.integer(0, 2)]
    shapes = (("Lq", "D"), ("Lk", "D"), ("Lk", "Dv"), ("Lq", "Dv"))
    turned = draw.integer(0, 1) == 1
    tensors = [
        _array(draw.normal(*leading, *(sizes[n] for n in names), dtype=dtype), turned)
        for names in shapes
    ]
    rows = [(sizes["Lq"], sizes["Lk"]), (sizes["Lk"],), (sizes["Lq"], 1), (1, sizes["Lk"])]
    keep = draw.integers(0, 1, *draw.choice(*rows)).bool().numpy()
    options = draw.choice({}, {"keep": keep}, {"keep": keep, "scale": draw.choice(0.0, -0.3, 2.0)})
    options = draw.choice(options, options, {"scale": draw.choice(0.0, -0.3, 2.0)})
    yield from called(student.attention_backward, *tensors, **options)


def _array(x, turned):
    """The numbers in an array, its last axis backwards in memory if `turned`."""
    return x.flip(-1).numpy()[..., ::-1] if turned else x.numpy()
