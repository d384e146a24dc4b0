"""Gradients by hand: back through the softmax, then through attention."""

from functools import partial

import numpy as np
import pytest
import torch
from torch import float16, float32, float64

from grader.judging import Hard, agree, check, lasting, untouched
from reference import ex09_gradients as reference
from reference import raised
from reference.ex03_sdpa import exact_attention

from .halves import (
    arrays,
    halves_that_cancel,
    large_without_the_scale,
    small_products,
    values_beyond_100,
)

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
SCALES = [0.0, -0.3, 0.125, 2]
ORDINARY = {"B": 2, "H": 3, "Lq": 5, "Lk": 7, "D": 4, "Dv": 3}
LONGEST = {"B": 0, "H": 64}  # more of them are more of the same
TOGETHER = {
    "lengths": ((3, 70), (70, 9), (4, 4), (1, 5)),  # Lq, Lk
    "keep": (None, "row", "heads", "rows", "open"),
    "loud": ("", "k", "v"),  # which of them are huge where a mask of one row hides them
    "dtype": (float32, float64, float16),
    "leading": ((3, 3), (), (2, 3, 3)),
    "widths": ((6, 2), (2, 5)),  # D, Dv
    "scale": (None, 0.0, -0.7),
    "layout": ("plain", "turned", "expanded"),
    "scores": (1.0, 300.0),  # of 300 they are hundreds apart, so that exp alone overflows
}
each_dtype = pytest.mark.parametrize("dtype", [float32, float64, float16])


@check(points=1)
@pytest.mark.parametrize("shape", [*ROWS, "of size one", "long"], ids=str)
def test_softmax(student, draw, shape):
    """softmax_backward gives the gradient of the scores, for rows of any length and any rank."""
    shapes = {
        "of size one": lambda: draw.hard(Hard.ONE, B=2, L=3, n=5),
        "long": lambda: draw.hard(Hard.LONG, B=2, L=3, n=5),
    }
    for sizes in [s.values() for s in shapes[shape]()] if shape in shapes else [shape]:
        weights, grad = weights_and_gradient(draw, *sizes, dtype=float32)
        agree(student.softmax_backward(weights, grad), reference.softmax_backward(weights, grad))


@check(points=1, needs=[test_softmax])
def test_softmax_rows(student, draw):
    """The scores of a row may all move together: their gradients sum to zero, a number added to the
    whole row changes nothing, a row of zero weights or of one weight gets zeros, and weights of 0
    in a row take nothing from the others."""
    weights, grad = weights_and_gradient(draw, 2, 9, 17, dtype=float32)
    got = student.softmax_backward(weights, grad)
    agree(got.sum(-1), np.zeros((2, 9)), says="sum of each row", within=1e-5)
    moved = student.softmax_backward(weights, grad + 10)
    says = "with 10 added to the gradient of the weights, the gradient"
    agree(moved, reference.softmax_backward(weights, grad).exact, says=says, within=1e-4)
    weights[:, ::3], weights[:, 1::3], weights[:, 2::3, :4] = 0.0, np.eye(17)[5], 0.0
    got = student.softmax_backward(weights, grad)
    agree(got, reference.softmax_backward(weights, grad))
    still = np.concatenate([got[:, ::3], got[:, 1::3]], 1)
    agree(still, np.zeros(still.shape), says="gradient of rows that cannot move", within=1e-6)


@check(points=1, needs=[test_softmax])
@pytest.mark.parametrize("dtype", [float32, float16])
def test_softmax_manners(student, draw, dtype):
    """softmax_backward computes float16 in float32, keeps the dtype, leaves its inputs alone, looks
    at them anew in every call, and takes strided, repeated and empty ones, and one array twice."""
    weights, grad = weights_and_gradient(draw, 16, 9, 17, dtype=dtype)
    for rows in [weights, grad], [weights[0, 0], grad[0, 0]]:  # also one row by itself
        got = untouched(lambda rows=rows: student.softmax_backward(*rows))
        agree(got, reference.softmax_backward(*rows))
    draw.hard(Hard.CHANGED)
    with lasting(student.softmax_backward, weights, grad):
        grad *= -2
        agree(student.softmax_backward(weights, grad), reference.softmax_backward(weights, grad))
    draw.hard(Hard.SAME)
    expected = reference.softmax_backward(weights, weights)
    agree(untouched(lambda: student.softmax_backward(weights, weights)), expected)
    for views in (
        [x[:, ::-1].swapaxes(0, 1) for x in (weights, grad)],
        [np.broadcast_to(x[:1], x.shape) for x in (weights, grad)],
        [x[:0] for x in (weights, grad)],
    ):
        agree(student.softmax_backward(*views), reference.softmax_backward(*views))
    if dtype is float16:
        share = np.array([[1 - 2**-6, 2**-6], [0.75, 0.25]], np.float16)
        large = np.array([[-40_000, 40_000], [3, 5]], np.float16)  # their difference is infinite
        for given in (share, large), small_products(draw):
            expected = raised(reference.softmax_backward, *given)
            agree(student.softmax_backward(*given), expected)


@check(points=1)
@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
def test_values(student, draw, sizes):
    """attention_backward gives the gradients of queries, keys and values."""
    gradients_agree(student, inputs(draw, sizes, float32))


@check(points=1)
@pytest.mark.parametrize("masked", [False, True], ids=["unmasked", "masked"])
def test_float64(student, draw, masked):
    """Both functions compute float64 in float64: the gradients are the slopes of
    sum(output * grad_output), by finite differences, and right to its last digits."""
    weights, grad = weights_and_gradient(draw, 3, 17, dtype=float64)
    agree(student.softmax_backward(weights, grad), reference.softmax_backward(weights, grad))
    tensors = inputs(draw, SIZES["few queries"], float64)
    gradients_agree(student, tensors, draw.keep(17, 65).cpu().numpy() if masked else None, 0.4)
    gradients_agree(student, [tensors[0] * 2500, *tensors[1:]])  # scores of some thousands
    q, k, v, grad = inputs(draw, ((2,), 3, 4, 2, 3), float64)
    keep = draw.keep(3, 4).cpu().numpy() if masked else None
    got = student.attention_backward(q, k, v, grad, keep, 0.9)

    def loss(*qkv):
        return (exact_attention(*qkv, keep, 0.9)[0] * grad).sum()

    for i, name in enumerate(("dq", "dk", "dv")):
        found = slopes(loss, [q, k, v], i)
        agree(got[i], found, says=f"{name} (by finite differences)", within=1e-7)
    small_weight_counts(student, draw, keep)
    gradients_agree_together(student, draw, float64)


@check(points=1, needs=[test_values])
@pytest.mark.parametrize("masked", [False, True], ids=["unmasked", "masked"])
def test_scale(student, draw, masked):
    """attention_backward takes a scale that is given as it is: 0 or negative, with a mask or
    without, with scores of hundreds, and with one key, one query or a width of one."""
    tensors = inputs(draw, MASKED, float32)
    keep = with_empty_rows(draw) if masked else None
    draw.hard(Hard.OPTIONS)
    for scale in SCALES:
        gradients_agree(student, tensors, keep, scale)
    for sizes in draw.hard(Hard.ONE, **ORDINARY):
        mask = draw.keep(sizes["Lq"], sizes["Lk"]).cpu().numpy() if masked else None
        if masked:
            mask[:-1:2] = False  # where there is one key, some queries see none
        gradients_agree(student, inputs(draw, tupled(sizes), float32), mask, -0.7)
    v, grad = arrays(draw.normal(40, 3), draw.normal(6, 3))
    for scores in draw.scores(6, 40).values():  # the queries choose them, row by row
        q, k = arrays(torch.eye(6, device=scores.device), scores.mT)
        mask = draw.keep(6, 40).cpu().numpy() if masked else None
        for sign, size in (1.0, 1.0), (-1.0, 1e21):  # any seen value counts
            gradients_agree(student, [q, sign * k, size * v, grad], mask, sign)


@check(points=1, needs=[test_values])
@pytest.mark.parametrize("shape", MASKS, ids=str)
def test_mask(student, draw, shape):
    """No gradient reaches what `keep` hides, whatever its shape, as long as it broadcasts; and
    queries that see nothing leave no trace."""
    for square in draw.hard(Hard.SQUARE, **ORDINARY):  # a mask of one row is laid along the keys
        for mask in draw.keep(square["Lk"]), draw.keep(square["Lq"], square["Lk"]):
            gradients_agree(student, inputs(draw, tupled(square), float32), mask.cpu().numpy())
    tensors, keep = inputs(draw, MASKED, float32), draw.keep(*shape).cpu().numpy()
    gradients_agree(student, tensors, keep)
    keep[..., 0, : shape[-1] // 2] = False
    keep[..., -1, :] = False  # of some masks one row, of others all
    gradients_agree(student, tensors, keep)
    gradients_agree(student, tensors, np.array(shape == MASKS[0]))  # a mask of no dimensions
    nobody = ~np.broadcast_to(keep, (2, 3, 9, 17)).any(-2)[..., None]  # (B, H, Lk, 1)
    _, dk, dv = student.attention_backward(*tensors, keep=keep)
    for name, grad in ("dk", dk), ("dv", dv):
        hidden = np.where(nobody, grad, 0.0)
        agree(hidden, np.zeros(hidden.shape), says=f"{name} of hidden keys", within=0.0)


@check(points=1, needs=[test_mask])
def test_hidden(student, draw):
    """1e30 in hidden keys, or in hidden values, changes no gradient; nor does a key that is hidden
    from one query alone and would have outdone all others."""
    q, k, v, grad = inputs(draw, MASKED, float32)
    one = np.ones((9, 17), bool)
    one[2, 5], loud_key = False, k.copy()
    loud_key[..., 5, :] = 300 * q[..., 2, :]
    each_agrees(
        [x[..., 2:3, :] for x in student.attention_backward(q, loud_key, v, grad, one)[:1]],
        reference.attention_backward(q[..., 2:3, :], loud_key, v, grad[..., 2:3, :], one[2:3])[:1],
    )
    keep = np.arange(17) < draw.integers(1, 16, 2, 1, 1, 1).cpu().numpy()  # (B, 1, 1, Lk)
    hidden = ~keep.swapaxes(-1, -2)  # (B, 1, Lk, 1)
    expected = reference.attention_backward(q, k, v, grad, keep)
    for garbage in 1e30, -1e30:
        loud = np.array(garbage, k.dtype)
        for bad in (k, np.where(hidden, loud, v)), (np.where(hidden, loud, k), v):
            gradients = student.attention_backward(q, *bad, grad, keep)
            each_agrees(gradients, expected)
    low_scores_agree(student, draw)


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
    for tensors, mask, scale in (
        (one_key_each, draw.keep(9, 9), None),
        (large_gradients, draw.keep(9, 5), 4.0),  # those of the scores are infinite in float16
    ):
        for keep in None, mask.cpu().numpy():
            expected = raised(reference.attention_backward, *tensors, keep, scale)
            each_agrees(student.attention_backward(*tensors, keep, scale), expected)
    for given in (
        halves_that_cancel(draw),
        large_without_the_scale(draw),
        values_beyond_100(draw),
    ):
        each_agrees(
            student.attention_backward(*given), raised(reference.attention_backward, *given)
        )
    close_scores_agree(student, draw)
    gradients_agree_together(student, draw, float16)


@check(points=1, needs=[test_values])
@each_dtype
def test_manners(student, draw, dtype):
    """attention_backward leaves its inputs alone, also keys that nobody sees, looks at them anew in
    every call, and takes strided, repeated and empty ones, one array for all, and many keys; no
    masks, scales, sizes, layouts and dtypes disturb each other."""
    tensors = inputs(draw, ((2,), 4, 5, 3, 3), dtype)
    keep = draw.keep(2, 4, 5).cpu().numpy()
    unseen = keep & (np.arange(5) != 3)
    for options in {}, {"keep": keep}, {"keep": keep, "scale": 0.7}, {"keep": unseen}:
        untouched(lambda options=options: student.attention_backward(*tensors, **options))
    draw.hard(Hard.CHANGED)
    with lasting(student.attention_backward, *tensors, keep=keep):
        for x in tensors:
            x[:] = arrays(draw.normal(*x.shape, dtype=dtype))[0]
            gradients_agree(student, tensors, keep)
    draw.hard(Hard.SAME)
    one, two = arrays(*(draw.normal(2, 4, 3, dtype=dtype) for _ in range(2)))
    for given in [one] * 4, [one, two, two, one], [one, one, two, two], [one, two, one, two]:
        gradients_agree(student, given)
    views = [
        [x[:, ::-1] for x in (*tensors, keep)],
        [np.broadcast_to(x[:1], x.shape) for x in (*tensors, keep)],
        [x[:0] for x in (*tensors, keep)],
        [x if i in (1, 2) else x[:, :0] for i, x in enumerate((*tensors, keep))],  # no queries
    ]
    for *strided, mask in views:
        gradients_agree(student, strided, mask)
        gradients_agree(student, strided)
    if dtype is float32:
        for sizes in draw.hard(Hard.LONG, LONGEST, **ORDINARY):
            gradients_agree(student, inputs(draw, tupled(sizes), dtype))
    if dtype is float32:
        gradients_agree_together(student, draw, dtype)


def close_scores_agree(student, draw):
    """Compare gradients where scores of hundreds lie closer together than float16 can tell."""
    for keep in None, draw.keep(5, 24).cpu().numpy():
        q, k = draw.ties(5, 24, float16)
        v, grad = (draw.normal(n, 3, dtype=float16, scale=2**-2) for n in (24, 5))
        given = *arrays(q, k, v, grad), keep
        expected = raised(reference.attention_backward, *given)
        each_agrees(student.attention_backward(*given), expected)


def low_scores_agree(student, draw):
    """Compare the gradient of the values where seen scores are lower than any filler.

    Those of queries and keys are 0, for one key takes all the weight.
    """
    for dtype, n in (float32, 300), (float64, 300), (float16, 9):
        q, k = draw.low(9, n, 8, dtype)
        v, grad = draw.normal(n, 5, dtype=dtype), draw.normal(9, 5, dtype=dtype)
        for given in arrays(q, k, v, grad, draw.keep(9, n)), arrays(q, k, v, grad):
            wide = partial(raised, reference.attention_backward)
            *_, right = (wide if dtype is float16 else reference.attention_backward)(*given)
            right = right._replace(magnitude=float(np.abs(given[3]).max()))
            agree(student.attention_backward(*given)[2], right, says="dv for scores far below 0")


def small_weight_counts(student, draw, keep):
    """Compare the gradient of a value of weight exp(-300), where that of the output is large;
    without a mask, if `keep` is None."""
    score = float(draw.integer(300, 309))
    k, q, large = np.array([[-score], [0.0]]), np.ones((1, 1)), np.full((1, 1), 1e130)
    mask = None if keep is None else np.ones((1, 2), bool)
    _, _, dv = student.attention_backward(q, k, 0 * k, large, mask)
    right = np.exp(-score) * large
    agree(dv[:1], right, says="dv for a small weight", within=1e-3 * float(right[0, 0]))


def weights_and_gradient(draw, *shape, dtype):
    """Weights of drawn scores, and a gradient for them."""
    scores, grad = draw.normal(*shape, dtype=float64, scale=2), draw.normal(*shape, dtype=dtype)
    return arrays(torch.softmax(scores, -1).to(dtype), grad)


def inputs(draw, sizes, dtype):
    """Queries, keys, values, and a gradient for the output."""
    leading, q_len, k_len, dim, value_dim = sizes
    shapes = (q_len, dim), (k_len, dim), (k_len, value_dim), (q_len, value_dim)
    return arrays(*(draw.normal(*leading, *shape, dtype=dtype) for shape in shapes))


def tupled(sizes):
    """Sizes by name as `inputs` takes them."""
    leading = tuple(sizes[name] for name in "BH")
    return leading, sizes["Lq"], sizes["Lk"], sizes["D"], sizes["Dv"]


def with_empty_rows(draw):
    """A mask in which every other query of the first batch, and all of the second, see nothing."""
    keep = draw.keep(2, 1, 9, 17)
    keep[0, :, ::2] = keep[1] = False
    return keep.cpu().numpy()


def gradients_agree(student, tensors, keep=None, scale=None):
    given = tensors if keep is None and scale is None else [*tensors, keep, scale]
    each_agrees(student.attention_backward(*given), reference.attention_backward(*given))


def gradients_agree_together(student, draw, dtype):
    """Compare the gradients of those calls in a dtype, of all in which any three choices meet."""
    for call in draw.combined(only={"dtype": dtype}, **TOGETHER):
        gradients_of_a_call_agree(student, draw, **call)


def gradients_of_a_call_agree(
    student, draw, lengths, keep, loud, dtype, leading, widths, scale, layout, scores
):  # fmt: skip
    """Compare the gradients of a call with as many sequences as heads."""
    (Lq, Lk), mask = lengths, None
    tensors = inputs(draw, (leading, *lengths, *widths), dtype)
    tensors[0] *= tensors[0].dtype.type(scores)
    if layout == "expanded" and leading:
        tensors = [np.broadcast_to(x[..., :1, :, :], x.shape) for x in tensors]
    if layout == "turned":
        tensors = [np.ascontiguousarray(x.swapaxes(-1, -2)).swapaxes(-1, -2) for x in tensors]
    if keep is not None:
        shapes = {"row": (Lk,), "heads": (*leading[-1:], Lq, Lk), "rows": (*leading, Lq, Lk)}
        mask = draw.keep(*shapes.get(keep, (Lq, Lk))).cpu().numpy() | (keep == "open")
    if keep == "rows":
        mask[..., Lq // 2, :] = False
    # One rounding of a score changes its weight by as much.
    expected = [
        x._replace(magnitude=scores * x.magnitude)
        for x in reference.attention_backward(*tensors, mask, scale)
    ]
    if keep == "row" and loud:
        large = np.array(6e4 if dtype is float16 else 1e30, tensors[0].dtype)
        part = "qkv".index(loud)
        tensors[part] = np.where(mask[:, None], tensors[part], large)
    options = {} if mask is None and scale is None else {"keep": mask, "scale": scale}
    each_agrees(student.attention_backward(*tensors, **options), expected)


def each_agrees(gradients, expected):
    """Each gradient under its own name."""
    for got, right, says in zip(gradients, expected, ("dq", "dk", "dv"), strict=False):
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
