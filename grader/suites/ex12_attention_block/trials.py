"""Random calls that tell two answers apart."""

import torch
from torch import bfloat16, float16, float32, float64

from grader.judging import (
    attempt,
    called,
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
    wide = tuple(x[..., :1, :].expand(x.shape) for x in inputs)
    return draw.choice(inputs, inputs, turned, wide)


def mask(draw, *full):
    """A mask that broadcasts, rows that keep nothing among them; or None."""
    shape = [draw.choice(n, n, 1) for n in full]
    shape = shape[draw.choice(0, 0, draw.integer(0, len(full) - 1)) :]
    shape[-1] = full[-1]
    keep = draw.integers(0, 3, *shape) < draw.integer(1, 4)
    return draw.choice(None, keep, keep)


def loaded(draw, make, dtype):
    """A module with weights of its own, in a dtype and in one of the modes."""
    module = make()
    state = {}
    for name, shape in parameter_shapes(module).items():
        scale = shape[-1] ** -0.5 if len(shape) > 1 else 0.5
        state[name] = draw.normal(*shape, scale=scale) + ("norm" in name)
    module.load_state_dict(state, strict=False)  # a module may have buffers of its own
    draw.choice(module.eval, module.train)()
    module.to(dtype)
    return module


def asked(draw, module, *inputs):
    """Yield an answer and all gradients; then the answer where an input may have changed."""
    given = [y.detach().clone() if y is not None else y for y in inputs]
    leaves = [y.requires_grad_() for y in given if y is not None and y.is_floating_point()]
    output = attempt(lambda: module(*given))
    yield output
    yield [y for y in given if y is not None]
    yield gradients(draw, output, leaves)
    yield parameter_gradients(draw, module, *inputs)
    changed = [y if y is None else y.clone() for y in inputs]
    changed[0].neg_()
    with torch.no_grad():
        yield from called(module, *draw.choice(inputs, changed))


def repeats(module, *inputs):
    """Whether a module gives one answer to the same call, several times."""
    with torch.no_grad():
        first, *others = (attempt(lambda: module(*inputs)) for _ in range(4))
    return isinstance(first, str) or all(torch.equal(first, x) for x in others)


@trial(of="RMSNorm")
def normalised(student, draw):
    """Rows of any size and rank, also of nothing and of another width."""
    s, dtype = sizes(draw, B=3, L=4, E=9), draw.choice(*DTYPES)
    options = draw.choice({}, {}, {"eps": 0.1}, {"eps": 0.0})
    E = s["E"]
    yield torch.as_tensor(student.RMSNorm(E).weight.detach())
    module = loaded(draw, lambda: student.RMSNorm(E, **options), dtype)
    shape = draw.choice((s["B"], s["L"]), (s["L"],), (), (0, 2), (2, s["B"], 1))
    scale = draw.choice(1.0, 1.0, 1e-3, 300.0, 0.0 if "eps" not in options else 0.1)
    width = draw.choice(E, E, E, E, 1, E + 1)
    [x] = strided(draw, draw.normal(1, *shape, width, dtype=dtype, scale=scale))
    x = x[0] if x.ndim > 2 else x
    yield parameter_shapes(module)
    yield from asked(draw, module, x)


@trial(of="SelfAttention")
def attended(student, draw):
    """Every option, mask and layout, with gradients of x and of the weights."""
    s, dtype = sizes(draw, B=3, L=6, H=3, D=4), draw.choice(*DTYPES)
    options = {
        "qk_norm": draw.choice(True, False),
        "rope_base": draw.choice(None, 100.0, 10000.0, 1.0),
        "dropout": draw.choice(0.0, 0.0, 0.4),
    }
    kept = [name for name in options if draw.integer(0, 3)]
    options = {name: options[name] for name in kept}
    odd = s["D"] % 2 if options.get("rope_base") else 0  # of which another trial asks
    E = s["H"] * (s["D"] + odd)
    made = attempt(lambda: student.SelfAttention(E, s["H"], **options))
    yield made if isinstance(made, str) else (parameter_shapes(made), bool(made.fused))
    if isinstance(made, str):
        return
    module = loaded(draw, lambda: made, dtype)
    module.fused = draw.choice(True, True, False)
    B = draw.choice(*[s["B"]] * 7, 0)
    x = draw.normal(B, s["L"], E, dtype=dtype, scale=draw.choice(1.0, 1.0, 5.0))
    keep = mask(draw, B, s["H"], s["L"], s["L"]) if B else None
    [x] = strided(draw, x)
    if options.get("dropout"):
        module.eval()  # what is dropped in training, a worker draws by itself
        yield (steady := repeats(module, x, keep))
        if not steady:
            return
    yield from asked(draw, module, x, keep)


@trial(of="SelfAttention")
def alike(student, draw):
    """Products of 256s, in half precision and in float32."""
    dtype = draw.choice(*HALVES, float32)
    module = student.SelfAttention(64, draw.choice(1, 2), False)
    module.to(dtype)
    eye = torch.eye(64)
    state = {f"{n}.weight": eye for n in "qkvo"} | {f"{n}.bias": torch.zeros(64) for n in "qkvo"}
    module.load_state_dict(state, strict=False)
    x = ((draw.integers(0, 1, 1, 5, 64) * 2 - 1) * 256).to(dtype)
    yield from called(module, x, mask(draw, 5, 5))


@trial(of="SelfAttention")
def refused(student, draw):
    """Widths and heads that may not divide, or have no pairs."""
    width, heads, base = draw.integer(1, 24), draw.integer(1, 6), draw.choice(None, 100.0)
    yield attempt(lambda: parameter_shapes(student.SelfAttention(width, heads, rope_base=base)))
    yield attempt(
        lambda: parameter_shapes(student.CrossAttention(width, heads, draw.integer(0, 1)))
    )


@trial(of="CrossAttention")
def read(student, draw):
    """Images of any size, none and too long among them, texts of none, masks and layouts."""
    s, dtype = sizes(draw, B=3, L=5, Lt=6, Li=4, H=3, D=4), draw.choice(*DTYPES)
    E, image, text = s["H"] * s["D"], s["Li"], draw.choice(s["Lt"], s["Lt"], s["Lt"], 0)
    image = draw.choice(image, image, 0)
    if not image:
        text = s["Lt"]
    given = draw.choice((image,), (image,), ()) if not image else (image,)
    module = loaded(draw, lambda: student.CrossAttention(E, s["H"], *given), dtype)
    yield parameter_shapes(module)
    B = draw.choice(*[s["B"]] * 7, 0)
    x = draw.normal(B, s["L"], E, dtype=dtype, scale=draw.choice(1.0, 1.0, 5.0))
    context = draw.normal(B, image + text, E, dtype=dtype)
    x, context = strided(draw, x, context)
    keep = mask(draw, B, s["H"], s["L"], text) if B and text else None
    context = draw.choice(*[context] * 8, context[:, : max(image - 1, 0)] if image else context)
    yield from asked(draw, module, x, context, keep)
    if image < s["L"]:
        yield from called(module, x, x, mask(draw, s["L"], s["L"] - image))


@trial(of="FeedForward")
def fed(student, draw):
    """Tokens of any rank and dtype."""
    s, dtype = sizes(draw, B=3, L=5, E=6, N=9), draw.choice(*DTYPES)
    hidden = draw.choice(s["N"], s["E"])
    module = loaded(draw, lambda: student.FeedForward(s["E"], hidden), dtype)
    shape = draw.choice((s["B"], s["L"]), (s["L"],), (1,), (0, 2), (2, s["B"], 1))
    [x] = strided(draw, draw.normal(*shape, s["E"], dtype=dtype))
    yield parameter_shapes(module)
    yield from asked(draw, module, x)
