"""Attention: values first, then scale, masks, gradients and manners; last the other precisions.

The first checks ask float32. Only `test_dtype` and `test_half_precision` ask which dtype comes
back, so that a scale from np.sqrt, which widens, or a `.float()` too many costs one check.
"""

import numpy as np
import pytest
import torch
from torch import bfloat16, float16, float32, float64

import reference
from grader.judging import Hard, agree, backward, check, expect, gradcheck

from . import together
from .answers import (
    agrees_in_dtype,
    hidden_weight_is_zero,
    masks_of_hard_sizes,
    raised_values_agree,
    right_in_value,
    spoilt_key_stays_hidden,
    values_agree,
    zeros_beside_a_spoilt_key,
    zeros_in_empty_rows,
)
from .gradients import (
    each_learns_alone,
    gradient_outlasts_a_call,
    gradients_agree,
    same_tensor_for_all,
)
from .inputs import (
    GARBAGE,
    HARD,
    MANY,
    MASKED,
    MASKS,
    ORDINARY,
    RAGGED,
    SCALES,
    SIZES,
    faint,
    finely_scaled,
    for_function,
    hard_inputs,
    hard_scores,
    in_order,
    inputs,
    needle,
    queries_at_random,
    some_mask,
    spoilt,
    with_empty_rows,
)
from .manners import leaves_inputs_alone, refuses_misfits, remembers_nothing, stays_on_its_device

each_size = pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
each_hard = pytest.mark.parametrize("kind", HARD, ids=str)
each_function = pytest.mark.parametrize("name", ["attention_numpy", "scaled_dot_product_attention"])
each_half = pytest.mark.parametrize(
    "name, dtype",
    [
        ("attention_numpy", float16),
        ("scaled_dot_product_attention", float16),
        ("scaled_dot_product_attention", bfloat16),
    ],
)
each_hidden = pytest.mark.parametrize(
    "dtype, part, garbage",
    [
        *[(dtype, *garbage) for dtype in (float32, float64) for garbage in GARBAGE.values()],
        *[(float16, "k", np.nan), (float16, "k", np.inf)],  # 1e30 is infinity in float16
    ],
)
each_masked = pytest.mark.parametrize("masked", [False, True], ids=["unmasked", "masked"])


@check(points=1)
@each_size
def test_numpy_values(student, draw, sizes):
    """attention_numpy gives softmax(q k^T / sqrt(D)) v, and the weights of that softmax (float32).
    Sizes may differ, be 1, or go into the thousands."""
    values_agree(student, "attention_numpy", *inputs(draw, sizes))
    if sizes == SIZES["all alike"]:
        for kind in HARD:
            for tensors in hard_inputs(draw, kind):
                values_agree(student, "attention_numpy", *tensors)


@check(points=1, needs=[test_numpy_values])
@each_masked
def test_numpy_scale(student, draw, masked):
    """attention_numpy takes a given scale as it is, with a mask or without: 0 or negative; and
    scores of either sign may be hundreds apart, too large for a bare exp."""
    q, k, v = inputs(draw, MASKED)
    draw.hard(Hard.OPTIONS)
    for scale in SCALES:
        keep = some_mask(draw, q, k) if masked else None
        values_agree(student, "attention_numpy", q, k, v, keep, scale=scale)
    for q, k, v in hard_scores(draw):
        keep = draw.keep(5, 64) if masked else None
        for scale in None, 0.125, -0.125:
            values_agree(student, "attention_numpy", q, k, v, keep, scale=scale)
    keep = draw.keep(1, 10_000, share=0.9) if masked else None
    values_agree(student, "attention_numpy", *faint(draw, below=22.0), keep)


@check(points=1, needs=[test_numpy_values])
@pytest.mark.parametrize("shape", [*MASKS, "hard sizes", "empty rows"], ids=str)
def test_numpy_mask(student, draw, shape):
    """attention_numpy gives weight to the keys that `keep` marks, and zeros where it marks none.
    `keep` broadcasts: dimensions of it may be missing or 1."""
    attend = student.attention_numpy
    if shape == "hard sizes":
        masks_of_hard_sizes(student, draw, "attention_numpy")
    elif shape == "empty rows":
        idle = draw.keep(17) & False
        for keep in with_empty_rows(draw), queries_at_random(draw), idle, idle.any():
            values_agree(student, "attention_numpy", *inputs(draw, MASKED), keep)
            for dtype in float16, float64:
                given = for_function("attention_numpy", *inputs(draw, MASKED, dtype), keep)
                zeros_in_empty_rows(torch.from_numpy(given[3]), *map(torch.tensor, attend(*given)))
        zeros_beside_a_spoilt_key(student, draw, "attention_numpy", float32)
    else:
        q, k, v, keep = *inputs(draw, MASKED), draw.keep(*shape)
        for mask in keep, keep.any():  # on the device of the inputs, with no dimension
            values_agree(student, "attention_numpy", q, k, v, mask)
        low = *draw.low(9, MANY, 8), draw.normal(MANY, 4)
        values_agree(student, "attention_numpy", *low, draw.keep(9, MANY))
        weights = attend(*for_function("attention_numpy", q, k, v, keep))[1]
        hidden_weight_is_zero("attention_numpy", keep, weights)


@check(points=1)
@each_size
def test_values(student, draw, sizes):
    """The output is softmax(q k^T / sqrt(D)) v, and the weights are those of that softmax
    (float32). Sizes may differ, be 1, or go into the thousands."""
    values_agree(student, "scaled_dot_product_attention", *inputs(draw, sizes))
    if sizes == SIZES["all alike"]:
        for kind in HARD:
            for tensors in hard_inputs(draw, kind):
                values_agree(student, "scaled_dot_product_attention", *tensors)


@check(points=1, needs=[test_values])
@each_masked
def test_scale(student, draw, masked):
    """A scale that is given is used as it is, with a mask or without: 0 or negative; and scores of
    either sign may be hundreds apart, so that one key takes all."""
    q, k, v = inputs(draw, MASKED)
    draw.hard(Hard.OPTIONS)
    for scale in SCALES:
        keep = some_mask(draw, q, k) if masked else None
        values_agree(student, "scaled_dot_product_attention", q, k, v, keep, scale=scale)
    for q, k, v in hard_scores(draw):
        keep = draw.keep(5, 64) if masked else None
        for scale in None, 0.125, -0.125:
            values_agree(student, "scaled_dot_product_attention", q, k, v, keep, scale=scale)
    keep = draw.keep(1, 10_000, share=0.9) if masked else None
    values_agree(student, "scaled_dot_product_attention", *faint(draw, below=22.0), keep)


@check(points=1, needs=[test_values])
@pytest.mark.parametrize("shape", [*MASKS, "hard sizes"], ids=str)
def test_mask(student, draw, shape):
    """Keys where `keep` is True share the weight, the others get exactly 0. `keep` broadcasts:
    dimensions of it may be missing or 1."""
    attend = student.scaled_dot_product_attention
    if shape == "hard sizes":
        masks_of_hard_sizes(student, draw, "scaled_dot_product_attention")
        return
    q, k, v, keep = *inputs(draw, MASKED), draw.keep(*shape)
    output, weights = attend(q, k, v, keep=keep)
    right_in_value((output, weights), reference.scaled_dot_product_attention(q, k, v, keep))
    hidden_weight_is_zero("scaled_dot_product_attention", keep, weights)
    q, k, v, keep = q[0, 0], k[0, 0], v[0, 0], draw.keep(9, 17)  # no leading dimensions
    values_agree(student, "scaled_dot_product_attention", q, k, v, keep)
    low = *draw.low(9, MANY, 8), draw.normal(MANY, 4)
    values_agree(student, "scaled_dot_product_attention", *low, draw.keep(9, MANY))
    values_agree(student, "scaled_dot_product_attention", q, k, v, keep.any())


@check(points=1, needs=[test_values])
@pytest.mark.parametrize("dtype", [float32, float16, bfloat16, float64])
def test_empty_rows(student, draw, dtype):
    """A query that may attend to nothing has output 0, weights 0 and gradient 0, never NaN, in any
    dtype."""
    attend = student.scaled_dot_product_attention
    nothing = draw.keep(17) & False
    for keep in with_empty_rows(draw), queries_at_random(draw), nothing, nothing.any():
        leaves = [x.requires_grad_() for x in inputs(draw, MASKED, dtype)]
        output, weights = attend(*leaves, keep=keep)
        zeros_in_empty_rows(keep, output, weights)
        if dtype == float32:
            values_agree(student, "scaled_dot_product_attention", *leaves, keep)
            gradients_agree(student, draw, leaves, keep)
            continue
        grads = backward(output, *leaves, upstream=draw.normal(*output.shape, dtype=output.dtype))
        for what, gradient in zip("qkv", grads, strict=True):
            expect(bool(gradient.isfinite().all()), f"the gradient of {what} is not finite")
        idle = torch.where(keep.any(-1, keepdim=True), 0.0, grads[0])
        agree(idle, 0 * idle, says="gradient of q in empty rows", within=0.0)
    zeros_beside_a_spoilt_key(student, draw, "scaled_dot_product_attention", dtype)


@check(points=1, needs=[test_numpy_values, test_values])
@each_function
@each_hidden
def test_hidden(student, draw, name, part, garbage, dtype):
    """Hidden keys that hold 1e30, NaN or infinity change nothing, nor do hidden values of 1e30, in
    both functions and any dtype, though other queries may see them."""
    clean, keep, bad = spoilt(draw, dtype, part, garbage)
    answer = getattr(student, name)(*for_function(name, *bad.values(), keep))
    given = for_function(name, *clean.values(), keep)
    if dtype == float32:
        right_in_value(answer, getattr(reference, name)(*given))
    else:  # as exact as it is without the garbage
        agree(answer, tuple(getattr(student, name)(*given)))
    spoilt_key_stays_hidden(student, draw, name, dtype, part, garbage)


@check(points=1, needs=[test_values])
@each_masked
def test_gradients(student, draw, masked):
    """Gradients reach q, k and v, through the output and through the weights, and are right
    (float32)."""
    for sizes, scale in (RAGGED, None), (MASKED, -0.3):
        q, k, v = inputs(draw, sizes)
        keep = some_mask(draw, q, k) if masked else None
        gradients_agree(student, draw, [q, k, v], keep, scale)
    for kind in Hard.SQUARE, Hard.ONE:
        for q, k, v in hard_inputs(draw, kind):
            keep = some_mask(draw, q, k) if masked else None
            gradients_agree(student, draw, [q, k, v], keep)
    limits = {"Lq": 256, "Lk": 256} | dict.fromkeys("BHD", 0) | {"Dv": 0}
    for sizes in draw.hard(Hard.LONG, limits, **ORDINARY):
        q, k, v = inputs(draw, in_order(sizes))
        gradients_agree(student, draw, [q, k, v], some_mask(draw, q, k) if masked else None)
    same_tensor_for_all(student, draw, masked)
    gradient_outlasts_a_call(student, draw, masked)
    each_learns_alone(student, draw, masked)


@check(points=1, needs=[test_numpy_values, test_values])
@pytest.mark.parametrize("case", ["each alone", "together"])
@each_function
def test_manners(student, draw, name, case):
    """Both functions leave their inputs alone, take strided and expanded ones and the same one
    twice, give the same answer to the same call, and refuse widths or lengths that do not fit by a
    ValueError with both numbers; PyTorch's works on the device of its inputs. No options, sizes,
    layouts and dtypes disturb each other."""
    if case == "together":
        together.answers_agree(student, draw, name, float32)
        return
    attend = getattr(student, name)
    q, k, v = inputs(draw, ((2,), 4, 5, 3, 3))
    keep = draw.keep(2, 4, 5)
    leaves_inputs_alone(draw, name, attend)
    views = (
        [x.mT.contiguous().mT for x in (q, k, v, keep)],
        [x[:1].expand(x.shape) for x in (q, k, v, keep)],
    )
    for tensors in *views, *([x.flip(1) for x in x4] for x4 in views):
        values_agree(student, name, *tensors)
        values_agree(student, name, *tensors[:3])
    if name == "attention_numpy":
        backwards = [x[:, ::-1] for x in for_function(name, q, k, v, keep)]
        right_in_value(attend(*backwards), reference.attention_numpy(*backwards))
    else:
        stays_on_its_device(draw, attend, [x.to("meta") for x in (q, k, v, keep)])
    remembers_nothing(draw, name, attend)
    refuses_misfits(draw, name, attend)


@check(points=1, needs=[test_numpy_values, test_values])
@each_function
def test_dtype(student, draw, name):
    """The results have the dtype of q, and in float64 both functions keep the digits of float64,
    with options or without, in the gradients too."""
    for leading in MASKED[0], (), (3,):
        q, k, v = inputs(draw, (leading, *MASKED[1:]))
        for keep in None, draw.keep(9, 17):
            for scale in None, 0.7:
                agrees_in_dtype(student, name, q, k, v, keep, scale=scale)
    for sizes in RAGGED, MASKED:
        q, k, v = inputs(draw, sizes, float64)
        for keep in None, some_mask(draw, q, k):
            for scale in None, -0.3:
                agrees_in_dtype(student, name, q, k, v, keep, scale=scale)
                if name == "scaled_dot_product_attention":
                    gradients_agree(student, draw, [x.clone() for x in (q, k, v)], keep, scale)
    low = *draw.low(9, MANY, 8, float64), draw.normal(MANY, 4, dtype=float64)
    agrees_in_dtype(student, name, *low, draw.keep(9, MANY))
    for keep in None, draw.keep(1, 10_000, share=0.9):
        agrees_in_dtype(student, name, *faint(draw, 31.0, float64), keep)
    if name == "scaled_dot_product_attention":
        for masked in False, True:
            same_tensor_for_all(student, draw, masked, float64)
        with torch.no_grad():
            agrees_in_dtype(student, name, *low, draw.keep(9, MANY))
        attend = student.scaled_dot_product_attention
        q, k, v = (x.requires_grad_() for x in inputs(draw, ((), 2, 3, 2, 1), float64))
        for keep in None, draw.keep(2, 3):
            gradcheck(lambda q, k, v, keep=keep: attend(q, k, v, keep, -0.7)[0], q, k, v)
    together.answers_agree(student, draw, name, float64)


@check(points=1, needs=[test_numpy_values, test_values])
@each_half
def test_half_precision(student, draw, name, dtype):
    """Half precision is computed in float32: both functions are as exact as its digits allow, and
    products of 256s do not overflow, with a mask or without; a given scale keeps its digits.
    Results and gradients have the dtype of q."""
    q, k, v = inputs(draw, RAGGED, dtype)
    for keep in None, draw.keep(17, 65):
        for scale in None, -0.3:
            agrees_in_dtype(student, name, q, k, v, keep, scale=scale)
        if name == "scaled_dot_product_attention":
            gradients_agree(student, draw, [x.clone() for x in (q, k, v)], keep)
            same_tensor_for_all(student, draw, keep is not None, dtype)
    given, matched = needle(draw, dtype)
    for keep in None, matched:
        raised_values_agree(student, name, *given, keep, scores="products of 256s")
    for keep in None, draw.keep(5, 24):
        given = *draw.ties(5, 24, dtype), draw.normal(24, 3, dtype=dtype), keep
        scores = "scores of hundreds that lie close together"
        raised_values_agree(student, name, *given, scores=scores)
    seen = torch.tensor([True, False], device=q.device)
    given = *draw.low(3, 2, 4, dtype), draw.normal(2, 3, dtype=dtype), seen
    raised_values_agree(student, name, *given, scores="one seen key whose score is very low")
    given, scale = finely_scaled(draw, dtype)
    scores = "a scale that half precision cannot hold"
    raised_values_agree(student, name, *given, scores=scores, scale=scale)
    together.answers_agree(student, draw, name, dtype)


@check(points=1, needs=[test_numpy_values, test_values])
@each_function
def test_empty(student, draw, name):
    """Both functions take an empty batch, no queries, or no keys at all: then the output is 0."""
    for empty in "B", "Lq", "Lk":
        q, k, v = inputs(draw, in_order(ORDINARY | {empty: 0}))
        values_agree(student, name, q, k, v)
        values_agree(student, name, q, k, v, torch.ones(*q.shape[:-1], k.shape[-2]).bool())
