"""The parts of a transformer's block, one after another: norm, attention, context, feed-forward."""

import pytest
import torch
from torch import bfloat16, float16, float32, float64

from grader.judging import Hard, agree, check, expect, gradcheck, rejects, same, untouched
from grader.suites.ex12_attention_block.modules import (
    DROPPED,
    OpenWeights,
    count,
    far,
    gradients,
    lacks,
    load,
    pair,
)
from reference import raised

WIDE = [float32, float64]
HALVES = [float16, bfloat16]
ALL = [*WIDE, *HALVES]
LAYERS = [(2, 3, 8, 8), (1, 1, 4, 1), (2, 17, 12, 3), (1, 65, 32, 4)]  # batch, tokens, width, heads
CONTEXTS = [  # batch, tokens, tokens of the context, how many of them are an image; width, heads
    *[(2, 3, 7, 0, 8, 8), (1, 1, 1, 0, 4, 1), (2, 17, 9, 4, 12, 3), (1, 5, 65, 1, 32, 4)],
    *[(2, 4, 6, 6, 12, 2), (3, 1, 17, 16, 8, 2)],
    *[(2, 4, 8, 4, 8, 2), (2, 3, 3, 0, 8, 2)],  # as many tokens in one as in the other
]


@check(points=1)
@pytest.mark.parametrize("dtype", WIDE)
@pytest.mark.parametrize("shape, eps", [((5,), None), ((2, 3, 17), 0.1), ((1, 1), None),
                                        ((4, 65), None), ((0, 3), None)])  # fmt: skip
def test_norm(student, draw, device, shape, eps, dtype):
    """RMSNorm divides rows by sqrt(mean square + eps), times a weight that is ones at first."""
    options = {} if eps is None else {"eps": eps}
    fresh = student.RMSNorm(shape[-1], **options)
    agree(fresh.read("weight"), torch.ones(shape[-1]), says="weight of a new RMSNorm")
    module, right = pair(student, draw, device, "RMSNorm", shape[-1], dtype=dtype, **options)
    for size in (1.0, 1e-3, 1e-5, 0.0, 1e4):
        x = draw.normal(*shape, dtype=dtype, scale=size) + size / 2
        agree(module(x), right(x), says=f"output for numbers of about {size:g}")


@check(points=1, needs=[test_norm])
@pytest.mark.parametrize("dtype", HALVES)
def test_norm_half(student, draw, device, dtype):
    """RMSNorm keeps half precision, and its mean square neither overflows nor vanishes."""
    module, right = pair(student, draw, device, "RMSNorm", 65, dtype=dtype)
    x = draw.normal(33, 65, dtype=dtype)
    agree(module(x), right(x))
    for size in (500.0, 2e-4):
        x = draw.normal(9, 65, dtype=dtype, scale=size)
        agree(module(x), raised(right, x), says=f"output for numbers of about {size:g}")


@check(points=1, needs=[test_norm])
@pytest.mark.parametrize("dtype", ALL)
def test_norm_manners(student, draw, device, dtype):
    """RMSNorm leaves x alone, takes strided x, has right gradients, refuses another width."""
    module, right = pair(student, draw, device, "RMSNorm", 6, dtype=dtype)
    x = draw.normal(3, 1, 6, dtype=dtype)
    for one in (x, x.expand(3, 4, 6), draw.strided(2, 5, 6, dtype=dtype)):
        agree(untouched(lambda one=one: module(one)), right(one))
    x[0] = 0.0  # a root of nothing has no slope
    gradients(draw, module, right, x)
    if dtype is float64:
        gradcheck(module, draw.normal(2, 6, dtype=dtype).requires_grad_())
    for dim, width in ((5, 4), (1, 7), (7, 1)):
        module = student.RMSNorm(dim)
        rejects(lambda module=module, width=width: module(draw.normal(2, width)), dim, width)


@check(points=1)
@pytest.mark.parametrize("dtype", ALL)
@pytest.mark.parametrize("shape, hidden", [((2, 3, 5), 17), ((20, 48), 96), ((2, 7), 7)])
def test_feed_forward(student, draw, device, shape, hidden, dtype):
    """FeedForward is w2(relu(w1(x))), in every dtype, in .train() and .eval(); it leaves x alone,
    and its gradients are right."""
    draw.hard(Hard.MODES)
    module, right = pair(student, draw, device, "FeedForward", shape[-1], hidden, dtype=dtype)
    x = draw.normal(*shape, dtype=dtype)
    for mode in ("eval", "train"):
        getattr(module, mode)()
        for one in (x, x[:0], draw.strided(2, *shape[-2:], dtype=dtype)):
            agree(untouched(lambda one=one: module(one)), right(one), says=f"output in .{mode}()")
    state = right.state_dict()  # gradients jump where a hidden number is almost 0: none shall be
    state["w1.bias"] = 8.0 * state["w1.bias"].sign()
    module.load_state_dict(state, strict=False)
    right.load_state_dict(state)
    gradients(draw, module, right, x)


@check(points=1)
@pytest.mark.parametrize("dtype", WIDE)
@pytest.mark.parametrize("sizes", LAYERS)
def test_self(student, draw, device, sizes, dtype):
    """Without norms SelfAttention is multi-head self-attention under any mask, `fused` or not, with
    the weights that it has at each call, in .train() and in .eval()."""
    draw.hard(Hard.MODES)
    draw.hard(Hard.CHANGED)
    batch, length, width, heads = sizes
    module, right = pair(student, draw, device, "SelfAttention", width, heads, False, dtype=dtype)
    same(module.read("fused"), True, says="the attribute fused of a new SelfAttention")
    lacks(module, "norm_q.weight", "norm_k.weight")
    x, hiding = draw.normal(batch, length, width, dtype=dtype), draw.keep(1, 1, 1, length)
    masks = [draw.keep(*shape, length) for shape in ((batch, 1, 1), (heads, length), (length,))]
    if length > 1:
        masks[1][:, 0] = False
        hiding[..., -1] = False
    for fused in (True, False):
        module.fused = fused
        agree(module(x), right(x), says=f"output (fused={fused})")
    for keep in masks:
        agree(module(x, keep), right(x, keep), says="output with a mask")
    rows = hiding[0, 0, 0]
    clean = right(x, hiding)
    clean = clean._replace(exact=clean.exact[:, rows.cpu().numpy()], plain=clean.plain[:, rows])
    huge = x.masked_fill(~hiding[0, 0].mT, 1e30 if dtype is float64 else 1e10)
    agree(module(huge, hiding)[:, rows], clean, says="output (hidden tokens are huge)")
    if dtype is float64:
        agree(module(300 * x, masks[2]), right(300 * x, masks[2]), says="output for 300 times x")
    for mode in ("train", "eval", "eval"):
        getattr(module, mode)()
        load(module, right, draw, dtype)
        for fused in (False, True):
            module.fused = fused
            says = f"output (fused={fused}, other weights loaded, .{mode}())"
            agree(module(x), right(x), says=says)
    x.mul_(-0.7)
    agree(module(x), right(x), says="output once x has other numbers")
    rejects(lambda: student.SelfAttention(10, 4), 10, 4)


@check(points=1, needs=[test_self])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("heads", [1, 3])
def test_fused(student, draw, device, heads, masked):
    """With `fused` one product with the three weights gives q, k and v; without it three do."""
    module, _ = pair(student, draw, device, "SelfAttention", 12, heads, False, dtype=float32)
    x, keep = draw.normal(2, 5, 12), draw.keep(5, 5) if masked else None
    many, few = (count(student, module, fused, x, keep) for fused in (False, True))
    says = f"{few} products of matrices with fused=True and {many} with fused=False: one of them"
    expect(few <= many - 2, f"{says} (F.linear, @, einsum, ...) should take the place of three")


@check(points=1, needs=[test_norm, test_self])
@pytest.mark.parametrize("dtype", WIDE)
@pytest.mark.parametrize("sizes", LAYERS)
def test_self_norms(student, draw, device, sizes, dtype):
    """norm_q and norm_k, there by default, are of the whole width, before the heads are split; a
    token may see nothing in one head alone."""
    batch, length, width, heads = sizes
    module, right = pair(student, draw, device, "SelfAttention", width, heads, dtype=dtype)
    keep = draw.keep(batch, heads, length, length)
    keep[:, 0, -1] = False
    for fused in (True, False):
        module.fused = fused
        for size, mask in ((1.0, None), (30.0, keep)):
            x = draw.normal(batch, length, width, dtype=dtype, scale=size)
            agree(module(x, mask), right(x, mask), says=f"output (fused={fused})")


@check(points=1, needs=[test_self_norms])
@pytest.mark.parametrize("dtype", WIDE)
@pytest.mark.parametrize("qk_norm", [False, True])
@pytest.mark.parametrize("base, width, heads", [(10000.0, 12, 3), (100.0, 16, 1), (10000.0, 6, 3)])
def test_rope(student, draw, device, base, width, heads, qk_norm, dtype):
    """RoPE turns neighbours in each head of q and k, after the norms, by p * base**(-2i/D), however
    many tokens there are."""
    options = {"qk_norm": qk_norm, "rope_base": base, "dtype": dtype}
    module, right = pair(student, draw, device, "SelfAttention", width, heads, **options)
    for length in (3, 33, 17):
        x = draw.normal(2, length, width, dtype=dtype)
        agree(module(x), right(x))
    keep = draw.keep(heads, length, length)
    agree(module(x, keep), right(x, keep), says="output with a mask")
    draw.hard(Hard.OPTIONS)
    sizes, options = (width, heads), options | {"rope_base": base / 7}
    other, of_other = pair(student, draw, device, "SelfAttention", *sizes, **options)
    agree(other(x), of_other(x), says="output of a second module, with another base")
    agree(module(x), right(x), says="output of the first module once more")
    rejects(lambda: student.SelfAttention(15, 3, rope_base=base), 15, 3)
    if dtype is float32 and base == 100.0 and not qk_norm:
        got, answer, says = far(student, draw, device, 4200, dtype)
        # Angles in float32 are rounded, this way or that; too short a table is far worse.
        agree(got, answer, says=says, within=0.1 * answer.magnitude)


@check(points=1, needs=[test_rope])
@pytest.mark.parametrize("dtype, fused", [(float16, True), (float16, False), (bfloat16, True)])
def test_self_half(student, draw, device, fused, dtype):
    """SelfAttention keeps half precision; norm, angles and softmax are computed in float32."""
    module, right = pair(student, draw, device, "SelfAttention", 48, 4, True, 100.0, dtype=dtype)
    module.fused = fused
    keep = draw.keep(2, 1, 33, 33)
    keep[:, :, 5] = False
    x = draw.normal(2, 33, 48, dtype=dtype)
    agree(module(x, keep), right(x, keep))
    if fused:
        got, answer, says = far(student, draw, device, 2100, dtype)
        agree(got, answer, says=says)
    x = draw.normal(1, 9, 48, dtype=dtype, scale=500.0)
    answer = raised(right, x, None)  # whose projections are in float32, unlike theirs
    answer = answer._replace(magnitude=2 * answer.magnitude)
    agree(module(x), answer, says="output for numbers of about 500")
    module, right = pair(student, draw, device, "SelfAttention", 64, 1, False, dtype=dtype)
    module.fused = fused
    load(module, right, draw, dtype, identity=True)
    x = torch.full((1, 5, 64), 256.0, dtype=dtype, device=device)
    agree(module(x), x, says="output for products of 256s")


@check(points=1, needs=[test_rope])
@pytest.mark.parametrize(
    "dtype, fused",
    [(float64, True), (float64, False), (float32, True), (float16, False), (bfloat16, True)],
)
def test_self_manners(student, draw, device, fused, dtype):
    """SelfAttention leaves x and keep alone, takes any strides, has right gradients."""
    module, right = pair(student, draw, device, "SelfAttention", 12, 3, True, 100.0, dtype=dtype)
    module.fused = fused
    keep = draw.keep(3, 5, 5)
    keep[:, 2] = False
    x = draw.normal(2, 5, 12, dtype=dtype)
    for one in (x, draw.strided(2, 5, 12, dtype=dtype), x[:1].expand(3, 5, 12), x[:0]):
        agree(untouched(lambda one=one: module(one, keep)), right(one, keep))
    agree(untouched(lambda: module(x)), right(x))
    gradients(draw, module, right, x, keep=keep if fused else None)
    if dtype is float64:
        small, _ = pair(student, draw, device, "SelfAttention", 4, 2, True, 100.0, dtype=dtype)
        small.fused = fused
        gradcheck(small, draw.normal(1, 2, 4, dtype=dtype).requires_grad_())


@check(points=1, needs=[test_self])
@pytest.mark.parametrize("dtype", WIDE)
@pytest.mark.parametrize("fused, masked", [(True, False), (False, True)])
def test_dropout(student, draw, device, fused, masked, dtype):
    """Dropout drops single weights after the softmax, divides the rest by 1 - dropout, and only
    in training; with dropout=0 training changes nothing."""
    keep = draw.keep(4, 1, 1, 32, share=0.8) if masked else None
    opened = OpenWeights(student, draw, device, DROPPED, dtype)
    opened.module.fused = fused
    opened.module.eval()
    weights = opened.evaluated(keep, "in evaluation")
    opened.module.train()
    outputs = [opened.dropped(keep, weights) for _ in range(2)]
    expect(not torch.equal(*outputs), "two calls in training drop the same weights")
    opened.gradient(keep)
    opened.module.eval()
    opened.evaluated(keep, "in evaluation, after training")
    opened = OpenWeights(student, draw, device, 0.0, dtype)
    opened.evaluated(keep, "in training, although dropout is 0")
    opened.module.eval()
    opened.evaluated(keep, "in evaluation, where dropout is 0")


@check(points=2, needs=[test_norm])
@pytest.mark.parametrize("dtype", WIDE)
@pytest.mark.parametrize("sizes", CONTEXTS)
def test_cross(student, draw, device, sizes, dtype):
    """CrossAttention reads text (under keep) and image apart, and adds the two before o; the
    context may be x itself."""
    batch, length, of_context, image, width, heads = sizes
    asked = (image,) if image else ()  # none by default
    module, right = pair(student, draw, device, "CrossAttention", width, heads, *asked, dtype=dtype)
    if not image:
        lacks(module, "k_img.weight", "v_img.weight", "norm_k_img.weight")
    x = draw.normal(batch, length, width, dtype=dtype)
    context = draw.normal(batch, of_context, width, dtype=dtype)
    agree(module(x, context), right(x, context))
    draw.hard(Hard.SAME)
    if length > image:
        keep = draw.keep(length, length - image)
        keep[0] = False
        agree(module(x, x, keep), right(x, x, keep), says="output where the context is x")
    if length == of_context - image:
        draw.hard(Hard.SQUARE, L=length, Lc=of_context - image)
    if text := of_context - image:
        for shape in ((batch, 1, 1, text), (heads, length, text)):
            keep = draw.keep(*shape)
            keep[..., 0, :] = keep[..., 0, :] & (len(shape) == 4)  # row 0 sees no text
            agree(module(x, context, keep), right(x, context, keep), says="output with a mask")
        keep = draw.keep(text)
        keep[-1] = text == 1
        clean = right(x, context, keep)
        context[:, image:][:, ~keep] = 1e30 if dtype is float64 else 1e10
        agree(module(x, context, keep), clean, says="output (hidden tokens are huge)")
    if image:
        short = context[:, : image - 1]
        rejects(lambda: module(x, short), image, image - 1)
    rejects(lambda: student.CrossAttention(10, 4), 10, 4)


@check(points=1, needs=[test_cross])
@pytest.mark.parametrize(
    "dtype, image", [(float64, 5), (float64, 0), (float32, 5), (float16, 5), (bfloat16, 5)]
)
def test_cross_manners(student, draw, device, image, dtype):
    """CrossAttention keeps half precision, leaves its inputs alone, and has right gradients."""
    module, right = pair(student, draw, device, "CrossAttention", 48, 4, image, dtype=dtype)
    x, context = draw.normal(2, 33, 48, dtype=dtype), draw.normal(2, 17, 48, dtype=dtype)
    keep = draw.keep(2, 4, 33, 17 - image)
    agree(module(x, context, keep), right(x, context, keep))
    if dtype in HALVES:
        x, context = (draw.normal(1, n, 48, dtype=dtype, scale=500.0) for n in (9, 17))
        answer = raised(right, x, context, None)
        answer = answer._replace(magnitude=2 * answer.magnitude)
        agree(module(x, context), answer, says="output for numbers of about 500")
        load(module, right, draw, dtype, identity=True)
        alike = torch.full_like(context, 3.0)
        total = torch.full_like(x, 6.0 if image else 3.0)
        agree(module(x, alike), total, says="output for products of 256s")
    module, right = pair(student, draw, device, "CrossAttention", 12, 3, image, dtype=dtype)
    x, context = draw.normal(2, 3, 12, dtype=dtype), draw.normal(2, 9, 12, dtype=dtype)
    strided = draw.strided(2, 3, 12, dtype=dtype), draw.strided(2, 9, 12, dtype=dtype)
    keep = draw.keep(3, 3, 9 - image)
    keep[:, 1] = False
    for given in ((x, context), strided, (x[:1].expand(3, 3, 12), context[:1].expand(3, 9, 12)),
                  (x[:0], context[:0])):  # fmt: skip
        agree(untouched(lambda given=given: module(*given, keep)), right(*given, keep))
    gradients(draw, module, right, x, context, keep=keep)
