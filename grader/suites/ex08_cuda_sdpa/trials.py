"""Random calls that tell two answers apart."""

import torch
from torch import bfloat16, float16, float32, float64

from grader.judging import (
    attempt,
    called,
    differentiated,
    parameter_gradients,
    parameter_shapes,
    trial,
)

DTYPES = (float16, bfloat16, float32, float32, float64)


def sizes(draw, **largest):
    """Ordinary sizes, and once in twenty times those of a hard kind, which take longer."""
    if draw.integer(1, 20) == 1:
        return draw.sizes(**largest)
    return {name: draw.integer(1, n) for name, n in largest.items()}


def laid_out(draw, *inputs):
    """The inputs as they are, with two dimensions exchanged in memory, or expanded."""
    turned = tuple(x.mT.contiguous().mT for x in inputs)
    wide = tuple(x[..., :1].expand(x.shape) for x in inputs)
    return draw.choice(inputs, inputs, turned, wide)


def qkv(draw, dtype):
    """Queries, keys and values of any leading dimensions and sizes; and those of the scores."""
    s = sizes(draw, B=3, Hk=3, G=3, Lq=5, Lk=6, D=9, Dv=9)
    heads, lead = s["Hk"] * s["G"], draw.choice((s["B"],), (s["B"],), (), (2, s["B"]), (0,))
    Lq, Lk = draw.choice(*[s["Lq"]] * 9, 0), draw.choice(*[s["Lk"]] * 9, 0)
    q = draw.normal(*lead, heads, Lq, s["D"], dtype=dtype, scale=draw.choice(0.1, 1.0, 1.0, 5.0))
    k = draw.normal(*lead, s["Hk"], Lk, s["D"], dtype=dtype)
    v = draw.normal(*lead, s["Hk"], Lk, s["Dv"], dtype=dtype)
    inputs = (q, q, q) if draw.integer(1, 10) == 1 else laid_out(draw, q, k, v)
    return inputs, (*lead, heads, Lq, inputs[1].shape[-2])


def shape_within(draw, full):
    """A shape that broadcasts to the shape of the scores."""
    shape = [draw.choice(n, n, 1) for n in full]
    return shape[draw.choice(0, 0, draw.integer(0, len(full) - 1)) :]


def mask(draw, *full):
    """A mask that broadcasts, with rows that keep nothing; or None."""
    keep = draw.integers(0, 3, *shape_within(draw, full)) < draw.integer(1, 4)
    return draw.choice(None, keep, keep)


def options(draw, full, dtype):
    """Every option, each there or not."""
    found = {"keep": mask(draw, *full), "causal": draw.choice(True, False)}
    found["scale"] = draw.choice(None, None, 0.0, 0, -0.7, 0.6, 3.0)
    bias = draw.normal(*shape_within(draw, full), dtype=dtype, scale=2.0)
    found["bias"] = draw.choice(None, None, bias)
    return {name: x for name, x in found.items() if x is not None or draw.choice(True, False)}


def elsewhere(x):
    """A tensor on a device that has no numbers; what is no tensor, as it is."""
    return x.to("meta") if isinstance(x, torch.Tensor) else x


@trial(of="fast_attention")
def attended(student, draw):
    """Any sizes, layouts and options, with gradients; and on another device."""
    dtype = draw.choice(*DTYPES)
    inputs, full = qkv(draw, dtype)
    given = options(draw, full, dtype)
    # Of a single key, the gradients of q and k are 0 but for rounding; and those of half precision
    # are rounded more often where there are other than four dimensions, which is left open.
    if full[-1] > 1 and (len(full) == 4 or dtype.itemsize > 2):
        yield from differentiated(draw, student.fast_attention, *inputs, **given)
    else:
        yield from called(student.fast_attention, *inputs, **given)
    there = {name: elsewhere(x) for name, x in given.items()}
    yield from called(student.fast_attention, *map(elsewhere, inputs), **there)


@trial(of="fast_attention")
def large_scores(student, draw):
    """Products of 256s, scores by the thousand, and hidden keys that hold 1e30."""
    dtype = draw.choice(*DTYPES)
    signs = draw.integers(0, 1, 2, 5, 16) * 2 - 1
    q, k = ((signs * 256).to(dtype), (signs[:1] * 256).to(dtype))
    v, keep = draw.normal(1, 5, 3, dtype=dtype), draw.integers(0, 3, 5) > 0
    k = torch.where(keep[:, None], k, draw.choice(0.0, 1e4, -1e4))
    keep = draw.choice(keep, keep, None)
    yield from called(student.fast_attention, q, k, v, keep, draw.choice(True, False))
    scores = draw.choice(*draw.scores(2, 5, 64, dtype=draw.choice(float32, float64)).values())
    eye = torch.eye(64, dtype=scores.dtype).expand(1, 64, 64)
    values = draw.normal(1, 64, 3, dtype=scores.dtype)
    low, causal = draw.choice(0, 200), draw.choice(True, False)
    yield from called(student.fast_attention, scores - low, eye, values, None, causal, 1.0)


@trial(of="fast_attention")
def misfits(student, draw):
    """Widths, lengths and heads that may not fit."""
    H, G, Lk, D = (draw.integer(1, 4) for _ in range(4))
    heads, width, length = (draw.choice(n, n, n, n + 1) for n in (H, D, Lk))
    q = draw.normal(2, H * G, 3, D)
    k, v = draw.normal(2, H, Lk, width), draw.normal(2, heads, length, 5)
    if draw.integer(1, 4) == 1:
        q = draw.normal(2, draw.integer(1, 7), 3, D)
    yield from called(student.fast_attention, q, k, v, **options(draw, (3, Lk), float32))


@trial(of="best_backend")
def answered(student, draw):
    """The name of the kernel, and whether there are reasons; which, is not asked."""
    inputs, full = qkv(draw, draw.choice(*DTYPES))
    if not inputs[0].shape[0]:  # of no sequence, either answer will do
        yield "an empty batch"
        return
    keep, causal = mask(draw, *full), draw.choice(True, False)
    given = draw.choice((), (keep,), (keep, causal))
    answer = attempt(lambda: student.best_backend(*inputs, *given))
    name, colon, reasons = str(answer).partition(":")
    yield name, colon, name != "math" or bool(reasons.strip())
    yield list(inputs), keep


@trial(of="FusedAttention")
def module(student, draw):
    """Both paths, with every mask, in both modes, with gradients of x and of the weights."""
    s, dtype = sizes(draw, H=3, L=6, D=5), draw.choice(*DTYPES)
    H, D = min(s["H"], 65), min(s["D"], 65)
    given = draw.choice((), (True,), (False, True), (True, True), (False, False, False))
    made = student.FusedAttention(H * D, H, *given)
    shapes = parameter_shapes(made)
    yield bool(made.fused), shapes
    state = {name: draw.normal(*shape, scale=0.5) for name, shape in shapes.items()}
    made.load_state_dict(state, strict=False)
    made.to(dtype)
    draw.choice(made.eval, made.train)()
    made.fused = draw.choice(True, False)
    lead = draw.choice((2,), (2,), (), (0,), (2, 2))
    x = draw.normal(*lead, s["L"], H * D, dtype=dtype, scale=draw.choice(1.0, 1.0, 20.0))
    keep = mask(draw, *lead, H, s["L"], s["L"])
    if len(lead) == 1 or dtype.itemsize > 2:  # else rounding is left open, as above
        yield from differentiated(draw, made, *laid_out(draw, x), keep=keep)
        # The gradient of k_norm.bias is 0 but for rounding.
        yield parameter_gradients(draw, made, x, keep, without=["k_norm.bias"])
    else:
        yield from called(made, *laid_out(draw, x), keep=keep)
    made.to("meta")
    yield from called(made, x.to("meta"), elsewhere(keep))


@trial(of="FusedAttention")
def loud(student, draw):
    """Products of 256s, which are too many for float16, on both paths."""
    made = student.FusedAttention(24, 4, False, True)
    shapes = parameter_shapes(made)
    state = {f"{norm}_norm.weight": torch.zeros(6) for norm in "qk"}
    state |= {f"{norm}_norm.bias": torch.full((6,), 256.0) for norm in "qk"}
    for name in ("qkv.weight", "proj.weight"):
        state[name] = draw.normal(*shapes[name], scale=0.2)
    made.load_state_dict({**state, "proj.bias": torch.zeros(24)}, strict=False)
    dtype = draw.choice(*DTYPES)
    made.to(dtype)
    made.fused = draw.choice(True, False)
    yield from called(made, draw.normal(2, 5, 24, dtype=dtype), mask(draw, 5, 5))


@trial(of="FusedAttention")
def refused(student, draw):
    """Widths that heads may not divide."""
    width, heads = draw.integer(1, 24), draw.integer(1, 6)
    yield attempt(lambda: student.FusedAttention(width, heads) and None)
