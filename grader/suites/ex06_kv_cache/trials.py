"""Random calls that tell a changed answer from the solution."""

import torch

from grader.judging import (
    attempt,
    called,
    differentiated,
    gradients,
    parameter_gradients,
    parameter_shapes,
    trial,
)

DTYPES = torch.float32, torch.float64, torch.float16, torch.bfloat16


def _tokens(draw, s, dtype, *leading):
    """q, k, v of new tokens and a past, with sizes among which may be 0 and long ones."""
    t, old = draw.choice(s["Lt"], s["Lt"], 0), draw.choice(s["Lo"], s["Lo"], 0)
    shapes = [(t, s["D"]), (t, s["D"]), (t, s["Dv"]), (old, s["D"]), (old, s["Dv"])]
    drawn = draw.choice(draw.normal, draw.normal, draw.strided)
    size = draw.choice(1, 1, 30, 1000)
    q, k, v, *past = (drawn(*leading, *shape, dtype=dtype) for shape in shapes)
    return [q * size, k, v, tuple(past) if old or draw.choice(True, False) else None]


def _sizes(draw, largest, **sizes):
    """Sizes as `draw.sizes` has them, but large ones once in 30 times."""
    most = largest if draw.integer(1, 30) == 1 else 9
    return {name: min(n, most) for name, n in draw.sizes(**sizes).items()}


@trial(of="attend_with_past")
def past_as_a_tuple(student, draw):
    """One call and two continuations of its past, with gradients or with hidden large tokens."""
    s = _sizes(draw, 1100, B=3, H=3, Lt=6, Lo=6, D=8, Dv=8)
    dtype = draw.choice(*DTYPES)
    leading = draw.choice((), (s["B"],), (s["B"], s["H"]), (0, 2), (2, 1, 2))
    q, k, v, past = _tokens(draw, s, dtype, *leading)
    if draw.choice(True, False, False):
        x = k[..., :1, :].expand(k.shape)
        k = draw.choice(x, x.neg(), 0 * x - 1e4)
    if q.shape[-2] > 1 and draw.choice(True, False, False, False):
        k[..., -1:, :] = draw.choice(1e4, -1e4)
    if past is None and draw.choice(True, False):
        yield from differentiated(draw, student.attend_with_past, q, k, v)
        return
    if draw.choice(True, False) and past is not None:
        yield from _with_gradients(student, draw, q, k, v, past)
        return
    yield from called(student.attend_with_past, q, k, v, past)
    first = attempt(lambda: student.attend_with_past(q, k, v, past))
    for _ in range(0 if isinstance(first, str) else 2):
        more = (draw.normal(*leading, 2, n, dtype=dtype) for n in (s["D"], s["D"], s["Dv"]))
        yield from called(student.attend_with_past, *more, first[1])


def _with_gradients(student, draw, q, k, v, past):
    leaves = [x.detach().clone().requires_grad_() for x in (q, k, v, *past)]
    result = attempt(lambda: student.attend_with_past(*leaves[:3], tuple(leaves[3:])))
    yield result
    yield gradients(draw, result, leaves)


@trial(of="KVCache")
def cache_by_itself(student, draw):
    """A sequence of appends that fit or do not, and of resets."""
    s = _sizes(draw, 1100, B=3, H=3, L=8, D=4)
    dtype, given = draw.choice(*DTYPES), draw.choice(*DTYPES)
    sizes = (s["B"], s["H"], s["L"], s["D"])
    options = draw.choice({}, {"dtype": dtype}, {"device": "cpu"}, {"dtype": dtype})
    cache = student.KVCache(*sizes, **options)
    yield cache.length, cache.keys.dtype, tuple(cache.keys.shape), tuple(cache.values.shape)
    for _ in range(draw.integer(1, 6)):
        step = draw.choice("append", "append", "append", "wrong", "reset")
        if step == "reset":
            yield attempt(cache.reset)
        else:
            yield from _appended(draw, cache, sizes, step == "wrong", given)
        yield cache.length
    meta = student.KVCache(*sizes, dtype, device="meta")
    yield str(meta.keys.device), str(meta.values.device)


def _appended(draw, cache, sizes, wrong, dtype):
    """What an append of a few tokens, or of as many as are left and one more, comes to."""
    batch, heads, places, width = sizes
    left = places - cache.length
    t = draw.choice(1, 1, 2, 0, left, left + 1, 3)
    shapes = [[batch, heads, t, width], [batch, heads, t, width]]
    if wrong:
        shapes[draw.integer(0, 1)][draw.integer(0, 3)] += draw.choice(1, -1)
    k, v = (draw.normal(*(max(n, 0) for n in shape), dtype=dtype) for shape in shapes)
    yield from called(cache.append, k, v)
    yield cache.keys[:, :, : cache.length], cache.values[:, :, : cache.length]


@trial(of=["CachedAttention", "KVCache"])
def layer_and_caches(student, draw):
    """A layer on texts with a cache each, or without one, and its gradients."""
    s = _sizes(draw, 130, B=3, Lt=5, Lo=5, H=3, D=4)
    heads, width = s["H"], s["H"] * s["D"]
    bias, dtype = draw.choice(True, False), draw.choice(*DTYPES)
    yield attempt(lambda: student.CachedAttention(width + draw.choice(0, 1), heads, bias) and None)
    layer = (
        student.CachedAttention(width, heads, bias)
        if bias
        else draw.choice(
            lambda: student.CachedAttention(width, heads),
            lambda: student.CachedAttention(width, heads, False),
        )()
    )
    layer.to(draw.choice("cpu"), dtype)
    yield parameter_shapes(layer)
    names = [f"w_{w}.{p}" for w in "qkvo" for p in (("weight", "bias") if bias else ("weight",))]
    shapes = [(width, width) if name.endswith("weight") else (width,) for name in names]
    scale = draw.choice(1.0, 1.0, 5.0) * width**-0.5
    layer.load_state_dict(
        {
            n: draw.normal(*shape, dtype=dtype, scale=scale)
            for n, shape in zip(names, shapes, strict=True)
        },
        strict=False,  # a layer may have buffers of its own
    )
    draw.choice(layer.eval, layer.train)()
    if draw.choice(True, False, False):
        x = draw.normal(s["B"], s["Lt"], width, dtype=dtype)
        yield from differentiated(draw, layer, x)
        yield parameter_gradients(draw, layer, x)
        return
    layer.requires_grad_(False)
    places = s["Lo"] + s["Lt"] + draw.choice(0, 1)
    caches = [student.KVCache(s["B"], heads, places, width // heads, dtype), None]
    for many in (s["Lo"], s["Lt"], draw.choice(0, 1, 2)):
        x = draw.choice(draw.normal, draw.strided)(s["B"], many, width, dtype=dtype)
        yield from called(layer, x, cache=draw.choice(*caches[:1], *caches))
        if draw.choice(True, False, False, False):
            caches[0].reset()
        yield caches[0].length
