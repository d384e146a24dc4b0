"""Attention: values first, then scale, masks, precision, gradients and manners."""

import numpy as np
import pytest
import torch
from torch import bfloat16, float16, float32, float64

import reference
from grader.judging import agree, backward, check, expect, gradcheck, rejects, same, untouched

RAGGED = (2, 3), 17, 65, 16, 16  # leading dimensions, Lq, Lk, D, Dv
SIZES = {
    "one matrix": ((), 3, 5, 4, 2),
    "all of length 1": ((2,), 1, 1, 1, 3),
    "few queries": RAGGED,
    "few keys": ((1, 2, 3), 65, 3, 3, 17),
    "all alike": ((4,), 4, 4, 4, 4),
}
MASKED = (2, 3), 9, 17, 8, 5
MASKS = [(9, 17), (3, 9, 17), (2, 1, 1, 17), (1, 3, 9, 17), (2, 1, 9, 17)]
SCALES = {  # those of float32 and half precision leave the scores moderate
    float64: [0.0, -0.3, 1.5, 1000.0],
    float32: [0.0, -0.3, 0.7],
    float16: [-0.3],
    bfloat16: [-0.3],
}
GARBAGE = {
    "1e30 in keys": ("k", 1e30),
    "-1e30 in values": ("v", -1e30),
    "NaN in keys": ("k", np.nan),
    "infinity in keys": ("k", np.inf),
}
each_size = pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
each_hidden = pytest.mark.parametrize(
    "dtype, part, garbage",
    [
        *[(dtype, *garbage) for dtype in (float32, float64) for garbage in GARBAGE.values()],
        *[(float16, "k", np.nan), (float16, "k", np.inf)],  # 1e30 is infinity in float16
    ],
)
each_exact = pytest.mark.parametrize("dtype", [float32, float64])
each_dtype = pytest.mark.parametrize("dtype", [float16, bfloat16, float32, float64])
each_masked = pytest.mark.parametrize("masked", [False, True], ids=["unmasked", "masked"])


def inputs(draw, sizes, dtype=float64):
    leading, q_len, k_len, dim, value_dim = sizes
    shapes = (q_len, dim), (k_len, dim), (k_len, value_dim)
    return [draw.normal(*leading, *shape, dtype=dtype) for shape in shapes]


def with_empty_rows(draw):
    """A mask in which every other query of the first batch, and all of the second, see nothing."""
    keep = draw.keep(2, 1, 9, 17)
    keep[0, :, ::2] = keep[1] = False
    return keep


def spoilt(draw, dtype, part, garbage):
    """Inputs, a padding mask, and the same inputs with garbage where it hides keys or values."""
    clean = dict(zip("qkv", inputs(draw, MASKED, dtype), strict=True))
    lengths = draw.integers(1, 16, 2, 1, 1, 1)
    keep = torch.arange(17, device=lengths.device) < lengths  # (B, 1, 1, Lk)
    return clean, keep, clean | {part: torch.where(keep.mT, clean[part], garbage)}


def needle(draw, dtype):
    """Queries that each match one key, with scores of 2^20, and values to bring back."""
    signs = draw.integers(0, 1, 9, 16) * 2 - 1
    k = (signs * 256).to(dtype)
    return k[draw.permutation(9)], k, draw.normal(9, 5, dtype=dtype)


def arrays(*tensors):
    return [x.cpu().numpy() for x in tensors]


@check(points=1)
@each_exact
@each_size
def test_numpy_values(student, draw, sizes, dtype):
    """attention_numpy gives softmax(q k^T / sqrt(D)) v, and the weights of that softmax."""
    q, k, v = arrays(*inputs(draw, sizes, dtype))
    agree(student.attention_numpy(q, k, v), reference.attention_numpy(q, k, v))


@check(points=1, needs=[test_numpy_values])
@each_masked
@pytest.mark.parametrize("dtype", [float16, float32, float64])
def test_numpy_scale(student, draw, dtype, masked):
    """attention_numpy takes a given scale as it is, with a mask or without: 0, negative, or too
    large for a bare exp."""
    q, k, v, mask = arrays(*inputs(draw, MASKED, dtype), with_empty_rows(draw))
    keep = mask if masked else None
    for scale in SCALES[dtype]:
        answer = student.attention_numpy(q, k, v, keep=keep, scale=scale)
        agree(answer, reference.attention_numpy(q, k, v, keep, scale))


@check(points=1, needs=[test_numpy_values])
@each_exact
@pytest.mark.parametrize("shape", [*MASKS, "empty rows"], ids=str)
def test_numpy_mask(student, draw, shape, dtype):
    """attention_numpy gives weight to the keys that `keep` marks, and zeros where it marks none."""
    mask = with_empty_rows(draw) if shape == "empty rows" else draw.keep(*shape)
    q, k, v, keep = arrays(*inputs(draw, MASKED, dtype), mask)
    output, weights = student.attention_numpy(q, k, v, keep=keep)
    agree((output, weights), reference.attention_numpy(q, k, v, keep))
    hidden = np.where(keep, 0.0, weights)
    agree(hidden, np.zeros(hidden.shape), says="weight of hidden keys", within=0.0)


@check(points=1, needs=[test_numpy_mask])
@each_hidden
def test_numpy_hidden(student, draw, part, garbage, dtype):
    """attention_numpy is not moved by hidden keys that hold 1e30, NaN or inf, or values of 1e30."""
    clean, mask, bad = spoilt(draw, dtype, part, garbage)
    [keep] = arrays(mask)
    answer = student.attention_numpy(*arrays(*bad.values()), keep=keep)
    agree(answer, reference.attention_numpy(*arrays(*clean.values()), keep))


@check(points=1, needs=[test_numpy_values])
def test_numpy_manners(student, draw):
    """attention_numpy computes float16 in float32, leaves its inputs alone, takes strided and empty
    ones; and widths or lengths that do not fit are a ValueError."""
    attend, expected = student.attention_numpy, reference.attention_numpy
    q, k, v, keep = arrays(*needle(draw, float16), draw.keep(9, 9))
    for mask in None, keep:
        agree(attend(q, k, v, mask), reference.raised(expected, q, k, v, mask))
    q, k, v, keep = arrays(*inputs(draw, RAGGED, float16), draw.keep(17, 65))
    agree(attend(q, k, v), expected(q, k, v))
    agree(attend(q, k, v, keep), expected(q, k, v, keep))
    for dtype in float16, float32, float64:
        q, k, v, keep = arrays(*inputs(draw, ((2,), 4, 5, 3, 3), dtype), draw.keep(2, 4, 5))
        for options in {}, {"keep": keep}, {"keep": keep, "scale": 0.7}:
            untouched(lambda x=(q, k, v), options=options: attend(*x, **options))
    for views in [x[:, ::-1] for x in (q, k, v, keep)], [x[:0] for x in (q, k, v, keep)]:
        agree(attend(*views), expected(*views))
        agree(attend(*views[:3]), expected(*views[:3]))
    for mask in None, keep:
        rejects(lambda mask=mask: attend(q, k[..., :2], v, mask), 3, 2)
        rejects(lambda mask=mask: attend(q, k, v[:, :4], mask), 5, 4)


@check(points=1)
@each_exact
@each_size
def test_values(student, draw, sizes, dtype):
    """The output is softmax(q k^T / sqrt(D)) v, and the weights are those of that softmax."""
    q, k, v = inputs(draw, sizes, dtype)
    answer = student.scaled_dot_product_attention(q, k, v)
    agree(answer, reference.scaled_dot_product_attention(q, k, v))


@check(points=1, needs=[test_values])
@each_masked
@each_dtype
def test_scale(student, draw, dtype, masked):
    """A scale that is given is used as it is, with a mask or without: 0, negative, or so large that
    one key takes all."""
    q, k, v = inputs(draw, MASKED, dtype)
    keep = with_empty_rows(draw) if masked else None
    for scale in SCALES[dtype]:
        answer = student.scaled_dot_product_attention(q, k, v, keep=keep, scale=scale)
        agree(answer, reference.scaled_dot_product_attention(q, k, v, keep, scale))


@check(points=1, needs=[test_values])
@each_exact
@pytest.mark.parametrize("shape", MASKS, ids=str)
def test_mask(student, draw, shape, dtype):
    """Keys where `keep` is True share the weight, the others get exactly 0. `keep` broadcasts."""
    (q, k, v), keep = inputs(draw, MASKED, dtype), draw.keep(*shape)
    output, weights = student.scaled_dot_product_attention(q, k, v, keep=keep)
    agree((output, weights), reference.scaled_dot_product_attention(q, k, v, keep))
    hidden = torch.where(keep, 0.0, weights)
    agree(hidden, torch.zeros_like(hidden), says="weight of hidden keys", within=0.0)
    q, k, v, keep = q[0, 0], k[0, 0], v[0, 0], draw.keep(9, 17)  # no leading dimensions
    answer = student.scaled_dot_product_attention(q, k, v, keep=keep)
    agree(answer, reference.scaled_dot_product_attention(q, k, v, keep))


@check(points=1, needs=[test_mask])
@each_dtype
def test_empty_rows(student, draw, dtype):
    """A query that may attend to nothing has output 0, weights 0 and gradient 0, never NaN."""
    leaves, keep = inputs(draw, MASKED, dtype), with_empty_rows(draw)
    output, weights = student.scaled_dot_product_attention(*leaves, keep=keep)
    agree((output, weights), reference.scaled_dot_product_attention(*leaves, keep))
    idle = torch.where(keep.any(-1, keepdim=True), 0.0, output)
    agree(idle, torch.zeros_like(idle), says="output of empty rows", within=0.0)
    gradients_agree(student, draw, leaves, keep)


@check(points=1, needs=[test_mask])
@each_hidden
def test_hidden(student, draw, part, garbage, dtype):
    """Hidden keys that hold 1e30, NaN or infinity change nothing, nor do hidden values of 1e30."""
    clean, keep, bad = spoilt(draw, dtype, part, garbage)
    answer = student.scaled_dot_product_attention(**bad, keep=keep)
    agree(answer, reference.scaled_dot_product_attention(**clean, keep=keep))


@check(points=1, needs=[test_values])
@pytest.mark.parametrize("dtype", [float16, bfloat16])
def test_half_precision(student, draw, dtype):
    """Half precision is as exact as its digits allow, and products of 256s do not overflow, with a
    mask or without."""
    attend, expected = student.scaled_dot_product_attention, reference.scaled_dot_product_attention
    q, k, v = inputs(draw, RAGGED, dtype)
    for keep in None, draw.keep(17, 65):
        agree(attend(q, k, v, keep=keep), expected(q, k, v, keep))
    q, k, v = needle(draw, dtype)
    for keep in None, draw.keep(9, 9):
        agree(attend(q, k, v, keep=keep), reference.raised(expected, q, k, v, keep))


@check(points=1, needs=[test_values])
@each_masked
@each_dtype
def test_gradients(student, draw, dtype, masked):
    """Gradients reach q, k and v, through the output and through the weights, and are right."""
    keep = draw.keep(17, 65) if masked else None
    gradients_agree(student, draw, inputs(draw, RAGGED, dtype), keep)
    keep = draw.keep(9, 17) if masked else None
    gradients_agree(student, draw, inputs(draw, MASKED, dtype), keep, -0.3)
    if dtype == float64:
        attend, keep = student.scaled_dot_product_attention, draw.keep(2, 3) if masked else None
        q, k, v = (x.requires_grad_() for x in inputs(draw, ((), 2, 3, 2, 1)))
        gradcheck(lambda q, k, v: attend(q, k, v, keep, -0.7)[0], q, k, v)


def gradients_agree(student, draw, tensors, keep, scale=None):
    """The gradients through the weights, then those through the output."""
    leaves = [x.requires_grad_() for x in tensors]
    output, weights = student.scaled_dot_product_attention(*leaves, keep=keep, scale=scale)
    for what, answer in ("weights", weights), ("output", output):
        upstream = draw.normal(*answer.shape, dtype=answer.dtype)
        through = dict(zip("qk" if what == "weights" else "qkv", leaves, strict=False))
        if answer.requires_grad:  # `backward` would not say through which of the two
            reached = torch.autograd.grad(
                answer.sum(), list(through.values()), retain_graph=True, allow_unused=True
            )
            for name, one in zip(through, reached, strict=True):
                expect(one is not None, f"no gradient reaches {name} through the {what}")
        got = backward(answer, *through.values(), upstream=upstream)
        q, k, v = leaves
        if what == "weights":  # weights @ 1 = weights
            v = torch.eye(k.shape[-2], dtype=v.dtype, device=v.device).expand(*v.shape[:-1], -1)
        expected = reference.attention_gradients(q, k, v, keep, scale, upstream=upstream)
        for name, one, right in zip("qkv", got, expected, strict=False):
            agree(one, right, says=f"gradient of {name} through the {what}")


@check(points=1, needs=[test_values])
def test_manners(student, draw):
    """Inputs are left alone; strided, expanded and empty ones are taken; the same call gives the
    same answer; and widths or lengths that do not fit are a ValueError."""
    attend, expected = student.scaled_dot_product_attention, reference.scaled_dot_product_attention
    keep = draw.keep(2, 4, 5)
    for dtype in float16, bfloat16, float32, float64:
        q, k, v = inputs(draw, ((2,), 4, 5, 3, 3), dtype)
        for options in {}, {"keep": keep}, {"keep": keep, "scale": 0.7}:
            first = untouched(lambda x=(q, k, v), options=options: attend(*x, **options))
    for again, before in zip(attend(q, k, v, keep=keep, scale=0.7), first, strict=True):
        same(again, before)
    strided = [x.mT.contiguous().mT for x in (q, k, v, keep)]
    expanded = [x[:1].expand(x.shape) for x in (q, k, v, keep)]
    empty = [x[:0] for x in (q, k, v, keep)]
    for views in strided, expanded, empty:
        agree(attend(*views), expected(*views))
        agree(attend(*views[:3]), expected(*views[:3]))
    for mask in None, keep:
        rejects(lambda mask=mask: attend(q, k[..., :2], v, mask), 3, 2)
        rejects(lambda mask=mask: attend(q, k, v[:, :4], mask), 5, 4)
