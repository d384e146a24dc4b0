"""Softmax: values first, then large scores, gradients and manners; last the other precisions."""

import pytest
import torch
from torch import bfloat16, float16, float32, float64

import reference
from grader.judging import Hard, agree, backward, check, expect, gradcheck, same, untouched

SHAPES = [(7,), (3, 5), (2, 1, 17), (4, 3, 65), (1, 1), (2, 3, 2, 5), (2, 1, 3, 2, 4)]
ORDINARY = {"B": 2, "Lq": 3, "Lk": 5}
HARD = Hard.SQUARE, Hard.ONE, Hard.LONG
each_function = pytest.mark.parametrize("name", ["softmax_numpy", "softmax"])
each_half = pytest.mark.parametrize(
    "name, dtype", [("softmax_numpy", float16), ("softmax", float16), ("softmax", bfloat16)]
)


def for_function(name, x):
    """A tensor as the function of this name takes it."""
    return x.cpu().numpy() if name == "softmax_numpy" else x


def weights_agree(student, name, x, *dim):
    """The weights of a tensor, or of an array of its numbers, are right."""
    given = for_function(name, x)
    agree(getattr(student, name)(given, *dim), getattr(reference, name)(given, *dim))


def hard_sizes(draw, kind):
    """Scores of every size of a hard kind; of the long ones, thousands in a row as well."""
    for sizes in draw.hard(kind, **ORDINARY):
        yield draw.normal(*sizes.values())
    if kind is Hard.LONG:
        yield draw.normal(2, 1, draw.integer(2049, 20_000))


def all_dims(x):
    return range(-x.ndim, x.ndim)


def weights_of_all_dims(student, draw, name):
    for shape in SHAPES:
        x = draw.normal(*shape)
        for dim in all_dims(x):
            weights_agree(student, name, x, dim)
    draw.hard(Hard.OPTIONS)
    for kind in HARD:
        for x in hard_sizes(draw, kind):
            weights_agree(student, name, x, draw.choice(*all_dims(x)))


def layouts(draw, dtype=float32):
    """Tensors that do not lie in memory row by row."""
    wide = draw.normal(4, 6, dtype=dtype)
    yield wide.mT
    yield wide[:, ::2]
    yield wide[1:, 2:]
    yield wide[:, :1].expand(4, 5)
    yield draw.normal(7, dtype=dtype)[::2]
    yield draw.strided(3, 5, 4, dtype=dtype)
    yield draw.normal(2, 3, 4, 5, dtype=dtype).movedim(1, -1)


@check(points=1)
@pytest.mark.parametrize("shape", SHAPES)
def test_numpy_values(student, draw, shape):
    """softmax_numpy gives exp(x) / sum(exp(x)) along the last axis (float32). An axis may have
    length 1, or thousands."""
    weights_agree(student, "softmax_numpy", draw.normal(*shape))
    if shape == SHAPES[0]:
        for kind in HARD:
            for x in hard_sizes(draw, kind):
                weights_agree(student, "softmax_numpy", x)


@check(points=1, needs=[test_numpy_values])
def test_numpy_axis(student, draw):
    """softmax_numpy works along the axis that it is given, in arrays of any number of axes."""
    weights_of_all_dims(student, draw, "softmax_numpy")


@check(points=1)
@pytest.mark.parametrize("shape", SHAPES)
def test_values(student, draw, shape):
    """softmax gives exp(x) / sum(exp(x)) along the last dimension (float32). A dimension may have
    length 1, or thousands."""
    weights_agree(student, "softmax", draw.normal(*shape))
    if shape == SHAPES[0]:
        for kind in HARD:
            for x in hard_sizes(draw, kind):
                weights_agree(student, "softmax", x)


@check(points=1, needs=[test_values])
def test_dim(student, draw):
    """softmax works along the dimension that it is given, in tensors of any number of
    dimensions."""
    weights_of_all_dims(student, draw, "softmax")


@check(points=1, needs=[test_numpy_values, test_values])
@pytest.mark.parametrize("bound", [100.0, 1e4])
@each_function
def test_large_scores(student, draw, name, bound):
    """Both functions are right for scores as large as 10,000, of either sign, and for rows far
    apart, along any dimension, to the last digits of float32; so are the gradients."""
    large_scores_agree(student, draw, name, bound, float32)
    x = draw.logits(2, 3, 4, 65, bound=bound)
    for dim in range(-1, 3):
        weights_agree(student, name, x.movedim(-1, dim), dim)
    for x in draw.scores(3, draw.integer(2, 5000)).values():
        weights_agree(student, name, x)
        weights_agree(student, name, x.mT, 0)
    if name == "softmax":
        for dim in range(3):
            gradient_agrees(student, draw, draw.normal(3, 4, 17) + bound, dim)


def large_scores_agree(student, draw, name, bound, dtype):
    x = draw.logits(16, 65, bound=bound, dtype=dtype)
    weights_agree(student, name, x)
    weights_agree(student, name, x.mT[None], 1)
    weights_agree(student, name, draw.normal(16, 65, scale=bound / 4, dtype=dtype))


@check(points=1, needs=[test_values])
def test_gradient(student, draw):
    """The gradient of softmax flows and is right along every dimension (float32)."""
    for kind in Hard.SQUARE, Hard.ONE:
        for x in hard_sizes(draw, kind):
            for dim in all_dims(x):
                gradient_agrees(student, draw, x, dim)
    for sizes in draw.hard(Hard.LONG, {"B": 0, "Lq": 0}, **ORDINARY):
        gradient_agrees(student, draw, draw.normal(*sizes.values()), -1)


def gradient_agrees(student, draw, x, dim):
    x, upstream = x.requires_grad_(), draw.normal(*x.shape, dtype=x.dtype)
    [got] = backward(student.softmax(x, dim=dim), x, upstream=upstream)
    [expected] = reference.softmax_gradients(x, dim=dim, upstream=upstream)
    agree(got, expected, says="gradient of x")


@check(points=1, needs=[test_numpy_values, test_values])
@each_function
def test_manners(student, draw, name):
    """Both functions leave their input alone, take it in any layout, give the same answer to the
    same call and a new one when its numbers have changed; PyTorch's works on the device of its
    input."""
    softmax, expected = getattr(student, name), getattr(reference, name)
    dtypes = [float16, bfloat16, float32, float64]
    for dtype in dtypes if name == "softmax" else [float16, float32, float64]:
        for shape in (6,), (5, 6), (2, 5, 6):
            x = for_function(name, draw.normal(*shape, dtype=dtype))
            for dim in -1, 0:
                first = untouched(lambda x=x, dim=dim: softmax(x, dim))
                same(softmax(x, dim), first, says="the second answer to the same call")
    for x in layouts(draw):
        for dim in all_dims(x):
            weights_agree(student, name, x, dim)
    draw.hard(Hard.CHANGED)
    x = for_function(name, draw.normal(3, 5))
    for _ in range(2):
        agree(softmax(x), expected(x))
        x *= -2
    if name == "softmax":
        draw.hard(Hard.DEVICE)
        [device] = softmax.devices(x.to("meta"))
        expect(device.type == "meta", f"x is on the device meta, but the weights on {device}")
    else:
        backwards = x[::-1, ::-1]
        agree(softmax(backwards), expected(backwards))


@check(points=1, needs=[test_numpy_values, test_values])
@each_function
def test_float64(student, draw, name):
    """In float64 both functions keep the digits of float64, along any dimension, and so do the
    gradients."""
    for shape in SHAPES:
        x = draw.normal(*shape, dtype=float64)
        for dim in all_dims(x):
            weights_agree(student, name, x, dim)
    for bound in 100.0, 1e4:
        large_scores_agree(student, draw, name, bound, float64)
    for x in layouts(draw, float64):
        weights_agree(student, name, x)
    if name == "softmax":
        for offset in 0, 1e3:
            x = draw.normal(3, 4, 17, dtype=float64) + offset
            gradient_agrees(student, draw, x, draw.choice(0, 1, 2))
        gradcheck(student.softmax, draw.normal(2, 3, dtype=float64).requires_grad_())


@check(points=1, needs=[test_numpy_values, test_values])
@each_half
def test_half_precision(student, draw, name, dtype):
    """Half precision is computed in float32 and given back as it came: in rows of 70,000 scores,
    for scores of 10,000, and in the gradients."""
    weights_agree(student, name, draw.normal(32, 65, dtype=dtype))
    for bound in 100.0, 1e4:
        large_scores_agree(student, draw, name, bound, dtype)
    level = draw.normal(2, 1, dtype=dtype).expand(2, 70_000)
    for dim, x in ((-1, level), (0, level.mT)):
        scores = for_function(name, x)
        weights = getattr(student, name)(scores, dim)
        agree(weights, reference.raised(getattr(reference, name), scores, dim))
        sums = torch.as_tensor(weights).double().sum(dim)
        agree(sums, torch.ones(2), says="sums of the weights", within=0.02)
    if name == "softmax":
        for dim in -1, 0:
            gradient_agrees(student, draw, draw.normal(3, 4, 17, dtype=dtype), dim)


@check(points=1, needs=[test_numpy_values, test_values])
@each_function
def test_empty(student, draw, name):
    """Both functions take an empty tensor, of any dtype, where the dimension they work along is
    not the empty one."""
    dtypes = [float16, bfloat16, float32, float64]
    for dtype in dtypes if name == "softmax" else [float16, float32, float64]:
        for shape, dim in ((0, 6), -1), ((6, 0), 0), ((2, 0, 3), 2):
            weights_agree(student, name, draw.normal(*shape, dtype=dtype), dim)
