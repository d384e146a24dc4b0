"""Gradients by hand: back through the softmax, then through attention."""

import numpy as np
import pytest
import torch
from torch import float16, float32, float64

from grader.judging import agree, check, untouched
from reference import ex09_gradients as reference
from reference import raised
from reference.ex03_sdpa import exact_attention

ROWS = [(4, 4), (5,), (2, 3, 17), (1,), (3, 1), (9, 65)]
SIZES = {  # leading dimensions, Lq, Lk, D, Dv
    "all alike": ((4,), 4, 4, 4, 4),
    "one matrix": ((), 3, 5, 4, 2),
    "all of length 1": ((2,), 1, 1, 1, 3),
    "few queries": ((2, 3), 17, 65, 16, 9),
    "few keys": ((1, 2, 3), 65, 3, 3, 17),
}
MASKED = (2, 3), 9, 17, 8, 5
MASKS = [(9, 17), (3, 9, 17), (2, 1, 1, 17), (1, 3, 9, 17), (2, 1, 9, 17), (2, 3, 9, 1)]
SCALES = {float64: [0.0, -0.3, 1.5, 100.0], float32: [0.0, -0.3, 0.7], float16: [-0.3, 0.7]}
each_exact = pytest.mark.parametrize("dtype", [float32, float64])
each_dtype = pytest.mark.parametrize("dtype", [float32, float64, float16])


@check(points=1)
@each_exact
@pytest.mark.parametrize("shape", ROWS, ids=str)
def test_softmax(student, draw, shape, dtype):
    """softmax_backward gives the gradient of the scores, for rows of any length and any rank."""
    weights, grad = weights_and_gradient(draw, *shape, dtype=dtype)
    agree(student.softmax_backward(weights, grad), reference.softmax_backward(weights, grad))


@check(points=1, needs=[test_softmax])
def test_softmax_rows(student, draw):
    """The scores of a row may all move together: their gradients sum to zero, a number added to the
    whole row changes nothing, and a row of zero weights or of one weight gets zeros."""
    weights, grad = weights_and_gradient(draw, 2, 9, 17, dtype=float64)
    got = student.softmax_backward(weights, grad)
    agree(got.sum(-1), np.zeros((2, 9)), says="sum of each row", within=1e-11)
    moved = student.softmax_backward(weights, grad + 1000)
    says = "with 1000 added to the gradient of the weights, the gradient"
    agree(moved, reference.softmax_backward(weights, grad).exact, says=says, within=1e-9)
    weights[:, ::3], weights[:, 1::3] = 0.0, np.eye(17)[5]
    got = student.softmax_backward(weights, grad)
    agree(got, reference.softmax_backward(weights, grad))
    still = np.concatenate([got[:, ::3], got[:, 1::3]], 1)
    agree(still, np.zeros(still.shape), says="gradient of rows that cannot move", within=1e-12)


@check(points=1, needs=[test_softmax])
@each_dtype
def test_softmax_manners(student, draw, dtype):
    """softmax_backward computes float16 in float32, keeps the dtype, leaves its inputs alone, and
    takes strided, repeated and empty ones."""
    weights, grad = weights_and_gradient(draw, 16, 9, 17, dtype=dtype)
    got = untouched(lambda: student.softmax_backward(weights, grad))
    agree(got, reference.softmax_backward(weights, grad))
    for views in (
        [x[:, ::-1].swapaxes(0, 1) for x in (weights, grad)],
        [np.broadcast_to(x[:1], x.shape) for x in (weights, grad)],
        [x[:0] for x in (weights, grad)],
    ):
        agree(student.softmax_backward(*views), reference.softmax_backward(*views))
    if dtype is float16:
        share = np.array([[1 - 2**-6, 2**-6], [0.75, 0.25]], np.float16)
        large = np.array([[-40_000, 40_000], [3, 5]], np.float16)  # their difference is infinite
        expected = raised(reference.softmax_backward, share, large)
        agree(student.softmax_backward(share, large), expected)


@check(points=1)
@each_exact
@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
def test_values(student, draw, sizes, dtype):
    """attention_backward gives the gradients of queries, keys and values."""
    tensors = inputs(draw, sizes, dtype)
    gradients_agree(student, tensors)
    if dtype is float64:  # scores of some thousands
        gradients_agree(student, [tensors[0] * 2500, *tensors[1:]])


@check(points=1, needs=[test_values])
@pytest.mark.parametrize("masked", [False, True], ids=["unmasked", "masked"])
def test_slopes(student, draw, masked):
    """The gradients are the slopes of sum(output * grad_output), by finite differences."""
    q, k, v, grad = inputs(draw, ((2,), 3, 4, 2, 3), float64)
    keep = draw.keep(3, 4).cpu().numpy() if masked else None
    got = student.attention_backward(q, k, v, grad, keep, 0.9)

    def loss(*qkv):
        return (exact_attention(*qkv, keep, 0.9)[0] * grad).sum()

    for i, name in enumerate(("dq", "dk", "dv")):
        found = slopes(loss, [q, k, v], i)
        agree(got[i], found, says=f"{name} (by finite differences)", within=1e-7)


@check(points=1, needs=[test_values])
@pytest.mark.parametrize("masked", [False, True], ids=["unmasked", "masked"])
@each_dtype
def test_scale(student, draw, dtype, masked):
    """attention_backward takes a scale that is given as it is: 0, negative, or large."""
    tensors = inputs(draw, MASKED, dtype)
    keep = with_empty_rows(draw) if masked else None
    for scale in SCALES[dtype]:
        gradients_agree(student, tensors, keep, scale)


@check(points=1, needs=[test_values])
@each_exact
@pytest.mark.parametrize("shape", MASKS, ids=str)
def test_mask(student, draw, shape, dtype):
    """No gradient reaches what `keep` hides, whatever its shape, as long as it broadcasts; and
    queries that see nothing leave no trace."""
    tensors, keep = inputs(draw, MASKED, dtype), draw.keep(*shape).cpu().numpy()
    gradients_agree(student, tensors, keep)
    keep[..., 0, : shape[-1] // 2] = False
    keep[..., -1, :] = False  # of some masks one row, of others all
    gradients_agree(student, tensors, keep)
    nobody = ~np.broadcast_to(keep, (2, 3, 9, 17)).any(-2)[..., None]  # (B, H, Lk, 1)
    _, dk, dv = student.attention_backward(*tensors, keep=keep)
    for name, grad in ("dk", dk), ("dv", dv):
        hidden = np.where(nobody, grad, 0.0)
        agree(hidden, np.zeros(hidden.shape), says=f"{name} of hidden keys", within=0.0)


@check(points=1, needs=[test_mask])
@each_exact
def test_hidden(student, draw, dtype):
    """1e30 in hidden keys, or in hidden values, changes no gradient."""
    q, k, v, grad = inputs(draw, MASKED, dtype)
    keep = np.arange(17) < draw.integers(1, 16, 2, 1, 1, 1).cpu().numpy()  # (B, 1, 1, Lk)
    hidden = ~keep.swapaxes(-1, -2)  # (B, 1, Lk, 1)
    expected = reference.attention_backward(q, k, v, grad, keep)
    for garbage in 1e30, -1e30:
        loud = np.array(garbage, k.dtype)
        for bad in (k, np.where(hidden, loud, v)), (np.where(hidden, loud, k), v):
            gradients = student.attention_backward(q, *bad, grad, keep)
            each_agrees(gradients, expected)


@check(points=1, needs=[test_values])
def test_half_precision(student, draw):
    """attention_backward gives float16 for float16, and nothing overflows on the way."""
    tensors = inputs(draw, ((2, 3), 33, 29, 16, 17), float16)
    for keep in None, draw.keep(33, 29).cpu().numpy():
        gradients_agree(student, tensors, keep)
    signs = (draw.integers(0, 1, 9, 16) * 2 - 1).to(float16) * 256  # products are beyond 65,504
    q, k, v = signs[draw.permutation(9)], signs, draw.normal(9, 5, dtype=float16)
    one_key_each = arrays(q, k, v, draw.normal(9, 5, dtype=float16))
    q, k = (draw.normal(n, 8, dtype=float16, scale=2**-7) for n in (9, 5))
    grad, v = ((draw.integers(0, 1, n, 16) * 2 - 1).to(float16) * 256 for n in (9, 5))
    large_gradients = arrays(q, k, v, grad)
    for tensors, mask in (one_key_each, draw.keep(9, 9)), (large_gradients, draw.keep(9, 5)):
        for keep in None, mask.cpu().numpy():
            expected = raised(reference.attention_backward, *tensors, keep)
            each_agrees(student.attention_backward(*tensors, keep), expected)


@check(points=1, needs=[test_values])
@each_dtype
def test_manners(student, draw, dtype):
    """attention_backward leaves its inputs alone and takes strided, repeated and empty ones."""
    tensors = inputs(draw, ((2,), 4, 5, 3, 3), dtype)
    keep = draw.keep(2, 4, 5).cpu().numpy()
    for options in {}, {"keep": keep}, {"keep": keep, "scale": 0.7}:
        untouched(lambda options=options: student.attention_backward(*tensors, **options))
    views = [
        [x[:, ::-1] for x in (*tensors, keep)],
        [np.broadcast_to(x[:1], x.shape) for x in (*tensors, keep)],
        [x[:0] for x in (*tensors, keep)],
    ]
    for *strided, mask in views:
        gradients_agree(student, strided, mask)
        gradients_agree(student, strided)


def arrays(*tensors):
    return [x.cpu().numpy() for x in tensors]


def weights_and_gradient(draw, *shape, dtype):
    """Weights of drawn scores, and a gradient for them."""
    scores, grad = draw.normal(*shape, dtype=float64, scale=2), draw.normal(*shape, dtype=dtype)
    return arrays(torch.softmax(scores, -1).to(dtype), grad)


def inputs(draw, sizes, dtype):
    """Queries, keys, values, and a gradient for the output."""
    leading, q_len, k_len, dim, value_dim = sizes
    shapes = (q_len, dim), (k_len, dim), (k_len, value_dim), (q_len, value_dim)
    return arrays(*(draw.normal(*leading, *shape, dtype=dtype) for shape in shapes))


def with_empty_rows(draw):
    """A mask in which every other query of the first batch, and all of the second, see nothing."""
    keep = draw.keep(2, 1, 9, 17)
    keep[0, :, ::2] = keep[1] = False
    return keep.cpu().numpy()


def gradients_agree(student, tensors, keep=None, scale=None):
    given = tensors if keep is None and scale is None else [*tensors, keep, scale]
    each_agrees(student.attention_backward(*given), reference.attention_backward(*given))


def each_agrees(gradients, expected):
    """Each gradient under its own name."""
    for got, right, says in zip(gradients, expected, ("dq", "dk", "dv"), strict=True):
        agree(got, right, says=says)


def slopes(loss, tensors, i, step=1e-5):
    """Central differences of `loss(*tensors)` for every number of tensor `i`."""
    found = np.zeros(tensors[i].shape)
    for place in np.ndindex(*found.shape):
        ends = []
        for sign in (1, -1):
            moved = [x.copy() for x in tensors]
            moved[i][place] += sign * step
            ends.append(loss(*moved))
        found[place] = (ends[0] - ends[1]) / (2 * step)
    return found
