"""Random calls that tell two answers apart."""

import math

import torch
from torch import bfloat16, float16, float32, float64

from grader.judging import (
    attempt,
    called,
    differentiated,
    gradients,
    parameter_gradients,
    parameter_shapes,
    trial,
)

HALVES = (float16, bfloat16)
DTYPES = (*HALVES, float32, float32, float64)


def sizes(draw, **largest):
    """Ordinary sizes, and once in forty times those of a hard kind, which take longer."""
    if draw.integer(1, 40) == 1:
        return draw.sizes(**largest)
    return {name: draw.integer(1, n) for name, n in largest.items()}


def strided(draw, *inputs):
    """The inputs as they are, with two dimensions exchanged in memory, or expanded."""
    turned = tuple(x.mT.contiguous().mT for x in inputs)
    wide = tuple(x[..., :1].expand(x.shape) for x in inputs)
    return draw.choice(inputs, inputs, turned, wide)


def mask(draw, *full):
    """A mask that broadcasts, rows that keep nothing among them; or None."""
    shape = [draw.choice(n, n, 1) for n in full]
    shape = shape[draw.choice(0, 0, draw.integer(0, len(full) - 1)) :]
    keep = draw.integers(0, 3, *shape) < draw.integer(1, 4)
    causal = torch.ones(full[-2:]).tril(full[-1] - full[-2]).bool()
    return draw.choice(None, keep, keep, causal)


@trial(of="repeat_kv")
def copies(student, draw):
    """Any rank from three on, any dtype, empty tensors, and a device that has no numbers."""
    s = sizes(draw, B=3, H=3, L=5, D=4, n=4)
    *full, n = s.values()
    shape = draw.choice(full, full[1:], (2, *full), (0, *full[1:]), (*full[:2], 0, full[3]))
    x = draw.normal(*shape, dtype=draw.choice(*DTYPES))
    [x] = strided(draw, x)
    yield from differentiated(draw, student.repeat_kv, x, n)
    yield from called(student.repeat_kv, x.to("meta"), n)


@trial(of="grouped_query_attention")
def attended(student, draw):
    """Any leading dimensions, masks, scores and layouts, with gradients."""
    s = sizes(draw, B=3, Hk=3, G=3, Lq=4, Lk=6, D=5, Dv=4)
    heads, dtype = s["Hk"] * s["G"], draw.choice(*DTYPES)
    leading = draw.choice((s["B"],), (s["B"],), (), (2, s["B"]), (0,))
    scale = draw.choice(0.1, 1.0, 1.0, 5.0, 100.0)
    Lq, Lk = draw.choice(*[s["Lq"]] * 9, 0), s["Lk"]
    q = draw.normal(*leading, heads, Lq, s["D"], dtype=dtype, scale=scale)
    k = draw.normal(*leading, s["Hk"], Lk, s["D"], dtype=dtype)
    v = draw.normal(*leading, s["Hk"], Lk, s["Dv"], dtype=dtype)
    inputs = strided(draw, q, k, v)
    if draw.integer(1, 8) == 1:
        inputs = q, q, q
    keep = mask(draw, *leading, heads, Lq, inputs[1].shape[-2])
    yield from differentiated(draw, student.grouped_query_attention, *inputs, keep)
    on_meta = [x if x is None else x.to("meta") for x in (*inputs, keep)]
    yield from called(student.grouped_query_attention, *on_meta)


@trial(of="grouped_query_attention")
def beyond_half_precision(student, draw):
    """Products of 256s, and hidden keys that hold what no number is."""
    dtype = draw.choice(*HALVES, float32)
    signs = draw.integers(0, 1, 2, 5, 16) * 2 - 1
    q, k = ((signs * 256).to(dtype), (signs[:1] * 256).to(dtype))
    v, keep = draw.normal(1, 5, 3, dtype=dtype), draw.integers(0, 3, 5) > 0
    hidden = draw.choice(0.0, math.inf, -math.inf, math.nan, 6e4)
    k = torch.where(keep[:, None], k, hidden)
    yield from called(student.grouped_query_attention, q, k, v, draw.choice(keep, keep, None))


@trial(of="grouped_query_attention")
def close_or_low(student, draw):
    """Scores that half precision cannot tell apart, and scores below what people fill in."""
    dtype = draw.choice(*HALVES, float32)
    q, k = draw.choice(draw.ties(3, 8, dtype), draw.low(3, 8, 8, dtype))
    q, v, keep = q.expand(2, 3, 8), draw.normal(1, 8, 3, dtype=dtype), draw.keep(3, 8)
    yield from called(student.grouped_query_attention, q, k[None], v, draw.choice(keep, None))


@trial(of="grouped_query_attention")
def uneven_heads(student, draw):
    """Numbers of heads that may not divide, with a mask or without."""
    H, Hk = draw.integer(1, 7), draw.integer(1, 7)
    q, k = draw.normal(2, H, 3, 4), draw.normal(2, Hk, 5, 4)
    yield from called(student.grouped_query_attention, q, k, k, mask(draw, 3, 5))


@trial(of="kv_cache_bytes")
def counted(student, draw):
    """Sizes from 0 to many, in dtypes of one byte to eight."""
    sizes = [draw.choice(0, 1, draw.integer(2, 9), draw.integer(10, 9000)) for _ in range(5)]
    dtype = draw.choice(*DTYPES, torch.int8, torch.bool, torch.uint8, torch.int64)
    yield from called(student.kv_cache_bytes, *sizes[:4], dtype, sizes[4])


def layer(student, draw, dtype):
    """A layer with weights of its own, and the width of its tokens."""
    Hk, G, D = (draw.integer(1, 3) for _ in range(3))
    width = Hk * G * D
    options = draw.choice({}, {"bias": True}, {"bias": False})
    module = student.GroupedQueryAttention(width, Hk * G, Hk, **options)
    shapes = parameter_shapes(module)
    state = {name: draw.normal(*shape, scale=width**-0.5) for name, shape in shapes.items()}
    module.load_state_dict(state, strict=False)  # a layer may have buffers of its own
    module.to(dtype)
    draw.choice(module.eval, module.train)()
    return module, width


@trial(of="GroupedQueryAttention")
def layers(student, draw):
    """forward with every mask, in both modes, with gradients of x and of the weights."""
    dtype = draw.choice(*DTYPES)
    module, width = layer(student, draw, dtype)
    s = sizes(draw, B=3, L=6)
    x = draw.normal(draw.choice(s["B"], s["B"], s["B"], 0), s["L"], width, dtype=dtype)
    keep = mask(draw, s["L"], s["L"])
    yield parameter_shapes(module)
    yield from differentiated(draw, module, *strided(draw, x), keep=keep)
    yield parameter_gradients(draw, module, x, keep)
    module.to("meta")
    yield from called(module, x.to("meta"))


@trial(of="GroupedQueryAttention")
def steps(student, draw):
    """Steps of any size, in branches, with gradients through the past."""
    dtype = draw.choice(*DTYPES)
    module, width = layer(student, draw, dtype)
    B, pasts = draw.integer(1, 3), [None]
    for _ in range(draw.integer(1, 4)):
        x = draw.normal(B, draw.choice(*[1, 2, 3, 4] * 5, 70), width, dtype=dtype).requires_grad_()
        past = draw.choice(*pasts)
        result = attempt(lambda x=x, past=past: module.step(x, past))
        yield result
        yield gradients(draw, result, [x])
        if isinstance(result, str):
            return
        pasts.append(result[1])
    x = draw.normal(B, draw.choice(*[1] * 20, 300), width, dtype=dtype)
    yield attempt(lambda: module.step(x, pasts[-1]))
    yield pasts
    module.to("meta")
    yield from called(module.step, torch.empty(B, 3, width, dtype=dtype, device="meta"))


@trial(of="GroupedQueryAttention")
def refused(student, draw):
    """Widths and heads that may not divide."""
    sizes = [draw.integer(1, 24), draw.integer(1, 6), draw.integer(1, 6)]
    yield attempt(lambda: parameter_shapes(student.GroupedQueryAttention(*sizes)))
