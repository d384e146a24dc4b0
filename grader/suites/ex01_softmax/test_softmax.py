"""Softmax: values first, then what follows from them."""

import numpy as np
import pytest
import torch
from torch import bfloat16, float16, float32, float64

import reference
from grader.judging import agree, backward, check, gradcheck, same, untouched

SHAPES = [(7,), (3, 5), (2, 1, 17), (4, 3, 65), (1, 1)]
HALVES = [float16, bfloat16]
DTYPES = [*HALVES, float32, float64]
NUMPY_DTYPES = [np.float16, np.float32, np.float64]


@check(points=1)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", SHAPES)
def test_numpy_values(student, draw, shape, dtype):
    """softmax_numpy gives exp(x) / sum(exp(x)) along the last axis."""
    x = draw.normal(*shape).cpu().numpy().astype(dtype)
    agree(student.softmax_numpy(x), reference.softmax_numpy(x))


@check(points=1, needs=[test_numpy_values])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("axis", [0, 1, 2, -1, -2])
def test_numpy_axis(student, draw, axis, dtype):
    """softmax_numpy works along the axis that it is given."""
    x = draw.normal(3, 4, 5, dtype=float64).cpu().numpy().astype(dtype)
    agree(student.softmax_numpy(x, axis=axis), reference.softmax_numpy(x, axis=axis))


@check(points=1, needs=[test_numpy_values, test_numpy_axis])
@pytest.mark.parametrize("bound", [100.0, 1e4])
@pytest.mark.parametrize("dtype", NUMPY_DTYPES)
def test_numpy_large_scores(student, draw, bound, dtype):
    """softmax_numpy is right for scores as large as 10,000, and for rows far apart, on any axis."""
    x = draw.logits(16, 65, bound=bound, dtype=float64).cpu().numpy().astype(dtype)
    agree(student.softmax_numpy(x), reference.softmax_numpy(x))
    agree(student.softmax_numpy(x.T, axis=0), reference.softmax_numpy(x.T, axis=0))
    x = draw.normal(16, 65, scale=bound / 4, dtype=float64).cpu().numpy().astype(dtype)
    agree(student.softmax_numpy(x), reference.softmax_numpy(x))


@check(points=1, needs=[test_numpy_values])
def test_numpy_manners(student, draw):
    """softmax_numpy leaves its input alone, takes strided input, computes float16 in float32."""
    for dtype in NUMPY_DTYPES:
        x = draw.normal(5, 6, dtype=float64).cpu().numpy().astype(dtype)
        for axis in (-1, 0):
            untouched(lambda x=x, axis=axis: student.softmax_numpy(x, axis=axis))
        agree(student.softmax_numpy(x.T[::-1]), reference.softmax_numpy(x.T[::-1]))
    agree(student.softmax_numpy(x[:0]), reference.softmax_numpy(x)[0][:0])
    half = np.zeros((2, 70_000), np.float16)
    weights = student.softmax_numpy(half)
    agree(weights, reference.raised(reference.softmax_numpy, half))
    agree(weights.astype(np.float64).sum(-1), np.ones(2), says="row sums", within=0.02)


@check(points=1)
@pytest.mark.parametrize("dtype", [float32, float64])
@pytest.mark.parametrize("shape", SHAPES)
def test_values(student, draw, shape, dtype):
    """softmax gives exp(x) / sum(exp(x)) along the last dimension."""
    x = draw.normal(*shape, dtype=dtype)
    agree(student.softmax(x), reference.softmax(x))


@check(points=1, needs=[test_values])
@pytest.mark.parametrize("dtype", [float32, float64])
@pytest.mark.parametrize("dim", [0, 1, 2, -1, -2])
def test_dim(student, draw, dim, dtype):
    """softmax works along the dimension that it is given."""
    x = draw.normal(3, 4, 5, dtype=dtype)
    agree(student.softmax(x, dim=dim), reference.softmax(x, dim=dim))


@check(points=1, needs=[test_values, test_dim])
@pytest.mark.parametrize("bound", [100.0, 1e4])
@pytest.mark.parametrize("dtype", DTYPES)
def test_large_scores(student, draw, bound, dtype):
    """softmax is right for scores as large as 10,000, and for rows far apart, along any dim."""
    x = draw.logits(16, 65, bound=bound, dtype=dtype)
    agree(student.softmax(x), reference.softmax(x))
    columns = x.mT[None]
    agree(student.softmax(columns, dim=1), reference.softmax(columns, dim=1))
    x = draw.normal(16, 65, scale=bound / 4, dtype=dtype)
    agree(student.softmax(x), reference.softmax(x))


@check(points=1, needs=[test_values])
@pytest.mark.parametrize("dtype", HALVES)
def test_half_precision(student, draw, dtype):
    """softmax computes half precision in float32, and gives it back in half precision."""
    x = draw.normal(32, 65, dtype=dtype)
    agree(student.softmax(x), reference.softmax(x))
    level = draw.normal(2, 1, dtype=dtype).expand(2, 70_000)
    for dim, scores in ((-1, level), (0, level.mT)):
        weights = student.softmax(scores, dim=dim)
        agree(weights, reference.raised(reference.softmax, scores, dim=dim))
        sums = weights.double().sum(dim)
        agree(sums, torch.ones(2), says="sums of the weights", within=0.02)


@check(points=1, needs=[test_values])
@pytest.mark.parametrize(
    ("dtype", "dim", "offset"),
    [(float16, 2, 0), (bfloat16, 0, 0), (float32, 1, 0), (float64, 1, 0), (float64, -1, 1e3)],
)
def test_gradient(student, draw, dtype, dim, offset):
    """The gradient of softmax flows and is right, in every dtype and along every dimension."""
    x = (draw.normal(3, 4, 17, dtype=dtype) + offset).requires_grad_()
    upstream = draw.normal(3, 4, 17, dtype=dtype)
    [got] = backward(student.softmax(x, dim=dim), x, upstream=upstream)
    [expected] = reference.softmax_gradients(x, dim=dim, upstream=upstream)
    agree(got, expected, says="gradient of x")
    gradcheck(student.softmax, draw.normal(2, 3, dtype=float64).requires_grad_())


@check(points=1, needs=[test_values])
@pytest.mark.parametrize("dtype", DTYPES)
def test_manners(student, draw, device, dtype):
    """softmax leaves its input alone, takes strided and empty input, and answers the same twice."""
    x = draw.normal(5, 6, dtype=dtype)
    first = untouched(lambda: student.softmax(x))
    same(student.softmax(x), first, says="the second answer to the same call")
    untouched(lambda: student.softmax(x, dim=0))
    wide = draw.strided(3, 5, 4, dtype=dtype)
    agree(student.softmax(wide), reference.softmax(wide))
    expanded = draw.normal(1, 7, dtype=dtype).expand(4, 7)
    agree(student.softmax(expanded), reference.softmax(expanded))
    agree(student.softmax(x[:0]), torch.empty(0, 6, device=device))
