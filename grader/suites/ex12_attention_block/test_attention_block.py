"""The parts of a transformer's block, one after another: norm, attention, context, feed-forward."""

import pytest
import torch
from torch import bfloat16, float16, float32, float64

from grader.judging import Hard, agree, check, expect, gradcheck, lasting, rejects, same, untouched
from reference import raised

from . import together
from .close_scores import each_learns_alone, small_weight_counts
from .dropped import DROPPED, OpenWeights, dropped_together
from .given_scores import cross_scores_agree, far, self_scores_agree
from .long_inputs import long_contexts_agree, long_layers_agree
from .manners import cross_manners, self_manners, token_by_token
from .modules import calls, gradients, lacks, load, pair, widths_of_products
from .precision import cross_precision_agrees, self_precision_agrees

HALVES = [float16, bfloat16]
ROWS = {"B": 2, "L": 3, "E": 17}
SELF = {"B": 2, "L": 5, "H": 3, "D": 4}
CROSS = {"B": 2, "L": 5, "Lt": 7, "Li": 4, "H": 3, "D": 4}  # tokens of the text and of the image
FED = {"B": 2, "L": 3, "E": 5, "N": 17}
LAYERS = [(3, 3, 8, 1), (1, 1, 1, 4), (2, 17, 3, 4), (1, 65, 4, 8), (3, 4, 3, 2)]
CONTEXTS = [
    *[(2, 3, 7, 0, 8, 1), (1, 1, 1, 0, 1, 4), (2, 17, 5, 4, 3, 4), (1, 5, 64, 1, 4, 8)],
    *[(3, 1, 1, 16, 2, 4), (2, 4, 4, 4, 2, 4), (3, 3, 3, 0, 2, 4)],
]


@check(points=1)
@pytest.mark.parametrize("case", [(2, 3, 17), (1, 4, 65), (1, 1, 5), Hard.ONE, Hard.LONG])
def test_norm(student, draw, device, case):
    """RMSNorm divides rows by sqrt(mean square + eps), times a weight that is ones at first, in
    .train() and in .eval()."""
    for *shape, width in (s.values() for s in calls(draw, case, ROWS)):
        fresh = student.RMSNorm(width)
        agree(fresh.read("weight"), torch.ones(width), says="weight of a new RMSNorm")
        draw.hard(Hard.OPTIONS)
        for options in ({"eps": 0.1}, {"eps": 0.0}, {})[2 * isinstance(case, Hard) :]:
            module, right = pair(student, draw, device, "RMSNorm", width, **options)
            x = draw.normal(*shape, width)
            agree(module(x), right(x))
            for size in (1e-3, 1e-5, 1e4) if isinstance(case, tuple) else ():
                x = draw.normal(*shape, width, scale=size) + size / 2
                agree(module(x), right(x), says=f"output for numbers of about {size:g}")
        draw.hard(Hard.MODES)
        for mode in (module.eval, module.train, module.eval):
            mode()
            load(module, right, draw, float32)
            agree(module(x), right(x), says="output once other weights are loaded")
    module, right = pair(student, draw, device, "RMSNorm", width)
    for other in (torch.zeros_like(x), x[0, 0], x[None]):
        agree(module(other), right(other))


@check(points=1, needs=[test_norm])
@pytest.mark.parametrize("dtype", [float64, *HALVES])
def test_norm_precision(student, draw, device, dtype):
    """RMSNorm keeps all digits of float64; it keeps half precision, whose mean square neither
    overflows nor vanishes; so do the gradients."""
    module, right = pair(student, draw, device, "RMSNorm", 65, dtype=dtype)
    x = draw.normal(33, 65, dtype=dtype)
    agree(module(x), right(x))
    for size in (1e4, 1e-3, 1e-5, 0.0) if dtype is float64 else (500.0, 2e-4):
        x = draw.normal(9, 65, dtype=dtype, scale=size)
        answer = right(x) if dtype is float64 else raised(right, x)
        agree(module(x), answer, says=f"output for numbers of about {size:g}")
    module, right = pair(student, draw, device, "RMSNorm", 6, dtype=dtype)
    gradients(draw, module, right, draw.normal(3, 1, 6, dtype=dtype))
    if dtype is float64:
        gradcheck(module, draw.normal(2, 6, dtype=dtype).requires_grad_())
    together.norms_agree_together(student, draw, device, dtype)


@check(points=1, needs=[test_norm])
@pytest.mark.parametrize("case", ["each alone", "together"])
def test_norm_manners(student, draw, device, case):
    """RMSNorm leaves x and earlier answers alone, takes strided x and rows of nothing, has right
    gradients, refuses another width; no sizes, options, layouts and dtypes disturb each other."""
    if case == "together":
        together.norms_agree_together(student, draw, device, float32)
        return
    module, right = pair(student, draw, device, "RMSNorm", 6)
    x = draw.normal(3, 1, 6)
    for one in (x, x.expand(3, 4, 6), draw.strided(2, 5, 6), x[:0], x[:, :0]):
        agree(untouched(lambda one=one: module(one)), right(one))
    draw.hard(Hard.CHANGED)
    with lasting(module.forward, x):
        x.neg_()
        agree(module(x), right(x), says="output once x has other numbers")
    x[0] = 0.0  # a root of nothing has no slope
    gradients(draw, module, right, x)
    each_learns_alone(draw, module, right, x)
    draw.hard(Hard.FAILED)
    for dim, width in ((5, 4), (1, 7), (7, 1), (draw.integer(20, 59), draw.integer(60, 99))):
        norm, of_norm = pair(student, draw, device, "RMSNorm", dim)
        rejects(lambda norm=norm, width=width: norm(draw.normal(2, width)), dim, width)
        x = draw.normal(2, dim)
        agree(norm(x), of_norm(x), says="output after a call that raised")


@check(points=1)
@pytest.mark.parametrize(
    "case, dtype",
    [((2, 3, 5, 17), float32), ((1, 9, 48, 96), float32), ((2, 2, 7, 7), float32),
     ((2, 3, 5, 17), float64), ((1, 9, 48, 96), float16), ((1, 9, 48, 96), bfloat16),
     (Hard.ONE, float32), (Hard.LONG, float32), ("together", None)],
)  # fmt: skip
def test_feed_forward(student, draw, device, case, dtype):
    """FeedForward is w2(relu(w1(x))), in every dtype, in .train() and .eval(); it leaves x and
    earlier answers alone, and its gradients are right; no sizes, layouts and dtypes disturb each
    other."""
    if case == "together":
        together.feed_forwards_agree_together(student, draw, device)
        return
    draw.hard(Hard.MODES)
    draw.hard(Hard.CHANGED)
    for *shape, width, hidden in (s.values() for s in calls(draw, case, FED)):
        module, right = pair(student, draw, device, "FeedForward", width, hidden, dtype=dtype)
        x, strided = draw.normal(*shape, width, dtype=dtype), draw.strided(2, 2, width, dtype=dtype)
        views = x[0, 0], x[:0], x[:1].expand(3, *x.shape[1:]), strided
        views += (1e6 * x,) if dtype is float32 else ()
        token_by_token(module, right, x, *(() if isinstance(case, Hard) else views))
    state = right.state_dict()  # gradients jump where a hidden number is almost 0: none shall be
    state["w1.bias"] = 8.0 * state["w1.bias"].sign()
    module.load_state_dict(state, strict=False)
    right.load_state_dict(state)
    gradients(draw, module, right, x)
    if dtype is float32:
        each_learns_alone(draw, module, right, x)


@check(points=1)
@pytest.mark.parametrize("case", [*LAYERS, Hard.ONE])
def test_self(student, draw, device, case):
    """Without norms SelfAttention is multi-head self-attention under any mask, `fused` or not, with
    the weights that it has at each call, in .train() and in .eval()."""
    for batch, length, heads, width in (s.values() for s in calls(draw, case, SELF)):
        module, right = pair(student, draw, device, "SelfAttention", heads * width, heads, False)
        same(module.read("fused"), True, says="the attribute fused of a new SelfAttention")
        lacks(module, "norm_q.weight", "norm_k.weight")
        x = draw.normal(batch, length, heads * width)
        for fused in (True, False):
            module.fused = fused
            agree(module(x), right(x), says=f"output (fused={fused})")
        draw.hard(Hard.MODES)
        masks = (batch, 1, 1), (heads, length), (length,), (1,), (), (batch, heads, 1)
        for mode, shape in zip((module.eval, module.train) * 3, masks, strict=True):
            mode()
            keep = draw.keep(*shape, length)
            agree(module(x, keep), right(x, keep), says="output with a mask")
    if isinstance(case, Hard):
        return
    for mode in ("train", "eval", "eval"):
        getattr(module, mode)()
        load(module, right, draw, float32)
        for fused in (False, True):
            module.fused = fused
            says = f"output (fused={fused}, other weights loaded, .{mode}())"
            agree(module(x), right(x), says=says)
    draw.hard(Hard.CHANGED)
    x.mul_(-0.7)
    agree(module(x), right(x), says="output once x has other numbers")


@check(points=1, needs=[test_self])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("heads", [1, 3])
def test_fused(student, draw, device, heads, masked):
    """With `fused` one product with the three weights gives q, k and v; without it three do."""
    module, _ = pair(student, draw, device, "SelfAttention", 12, heads, False)
    x, keep = draw.normal(2, 2, 12), draw.keep(2, 2) if masked else None
    for fused in (True, False):
        module.fused = fused
        found = widths_of_products(student, module, heads, x, keep)
        widths = ", ".join(map(str, found)) or "no"
        says = f"fused={fused}: the products over the model width give {widths} numbers of a token"
        if fused:
            one = len(found) <= 2 and max(found, default=0) >= 36
            expect(one, f"{says}, but one should give the 36 of q, k and v, and that of o its 12")
        else:
            three = len(found) >= 3 and max(found) <= 12
            expect(three, f"{says}, but three should give the 12 each of q, k and v")


@check(points=1, needs=[test_norm, test_self])
@pytest.mark.parametrize("case", [*LAYERS, Hard.ONE])
def test_self_norms(student, draw, device, case):
    """norm_q and norm_k, there by default, are of the whole width, before the heads are split."""
    for batch, length, heads, width in (s.values() for s in calls(draw, case, SELF)):
        module, right = pair(student, draw, device, "SelfAttention", heads * width, heads)
        keep = draw.keep(batch, heads, length, length)
        for fused in (True, False):
            module.fused = fused
            for size, mask in ((1.0, None), (30.0, keep)):
                x = draw.normal(batch, length, heads * width, scale=size)
                agree(module(x, mask), right(x, mask), says=f"output (fused={fused})")


@check(points=1, needs=[test_self_norms])
@pytest.mark.parametrize("qk_norm", [False, True])
@pytest.mark.parametrize(
    "base, width, heads", [(10000.0, 12, 3), (100.0, 16, 1), (10000.0, 6, 3), (1.0, 12, 2)]
)
def test_rope(student, draw, device, base, width, heads, qk_norm):
    """RoPE turns neighbours in each head of q and k, after the norms, by p * base**(-2i/D), however
    many tokens there are; it refuses an odd head width."""
    draw.hard(Hard.OPTIONS)
    options = {"qk_norm": qk_norm, "rope_base": base}
    module, right = pair(student, draw, device, "SelfAttention", width, heads, **options)
    for length in (3, 33, 1, 17):
        x = draw.normal(2, length, width)
        agree(module(x), right(x))
    keep = draw.keep(heads, length, length)
    agree(module(x, keep), right(x, keep), says="output with a mask")
    for options["rope_base"] in 7 * base, base + 0.4:
        other, of_other = pair(student, draw, device, "SelfAttention", width, heads, **options)
        agree(other(x), of_other(x), says="output of a second module, with another base")
    agree(module(x), right(x), says="output of the first module once more")
    many = draw.integer(20, 49)
    for wide, heads in (15, 3), (20, 4), (3 * many, many):
        asked = wide, heads, qk_norm, base
        rejects(lambda a=asked: student.SelfAttention(*a), wide, heads)
    if base == 100.0 and not qk_norm:
        got, answer, says = far(student, draw, device, 8300, float32)
        # Angles in float32 are rounded, this way or that; too short a table is far worse.
        agree(got, answer, says=says, within=0.1 * answer.magnitude)


@check(points=1, needs=[test_rope])
@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("dtype", [float32, float64, *HALVES])
def test_self_precision(student, draw, device, fused, dtype):
    """SelfAttention keeps all digits of float64; it keeps half precision, whose angles,
    scores and softmax are computed in float32; scores of any size are right."""
    if dtype is float32:
        self_scores_agree(student, draw, device, fused)
    else:
        self_precision_agrees(student, draw, device, fused, dtype)
        if fused:  # and without, in the same calls
            together.self_agrees_together(student, draw, device, dtype)
    if dtype.itemsize > 2:
        small_weight_counts(student, draw, device, dtype, "SelfAttention", False)


@check(points=1, needs=[test_rope])
@pytest.mark.parametrize("case", ["fused", "three", Hard.LONG, "together"])
def test_self_manners(student, draw, device, case):
    """SelfAttention hides what `keep` hides, gives zeros to heads that see nothing, for any number
    of tokens and heads; it leaves its inputs and earlier answers alone, takes any strides and
    an empty batch, has right gradients; no options, masks, layouts and dtypes disturb each other.
    """
    if case is Hard.LONG:
        long_layers_agree(student, draw, device)
    elif case == "together":
        together.self_agrees_together(student, draw, device, float32)
    else:
        self_manners(student, draw, device, case == "fused")


@check(points=1, needs=[test_self])
@pytest.mark.parametrize("fused, masked", [(True, False), (False, True), ("together", None)])
def test_dropout(student, draw, device, fused, masked):
    """Dropout drops single weights after the softmax, divides the rest by 1 - dropout, and only
    in training; with dropout=0 training changes nothing; so it is with any options together."""
    if fused == "together":
        dropped_together(student, draw, device)
        return
    draw.hard(Hard.OPTIONS)
    keep = draw.keep(4, 1, 1, 32, share=0.8) if masked else None
    opened = OpenWeights(student, draw, device, DROPPED, float32)
    opened.module.fused = fused
    opened.module.eval()
    weights = opened.evaluated(keep, "in evaluation")
    opened.module.train()
    outputs = [opened.dropped(keep, weights) for _ in range(2)]
    expect(not torch.equal(*outputs), "two calls in training drop the same weights")
    opened.gradient(draw, keep, weights)
    opened.module.eval()
    opened.evaluated(keep, "in evaluation, after training")
    opened = OpenWeights(student, draw, device, 0.0, float32)
    opened.evaluated(keep, "in training, although dropout is 0")
    opened.module.eval()
    opened.evaluated(keep, "in evaluation, where dropout is 0")


@check(points=1, needs=[test_norm])
@pytest.mark.parametrize("case", [*CONTEXTS, Hard.SQUARE, Hard.ONE])
def test_cross(student, draw, device, case):
    """CrossAttention reads text (under keep) and image apart, and adds the two before o, in
    .train() and in .eval(); the context may be x itself."""
    draw.hard(Hard.MODES)
    for batch, length, text, image, heads, width in (s.values() for s in calls(draw, case, CROSS)):
        draw.hard(Hard.OPTIONS)
        asked = (image,) if image or width > 1 else ()  # none by default
        module, right = pair(student, draw, device, "CrossAttention", heads * width, heads, *asked)
        if not image:
            lacks(module, "k_img.weight", "v_img.weight", "norm_k_img.weight")
        x = draw.normal(batch, length, heads * width)
        context = draw.normal(batch, image + text, heads * width)
        for mode in (module.eval, module.train)[isinstance(case, Hard) :]:
            mode()
            agree(module(x, context), right(x, context))
            load(module, right, draw, float32)
            agree(module(x, context), right(x, context), says="output after new weights")
        for shape in ((batch, heads, length), (batch, 1, 1), (heads, length), ()):
            keep = draw.keep(*shape, text)
            agree(module(x, context, keep), right(x, context, keep), says="output with a mask")
        if length > image:
            draw.hard(Hard.SAME)
            keep = draw.keep(length, length - image)
            for mask in (keep, None):
                agree(module(x, x, mask), right(x, x, mask), says="output where the context is x")


@check(points=1, needs=[test_cross])
@pytest.mark.parametrize("image", [5, 0])
@pytest.mark.parametrize("dtype", [float32, float64, *HALVES])
def test_cross_precision(student, draw, device, image, dtype):
    """CrossAttention keeps all digits of float64; it keeps half precision, whose scores
    and softmax are computed in float32; scores of any size are right."""
    if dtype is float32:
        cross_scores_agree(student, draw, device)
    else:
        cross_precision_agrees(student, draw, device, image, dtype)
        if image:  # and without, in the same calls
            together.cross_agrees_together(student, draw, device, dtype)
    if dtype.itemsize > 2:
        small_weight_counts(student, draw, device, dtype, "CrossAttention", image)


@check(points=1, needs=[test_cross])
@pytest.mark.parametrize("case", [4, 0, Hard.LONG, "together"])  # tokens of the image
def test_cross_manners(student, draw, device, case):
    """CrossAttention hides what `keep` hides, gives zeros where there is no text to attend to, for
    any number of tokens and heads; it leaves its inputs and earlier answers alone, takes any
    strides and an empty batch, has right gradients, refuses a context that is too short; no masks,
    sizes, layouts and dtypes disturb each other."""
    if case is Hard.LONG:
        long_contexts_agree(student, draw, device)
    elif case == "together":
        together.cross_agrees_together(student, draw, device, float32)
    else:
        cross_manners(student, draw, device, case)
