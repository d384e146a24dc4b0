"""The fast path: values first, then what PyTorch's operator leaves to its caller, then kernels.

The first checks ask float32, four dimensions and equal heads. Grouped heads, other precisions, and
other layouts have checks of their own.
"""

from contextlib import suppress
from functools import partial

import pytest
import torch
from torch import bfloat16, float16, float32, float64

from grader.judging import Hard, agree, check, lasting, rejects, same, untouched
from grader.judging.case import StudentFault
from grader.suites.ex08_cuda_sdpa import extremes, kernels, layers, manners, together
from grader.suites.ex08_cuda_sdpa.calls import (
    OPTIONS,
    USUAL,
    agree_before_large_keys,
    agree_behind_large_keys,
    agree_gradients,
    agree_gradients_of_one,
    agree_in_dtype,
    agree_on_hard_scores,
    agree_output,
    agree_with_any_scale,
    options_of,
    qkv,
    sizes_of,
)

HALVES = [float16, bfloat16]
SHAPES = [(2, 4, 5, 9, 8, 8), (2, 6, 17, 3, 8, 5), (6, 3, 3, 65, 16, 24), (1, 1, 65, 17, 20, 1)]
LENGTHS = [(6, 6), (1, 9), (3, 9), (17, 65), (9, 3), (65, 17), (5, 1)]  # Lq, Lk
MASKS = [(9,), (1, 9), (5, 9), (2, 1, 1, 9), (6, 1, 9), (2, 6, 5, 9), (2, 6, 5, 1), (5, 1)]
SIZES = [Hard.SQUARE, Hard.ONE, Hard.LONG]
each_set = pytest.mark.parametrize("names", OPTIONS, ids=lambda names: "-".join(names) or "plain")


@check(points=1)
@pytest.mark.parametrize("case", [*SHAPES, *SIZES], ids=str)
def test_values(student, draw, case):
    """The output is softmax(q k^T / sqrt(D)) v for each head, in float32, of any sizes."""
    for sizes in sizes_of(draw, case):
        agree_output(student, *qkv(draw, **sizes))


@check(points=1, needs=[test_values])
@each_set
def test_groups(student, draw, names):
    """Query head h reads key/value head h // (H // Hk), whatever the options; a shared head adds up
    the gradients of its group."""
    several = (2, 3, 5, 9), (1, 4, 9, 5), (3, 2, 6, 6), (2, 2, 1, 7), (2, 4, 6, 1), (2, 3, 2, 2)
    for H, group, Lq, Lk in several:
        q, k, v = qkv(draw, group=group, H=H, Lq=Lq, Lk=Lk)
        options = options_of(draw, names, q, k)
        agree_output(student, q, k, v, **options)
        if Lq < Lk:
            agree_gradients(student, draw, q, k, v, **options)
    sizes = {"H": 2, "group": 2, "Lq": 3, "Lk": 5}
    for s in draw.hard(Hard.ONE, **sizes) + draw.hard(Hard.LONG, **sizes):
        q, k, v = qkv(draw, **s)
        agree_output(student, q, k, v, **options_of(draw, names, q, k))


@check(points=1, needs=[test_values])
@pytest.mark.parametrize("case", [*LENGTHS, *SIZES, Hard.OPTIONS], ids=str)
def test_causal(student, draw, case):
    """With causal=True the last query lines up with the last key; a query before the first key
    gets zeros; later keys change nothing, not even 1e30; and any scale may be given."""
    if case is Hard.OPTIONS:
        agree_with_any_scale(student, draw, "causal")
        return
    small = (2, 3, *case, 6, 5) if isinstance(case, tuple) else case
    for sizes in sizes_of(draw, small):
        q, k, v = qkv(draw, **sizes)
        agree_output(student, q, k, v, causal=True)
        if isinstance(case, tuple) and 1 < sizes["Lq"] <= sizes["Lk"]:
            agree_before_large_keys(student, q, k, v)


@check(points=1, needs=[test_values])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("case", [*MASKS, *SIZES, Hard.OPTIONS], ids=str)
def test_mask_and_bias(student, draw, case, causal):
    """keep, bias and causal work alone and together, with any given scale (0 or negative too);
    hidden keys count for nothing, even 1e30; a query that sees no key gets zeros."""
    also = ("causal",) if causal else ()
    if case is Hard.OPTIONS:
        for names in ((), ("keep",), ("bias",), ("keep", "bias")):
            agree_with_any_scale(student, draw, *names, *also)
        agree_behind_large_keys(student, draw, causal)
        extremes.low_scores_agree(student, draw, float32, ("keep", *also))
        q, k, v = qkv(draw, B=3, H=3)  # a mask of three dimensions is one for each head
        for shape in ((3, 5, 9), (3, 1, 9)):
            keep, bias = draw.keep(*shape), draw.normal(*shape, scale=2.0)
            agree_output(student, q, k, v, keep=keep, causal=causal)
            agree_output(student, q, k, v, bias=bias, causal=causal)
        for one in (keep[0, 0, 0] | True, keep[0, 0, 0] & False):  # of no dimension
            agree_output(student, q, k, v, keep=one, causal=causal)
            agree_output(student, q, k, v, keep=one, bias=bias[0, 0, 0], causal=causal)
    elif isinstance(case, Hard):
        few = {} if case is not Hard.LONG else {"D": 128, "Dv": 0}
        for sizes in sizes_of(draw, case, few):
            q, k, v = qkv(draw, **sizes)
            for names in (("keep",), ("bias",), ("keep", "bias")):
                options = options_of(draw, names + also, q, k, empty="keep" in names)
                agree_output(student, q, k, v, **options)
            for row in draw.keep(1, sizes["Lk"]), draw.keep(sizes["Lq"], sizes["Lk"]):
                agree_output(student, q, k, v, keep=row, causal=causal)
            if max(sizes["Lq"], sizes["Lk"]) > 64:  # a column for many keys, a row for many queries
                agree_output(student, q, k, v, keep=draw.keep(1, sizes["Lq"]).mT, causal=causal)
                agree_output(student, q, k, v, bias=draw.normal(1, sizes["Lk"]), causal=causal)
    else:
        q, k, v = qkv(draw, H=6)
        keep, bias = draw.keep(*case), draw.normal(*case, scale=2.0)
        empty = options_of(draw, ["keep"], q, k, empty=True)["keep"]
        for some in (keep, empty, empty[:, :1], draw.keep(5, 1) & False):
            agree_output(student, q, k, v, keep=some, causal=causal)
            agree_output(student, q, k, v, keep=some, bias=bias, causal=causal)
        agree_output(student, q, k, v, bias=bias, causal=causal)


@check(points=1, needs=[test_values])
@each_set
def test_gradient(student, draw, device, names):
    """Gradients flow to q, k, v and the bias and are right, whatever the options and the lengths; a
    query that sees no key adds nothing to them."""
    for Lq, Lk in ((5, 9), (9, 5), (17, 65)):
        q, k, v = qkv(draw, Lq=Lq, Lk=Lk)
        agree_gradients(student, draw, q, k, v, **options_of(draw, names, q, k, empty=True))
    for kind in (Hard.SQUARE, Hard.ONE):
        for sizes in draw.hard(kind, **USUAL):
            q, k, v = qkv(draw, **sizes)
            agree_gradients(student, draw, q, k, v, **options_of(draw, names, q, k))
    extremes.each_learns_alone(student, draw, names)
    if names == ():
        extremes.x_learns_alone(student, draw, device)
    if "bias" not in names:
        x = draw.normal(2, 3, 5, 6)
        agree_gradients_of_one(student, draw, x, **options_of(draw, names, x, x))


@check(points=1, needs=[test_values])
@each_set
@pytest.mark.parametrize("dtype", [float32, float64, *HALVES])
def test_precision(student, draw, device, dtype, names):
    """float64 keeps its digits, half precision adds up in float32 and comes back as it was, and
    scores of any size and either sign do not overflow, with any options, in the module too."""
    if dtype is float32:
        agree_on_hard_scores(student, draw, names)
    else:
        agree_in_dtype(student, draw, dtype, names)
    if dtype in HALVES:
        extremes.ties_agree(student, draw, dtype, names)
    else:
        extremes.low_scores_agree(student, draw, dtype, names)
    if names == ():
        layers.agree_on_hard_scores(student, draw, device)
        extremes.module_agrees(student, draw, device, dtype)
        if dtype not in HALVES:
            extremes.small_weight_counts(student, draw, device, dtype)
        if dtype is not float32:
            both = {"qkv_bias": True, "qk_norm": True}
            layers.agree_in_dtype(student, draw, device, dtype, both)
            x = draw.normal(2, 3, 5, 6, dtype=dtype)
            agree_gradients_of_one(student, draw, x)
            together.agree_together(student, draw, dtype)
            together.modules_agree_together(student, draw, device, dtype)


@check(points=1)
@pytest.mark.parametrize("dtype", [float32, float64, *HALVES])
def test_backend(student, draw, dtype):
    """best_backend begins with the kernel: on the CPU flash, but math, with the reasons, where
    there are no queries or no keys; on CUDA a fused kernel for a plain call, if one takes it."""
    draw.hard(Hard.OPTIONS)
    for kind in SIZES if dtype is float32 else [Hard.SQUARE]:
        for sizes in draw.hard(kind, **USUAL):
            q, k, v = qkv(draw, dtype, **sizes)
            kernels.agree_backend(student, q, k, v)
    for group, Lq, Lk in ((1, 5, 9), (2, 3, 9), (2, 9, 3), (3, 6, 6), (2, 1, 7)):
        q, k, v = qkv(draw, dtype, group=group, Lq=Lq, Lk=Lk)
        for options in (options_of(draw, names, q, k) for names in OPTIONS if "bias" not in names):
            kernels.agree_backend(student, q, k, v, **options)
            for n, m in ((0, Lk), (Lq, 0), (0, 0)):
                few = {name: x if x is True else x[..., :n, :m] for name, x in options.items()}
                kernels.agree_backend(student, q[..., :n, :], k[..., :m, :], v[..., :m, :], **few)
    kernels.agree_backend(student, q, k, v, keep=draw.keep(1, 7) & False)  # hidden, but there
    many = qkv(draw, dtype, group=3, B=1, H=1025, Lq=0, Lk=2)  # copies of groups, not of heads
    kernels.agree_backend(student, *many)
    draw.hard(Hard.SAME)
    kernels.agree_backend(student, q, q, q)


@check(points=1)
@pytest.mark.parametrize("qk_norm", [False, True])
@pytest.mark.parametrize("qkv_bias", [False, True])
@pytest.mark.parametrize("fused", [True, False])
def test_module(student, draw, device, qkv_bias, qk_norm, fused):
    """FusedAttention has qkv laid out (3, H, D), norms over D, and two ways to attend, between
    which `fused` switches and which agree, in empty rows, in gradients, in .train() and .eval()."""
    options = {"qkv_bias": qkv_bias, "qk_norm": qk_norm}
    draw.hard(Hard.OPTIONS)
    for given in (options, options | {"fused": fused})[not fused :]:
        module, oracle = layers.layers(student, draw, device, **given)
        same(module.read("fused"), fused, says="the attribute fused")
    x = draw.normal(2, 5, 24)
    if not fused:  # the same module, which begins on the other path
        layers.agree_on_both_paths(draw, module, oracle, x)
        return
    for keep in layers.masks(draw, (2,), 4, 5).values():
        layers.agree_gradients(module, oracle, x, keep)
    layers.two_paths(module, draw.normal(2, 33, 24))
    draw.hard(Hard.MODES)
    draw.hard(Hard.CHANGED)
    for mode, learns in ((module.eval, False), (module.train, True)):
        mode()
        layers.agree_on_both_paths(draw, module, oracle, x)
        state = {name: -w.detach() for name, w in oracle.plain.state_dict().items()}
        with lasting(module.forward, x), torch.set_grad_enabled(learns):
            layers.load(module, oracle, state)
            says = "output for a changed x and changed weights"
            agree(module(x.mul_(-2)), oracle(x), says=says)
            layers.agree_after_changes(module, oracle, x)
    if qk_norm == qkv_bias:
        layers.agree_in_all_sizes(student, draw, device, Hard.ONE, options)
    if qk_norm and not qkv_bias:
        layers.agree_in_all_sizes(student, draw, device, Hard.LONG, options)
    agree(module(x), oracle(x), says="output after other modules were made")
    layers.agree_when_converted(module, oracle, x)


@check(points=1, needs=[test_values])
@pytest.mark.parametrize("case", ["each alone", "together"])
def test_manners(student, draw, device, case):
    """Inputs stay as they were, may be strided, expanded, empty, of any number of leading
    dimensions, and on any device; nothing is remembered; what does not fit is refused; no options,
    sizes, layouts and dtypes disturb each other."""
    if case == "together":
        together.agree_together(student, draw, float32)
        together.modules_agree_together(student, draw, device, float32)
        return
    manners.inputs_left_alone(student, draw)
    manners.any_layout(student, draw)
    manners.nothing_remembered(student, draw)
    manners.empty(student, draw, device)
    kernels.agree_backend(student, *(draw.normal(2, 2, 3, 4) for _ in range(3)))
    manners.on_its_device(student, draw)
    manners.misfits_refused(student, draw)
    module, oracle = layers.layers(student, draw, device)
    many = draw.integer(20, 49)
    for width, heads in (30, 4), (3 * many - 1, many), (many, 2 * many + 1):
        for options in (), (True, True, False):
            rejects(partial(student.FusedAttention, width, heads, *options), width, heads)
    draw.hard(Hard.FAILED)
    student.FusedAttention(24, 3)
    flat, deep = draw.normal(5, 24), draw.normal(3, 2, 5, 24)
    turned = draw.normal(5, 2, 24).transpose(0, 1)
    for x in (flat, deep, turned, turned[:1].expand(3, 5, 24)):
        layers.agree_on_both_paths(draw, module, oracle, x)
        untouched(lambda x=x: module(x, layers.masks(draw, x.shape[:-2], 4, 5)[", padding"]))
    for fused in (True, False):
        module.fused = fused
        agree(module(turned[:0]), torch.empty(0, 5, 24, device=device))
        with suppress(StudentFault):
            module(flat, torch.ones(7, 7, device=device).bool())  # 7 keys, of 5 tokens
        same(module.read("fused"), fused, says="the attribute fused after a call that raised")


CALLS = [  # a square, one of grouped heads, decoding, decoding with grouped heads
    ((2, 4, 128, 128, 64, 64), 1), ((2, 2, 96, 96, 64, 64), 4),
    ((8, 4, 1, 333, 64, 64), 1), ((8, 2, 1, 333, 64, 64), 4),
    ((2, 4, 33, 65, 64, 64), 1), ((3, 4, 33, 65, 20, 20), 1),
]  # fmt: skip


@check(
    points=1,
    needs=[test_groups, test_causal, test_mask_and_bias, test_gradient, test_backend],
    cuda=True,
)
@pytest.mark.parametrize("dtype", [*HALVES, float32])
@pytest.mark.parametrize(("sizes", "group"), CALLS)
def test_cuda(student, draw, sizes, group, dtype):
    """On CUDA a fused kernel takes causal calls in half precision, grouped heads and a single new
    query too, and a padding mask in float32 too, at any width; outputs and gradients are right."""
    q, k, v = qkv(draw, dtype, group, **dict(zip(USUAL, sizes, strict=True)))
    keep = draw.keep(len(q), 1, 1, k.shape[-2])
    keep[1] = False  # a sentence that is all padding
    rows = options_of(draw, ["keep"], q, k, empty=True)["keep"]
    for causal in (True, False):
        kernels.fused_for(student, q, k, v, causal=causal)
        agree_output(student, q, k, v, causal=causal)
        if group == 1:
            kernels.fused_for(student, q, k, v, keep=keep, causal=causal)
            agree_output(student, q, k, v, keep=keep, causal=causal)
        for mask in (None, rows):
            agree_gradients(student, draw, q, k, v, keep=mask, causal=causal)
