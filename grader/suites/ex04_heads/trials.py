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

HALVES = (float16, bfloat16)
DTYPES = (*HALVES, float32, float32, float64)
NAMES = ("w_q", "w_k", "w_v", "w_o")


def sizes(draw, **largest):
    """Ordinary sizes, and once in forty times those of a hard kind, which take longer."""
    if draw.integer(1, 40) > 1:
        return {name: draw.integer(1, n) for name, n in largest.items()}
    found = draw.sizes(**largest)
    return found | {name: min(found[name], 130) for name in ("H", "D")}


def laid_out(draw, *inputs):
    """The inputs as they are, with two dimensions exchanged in memory, expanded, or of nothing."""
    turned = tuple(x.mT.contiguous().mT for x in inputs)
    wide = tuple(x[:1].expand(x.shape) for x in inputs)
    none = tuple(x[:0] for x in inputs)
    return draw.choice(*[inputs] * 4, turned, wide, none)


def mask(draw, *full):
    """A mask that broadcasts, rows that keep nothing among them; or None."""
    shape = [draw.choice(n, n, 1) for n in full]
    shape = shape[draw.choice(0, 0, draw.integer(0, len(full) - 1)) :]
    keep = draw.integers(0, 3, *shape) < draw.integer(0, 4)
    causal = torch.ones(full[-2:]).tril().bool()
    return draw.choice(None, keep, keep, causal)


@trial(of="split_heads")
def cut(student, draw):
    """Widths that divide or do not, in any dtype and layout, and without numbers."""
    s = draw.sizes(B=3, L=5, H=4, D=4)
    width = s["H"] * s["D"] + draw.choice(0, 0, 0, 1)
    [x] = laid_out(draw, draw.normal(s["B"], s["L"], width, dtype=draw.choice(*DTYPES)))
    yield from differentiated(draw, student.split_heads, x, s["H"])
    yield from called(student.split_heads, x.to("meta"), s["H"])


@trial(of="merge_heads")
def joined(student, draw):
    """Heads in any dtype and layout, and without numbers."""
    shape = draw.sizes(B=3, H=4, L=5, D=4).values()
    [x] = laid_out(draw, draw.normal(*shape, dtype=draw.choice(*DTYPES)))
    yield from differentiated(draw, student.merge_heads, x)
    yield from called(student.merge_heads, x.to("meta"))


@trial(of="multi_head_attention_numpy")
def in_numpy(student, draw):
    """Masks, scores and layouts of every kind, and widths that do not divide."""
    s, dtype = sizes(draw, B=3, H=4, Lq=5, Lk=6, D=5), draw.choice(float16, float32, float64)
    width = s["H"] * s["D"] + draw.choice(*[0] * 9, 1)
    scale = draw.choice(0.1, 1.0, 1.0, 5.0, 100.0)
    query = draw.normal(s["B"], s["Lq"], width, dtype=dtype, scale=scale)
    key, value = (draw.normal(s["B"], s["Lk"], width, dtype=dtype) for _ in range(2))
    inputs = laid_out(draw, query, key, value)
    inputs = draw.choice(inputs, inputs, (query, query, query))
    weights = [draw.normal(width, width, dtype=dtype, scale=width**-0.5) for _ in NAMES]
    keep = mask(draw, len(inputs[0]), s["H"], s["Lq"], inputs[1].shape[1])
    options = draw.choice({"keep": None}, {}) if keep is None else {"keep": keep.numpy()}
    arrays = [x.numpy() for x in (*inputs, *weights)]
    yield from called(student.multi_head_attention_numpy, *arrays, s["H"], **options)


def layer(student, draw, dtype, scale=1.0):
    """A layer with weights of its own, in either mode; its width and number of heads."""
    s = sizes(draw, H=4, D=5)
    width = s["H"] * s["D"]
    options = draw.choice({}, {"bias": True}, {"bias": False})
    module = student.MultiHeadAttention(width, s["H"], **options)
    scale *= width**-0.5
    shapes = parameter_shapes(module)
    state = {name: draw.normal(*shape, scale=scale) for name, shape in shapes.items()}
    module.load_state_dict(state, strict=False)  # a layer may have buffers of its own
    module.to(dtype)
    draw.choice(module.eval, module.train)()
    return module, width, s["H"]


@trial(of="MultiHeadAttention")
def attended(student, draw):
    """With a context or without, with every mask, and with gradients of everything."""
    dtype = draw.choice(*DTYPES)
    module, width, heads = layer(student, draw, dtype, draw.choice(0.5, 1.0, 1.0, 5.0))
    s = sizes(draw, B=3, Lq=5, Lk=6, H=1, D=1)
    x, context = (draw.normal(s["B"], s[n], width, dtype=dtype) for n in ("Lq", "Lk"))
    x, context = laid_out(draw, x, context)
    context = draw.choice(context, context, None, x)
    keep = mask(draw, len(x), heads, x.shape[1], (x if context is None else context).shape[1])
    yield parameter_shapes(module)
    yield from differentiated(draw, module, x, context, keep)
    yield parameter_gradients(draw, module, x, context, keep)
    module.to("meta")
    on_meta = [t if t is None else t.to("meta") for t in (x, context, keep)]
    yield from called(module, *on_meta)


@trial(of=["MultiHeadAttention", "multi_head_attention_numpy"])
def beyond_half_precision(student, draw):
    """Products of 256s, and hidden tokens of any size."""
    dtype = draw.choice(*HALVES, float32, float64)
    signs = draw.integers(0, 1, 1, 5, 16) * 2 - 1
    x = context = (signs * 256).to(dtype)
    keep = draw.integers(0, 3, 5) > 0
    hidden = draw.choice(0.0, 1e4, 1e30) if dtype.itemsize > 2 else 1e4
    context = torch.where(keep[:, None], context, hidden)
    eye, other = torch.eye(16, dtype=dtype), draw.normal(16, 16, dtype=dtype, scale=0.25)
    weights = {"w_q": eye, "w_k": eye, "w_v": other, "w_o": other}
    module = student.MultiHeadAttention(16, 2)
    module.load_state_dict({f"{name}.weight": w for name, w in weights.items()}, strict=False)
    module.to(dtype)
    yield from called(module, x, context, keep)
    if dtype != bfloat16:
        arrays = [t.numpy() for t in (x, context, context, *weights.values())]
        yield from called(student.multi_head_attention_numpy, *arrays, 2, keep.numpy())


@trial(of="MultiHeadAttention")
def refused(student, draw):
    """Widths that the heads may not divide."""
    width, heads = draw.integer(1, 24), draw.integer(1, 8)
    yield attempt(lambda: parameter_shapes(student.MultiHeadAttention(width, heads)))
