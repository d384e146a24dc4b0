"""Attention: values first, then scale, masks, gradients and manners; last the other precisions.

The first checks ask float32. Only `test_dtype` and `test_half_precision` ask which dtype comes
back, so that a scale from np.sqrt, which widens, or a `.float()` too many costs one check.
"""

import numpy as np
import pytest
import torch
from torch import bfloat16, float16, float32, float64

import reference
from grader.judging import (
    Hard,
    agree,
    backward,
    check,
    expect,
    gradcheck,
    lasting,
    on_meta,
    rejects,
    same,
    untouched,
)

from . import together
from .answers import right_in_value

RAGGED = (2, 3), 17, 65, 16, 16  # leading dimensions, Lq, Lk, D, Dv
MASKED = (2, 3), 9, 17, 8, 5
SIZES = {
    "one matrix": ((), 3, 5, 4, 2),
    "all of length 1": ((2,), 1, 1, 1, 3),
    "few queries": RAGGED,
    "few keys": ((1, 2, 3), 65, 3, 3, 17),
    "all alike": ((4,), 4, 4, 4, 4),
}
ORDINARY = {"B": 2, "H": 3, "Lq": 5, "Lk": 7, "D": 4, "Dv": 6}
HARD = Hard.SQUARE, Hard.ONE, Hard.LONG
MASKS = [(9, 17), (3, 9, 17), (2, 1, 1, 17), (1, 3, 9, 17), (2, 1, 9, 17), (17,), (1, 17), (9, 1)]
SCALES = 0, -0.3, 0.7, 2
GARBAGE = {
    "1e30 in keys": ("k", 1e30),
    "-1e30 in values": ("v", -1e30),
    "NaN in keys": ("k", np.nan),
    "infinity in keys": ("k", np.inf),
}
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


def inputs(draw, sizes, dtype=float32):
    leading, q_len, k_len, dim, value_dim = sizes
    shapes = (q_len, dim), (k_len, dim), (k_len, value_dim)
    return [draw.normal(*leading, *shape, dtype=dtype) for shape in shapes]


def in_order(sizes):
    """Sizes by name, as `inputs` takes them."""
    return (sizes["B"], sizes["H"]), *(sizes[name] for name in ("Lq", "Lk", "D", "Dv"))


def hard_inputs(draw, kind):
    """Queries, keys and values of every size of a hard kind; of the long ones, more keys or queries
    than 2,048 too."""
    for sizes in draw.hard(kind, **ORDINARY):
        yield inputs(draw, in_order(sizes))
    if kind is Hard.LONG:
        yield inputs(draw, ((), 3, draw.integer(2049, 6000), 4, 4))
        yield inputs(draw, ((), draw.integer(2049, 6000), 3, 4, 4))


def some_mask(draw, q, k):
    """A mask of one of the shapes that broadcast to the table of scores."""
    table = *q.shape[:-1], k.shape[-2]
    shapes = table, table[-2:], table[-1:], (1, table[-1]), (*table[:-2], 1, table[-1])
    return draw.keep(*draw.choice(*shapes))


def with_empty_rows(draw):
    """A mask in which every other query of the first batch, and all of the second, see nothing."""
    keep = draw.keep(2, 1, 9, 17)
    keep[0, :, ::2] = keep[1] = False
    return keep


def queries_at_random(draw):
    """A mask by the query alone: it sees all keys, or none."""
    return draw.integers(0, 1, 9, 1) == 1


def hard_scores(draw):
    """Queries and keys whose scores, with the default scale, are hard ones to the last digit.

    The rows lie hundreds apart as well, some of them far below the others.
    """
    k = torch.eye(64, device=draw.normal(1).device)
    for scores in draw.scores(5, 64).values():
        scores = scores + 200 * draw.normal(5, 1)
        yield 8 * scores, k, draw.normal(64, 3, scale=1e6)  # 8 is the square root of the width


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


def for_function(name, *tensors):
    """Tensors as the function of this name takes them: its own kind, None left out."""
    if name == "attention_numpy":
        return [None if x is None else x.cpu().numpy() for x in tensors]
    return list(tensors)


def values_agree(student, name, *tensors, scale=None):
    """What a function gives for q, k, v and perhaps a mask is right, in whatever dtype."""
    given = for_function(name, *tensors)
    answer = getattr(student, name)(*given, scale=scale)
    right_in_value(answer, getattr(reference, name)(*given, scale=scale))


def agrees_in_dtype(student, name, *tensors, scale=None):
    """What a function gives is right, and has the dtype of q."""
    given = for_function(name, *tensors)
    answer = getattr(student, name)(*given, scale=scale)
    agree(answer, getattr(reference, name)(*given, scale=scale))


def raised_values_agree(student, name, *tensors, scores):
    """What a function gives in half precision is right, where the plain formula in it is not.

    scores  what is hard about them, in words
    """
    given = for_function(name, *tensors)
    answer = getattr(student, name)(*given)
    expected = reference.raised(getattr(reference, name), *given)
    for what, got, right in zip(("output", "weights"), answer, expected, strict=True):
        agree(got, right, says=f"{what} for {scores}")


def hidden_weight_is_zero(name, keep, weights):
    """The weight of hidden keys is 0, not only nearly."""
    [keep] = for_function(name, keep)
    hidden = np.where(keep, 0.0, weights) if name == "attention_numpy" else weights * ~keep
    agree(hidden, 0 * hidden, says="weight of hidden keys", within=0.0)


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


@check(points=1, needs=[test_numpy_values])
@pytest.mark.parametrize("shape", [*MASKS, "hard sizes", "empty rows"], ids=str)
def test_numpy_mask(student, draw, shape):
    """attention_numpy gives weight to the keys that `keep` marks, and zeros where it marks none.
    `keep` broadcasts: dimensions of it may be missing or 1."""
    attend = student.attention_numpy
    if shape == "hard sizes":
        masks_of_hard_sizes(student, draw, "attention_numpy")
    elif shape == "empty rows":
        for keep in with_empty_rows(draw), queries_at_random(draw), draw.keep(17) & False:
            values_agree(student, "attention_numpy", *inputs(draw, MASKED), keep)
            for dtype in float16, float64:
                given = for_function("attention_numpy", *inputs(draw, MASKED, dtype), keep)
                zeros_in_empty_rows(torch.from_numpy(given[3]), *map(torch.tensor, attend(*given)))
    else:
        q, k, v, keep = *inputs(draw, MASKED), draw.keep(*shape)
        for mask in keep, keep.any():  # on the device of the inputs, with no dimension
            values_agree(student, "attention_numpy", q, k, v, mask)
        values_agree(student, "attention_numpy", *draw.low(9, 17, 8), v[0, 0], draw.keep(9, 17))
        weights = attend(*for_function("attention_numpy", q, k, v, keep))[1]
        hidden_weight_is_zero("attention_numpy", keep, weights)


def masks_of_hard_sizes(student, draw, name):
    for kind in HARD:
        for q, k, v in hard_inputs(draw, kind):
            values_agree(student, name, q, k, v, some_mask(draw, q, k))
            if q.shape[-2] > 256:
                values_agree(student, name, q, k, v, draw.keep(1, k.shape[-2]))
            if kind is Hard.SQUARE:  # where a mask turned around, or one of queries, fits as well
                n = k.shape[-2]
                causal = torch.ones(n, n, dtype=torch.bool, device=q.device).tril()
                for keep in causal, causal.mT, draw.keep(n):
                    values_agree(student, name, q, k, v, keep)


def zeros_in_empty_rows(keep, output, weights):
    """Where nothing is kept, output and weights are zeros exactly, whatever their dtype."""
    empty = ~keep.to(output.device).any(-1, keepdim=True)
    for what, answer in ("output", output), ("weights", weights):
        idle = torch.where(empty, answer, 0.0)
        agree(idle, torch.zeros_like(idle), says=f"{what} of empty rows", within=0.0)


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
    values_agree(student, "scaled_dot_product_attention", *draw.low(9, 17, 8), v, keep)
    values_agree(student, "scaled_dot_product_attention", q, k, v, keep.any())


@check(points=1, needs=[test_values])
@pytest.mark.parametrize("dtype", [float32, float16, bfloat16, float64])
def test_empty_rows(student, draw, dtype):
    """A query that may attend to nothing has output 0, weights 0 and gradient 0, never NaN, in any
    dtype."""
    attend = student.scaled_dot_product_attention
    for keep in with_empty_rows(draw), queries_at_random(draw), draw.keep(17) & False:
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


@check(points=1, needs=[test_numpy_values, test_values])
@each_function
@each_hidden
def test_hidden(student, draw, name, part, garbage, dtype):
    """Hidden keys that hold 1e30, NaN or infinity change nothing, nor do hidden values of 1e30, in
    both functions and any dtype."""
    clean, keep, bad = spoilt(draw, dtype, part, garbage)
    answer = getattr(student, name)(*for_function(name, *bad.values(), keep))
    given = for_function(name, *clean.values(), keep)
    if dtype == float32:
        right_in_value(answer, getattr(reference, name)(*given))
    else:  # as exact as it is without the garbage
        agree(answer, tuple(getattr(student, name)(*given)))


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
    each_learns_alone(student, draw, masked)


def each_learns_alone(student, draw, masked):
    """Each of q, k and v has its gradient where the other two need none."""
    draw.hard(Hard.LEARN)
    tensors, keep = inputs(draw, MASKED), draw.keep(9, 17) if masked else None
    upstream = draw.normal(2, 3, 9, 5)
    expected = reference.attention_gradients(*tensors, keep, upstream=upstream)
    for name, x, right in zip("qkv", tensors, expected, strict=True):
        x.requires_grad_()
        output, _ = student.scaled_dot_product_attention(*tensors, keep)
        [got] = backward(output, x, upstream=upstream)
        x.requires_grad_(False)
        agree(got, right, says=f"gradient of {name}, which alone learns")


def same_tensor_for_all(student, draw, masked):
    """The gradient of a tensor that is query, key and value at once is the sum of the three."""
    draw.hard(Hard.SAME)
    x = draw.normal(2, 5, 4).requires_grad_()
    keep = draw.keep(5, 5) if masked else None
    output, _ = student.scaled_dot_product_attention(x, x, x, keep)
    upstream = draw.normal(2, 5, 4)
    [got] = backward(output, x, upstream=upstream)
    parts = reference.attention_gradients(x, x, x, keep, upstream=upstream)
    exact, plain = (sum(part[i] for part in parts) for i in (0, 1))
    expected = parts[0]._replace(exact=exact, plain=plain)
    agree(got, expected, says="gradient of a tensor that is q, k and v")


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


def stays_on_its_device(draw, attend, meta):
    draw.hard(Hard.DEVICE)
    for given in meta, meta[:3]:
        on_meta(attend, *given)


def leaves_inputs_alone(draw, name, attend):
    dtypes = [float16, bfloat16, float32, float64]
    for dtype in dtypes if name != "attention_numpy" else [float16, float32, float64]:
        tensors, keep = inputs(draw, ((2,), 4, 5, 3, 3), dtype), draw.keep(2, 4, 5)
        keep[0, 1] = False
        *given, keep = for_function(name, *tensors, keep)
        for options in {}, {"scale": 0.7}, {"keep": keep}, {"keep": keep, "scale": 0.7}:
            first = untouched(lambda given=given, options=options: attend(*given, **options))
            for again, before in zip(attend(*given, **options), first, strict=True):
                same(again, before)


def remembers_nothing(draw, name, attend):
    """The same tensor as query, key and value; then changed in place, for another answer."""
    draw.hard(Hard.SAME)
    draw.hard(Hard.CHANGED)
    expected = getattr(reference, name)
    [x] = for_function(name, draw.normal(2, 5, 4))
    [q, k, v, keep] = for_function(name, *inputs(draw, ((2,), 4, 5, 3, 3)), draw.keep(2, 4, 5))
    for scale in None, 0.5:
        answer = untouched(lambda scale=scale: attend(x, x, x, scale=scale))
        right_in_value(answer, expected(x, x, x, scale=scale))
    with lasting(attend, q, k, v, keep):
        for part in q, k, v, keep, x:
            part[:] = ~part if part is keep else -2 * part
            keep[..., 0] = True
            right_in_value(attend(q, k, v, keep), expected(q, k, v, keep))
            right_in_value(attend(q, k, v), expected(q, k, v))
            right_in_value(attend(x, x, x), expected(x, x, x))


def refuses_misfits(draw, name, attend):
    """A ValueError, each time; and after it, the right answer to what fits."""
    draw.hard(Hard.FAILED)
    q, k, v, keep = for_function(name, *inputs(draw, ((2,), 4, 5, 3, 3)), draw.keep(2, 4, 5))
    for mask in None, keep:
        for width in 2, 1, 4, 2, draw.integer(20, 99):
            [narrow] = for_function(name, draw.normal(2, 5, width))
            rejects(lambda mask=mask, x=narrow: attend(q, x, v, mask, 2.0), 3, width)
        for length in 4, 1, 7, 4, draw.integer(20, 99):
            [short] = for_function(name, draw.normal(2, length, 3))
            rejects(lambda mask=mask, x=short: attend(q, k, x, mask, 2.0), 5, length)
        right_in_value(attend(q, k, v, mask), getattr(reference, name)(q, k, v, mask))


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
    if name == "scaled_dot_product_attention":
        attend = student.scaled_dot_product_attention
        q, k, v = (x.requires_grad_() for x in inputs(draw, ((), 2, 3, 2, 1), float64))
        for keep in None, draw.keep(2, 3):
            gradcheck(lambda q, k, v, keep=keep: attend(q, k, v, keep, -0.7)[0], q, k, v)
    together.answers_agree(student, draw, name, float64)


@check(points=1, needs=[test_numpy_values, test_values])
@each_half
def test_half_precision(student, draw, name, dtype):
    """Half precision is computed in float32: both functions are as exact as its digits allow, and
    products of 256s do not overflow, with a mask or without. Results and gradients have the dtype
    of q."""
    q, k, v = inputs(draw, RAGGED, dtype)
    for keep in None, draw.keep(17, 65):
        for scale in None, -0.3:
            agrees_in_dtype(student, name, q, k, v, keep, scale=scale)
        if name == "scaled_dot_product_attention":
            gradients_agree(student, draw, [x.clone() for x in (q, k, v)], keep)
    for keep in None, draw.keep(9, 9):
        given = *needle(draw, dtype), keep
        raised_values_agree(student, name, *given, scores="products of 256s")
    for keep in None, draw.keep(5, 24):
        given = *draw.ties(5, 24, dtype), draw.normal(24, 3, dtype=dtype), keep
        scores = "scores of hundreds that lie close together"
        raised_values_agree(student, name, *given, scores=scores)
    seen = torch.tensor([True, False], device=q.device)
    given = *draw.low(3, 2, 4, dtype), draw.normal(2, 3, dtype=dtype), seen
    raised_values_agree(student, name, *given, scores="one seen key whose score is very low")
    together.answers_agree(student, draw, name, dtype)


@check(points=1, needs=[test_numpy_values, test_values])
@each_function
def test_empty(student, draw, name):
    """Both functions take an empty batch, no queries, or no keys at all: then the output is 0."""
    for empty in "B", "Lq", "Lk":
        q, k, v = inputs(draw, in_order(ORDINARY | {empty: 0}))
        values_agree(student, name, q, k, v)
        values_agree(student, name, q, k, v, torch.ones(*q.shape[:-1], k.shape[-2]).bool())
