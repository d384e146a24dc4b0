"""The fast path: values first, then what PyTorch's operator leaves to its caller, then kernels."""

import re

import pytest
import torch
from torch import bfloat16, float16, float32, float64

from grader.judging import Hard, agree, backward, check, expect, gradcheck, rejects, same, untouched
from reference import ex08_cuda_sdpa as reference
from reference import raised
from reference.fused import best_backend

WIDE, HALVES = [float32, float64], [float16, bfloat16]
SHAPES = [  # leading dimensions, H, Hk, Lq, Lk, D, Dv
    ((2,), 4, 4, 5, 9, 8, 8), ((2,), 6, 2, 17, 3, 8, 5), ((2, 3), 6, 3, 3, 65, 16, 24),
    ((), 4, 1, 1, 17, 3, 4), ((1,), 1, 1, 65, 17, 20, 1), ((3, 1), 2, 2, 1, 1, 1, 3),
]  # fmt: skip
LENGTHS = [(6, 6), (1, 9), (3, 9), (17, 65), (9, 3), (65, 17), (5, 1)]  # Lq, Lk
MASKS = [(1, 9), (5, 9), (2, 1, 1, 9), (6, 1, 9), (2, 6, 5, 9)]  # for (2, 6, 5, 9)


def qkv(draw, *shape, dtype=float64):
    """Queries, keys and values of a shape like those above."""
    lead, num_heads, num_kv_heads, q_len, k_len, width, v_width = shape
    q = draw.normal(*lead, num_heads, q_len, width, dtype=dtype)
    k = draw.normal(*lead, num_kv_heads, k_len, width, dtype=dtype)
    return q, k, draw.normal(*lead, num_kv_heads, k_len, v_width, dtype=dtype)


def agree_when_loud(student, draw, dtype, **options):
    """Half precision adds up in float32: 16 products of 256 * 256 are too much for float16."""
    q, k, v = qkv(draw, (2,), 4, 2, 33, 17, 16, 16, dtype=dtype)
    loud = torch.full_like(q, 256)
    some = draw.keep(2, 2, 1, 17).mT * torch.full_like(k, 256)  # these keys share all the weight
    right = raised(reference.fast_attention, loud, some, v, **options)
    output = student.fast_attention(loud, some, v, **options)
    agree(output, right, says="output (queries and keys of 256)")


def with_empty_rows(keep):
    """The mask, but query 2 sees nothing, and query 4 nothing in head 1."""
    keep[..., 2, :] = False
    keep[..., 1, 4, :] = False
    return keep


def layers(student, draw, device, dtype=float64, loud=False, **options):
    """The student's module of width 24 with 4 heads, and the oracle's with the same weights."""
    shapes = {"qkv.weight": (72, 24), "proj.weight": (24, 24), "proj.bias": (24,)}
    shapes["qkv.bias"] = (72,) if options.get("qkv_bias") else None
    if options.get("qk_norm"):
        shapes |= {f"{q_or_k}_norm.{part}": (6,) for q_or_k in "qk" for part in ("weight", "bias")}
    module = student.FusedAttention(24, 4, **options)
    for name, right in shapes.items():
        shape = getattr(module.read(name), "shape", None)
        got = shape if shape is None else tuple(shape)
        expect(got == right, f"the shape of {name} is {got}, but should be {right}")
    state = {
        name: draw.normal(*shape, dtype=dtype, scale=0.2 if len(shape) > 1 else 1.0)
        for name, shape in shapes.items()
        if shape is not None
    }
    if loud:  # queries and keys of 256: the products of 6 such are too much for float16
        for q_or_k in "qk":
            state[f"{q_or_k}_norm.weight"].zero_()
            state[f"{q_or_k}_norm.bias"].fill_(256.0)
    module.to(device, dtype)
    module.load_state_dict(state, strict=False)  # a module may have buffers of its own
    oracle = reference.FusedAttention(24, 4, **options)
    oracle.load_state_dict(state)
    return module, oracle


def kernel_of(answer):
    """The kernel that best_backend names, in an answer of the right form."""
    form = r"(flash|efficient|cudnn):|math: *\S"
    names = "flash, efficient, cudnn or math and a colon, after math with the reasons"
    expect(bool(re.match(form, answer)), f"backend is {answer!r}, but should begin with {names}")
    return answer.partition(":")[0]


def names_a_fused_kernel(student, *call, **options):
    """best_backend names a fused kernel, if PyTorch has one for the call on this device."""
    name = kernel_of(untouched(lambda: student.best_backend(*call, **options)))
    right = best_backend(*call, **options).partition(":")[0]
    problem = f"backend begins with {name!r}, but PyTorch has a fused kernel for the call: {right}"
    expect(name != "math" or right == "math", problem)


@check(points=1)
@pytest.mark.parametrize(
    ("shape", "dtype"),
    [(shape, dtype) for shape in SHAPES for dtype in WIDE]
    + [(((2,), 4, 2, 33, 17, 16, 16), dtype) for dtype in HALVES],
)
def test_values(student, draw, shape, dtype):
    """Query head h attends to key/value head h // (H // Hk), with the scale 1/sqrt(D) or a given
    one, in every dtype; half precision adds up in float32."""
    q, k, v = qkv(draw, *shape, dtype=dtype)
    agree(student.fast_attention(q, k, v), reference.fast_attention(q, k, v))
    given = reference.fast_attention(q, k, v, scale=0.6)
    agree(student.fast_attention(q, k, v, scale=0.6), given)
    if dtype in HALVES:
        agree_when_loud(student, draw, dtype)
    if dtype is float64:
        right = reference.fast_attention(q, k, v, scale=1000.0)
        agree(student.fast_attention(q, k, v, scale=1000.0), right)


@check(points=1, needs=[test_values])
@pytest.mark.parametrize(
    ("q_len", "k_len", "dtype"),
    [(*lengths, dtype) for lengths in LENGTHS for dtype in WIDE]
    + [(*lengths, dtype) for lengths in ((3, 9), (9, 3), (1, 9), (6, 6)) for dtype in HALVES],
)
def test_causal(student, draw, q_len, k_len, dtype):
    """With causal=True the last query lines up with the last key; a query before the first key
    gets zeros, and later keys change nothing, not even 1e30."""
    q, k, v = qkv(draw, (2,), 4, 2, q_len, k_len, 6, 5, dtype=dtype)
    for scale in (None, 0.6) if dtype is not float64 else (None, 0.6, 1000.0):
        right = reference.fast_attention(q, k, v, causal=True, scale=scale)
        agree(student.fast_attention(q, k, v, causal=True, scale=scale), right)
    if dtype in HALVES:
        agree_when_loud(student, draw, dtype, causal=True)
    deep = [x.unsqueeze(1) for x in (q, k, v)]
    agree(student.fast_attention(*deep, causal=True), reference.fast_attention(*deep, causal=True))
    if 1 < q_len <= k_len and dtype in WIDE:
        early = reference.fast_attention(q[:, :, :-1], k[:, :, :-1], v[:, :, :-1], causal=True)
        k[:, :, -1], v[:, :, -1] = 1e30, 1e30
        output = student.fast_attention(q, k, v, causal=True)
        agree(output[:, :, :-1], early, says="output (the last key and value are 1e30)")


@check(points=1, needs=[test_values])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    ("shape", "dtype"),
    [(shape, dtype) for shape in MASKS for dtype in WIDE] + [(MASKS[-1], half) for half in HALVES],
    ids=str,
)
def test_mask_and_bias(student, draw, shape, causal, dtype):
    """keep, bias and causal work alone and together, with any given scale (0 or negative too) and
    in any dtype; hidden keys count for nothing, even 1e30; a query that sees no key gets zeros."""
    attend, right = student.fast_attention, reference.fast_attention
    q, k, v = qkv(draw, (2,), 6, 2, 5, 9, 6, 5, dtype=dtype)
    keep, bias = draw.keep(*shape), draw.normal(*shape, dtype=dtype, scale=2.0)
    scale = 1000.0 if dtype is float64 else 0.6
    for options in ({"keep": keep}, {"bias": bias}, {"keep": keep, "bias": bias}):
        options["causal"] = causal
        agree(attend(q, k, v, **options), right(q, k, v, **options))
        if shape == MASKS[-1]:
            options["scale"] = scale
            agree(attend(q, k, v, **options), right(q, k, v, **options))

    if shape == MASKS[-1] and dtype is float32:
        _agree_with_any_scale(student, draw, causal)

    hiding = draw.keep(2, 1, 1, 9)
    hiding[..., 1] = False
    clean = right(q, k, v, hiding, causal)
    for large in (1e4, 1e30) if dtype is not float16 else (1e4,):
        hidden = [x.masked_fill(~hiding.mT, large) for x in (k, v)]
        output = attend(q, *hidden, hiding, causal)
        agree(output, clean, says=f"output (hidden keys and values of {large:g})")

    empty = with_empty_rows(draw.keep(2, 6, 5, 9))
    for options in ({"keep": empty}, {"keep": empty, "bias": bias}):
        output = attend(q, k, v, causal=causal, **options)
        agree(output, right(q, k, v, causal=causal, **options),
              says="output (query 2 sees nothing)")  # fmt: skip
    if dtype is float16:
        options = {"keep": draw.keep(33, 17), "bias": draw.normal(33, 17, dtype=dtype)}
        for name, value in options.items():
            agree_when_loud(student, draw, dtype, causal=causal, **{name: value})
    elif shape == MASKS[-1] and dtype is float64:
        for q_len in (1, 9, 12):  # one query, as many as keys, and more
            q = draw.normal(2, 6, q_len, 6, dtype=dtype)
            keep, bias = draw.keep(6, q_len, 9), draw.normal(q_len, 9, dtype=dtype)
            for options in ({"keep": keep}, {"bias": bias}, {"keep": keep, "bias": bias}):
                options["causal"] = causal
                agree(attend(q, k, v, **options), right(q, k, v, **options))


def _agree_with_any_scale(student, draw, causal):
    """Scales of 0 and below, with every other option, for fewer, as many and more queries."""
    draw.hard(Hard.OPTIONS)
    for q_len in (5, 9, 12):
        q, k, v = qkv(draw, (2,), 6, 2, q_len, 9, 6, 5, dtype=float32)
        keep, bias = draw.keep(6, q_len, 9), draw.normal(q_len, 9)
        for options in ({}, {"keep": keep}, {"bias": bias}, {"keep": keep, "bias": bias}):
            for scale in (0.0, -0.7):
                options |= {"causal": causal, "scale": scale}
                right = reference.fast_attention(q, k, v, **options)
                agree(student.fast_attention(q, k, v, **options), right)


@check(points=1, needs=[test_values])
@pytest.mark.parametrize(
    ("causal", "masked", "biased", "lengths", "dtype"),
    [
        (False, False, False, (5, 9), float64), (True, False, False, (5, 9), float64),
        (False, True, False, (5, 9), float64), (True, True, True, (5, 9), float64),
        (True, False, False, (9, 5), float64), (False, False, True, (5, 9), float32),
        (True, True, False, (5, 9), float32), (True, False, False, (9, 5), float32),
        (False, False, False, (5, 9), float32), (False, True, True, (5, 9), float32),
        (False, False, True, (5, 9), float64), (True, False, True, (5, 9), float64),
        (False, False, False, (5, 9), float16), (True, True, True, (5, 9), float16),
        (True, False, False, (6, 6), bfloat16), (False, True, False, (5, 9), bfloat16),
        (False, False, True, (5, 9), bfloat16),
    ],
)  # fmt: skip
def test_gradient(student, draw, causal, masked, biased, lengths, dtype):
    """Gradients flow to q, k, v and the bias and are right; an empty row adds nothing to them."""
    leaves = [x.requires_grad_() for x in qkv(draw, (2,), 4, 2, *lengths, 8, 5, dtype=dtype)]
    keep = with_empty_rows(draw.keep(2, 4, *lengths)) if masked else None
    if biased:
        leaves.append(draw.normal(4, *lengths, dtype=dtype).requires_grad_())
    upstream = draw.normal(2, 4, lengths[0], 5, dtype=dtype)
    output = student.fast_attention(*leaves[:3], keep, causal, None, *leaves[3:])
    grads = backward(output, *leaves, upstream=upstream)
    rights = reference.fast_attention_gradients(
        *leaves[:3], keep, causal, None, *leaves[3:], upstream=upstream
    )
    for name, got, right in zip(("q", "k", "v", "bias"), grads, rights, strict=False):
        agree(got, right, says=f"gradient of {name}")
    if not masked and not biased and dtype is float64:
        small = [x.requires_grad_() for x in qkv(draw, (), 2, 1, 2, 3, 2, 2)]
        gradcheck(lambda *x: student.fast_attention(*x, causal=causal), *small)


@check(points=1)
@pytest.mark.parametrize("dtype", [*WIDE, *HALVES])
def test_backend(student, draw, dtype):
    """best_backend begins with the kernel: for a plain call a fused one, if the device has one for
    the dtype; without keys math, with the reasons; on the CPU never efficient or cudnn."""
    q, k, v = qkv(draw, (2,), 4, 4, 16, 16, 8, 8, dtype=dtype)
    names_a_fused_kernel(student, q, k, v)
    name = kernel_of(student.best_backend(q, k[:, :, :0], v[:, :, :0]))
    expect(name == "math", f"backend begins with {name!r}, but no fused kernel runs without keys")

    q, k, v = qkv(draw, (2,), 4, 2, 3, 9, 8, 5, dtype=dtype)
    for options in ({}, {"causal": True}, {"keep": draw.keep(3, 9)}):
        name = kernel_of(student.best_backend(q, k, v, **options))
        at_home = q.is_cuda or name in ("flash", "math")
        expect(at_home, f"backend begins with {name!r}, which does not run on the CPU")


@check(points=1)
@pytest.mark.parametrize(
    ("options", "lead", "length", "dtype"),
    [
        ({}, (2,), 5, float64), ({"qkv_bias": True, "fused": False}, (), 17, float64),
        ({"qk_norm": True}, (2,), 5, float64), ({"qk_norm": True}, (3, 2), 1, float32),
        ({"qkv_bias": True, "qk_norm": True}, (2,), 33, float32),
        ({"qkv_bias": True}, (2,), 33, float16), ({"qk_norm": True}, (2,), 33, bfloat16),
        ({"qk_norm": True}, (2,), 9, float16),
    ],
)  # fmt: skip
def test_module(student, draw, device, options, lead, length, dtype):
    """FusedAttention has qkv laid out (3, H, D), norms over D, and two ways to attend, between
    which `fused` switches and which agree, in empty rows and in gradients too."""
    module, oracle = layers(student, draw, device, dtype, **options)
    asked = options.get("fused", True)
    same(module.read("fused"), asked, says="the attribute fused")
    x = draw.normal(*lead, length, 24, dtype=dtype)
    keep = draw.keep(4, length, length)
    keep[..., 0, :] = False
    rights = [(mask, oracle.forward_gradients(x, mask, upstream=x)[0]) for mask in (keep, None)]
    learned = oracle.weight_gradients(x, None, upstream=x) if dtype is float64 else {}
    outputs = []
    for fused in (asked, not asked):
        module.fused = fused
        outputs.append(module(x))
        agree(outputs[-1], oracle(x), says=f"output (fused={fused})")
        leaf = x.clone().requires_grad_()
        for mask, right in rights if dtype in WIDE else rights[:1]:
            module.zero_grad()
            output = module(leaf, keep=mask)
            if mask is not None:
                agree(output, oracle(x, mask), says=f"output (fused={fused}, query 0 sees nothing)")
            [got] = backward(output, leaf, upstream=x)
            agree(got, right, says=f"gradient of x (fused={fused})")
        for name, right in learned.items():
            agree(module.read(f"{name}.grad"), right)
        padding = draw.keep(*lead, 1, 1, length)
        agree(module(x, padding), oracle(x, padding), says=f"output (fused={fused}, padding)")
        if dtype is float16 and options.get("qk_norm"):
            loud, right = layers(student, draw, device, dtype, loud=True, **options)
            loud.fused = fused
            for mask in (None, keep):
                answer = raised(right, x, mask)  # whose projections are in float32, unlike theirs
                answer = answer._replace(magnitude=2 * answer.magnitude)
                says = f"output (fused={fused}, queries and keys of 256)"
                agree(loud(x, mask), answer, says=says)
    if dtype is float32 and length > 1:
        problem = "the outputs with fused=True and fused=False are equal to the last bit: there is "
        expect(
            not torch.equal(*outputs), problem + "one path only, for two would round differently"
        )


@check(points=1, needs=[test_values, test_module])
def test_manners(student, draw, device):
    """Inputs stay as they were, may be strided, expanded or empty; what does not fit is refused."""
    attend, right = student.fast_attention, reference.fast_attention
    q, k, v = qkv(draw, (2,), 6, 2, 5, 9, 8, 5)
    keep, bias = with_empty_rows(draw.keep(2, 6, 5, 9)), draw.normal(5, 9, dtype=float64)
    first = untouched(lambda: attend(q, k, v, keep, True, bias=bias))
    for dtype in (*WIDE, *HALVES):
        xs, added = [x.to(dtype) for x in (q, k, v)], bias.to(dtype)
        for options in ({}, {"keep": keep}, {"bias": added}, {"keep": keep, "bias": added}):
            for causal in (False, True):
                untouched(lambda xs=xs, o=options, c=causal: attend(*xs, causal=c, **o))
    for mask in (keep, keep[:, :1], keep[0]):
        lead = [x.unsqueeze(0).expand(3, *x.shape) for x in (q, k, v)]
        agree(attend(*lead, mask, bias=bias), right(*lead, mask, bias=bias))
    agree(attend(q[0], k[0], v[0], keep[0], bias=bias), right(q[0], k[0], v[0], keep[0], bias=bias))
    again = attend(q, k, v, keep, True, bias=bias)
    same(again, first, says="the second answer to the same call")
    turned = [draw.normal(2, 5, n, 8, dtype=float64).transpose(1, 2) for n in (6, 2, 2)]
    agree(attend(*turned, causal=True), right(*turned, causal=True))
    strided = [draw.strided(2, n, 5, 8, dtype=float64) for n in (6, 2, 2)]
    agree(attend(*strided, keep[..., ::2]), right(*strided, keep[..., ::2]))
    expanded = [draw.normal(1, n, 1, 8, dtype=float64).expand(3, n, 5, 8) for n in (6, 2, 2)]
    agree(attend(*expanded, causal=True), right(*expanded, causal=True))
    agree(attend(q[:0], k[:0], v[:0]), torch.empty(0, 6, 5, 5, device=device))

    rejects(lambda: attend(q, k.repeat(1, 2, 1, 1), v.repeat(1, 2, 1, 1)), 6, 4)
    rejects(lambda: attend(q, k[..., :7], v), 8, 7)
    rejects(lambda: attend(q, k, v[:, :, :7]), 9, 7)
    rejects(lambda: attend(q, k, v[:, :1]), 2, 1)
    rejects(lambda: student.FusedAttention(30, 4), 30, 4)
    module, oracle = layers(student, draw, device)
    x = draw.normal(5, 2, 24, dtype=float64).transpose(0, 1)
    agree(untouched(lambda: module(x)), oracle(x))
    agree(module(x[:0]), torch.empty(0, 5, 24, device=device))


CALLS = [  # a square, one of grouped heads, decoding, decoding with grouped heads
    ((2,), 4, 4, 128, 128, 64, 64), ((2,), 8, 2, 96, 96, 64, 64),
    ((8,), 4, 4, 1, 333, 64, 64), ((8,), 8, 2, 1, 333, 64, 64),
]  # fmt: skip


@check(points=1, needs=[test_causal, test_backend], cuda=True)
@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("shape", CALLS)
def test_cuda_causal(student, draw, shape, dtype):
    """On CUDA a fused kernel takes causal calls in half precision, with grouped heads and for a
    single new query too, and the output is right."""
    q, k, v = qkv(draw, *shape, dtype=dtype)
    names_a_fused_kernel(student, q, k, v, causal=True)
    right = reference.fast_attention(q, k, v, causal=True)
    agree(student.fast_attention(q, k, v, causal=True), right)


@check(points=1, needs=[test_mask_and_bias, test_backend], cuda=True)
@pytest.mark.parametrize("dtype", [float32, *HALVES])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("width", [64, 20])
def test_cuda_mask(student, draw, width, causal, dtype):
    """On CUDA a fused kernel takes a padding mask, in float32 too and at any width; a sentence that
    is all padding gets zeros."""
    q, k, v = qkv(draw, (3,), 4, 4, 33, 65, width, width, dtype=dtype)
    keep = draw.keep(3, 1, 1, 65)
    keep[1] = False
    for options in ({"causal": causal}, {"keep": keep, "causal": causal}):
        names_a_fused_kernel(student, q, k, v, **options)
        right = reference.fast_attention(q, k, v, **options)
        agree(student.fast_attention(q, k, v, **options), right)


@check(points=1, needs=[test_gradient, test_cuda_causal], cuda=True)
@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("shape", [*CALLS[:2], ((2,), 4, 4, 33, 65, 64, 64)])
def test_cuda_gradient(student, draw, shape, masked, dtype):
    """On CUDA the gradients in half precision are right, where queries see nothing too."""
    leaves = [x.requires_grad_() for x in qkv(draw, *shape, dtype=dtype)]
    keep = with_empty_rows(draw.keep(2, *shape[1:2], *shape[3:5])) if masked else None
    upstream = draw.normal(2, shape[1], shape[3], 64, dtype=dtype)
    output = student.fast_attention(*leaves, keep, True)
    grads = backward(output, *leaves, upstream=upstream)
    rights = reference.fast_attention_gradients(*leaves, keep, True, upstream=upstream)
    for name, got, right in zip("qkv", grads, rights, strict=True):
        agree(got, right, says=f"gradient of {name}")
