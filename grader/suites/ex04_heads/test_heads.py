"""Heads: cut and joined, then the whole attention in NumPy, then the layer.

The first checks ask float32. Only `test_dtype` and `test_half_precision` ask which dtype comes back
from an attention, so that a scale from np.sqrt, which widens, costs one check.
"""

from itertools import product

import numpy as np
import pytest
import torch
from torch import bfloat16, float16, float32, float64

from grader.judging import Hard, agree, backward, check, gradcheck, rejects, same, untouched
from reference import ex04_heads as reference
from reference import raised

from . import extremes, manners, together
from .inputs import (
    HALF,
    MASKED,
    arrays,
    calls,
    empty_rows,
    faint,
    hard_scores,
    loud,
    low,
    masks_of,
    matrices,
    near,
    overflowing,
    spoilt,
    tied,
    tokens,
)
from .layers import (
    LAYER,
    NUMPY,
    calls_of,
    each_learns_alone,
    gradients_agree,
    gradients_outlast_a_call,
    hidden_weights_are_zero,
    layers,
    sum_of_gradients,
    values_agree,
)

CUTS = [(2, 3, 4, 3), (1, 1, 3, 1), (3, 17, 2, 5), (2, 65, 1, 6), (4, 4, 4, 4)]  # B, L, H, D
# B, Lq, Lk, E, H
SIZES = (4, 4, 4, 16, 4), (2, 3, 5, 12, 4), (1, 1, 1, 3, 3), (3, 65, 17, 10, 2), (2, 1, 9, 6, 1)
HARD = [Hard.SQUARE, Hard.ONE, Hard.LONG]
BIASED = [*product([*SIZES, Hard.ONE], [False, True]), (Hard.LONG, True)]
FEW = (2, 3, 5, 12, 4)
MASKS = [(5,), (3, 5), (4, 1, 1, 5), (4, 3, 5), (4, 1, 5), (4, 1, 3, 5), (4, 4, 3, 5), (3, 1)]
each_dtype = pytest.mark.parametrize("dtype", [float32, float16, bfloat16, float64])
each_case = pytest.mark.parametrize("case", [*SIZES, (1, 2, 4100, 6, 2), *HARD], ids=str)
each_name = pytest.mark.parametrize("name", [NUMPY, LAYER])
each_half = pytest.mark.parametrize(
    "name, dtype", [(NUMPY, float16), (LAYER, float16), (LAYER, bfloat16)]
)


@check(points=1)
@each_dtype
@pytest.mark.parametrize("cut", CUTS)
def test_split_and_merge(student, draw, cut, dtype):
    """split_heads gives head h the numbers h*D to (h+1)*D of each token, of any dtype, and raises a
    ValueError for a width that cannot be cut evenly; merge_heads is its inverse, however the heads
    lie in memory. Gradients flow."""
    hard = [*draw.hard(Hard.ONE, B=2, L=3, H=2, D=5), *draw.hard(Hard.LONG, B=2, L=3, H=2, D=5)]
    sizes = [cut, *(tuple(s.values()) for s in hard if cut == CUTS[0] and dtype == float32)]
    for batch, length, heads, dim in sizes:
        x = draw.normal(batch, length, heads * dim, dtype=dtype)
        turned = draw.strided(batch, length, heads * dim, dtype=dtype)
        draw.hard(Hard.CHANGED)
        for view in x, turned, x[:1].expand(x.shape), x.neg_():
            got = untouched(lambda x=view, H=heads: student.split_heads(x, H))
            agree(got, reference.split_heads(view, heads))
        y = draw.normal(batch, heads, length, dim, dtype=dtype)
        swapped = draw.normal(batch, length, heads, dim, dtype=dtype).transpose(1, 2)
        turned = draw.strided(*y.shape, dtype=dtype)
        for view in y, swapped, turned, y[:, :1].expand(y.shape), y.neg_():
            agree(untouched(lambda y=view: student.merge_heads(y)), reference.merge_heads(view))
    for one, other in (x, y), (draw.strided(*x.shape, dtype=dtype), turned):
        [got] = backward(student.split_heads(one.requires_grad_(), heads), one, upstream=y)
        agree(got, reference.merge_heads(y), says="gradient of x of split_heads")
        [got] = backward(student.merge_heads(other.requires_grad_()), other, upstream=x.detach())
        agree(got, reference.split_heads(x.detach(), heads), says="gradient of x of merge_heads")
    if cut == CUTS[0]:
        hidden = draw.normal(2, 3, 12, dtype=dtype).masked_fill(draw.keep(2, 3, 12), -torch.inf)
        whole = draw.integers(-(2**60), 2**60, 2, 3, 12)
        for x in whole, draw.keep(2, 3, 12), hidden:
            y = reference.split_heads(x, 4).plain
            same(student.split_heads(x, 4), y)
            same(student.merge_heads(y), x)
    heads = draw.integer(20, 49)
    for width, many in (10, 4), (3, 5), (2 * heads + 1, heads):
        rejects(lambda w=width, n=many: student.split_heads(draw.normal(2, 3, w), n), width, many)


def with_room(case, right):
    """Return right answers, in long cases with room for sums of 1,025 products.

    How these round depends on the processor.
    """
    larger = 4.0 if case is Hard.LONG else 1.0
    return [one._replace(magnitude=larger * one.magnitude) for one in right]


@check(points=1)
@each_case
def test_numpy_values(student, draw, case):
    """multi_head_attention_numpy projects, attends in each head by itself, merges, and projects:
    float32, sizes from 1 to beyond 1024."""
    for *shape, heads in calls(draw, case):
        args = arrays(draw, *shape)
        answer = student.multi_head_attention_numpy(*args, heads)
        values_agree(answer, with_room(case, reference.multi_head_attention_numpy(*args, heads)))


@check(points=1, needs=[test_numpy_values])
@pytest.mark.parametrize("case", [*MASKS, *HARD, 1e30, -1e30], ids=str)
def test_numpy_mask(student, draw, case):
    """multi_head_attention_numpy gives hidden keys no weight at all, even at 1e30, whatever the
    shape of `keep`, as long as it broadcasts to (B, H, Lq, Lk)."""
    attend, right = student.multi_head_attention_numpy, reference.multi_head_attention_numpy
    if isinstance(case, float):
        x, context, mask, bad = (t.cpu().numpy() for t in spoilt(draw, case))
        weights = [w.cpu().numpy() for w in matrices(draw).values()]
        answer = attend(x, bad, bad, *weights, 4, keep=mask)
        values_agree(answer, right(x, context, context, *weights, 4, mask))
        return
    hard, few = isinstance(case, Hard), {"H": 64, "D": 64}
    for *shape, heads in calls(draw, case, few) if hard else [(4, 3, 5, 12, 4)]:
        args = arrays(draw, *shape)
        for mask in masks_of(draw, *shape[:3], heads) if hard else [draw.keep(*case)]:
            keep = mask.cpu().numpy()[..., ::-1]
            answer = attend(*args, heads, keep=keep)
            values_agree(answer, with_room(case, right(*args, heads, keep)))
            hidden_weights_are_zero(answer[1], torch.from_numpy(keep.copy()))
    for seen in (True, False) if case == MASKS[0] else ():
        answer = attend(*args, heads, keep=np.array(seen))
        values_agree(answer, right(*args, heads, np.full(5, seen)), "(mask of no dimensions)")


@check(points=1)
@pytest.mark.parametrize("case, bias", BIASED, ids=str)
def test_values(student, draw, device, case, bias):
    """MultiHeadAttention lets x attend to itself, and returns output and weights of every head, in
    .train() and in .eval(): float32, sizes from 1 to beyond 256, with a bias and without."""
    for batch, length, _, width, heads in calls(draw, case, {"H": 64, "D": 128, "Lq": 256}):
        module, oracle = layers(student, draw, device, width, heads, bias)
        x, _ = tokens(draw, batch, length, width=width)
        right = oracle(x)
        values_agree(module(x), right)
        draw.hard(Hard.MODES)
        for mode in () if isinstance(case, Hard) else (module.eval, module.train):
            mode()
            values_agree(module(x), right)


@check(points=1, needs=[test_values])
@each_case
def test_context(student, draw, device, case):
    """With a context, queries come from x, keys and values both from the context: float32, lengths
    from 1 to beyond 1024."""
    for i, (*shape, width, heads) in enumerate(calls(draw, case, {"H": 0, "D": 0})):
        module, oracle = layers(student, draw, device, width, heads, bias=i % 2 == 0)
        x, context = tokens(draw, *shape, width)
        right = oracle(x, context)
        values_agree(module(x, context), right)
        if not isinstance(case, Hard):
            module.eval()
            values_agree(module(x, context), right)


@check(points=1, needs=[test_context])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("case", [*MASKS, *HARD, 1e30, -1e30], ids=str)
def test_mask(student, draw, device, case, bias):
    """The keys that `keep` marks get all the weight, the others exactly none, even at 1e30,
    whatever the shape and layout of `keep`, as long as it broadcasts to (B, H, Lq, Lk)."""
    draw.hard(Hard.OPTIONS)
    if isinstance(case, float):
        module, oracle = layers(student, draw, device, bias=bias)
        x, context, keep, bad = spoilt(draw, case)
        values_agree(module(x, bad, keep), oracle(x, context, keep))
        return
    hard, few = isinstance(case, Hard), {"H": 64, "D": 64}
    for *shape, width, heads in calls(draw, case, few) if hard else [(4, 3, 5, 12, 4)]:
        module, oracle = layers(student, draw, device, width, heads, bias)
        x, context = tokens(draw, *shape, width)
        for keep in masks_of(draw, *shape, heads) if hard else [draw.keep(*case)]:
            strided = keep.mT.contiguous().mT if keep.ndim > 1 else keep
            layouts = keep, strided, keep.expand(shape[0], heads, *shape[1:])
            for mask in layouts[:1] if hard else layouts:
                answer = module(x, context, mask)
                values_agree(answer, oracle(x, context, mask))
                hidden_weights_are_zero(answer[1], mask)
            own = keep[..., : x.shape[1]].clone()  # for x, which then attends to itself
            if own.shape[-1] in (1, x.shape[1]) and x.shape[1] < 1000:
                own[..., 0] = True
                values_agree(module(x, keep=own), oracle(x, keep=own))
    for seen in torch.tensor([True, False], device=device) if case == MASKS[0] else ():
        right = oracle(x, context, seen.expand(5))
        values_agree(module(x, context, seen), right, "(mask of no dimensions)")


@check(points=1, needs=[test_context])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(
    "case", [(2, 17, 17, 32, 4), FEW, Hard.SQUARE, Hard.ONE, Hard.LONG], ids=str
)
def test_gradients(student, draw, device, case, masked):
    """Gradients reach x, the context and every weight and bias, through the output and through the
    weights, and are right (float32), in .train() and in .eval()."""
    limits = {"H": 64, "Lq": 128, "Lk": 128, "D": 64}
    for i, (*shape, width, heads) in enumerate(calls(draw, case, limits)):
        bias = i % 2 == 0
        module, oracle = layers(student, draw, device, width, heads, bias)
        x, context = tokens(draw, *shape, width)
        draw.hard(Hard.MODES)
        module.train(masked)
        keep = draw.keep(shape[0], heads, *shape[1:]) if masked else None
        both = {"bias": bias, "through_weights": True}
        gradients_agree(draw, module, oracle, keep, x=x, context=context, **both)
        if case == FEW:
            each_learns_alone(draw, module, oracle, keep, bias, x, context)
            module.requires_grad_(True)
            gradients_outlast_a_call(draw, module, oracle, keep, x, context)
        keep = draw.keep(heads, shape[1], shape[1]) if masked else None
        gradients_agree(draw, module, oracle, keep, x=x, **both)
        draw.hard(Hard.SAME)
        x.requires_grad_()
        upstream = draw.normal(*x.shape)
        [got] = backward(module(x, x, keep)[0], x, upstream=upstream)
        right = oracle.forward_gradients(x, x, keep, upstream=upstream)
        agree(got, sum_of_gradients(right[:2]), says="gradient of x (which is the context too)")


@check(points=1, needs=[test_numpy_values, test_context])
@each_name
@each_dtype
def test_extremes(student, draw, device, name, dtype):
    """Each row stands by itself: scores may be hundreds apart, and a row that may attend to nothing
    has weights 0 and gradient 0, never NaN, in both attentions and any dtype."""
    if name == NUMPY and dtype == bfloat16:
        return  # NumPy has no such dtype
    x, context = tokens(draw, **MASKED, dtype=dtype)
    module, oracle = layers(student, draw, device, bias=True, dtype=dtype)
    for keep in empty_rows(draw):
        if name == NUMPY:
            extremes.empty_rows_of_arrays(student, draw, x, context, keep)
        else:
            extremes.empty_rows_of_a_layer(draw, module, oracle, x, context, keep)
    if dtype == float32:
        for args in hard_scores(draw):
            attend, right = calls_of(student, draw, device, name, *args, 1)
            for keep in None, draw.keep(5, 64):
                values_agree(attend(keep), right(keep))
    if dtype in (float32, float64):
        attend, right = calls_of(student, draw, device, name, *low(draw, dtype, 300), 4)
        keep = draw.keep(9, 300)
        values_agree(attend(keep), right(keep), "for very low scores")
        some = faint(draw, dtype, below=22.0 if dtype == float32 else 31.0)
        attend, right = calls_of(student, draw, device, name, *some, 1)
        keep = draw.keep(10_000, share=0.9) if dtype == float32 else None
        if keep is not None:
            keep[-1] = True
        values_agree(attend(keep), right(keep), "for many scores far below one")


@check(points=1, needs=[test_numpy_values, test_context])
@pytest.mark.parametrize("case", ["each alone", "together"])
@each_name
def test_manners(student, draw, device, name, case):
    """Inputs of any layout are taken and left alone, on the device where they are; layers share
    nothing, and nothing is remembered: the same call gives the same answer, changed inputs another.
    A width that the heads do not divide raises a ValueError with both numbers. No sizes, masks,
    contexts, layouts, modes and dtypes disturb each other."""
    if case == "together":
        together.answers_agree(student, draw, device, name == LAYER, float32)
        return
    if name == NUMPY:
        manners.arrays_are_left_alone(student, draw)
        return
    manners.tensors_are_left_alone(student, draw, device)
    manners.layers_share_nothing(student, draw, device)
    manners.answers_stay_on_their_device(student, draw)


@check(points=1, needs=[test_numpy_values, test_context])
@each_name
def test_dtype(student, draw, device, name):
    """Output and weights have the dtype of the input, and in float64 both attentions keep the
    digits of float64, with a mask or without, in the gradients too."""
    for dtype in float32, float64:
        for sizes in ({}, {**HALF}):
            x, context = tokens(draw, **sizes, dtype=dtype)
            weights = matrices(draw, x.shape[-1], dtype)
            attend, right = calls_of(student, draw, device, name, x, context, weights, 4)
            for keep in None, draw.keep(4, x.shape[1], context.shape[1]):
                agree(attend(keep), right(keep))
    attend, right = calls_of(student, draw, device, name, *loud(draw, float64), 4)
    for keep in None, draw.keep(9, 9):
        agree(attend(keep), right(keep))
    if name == LAYER:
        module, oracle = layers(student, draw, device, bias=True, dtype=float64)
        x, context = tokens(draw, dtype=float64)
        agree(module(x), oracle(x))
        for keep in None, draw.keep(4, 3, 5):
            agree(module(x, context, keep), oracle(x, context, keep))
            gradients_agree(draw, module, oracle, keep, x=x, context=context)
        module, _ = layers(student, draw, device, 4, 2, dtype=float64)
        leaves = [leaf.requires_grad_() for leaf in tokens(draw, 1, 2, 3, 4, dtype=float64)]
        gradcheck(lambda x, context: module(x, context)[0], *leaves)
    together.answers_agree(student, draw, device, name == LAYER, float64)


@check(points=1, needs=[test_numpy_values, test_context])
@each_half
def test_half_precision(student, draw, device, name, dtype):
    """Half precision is computed in float32 and comes back as it came: products of 256s do no harm,
    scores near 362 are told apart, with a mask or without, and gradients are right."""
    x, context = tokens(draw, **HALF, dtype=dtype)
    attend, right = calls_of(student, draw, device, name, x, context, matrices(draw, 32, dtype), 4)
    for keep in None, draw.keep(4, 17, 17):
        agree(attend(keep), right(keep))
    for made in loud, near, low, tied:
        attend, right = calls_of(student, draw, device, name, *made(draw, dtype), 4, raised)
        for keep in None, draw.keep(9, 9):
            agree(attend(keep), right(keep))
    with torch.no_grad():
        agree(attend(), right())
    if name == NUMPY:
        attend, right = calls_of(student, draw, device, name, *overflowing(draw), 4, raised)
        agree(attend(), right())
    if name == LAYER:
        module, oracle = layers(student, draw, device, 32, bias=True, dtype=dtype)
        agree(module(x), oracle(x))
        for keep in None, draw.keep(4, 17, 17):
            agree(module(x, context, keep), oracle(x, context, keep))
            gradients_agree(draw, module, oracle, keep, x=x, context=context)
    together.answers_agree(student, draw, device, name == LAYER, dtype)


@check(points=1, needs=[test_numpy_values, test_context])
@each_name
def test_empty(student, draw, device, name):
    """The batch may be empty, with a mask or without."""
    x, context = tokens(draw, batch=0)
    attend, right = calls_of(student, draw, device, name, x, context, matrices(draw), 4)
    for keep in None, draw.keep(3, 5), draw.keep(1, 4, 3, 5)[:0]:
        values_agree(attend(keep), right(keep))
    if name == LAYER:
        module, oracle = layers(student, draw, device)
        values_agree(module(x), oracle(x))
        rejects(lambda: student.split_heads(x, 5), 12, 5)
        agree(student.split_heads(x, 4), reference.split_heads(x, 4))
        agree(student.merge_heads(x.reshape(0, 4, 3, 3)), torch.empty(0, 3, 12, device=device))
    else:
        uneven = [*arrays(draw, batch=0, width=10), 4]
        rejects(lambda: student.multi_head_attention_numpy(*uneven), 10, 4)
