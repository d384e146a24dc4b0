"""Softmax in NumPy, then in PyTorch: values first, then all that follows from them."""

import math
from itertools import product

import pytest
import torch
from torch import bfloat16, float16, float32, float64

import reference
from grader.judging import (
    Hard,
    agree,
    backward,
    check,
    gradcheck,
    lasting,
    on_meta,
    same,
    untouched,
)

SHAPES = [(7,), (3, 5), (2, 1, 17), (4, 3, 65), (1, 1), (2, 3, 2, 5), (2, 1, 3, 2, 4)]
ORDINARY = {"B": 2, "Lq": 3, "Lk": 5}
HARD = Hard.SQUARE, Hard.ONE, Hard.LONG
BOUNDS = pytest.mark.parametrize("bound", [100.0, 1e4])


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


def values_agree(student, draw, name, shape):
    """The values of one shape; of the first one, those of the hard sizes as well."""
    weights_agree(student, name, draw.normal(*shape))
    if shape == SHAPES[0]:
        for kind in HARD:
            for x in hard_sizes(draw, kind):
                weights_agree(student, name, x)


def layouts_agree(student, draw, name):
    """Weights along all dimensions of all layouts, each of which stays as it was."""
    for x in layouts(draw):
        for dim in all_dims(x):
            untouched(lambda x=x, dim=dim: weights_agree(student, name, x, dim))


def changed_agree(student, draw, name, dtypes, learns=(False,)):
    """One tensor whose numbers change places between two calls, then an answer that its caller
    changes: the first answer stays, and the next one is computed anew, along any dimension."""
    draw.hard(Hard.CHANGED)
    softmax, right = getattr(student, name), getattr(reference, name)
    for dtype, dim, learning in product(dtypes, (-1, 0), learns):
        x = draw.integers(-8, 8, 3, 5).to(dtype) / 4  # whose sum is the same in any order
        x = for_function(name, x.requires_grad_(learning))
        with lasting(softmax, x, dim), torch.no_grad():
            x[:] = x[[2, 0, 1]][:, [3, 0, 4, 1, 2]]
            with torch.set_grad_enabled(learning):
                agree(softmax(x, dim), right(x, dim))
        if not learning:
            softmax.held(x, dim).change("fill" if name == "softmax_numpy" else "fill_", 2.0)
            says = "weights (after the caller wrote into those of an earlier call)"
            agree(softmax(x, dim), right(x, dim), says)


def calls_leave_alone(student, draw, name, dtypes):
    """The input stays as it was, and the same call has the same answer."""
    softmax = getattr(student, name)
    for dtype in dtypes:
        for shape in (6,), (2, 5, 6):
            x = for_function(name, draw.normal(*shape, dtype=dtype))
            for dim in -1, 0:
                first = untouched(lambda x=x, dim=dim: softmax(x, dim))
                same(softmax(x, dim), first, says="the second answer to the same call")


def large_scores_agree(student, draw, name, bound, dtype=float32):
    x = draw.logits(16, 65, bound=bound, dtype=dtype)
    weights_agree(student, name, x)
    weights_agree(student, name, x.mT[None], 1)
    weights_agree(student, name, draw.normal(16, 65, scale=bound / 4, dtype=dtype))


def hard_scores_agree(student, draw, name, bound):
    """Large scores along every dimension, and rows of every hard kind."""
    large_scores_agree(student, draw, name, bound)
    x = draw.logits(2, 3, 4, 65, bound=bound)
    for dim in range(-1, 3):
        weights_agree(student, name, x.movedim(-1, dim), dim)
    for x in draw.scores(3, draw.integer(2, 5000)).values():
        weights_agree(student, name, x)
        weights_agree(student, name, x.mT, 0)
    if bound == 100.0:
        weights_agree(student, name, faint(draw, 24.0))
        weights_agree(student, name, crowded(draw, 79.3))


def faint(draw, below, dtype=float32):
    """A row of 70,000 scores that lie so far below the last that they count together alone.

    The largest is the last, so that a sum from left to right loses nothing.
    """
    x = (draw.normal(1, dtype=dtype) - below).repeat(70_000)
    x[-1] += below
    return x


def crowded(draw, level, dtype=float32):
    """A row of 20,000 scores near a level at which exp holds each power, and not their sum."""
    return level + draw.normal(20_000, scale=0.1, dtype=dtype)


def float64_agrees(student, draw, name):
    for shape in SHAPES:
        x = draw.normal(*shape, dtype=float64)
        for dim in all_dims(x):
            weights_agree(student, name, x, dim)
    for bound in 100.0, 1e4:
        large_scores_agree(student, draw, name, bound, float64)
    for x in layouts(draw, float64):
        weights_agree(student, name, x)
    weights_agree(student, name, faint(draw, 33.0, float64))
    weights_agree(student, name, crowded(draw, 701.0, float64))


def half_agrees(student, draw, name, dtype):
    """Ordinary scores and large ones, and rows whose sum is beyond half precision."""
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
    finer_than_half_agrees(student, draw, name, dtype)


def finer_than_half_agrees(student, draw, name, dtype):
    """Rows whose differences half precision cannot hold; in float16, powers too small for it."""
    x = draw.normal(2, 1500, scale=0.2).clamp(-0.5, 0.5) - 3.5
    x[:, 0].neg_()  # the largest, about as heavy as all others together
    scores = for_function(name, x.to(dtype))
    agree(getattr(student, name)(scores), reference.raised(getattr(reference, name), scores))
    if dtype is float16:
        scores = for_function(name, faint(draw, 17.4).to(dtype))
        weight = getattr(student, name)(scores)[-1:]
        right = reference.raised(getattr(reference, name), scores).exact[-1:]
        agree(weight, right, says="weight of the largest score", within=0.001)


def empty_agree(student, draw, name, dtypes):
    """Tensors that are empty, along a dimension that is not."""
    for dtype in dtypes:
        for shape, dim in ((0, 6), -1), ((6, 0), 0), ((2, 0, 3), 2):
            weights_agree(student, name, draw.normal(*shape, dtype=dtype), dim)


def gradient_agrees(student, draw, x, dim, upstream=None):
    x = x.requires_grad_()
    upstream = draw.normal(*x.shape, dtype=x.dtype) if upstream is None else upstream
    [got] = backward(student.softmax(x, dim=dim), x, upstream=upstream)
    [expected] = reference.softmax_gradients(x, dim=dim, upstream=upstream)
    agree(got, expected, says="gradient of x")


def gradient_of_a_constant_is_zero(student, x, dim):
    """Weights sum to 1, so that what grows with all of them alike has the gradient 0, but for the
    rounding errors of float32. It comes as after sum(): one number, expanded."""
    constant = torch.tensor(1000.0, dtype=x.dtype, device=x.device).expand(x.shape)
    [got] = backward(student.softmax(x.requires_grad_(), dim), x, upstream=constant)
    says = "gradient of x for 1000 times the sum of all weights"
    agree(got, torch.zeros_like(x, requires_grad=False), says, within=0.001)


def half_gradients_agree(student, draw, dtype):
    """Gradients along two dimensions, and of rows whose products half precision cannot hold: they
    are too small for it, or their sum is too large."""
    for dim in -1, 0:
        gradient_agrees(student, draw, draw.normal(3, 4, 17, dtype=dtype), dim)
        gradient_of_a_constant_is_zero(student, draw.normal(40, 45, dtype=dtype), dim)
    x, upstream = draw.normal(2, 4097, scale=0.1), 1e-4 + draw.normal(2, 4097, scale=2e-5)
    x[:, 0] += math.log(4096)
    upstream[:, 0] = 0.0
    gradient_agrees(student, draw, x.to(dtype), -1, upstream.to(dtype))
    level, upstream = draw.normal(1, dtype=dtype).repeat(70_000), draw.normal(70_000) + 2
    gradient_agrees(student, draw, level, -1, upstream.to(dtype))


@check(points=1)
@pytest.mark.parametrize("shape", SHAPES)
def test_numpy_values(student, draw, shape):
    """softmax_numpy gives exp(x) / sum(exp(x)) along the last axis (float32). An axis may have
    length 1, or thousands."""
    values_agree(student, draw, "softmax_numpy", shape)


@check(points=1, needs=[test_numpy_values])
def test_numpy_axis(student, draw):
    """softmax_numpy works along the axis that it is given, in arrays of any number of axes and of
    any layout; it leaves them alone, heeds numbers that have changed, and makes each answer
    anew."""
    weights_of_all_dims(student, draw, "softmax_numpy")
    layouts_agree(student, draw, "softmax_numpy")
    backwards = draw.normal(3, 5).cpu().numpy()[::-1, ::-1]
    agree(student.softmax_numpy(backwards), reference.softmax_numpy(backwards))
    calls_leave_alone(student, draw, "softmax_numpy", [float32])
    changed_agree(student, draw, "softmax_numpy", [float32, float16, float64])


@check(points=1, needs=[test_numpy_values])
@BOUNDS
def test_numpy_large_scores(student, draw, bound):
    """softmax_numpy is right for scores as large as 10,000, of either sign, and for rows far apart,
    along any axis, to the last digits of float32."""
    hard_scores_agree(student, draw, "softmax_numpy", bound)


@check(points=1, needs=[test_numpy_values])
@pytest.mark.parametrize("dtype", [float16, float32, float64])
def test_numpy_precisions(student, draw, dtype):
    """softmax_numpy computes float16 in float32 and gives it back as float16, in float64 it keeps
    the digits of float64, and it takes empty arrays, where its axis is not the empty one."""
    if dtype is float16:
        half_agrees(student, draw, "softmax_numpy", dtype)
    if dtype is float64:
        float64_agrees(student, draw, "softmax_numpy")
    empty_agree(student, draw, "softmax_numpy", [dtype])
    calls_leave_alone(student, draw, "softmax_numpy", [dtype])


@check(points=1)
@pytest.mark.parametrize("shape", SHAPES)
def test_values(student, draw, shape):
    """softmax gives exp(x) / sum(exp(x)) along the last dimension (float32). A dimension may have
    length 1, or thousands."""
    values_agree(student, draw, "softmax", shape)


@check(points=1, needs=[test_values])
def test_dim(student, draw):
    """softmax works along the dimension that it is given, in tensors of any number of
    dimensions."""
    weights_of_all_dims(student, draw, "softmax")


@check(points=1, needs=[test_values])
@BOUNDS
def test_large_scores(student, draw, bound):
    """softmax is right for scores as large as 10,000, of either sign, and for rows far apart, along
    any dimension, to the last digits of float32; so is its gradient."""
    hard_scores_agree(student, draw, "softmax", bound)
    for dim in range(3):
        gradient_agrees(student, draw, draw.normal(3, 4, 17) + bound, dim)


@check(points=1, needs=[test_values])
@pytest.mark.parametrize("dtype", [float16, bfloat16, float64])
def test_precisions(student, draw, dtype):
    """softmax computes half precision in float32 and gives it back as it came, in rows of 70,000
    scores too; in float64 it keeps the digits of float64. So it is with the gradients."""
    if dtype is not float64:
        half_agrees(student, draw, "softmax", dtype)
        half_gradients_agree(student, draw, dtype)
        return
    float64_agrees(student, draw, "softmax")
    for offset in 0, 1e3:
        x = draw.normal(3, 4, 17, dtype=float64) + offset
        gradient_agrees(student, draw, x, draw.choice(0, 1, 2))
    gradcheck(student.softmax, draw.normal(2, 3, dtype=float64).requires_grad_())


@check(points=1, needs=[test_values])
def test_gradient(student, draw):
    """The gradient of softmax flows and is right along every dimension (float32)."""
    for kind in Hard.SQUARE, Hard.ONE:
        for x in hard_sizes(draw, kind):
            for dim in all_dims(x):
                gradient_agrees(student, draw, x, dim)
    gradient_of_a_constant_is_zero(student, draw.normal(3, 5), -1)
    for dim in -1, 0:
        gradient_agrees(student, draw, draw.normal(4, 1).expand(4, 5), dim)
    for sizes in draw.hard(Hard.LONG, {"B": 0, "Lq": 0}, **ORDINARY):
        gradient_agrees(student, draw, draw.normal(*sizes.values()), -1)
    first, other = (draw.normal(3, 5).requires_grad_() for _ in range(2))
    weights, _ = student.softmax(first), student.softmax(other)
    [got] = backward(weights, first, upstream=other.detach())
    [expected] = reference.softmax_gradients(first, upstream=other.detach())
    agree(got, expected, says="gradient of x (after a call for another x)")


@check(points=1, needs=[test_values])
def test_manners(student, draw):
    """softmax leaves its input alone, takes it in any layout, empty too where its dimension is not
    the empty one, gives the same answer to the same call, even if the first one was written into,
    and another when the numbers have changed, and works on the device of its input."""
    dtypes = [float16, bfloat16, float32, float64]
    calls_leave_alone(student, draw, "softmax", dtypes)
    empty_agree(student, draw, "softmax", dtypes)
    layouts_agree(student, draw, "softmax")
    changed_agree(student, draw, "softmax", dtypes[::-1], learns=(False, True))
    draw.hard(Hard.DEVICE)
    on_meta(student.softmax, draw.normal(3, 5).to("meta"))
