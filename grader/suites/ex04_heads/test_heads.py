"""Heads: cut and joined, then the whole attention in NumPy, then the layer."""

from functools import partial

import numpy as np
import pytest
import torch
from torch import bfloat16, float16, float32, float64

from grader.judging import agree, backward, check, expect, gradcheck, rejects, same, untouched
from reference import ex04_heads as reference
from reference import raised

NAMES = ("w_q", "w_k", "w_v", "w_o")
CUTS = [(2, 3, 4, 3), (1, 1, 3, 1), (3, 17, 2, 5), (2, 65, 1, 6), (4, 4, 4, 4)]  # B, L, H, D
SIZES = [  # B, Lq, Lk, E, H
    *[(4, 4, 4, 16, 4), (2, 3, 5, 12, 4), (1, 1, 1, 3, 3), (3, 65, 17, 10, 2), (2, 1, 9, 6, 1)]
]
# As many heads as batch items: a mask (H, Lq, Lk) or (B, 1, Lq, Lk) is easily taken for the other.
MASKED = {"batch": 4, "q_len": 3, "k_len": 5}
MASKS = [(5,), (3, 5), (4, 1, 1, 5), (4, 3, 5), (4, 1, 5), (4, 1, 3, 5), (4, 4, 3, 5)]
HALF = {"q_len": 17, "k_len": 17, "width": 32}  # outputs of more than 1024 numbers
each_exact = pytest.mark.parametrize("dtype", [float32, float64])
each_half = pytest.mark.parametrize("dtype", [float16, bfloat16])
each_dtype = pytest.mark.parametrize("dtype", [float16, bfloat16, float32, float64])
each_cut = pytest.mark.parametrize(
    "cut, dtype",
    [(cut, float64) for cut in CUTS]
    + [(CUTS[2], float32), (CUTS[0], float16), (CUTS[0], bfloat16)],
)


def tokens(draw, batch=2, q_len=3, k_len=5, width=12, dtype=float64):
    """x (B, Lq, E) and a context (B, Lk, E)."""
    return [draw.normal(batch, length, width, dtype=dtype) for length in (q_len, k_len)]


def matrices(draw, width=12, dtype=float64):
    """The weights of the four projections."""
    return {name: draw.normal(width, width, dtype=dtype, scale=width**-0.5) for name in NAMES}


def loud(draw, dtype):
    """x, a context and weights that give scores beyond float16; each token finds its own copy."""
    signs = draw.integers(0, 1, 1, 9, 32) * 2 - 1
    context = (signs * 256).to(dtype)
    eye = torch.eye(32, dtype=dtype, device=signs.device)
    weights = matrices(draw, 32, dtype) | {"w_q": eye, "w_k": eye}
    return context[:, draw.permutation(9)], context, weights


def arrays(draw, batch=2, q_len=3, k_len=5, width=12, dtype=float64):
    """The seven arrays that multi_head_attention_numpy begins with."""
    query, key = tokens(draw, batch, q_len, k_len, width, dtype)
    value = draw.normal(batch, k_len, width, dtype=dtype)
    return [x.cpu().numpy() for x in (query, key, value, *matrices(draw, width, dtype).values())]


def layers(student, draw, device, width=12, heads=4, bias=False, dtype=float64, weights=None):
    """The student's layer and the oracle's, with the same weights."""
    weights = matrices(draw, width, dtype) if weights is None else weights
    state = {f"{name}.weight": weight for name, weight in weights.items()}
    if bias:
        state |= {f"{name}.bias": draw.normal(width, dtype=dtype) for name in NAMES}
    module = student.MultiHeadAttention(width, heads, bias=bias)
    for name in NAMES:
        shapes = {"weight": (width, width), "bias": (width,) if bias else None}
        for kind, right in shapes.items():
            shape = getattr(module.read(f"{name}.{kind}"), "shape", None)
            got = shape if shape is None else tuple(shape)
            expect(got == right, f"the shape of {name}.{kind} is {got}, but should be {right}")
    module.to(device, dtype)
    module.load_state_dict(state, strict=False)  # a layer may have buffers of its own
    oracle = reference.MultiHeadAttention(width, heads, bias=bias)
    oracle.load_state_dict(state)
    return module, oracle


def padding(draw):
    """A mask (B, 1, 1, Lk) of 5 keys, of which the last one to four are hidden."""
    lengths = draw.integers(1, 4, 2, 1, 1, 1)
    return torch.arange(5, device=lengths.device) < lengths


def empty_rows(draw):
    """Masks under which some rows see nothing: in every head, in one, in any."""
    keep = draw.keep(4, 4, 3, 5)
    keep[0, :, 1] = keep[1, 2] = keep[2] = False
    return keep, draw.keep(4, 1, 1, 3).mT  # (B, 1, Lq, 1)


def hidden_weights_are_zero(weights, keep):
    hidden = torch.where(keep, 0.0, torch.as_tensor(weights))
    agree(hidden, torch.zeros_like(hidden), says="weight of hidden keys", within=0.0)


@check(points=1)
@each_cut
def test_split_heads(student, draw, cut, dtype):
    """split_heads gives head h the numbers h*D to (h+1)*D of each token, and raises a
    ValueError for a width that cannot be cut evenly."""
    batch, length, heads, dim = cut
    x = draw.normal(batch, length, heads * dim, dtype=dtype)
    agree(untouched(lambda: student.split_heads(x, heads)), reference.split_heads(x, heads))
    for view in draw.strided(batch, length, heads * dim), x[:1].expand(x.shape), x[:0]:
        agree(student.split_heads(view, heads), reference.split_heads(view, heads))
    upstream = draw.normal(batch, heads, length, dim, dtype=dtype)
    [got] = backward(student.split_heads(x.requires_grad_(), heads), x, upstream=upstream)
    agree(got, reference.merge_heads(upstream), says="gradient of x")
    rejects(lambda: student.split_heads(draw.normal(2, 3, 10), 4), 10, 4)


@check(points=1)
@each_cut
def test_merge_heads(student, draw, cut, dtype):
    """merge_heads lays the heads of each token side by side, however they lie in memory."""
    batch, length, heads, dim = cut
    x = draw.normal(batch, heads, length, dim, dtype=dtype)
    agree(untouched(lambda: student.merge_heads(x)), reference.merge_heads(x))
    swapped = draw.normal(batch, length, heads, dim).transpose(1, 2)
    for view in swapped, draw.strided(*x.shape), x[:, :1].expand(x.shape), x[:0]:
        agree(student.merge_heads(view), reference.merge_heads(view))
    upstream = draw.normal(batch, length, heads * dim, dtype=dtype)
    [got] = backward(student.merge_heads(x.requires_grad_()), x, upstream=upstream)
    agree(got, reference.split_heads(upstream, heads), says="gradient of x")


@check(points=1)
@each_exact
@pytest.mark.parametrize("sizes", SIZES)
def test_numpy_values(student, draw, sizes, dtype):
    """multi_head_attention_numpy projects, attends in each head by itself, merges, and projects."""
    *shape, heads = sizes
    args = arrays(draw, *shape, dtype=dtype)
    answer = student.multi_head_attention_numpy(*args, heads)
    agree(answer, reference.multi_head_attention_numpy(*args, heads))


@check(points=1, needs=[test_numpy_values])
@pytest.mark.parametrize(
    "shape, dtype",
    [
        *[(shape, dtype) for dtype in (float32, float64) for shape in (*MASKS, "1e30")],
        *[("empty rows", dtype) for dtype in (float16, float32, float64)],
    ],
    ids=str,
)
def test_numpy_mask(student, draw, shape, dtype):
    """multi_head_attention_numpy gives hidden keys no weight, even at 1e30, and zeros to a row that
    sees no key."""
    attend, right = student.multi_head_attention_numpy, reference.multi_head_attention_numpy
    if shape == "1e30":
        (query, key, value, *weights), mask = arrays(draw, dtype=dtype), padding(draw)
        keep = mask.cpu().numpy()
        bad = [np.where(keep[:, 0, 0, :, None], x, x.dtype.type(1e30)) for x in (key, value)]
        answer = attend(query, *bad, *weights, 4, keep=keep)
        agree(answer, right(query, key, value, *weights, 4, keep))
        return
    args = arrays(draw, **MASKED, dtype=dtype)
    for mask in empty_rows(draw) if shape == "empty rows" else [draw.keep(*shape)]:
        keep = mask.cpu().numpy()[..., ::-1]
        answer = attend(*args, 4, keep=keep)
        agree(answer, right(*args, 4, keep))
        hidden_weights_are_zero(answer[1], torch.from_numpy(keep.copy()))


@check(points=1, needs=[test_numpy_values])
def test_numpy_manners(student, draw):
    """multi_head_attention_numpy computes float16 in float32, leaves its inputs alone, takes
    strided and empty ones, and raises a ValueError for a width that the heads do not divide."""
    attend, right = student.multi_head_attention_numpy, reference.multi_head_attention_numpy
    half = arrays(draw, **HALF, dtype=float16)
    for keep in None, draw.keep(4, 17, 17).cpu().numpy():
        agree(attend(*half, 4, keep=keep), right(*half, 4, keep))
    for dtype, expected in (float16, partial(raised, right)), (float64, right):
        query, key, weights = loud(draw, dtype)
        args = [x.cpu().numpy() for x in (query, key, key, *weights.values())]
        for keep in None, draw.keep(9, 9).cpu().numpy():
            agree(attend(*args, 4, keep=keep), expected(*args, 4, keep))
    keep = draw.keep(2, 4, 3, 5).cpu().numpy()
    for dtype in float16, float32, float64:
        args = arrays(draw, dtype=dtype)
        for mask in None, keep:
            untouched(lambda args=args, mask=mask: attend(*args, 4, keep=mask))
    views = [x[..., ::-1].swapaxes(-1, -2).copy().swapaxes(-1, -2)[::-1] for x in args]
    none = [x[:0] if x.ndim == 3 else x for x in args]
    odd = arrays(draw, width=10)
    for mask in None, keep[:1]:
        agree(attend(*views, 4, keep=mask), right(*views, 4, mask))
        agree(attend(*none, 4, keep=mask), right(*none, 4, mask))
        rejects(lambda mask=mask: attend(*odd, 4, keep=mask), 10, 4)


@check(points=1)
@pytest.mark.parametrize("dtype, bias", [(float32, True), (float64, False), (float64, True)])
@pytest.mark.parametrize("sizes", SIZES)
def test_values(student, draw, device, sizes, dtype, bias):
    """MultiHeadAttention lets x attend to itself, and returns output and weights of every head."""
    batch, length, _, width, heads = sizes
    module, oracle = layers(student, draw, device, width, heads, bias, dtype)
    x, _ = tokens(draw, batch, length, width=width, dtype=dtype)
    agree(module(x), oracle(x))


@check(points=1, needs=[test_values])
@each_exact
@pytest.mark.parametrize("sizes", SIZES)
def test_context(student, draw, device, sizes, dtype):
    """With a context, queries come from x, keys and values both from the context."""
    *shape, width, heads = sizes
    module, oracle = layers(student, draw, device, width, heads, True, dtype)
    x, context = tokens(draw, *shape, width, dtype)
    agree(module(x, context), oracle(x, context))


@check(points=1, needs=[test_context])
@each_exact
@pytest.mark.parametrize("shape", MASKS, ids=str)
def test_mask(student, draw, device, shape, dtype):
    """The keys that `keep` marks get all the weight, the others exactly none, whatever the shape
    and layout of `keep`, as long as it broadcasts to (B, H, Lq, Lk)."""
    module, oracle = layers(student, draw, device, dtype=dtype)
    (x, context), keep = tokens(draw, **MASKED, dtype=dtype), draw.keep(*shape)
    for mask in keep, keep.mT.contiguous().mT if keep.ndim > 1 else keep.expand(4, 4, 3, 5):
        output, weights = module(x, context, mask)
        agree((output, weights), oracle(x, context, mask))
        hidden_weights_are_zero(weights, mask)
    own = keep[..., :3].clone()  # for x, which attends to itself when there is no context
    own[..., 0] = True
    agree(module(x, keep=own), oracle(x, keep=own))


@check(points=1, needs=[test_context])
@each_half
def test_half_precision(student, draw, device, dtype):
    """Half precision comes back as it came, and scores that float16 cannot hold do no harm, with a
    mask or without."""
    module, oracle = layers(student, draw, device, 32, bias=True, dtype=dtype)
    x, context = tokens(draw, **HALF, dtype=dtype)
    agree(module(x), oracle(x))
    for mask in None, draw.keep(4, 17, 17):
        agree(module(x, context, mask), oracle(x, context, mask))
    for size, expected in (dtype, raised), (float64, lambda oracle, *args: oracle(*args)):
        x, context, weights = loud(draw, size)
        module, oracle = layers(student, draw, device, 32, dtype=size, weights=weights)
        for mask in None, draw.keep(9, 9):
            agree(module(x, context, mask), expected(oracle, x, context, mask))


@check(points=1, needs=[test_context])
@each_dtype
def test_gradients(student, draw, device, dtype):
    """Gradients reach x, the context and every weight and bias, and are right."""
    module, oracle = layers(student, draw, device, 32, bias=True, dtype=dtype)
    x, context = tokens(draw, **HALF, dtype=dtype)
    keep = draw.keep(4, 17, 17)
    gradients_agree(draw, module, oracle, None, x=x, context=context)
    gradients_agree(draw, module, oracle, keep, x=x)
    if dtype == float64:
        module, _ = layers(student, draw, device, 4, 2)
        leaves = [leaf.requires_grad_() for leaf in tokens(draw, 1, 2, 3, 4)]
        gradcheck(lambda x, context: module(x, context)[0], *leaves)


@check(points=1, needs=[test_mask, test_gradients])
@each_dtype
def test_hidden(student, draw, device, dtype):
    """Hidden tokens change nothing, even of size 1e30; a row that sees no token has weights 0, and
    its gradient is 0, never NaN."""
    module, oracle = layers(student, draw, device, bias=True, dtype=dtype)
    (x, context), keep = tokens(draw, dtype=dtype), padding(draw)
    seen = keep[:, 0, 0, :, None]  # (B, Lk, 1)
    for size in [1e4] if dtype == float16 else [1e4, 1e30]:
        answer = module(x, torch.where(seen, context, size), keep)
        agree(answer, oracle(x, context, keep))
    x, context = tokens(draw, **MASKED, dtype=dtype)
    for keep in empty_rows(draw):
        agree(module(x, context, keep), oracle(x, context, keep))
        gradients_agree(draw, module, oracle, keep, x=x, context=context)


def gradients_agree(draw, module, oracle, keep, **inputs):
    """The gradients of all that went into one output: the inputs, and a layer's own weights."""
    leaves = [x.detach().clone().requires_grad_() for x in inputs.values()]
    upstream = draw.normal(*leaves[0].shape, dtype=leaves[0].dtype)
    module.zero_grad()
    names = dict(zip(inputs, leaves, strict=True))
    got = backward(module(**names, keep=keep)[0], *leaves, upstream=upstream)
    right = oracle.forward_gradients(*leaves, keep=keep, upstream=upstream)
    for name, one, expected in zip(inputs, got, right[: len(got)], strict=True):
        agree(one, expected, says=f"gradient of {name}")
    weights = [f"{name}.{kind}.grad" for name in NAMES for kind in ("weight", "bias")]
    for name, expected in zip(weights, right[len(got) :], strict=True):
        agree(module.read(name), expected)


@check(points=1, needs=[test_context])
def test_manners(student, draw, device):
    """Inputs of any layout are taken and left alone, layers share nothing, the same call gives the
    same answer, and a width that the heads do not divide raises a ValueError."""
    keep = draw.keep(2, 4, 3, 5)
    for dtype in float16, bfloat16, float32, float64:
        module, oracle = layers(student, draw, device, dtype=dtype)
        x, context = tokens(draw, dtype=dtype)
        for args in [x], [x, context], [x, None, keep[..., :3]], [x, context, keep]:
            first = untouched(lambda module=module, args=args: module(*args))
    strided = [draw.strided(*t.shape, dtype=float64) for t in (x, context)]
    expanded = [t[:1].expand(t.shape) for t in (x, context)]
    for views in strided, expanded, [t[:0] for t in (x, context)]:
        agree(module(*views), oracle(*views))
        agree(module(*views, keep[:1]), oracle(*views, keep[:1]))
    other, other_oracle = layers(student, draw, device)
    agree(other(x, context), other_oracle(x, context))
    for again, before in zip(module(x, context, keep), first, strict=True):
        same(again, before)
    rejects(lambda: student.MultiHeadAttention(10, 4), 10, 4)
