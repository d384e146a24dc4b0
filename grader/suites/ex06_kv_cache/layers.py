"""Builds the student's layer beside the reference's, and compares them and large scores."""

import math
from functools import partial

import torch
from torch import float32, float64

from grader.judging import (
    Hard,
    agree,
    backward,
    expect,
    expect_shapes,
    lasting,
    rejects,
    same,
    untouched,
)
from grader.suites.ex06_kv_cache.attention import agree_attention, new_tokens
from grader.suites.ex06_kv_cache.caches import new_caches
from reference import ex06_kv_cache as reference
from reference import raised


def parameters(width, bias):
    """Return the shape of every parameter of a layer, by name."""
    shapes = {"weight": (width, width), "bias": (width,)} if bias else {"weight": (width, width)}
    return {f"w_{w}.{name}": shape for w in "qkvo" for name, shape in shapes.items()}


def new_layers(student, draw, device, width, heads, bias, dtype=torch.float32, scores=1.0):
    """Return the student's layer, and the reference's with the same weights.

    scores  how many times as large as ordinary ones scores are
    """
    both = (
        student.CachedAttention(width, heads, *([bias] if bias else [])),
        reference.CachedAttention(width, heads, bias),
    )
    both[0].to(device, dtype)
    expect_shapes(both[0], parameters(width, bias))
    unasked = [] if bias else [x for x in parameters(width, True) if x.endswith("bias")]
    for name, value in zip(unasked, both[0].read_each(unasked), strict=True):
        expect(value is None, f"{name} is there, but no bias was asked for")
    load(draw, both, width, bias, dtype, scores)
    return both


def load(draw, both, width, bias, dtype=float32, scores=1.0):
    """Load new weights into the student's layer and the reference's, and return them."""
    state = {
        name: draw.normal(*shape, dtype=dtype, scale=width**-0.5)
        for name, shape in parameters(width, bias).items()
    }
    state["w_q.weight"] *= scores
    both[0].load_state_dict(state, strict=False)  # buffers of the student's own are welcome
    both[1].load_state_dict(state)
    return state


def _agree_gradients(draw, layer, right, x, upstream, bias):
    """Compare gradients of x and of every parameter in both modes, for an upstream gradient."""
    expected = right.gradients(x, upstream=upstream)
    draw.hard(Hard.MODES)
    for mode in (layer.eval, layer.train):
        mode()
        layer.zero_grad()
        [got] = backward(layer(x.requires_grad_()), x, upstream=upstream)
        agree(got, expected[0], says="gradient of x")
        names = list(parameters(x.shape[-1], bias))
        found = layer.read_each(f"{name}.grad" for name in names)
        for name, got, one in zip(names, found, expected[1:], strict=True):
            agree(got, one, says=f"gradient of {name}")


def layer_sizes(draw, sizes):
    """Return the sizes of a layer and its input, or the sizes of a hard kind."""
    if not isinstance(sizes, Hard):
        return [sizes]
    found = draw.hard(sizes, {"H": 128, "D": 128}, B=1, L=3, H=2, D=2)
    return [(*one.values(), bool(i % 2)) for i, one in enumerate(found)]


def agree_gradients_of_a_layer(student, draw, device, t, bias, dtype):
    """Compare the gradients of a layer without a cache."""
    layer, right = new_layers(student, draw, device, 12, 3, bias, dtype)
    x, upstream = (draw.normal(2, t, 12, dtype=dtype) for _ in range(2))
    _agree_gradients(draw, layer, right, x, upstream, bias)


def agree_with_cache(
    student, draw, device, bias, batch, t, old, heads, width, dtype=float32, size=1.0
):
    """Compare a layer on t tokens without a cache, and on t tokens after old ones with one."""
    layer, right = new_layers(student, draw, device, heads * width, heads, bias, dtype)
    layer.requires_grad_(False)
    cache, seen = new_caches(student, device, batch, heads, old + t + 1, width, dtype)
    for many in (old, t) if old else (t,):
        x = draw.normal(batch, many, heads * width, dtype=dtype, scale=size)
        expected = right(x, cache=seen)
        before = f"after {seen.length - many} earlier token(s), output"
        agree(untouched(lambda x=x: layer(x, cache=cache)), expected, says=before)
    agree(untouched(lambda: layer(x)), right(x))
    if dtype is float32 or old:
        return
    with lasting(layer.forward, x):
        agree(layer(-x), right(-x))
    layer.forward.held(x).change("fill_", 2.0)
    agree(layer(x), right(x), says="output (after the caller wrote into that of an earlier call)")


def agree_changed_weights(draw, layer, right, width, bias):
    """Compare a layer that was called already after rows of its weights have changed, of which no
    version number tells."""
    x, last = draw.normal(2, 3, width), torch.tensor([width - 1])
    says = "output after the weights were changed"
    state = load(draw, (layer, right), width, bias)
    agree(layer(x), right(x))
    for name in "w_k.weight", "w_v.weight":
        getattr(layer, f"{name}.data.index_fill_")(0, last.to(x.device), 0.5)
        state[name][-1] = 0.5
    right.load_state_dict(state)
    agree(layer(x), right(x), says=says)


def agree_after_double(student, draw, device):
    """Compare a layer in float64 that was called in float32 before."""
    layer, right = new_layers(student, draw, device, 12, 3, True)
    layer.requires_grad_(False)
    x = draw.normal(2, 3, 12)
    layer(x)
    layer.double()
    agree(layer(x.double()), right(x.double()), says="output after .double()")


def agree_after_too_many(student, draw, device, layer, right):
    """Compare a layer whose empty cache refused many tokens: none of them may be left in it."""
    cache, seen = new_caches(student, device, 1, 3, 600, 4)
    rejects(lambda: layer(draw.normal(1, 601, 12), cache=cache), 601, 600)
    same(cache.length, 0, says="length after a refused append")
    x = draw.normal(1, 2, 12)
    agree(layer(x, cache=cache), right(x, cache=seen), says="after a refused append, output")


def agree_products_of_256(student, draw, device, t, old, dtype):
    """Compare answers for queries and keys of 256s, whose products exceed float16."""
    v, past_v = (draw.normal(2, 4, n, 17, dtype=dtype) for n in (t, old))
    new = torch.full((2, 4, t, 64), 256.0, dtype=dtype, device=device)
    past = (new[:, :, :1].expand(2, 4, old, 64), past_v) if old else None
    expected = raised(lambda *new: reference.attend_with_past(*new, past)[0], new, new, v)
    output, _ = student.attend_with_past(new, new, v, past)
    agree(output, expected, says="output for products of 256s")
    keys = new.clone()
    keys[:, :, ::2] = 200.0  # of two products that overflow the larger one counts
    expected = raised(lambda *new: reference.attend_with_past(*new, past)[0], new, keys, v)
    output, _ = student.attend_with_past(new, keys, v, past)
    agree(output, expected, says="output for products of 256s and 200s")
    layer, _ = new_layers(student, draw, device, 64, 1, False, dtype)
    layer.requires_grad_(False)
    same_weights = {name: torch.eye(64, device=device) for name in parameters(64, False)}
    layer.load_state_dict(same_weights, strict=False)
    large = torch.full((1, t + old, 64), 256.0, dtype=dtype, device=device)
    cache, _ = new_caches(student, device, 1, 1, t + old + 1, 64, dtype)
    agree(layer(large), large, says="output for products of 256s", within=2.0)
    for x in large.split([old, t] if old else [t], 1):
        says = "with a cache, output for products of 256s"
        agree(layer(x, cache=cache), x, says=says, within=2.0)  # weights may be rounded


def each_learns_alone(student, draw, device, t, bias):
    """x and every parameter of a layer has its gradient where the others need none."""
    draw.hard(Hard.LEARN)
    layer, right = new_layers(student, draw, device, 12, 3, bias)
    x, upstream = draw.normal(2, t, 12), draw.normal(2, t, 12)
    of_x, *others = right.gradients(x, upstream=upstream)
    layer.requires_grad_(False)
    [got] = backward(layer(x.requires_grad_()), x, upstream=upstream)
    agree(got, of_x, says="gradient of x (which alone learns)")
    x.requires_grad_(False)
    for name, one in zip(parameters(12, bias), others, strict=True):
        getattr(layer, f"{name}.requires_grad_")(True)
        layer.forward.held(x).backward(upstream)
        agree(layer.read(f"{name}.grad"), one, says=f"gradient of {name} (which alone learns)")
        getattr(layer, f"{name}.requires_grad_")(False)


def given_scores(student, draw, device, q, k, kind):
    """Return layers with one head and the input for which q and k (n, w) meet in their head.

    A token holds its query, its key and its value side by side; each projection takes one of them.
    No value loses a digit in `kind`.
    """
    n, w = k.shape
    layer, right = new_layers(student, draw, device, 3 * w, 1, False, k.dtype)
    weights = {name: torch.zeros(3 * w, 3 * w, device=device) for name in parameters(3 * w, False)}
    for i, which in enumerate("qkv"):
        weights[f"w_{which}.weight"][:w, i * w : (i + 1) * w] = torch.eye(w)
    weights["w_o.weight"] = torch.eye(3 * w, device=device)
    layer.load_state_dict(weights, strict=False)
    layer.requires_grad_(False)
    right.load_state_dict(weights)
    v = draw.normal(n, w, dtype=kind).to(k.dtype)
    return layer, right, torch.cat([q, k, v], -1)[None]


def agree_given_scores(student, draw, device, t, old, q, k, kind):
    """Compare a layer for queries and keys of t + old tokens, without a cache and with one.

    kind  the dtype of the cache
    """
    layer, right, x = given_scores(student, draw, device, q, k, kind)
    answer = partial(raised, right) if x.dtype.itemsize == 2 else right
    cache, seen = new_caches(student, device, 1, 1, t + old, x.shape[-1], kind)
    expected = answer(x)
    agree(layer(x), expected)
    with torch.no_grad():
        agree(layer(x), expected, says="output under torch.no_grad()")
    for part in x.split([old, t] if old else [t], 1):
        says = f"with a cache in {str(kind).removeprefix('torch.')}, output"
        agree(layer(part, cache=cache), answer(part, cache=seen), says=says)


def agree_large_scores(student, draw, device, t, old):
    """Compare attend_with_past for scores in the thousands, for hard rows of scores, and, as a
    layer too, for scores that float32 cannot hold."""
    for sizes in (((2, 4), t, old, 10, 17), ((), 3, 4, 4, 4)):
        q, k, v, past = new_tokens(draw, *sizes, float64)
        agree_attention(student, 2500 * q, k, v, past)
    for name, scores in draw.scores(2, t + old, dtype=float64).items():
        k = scores[..., None]
        q, v = torch.ones_like(k[:, old:]), draw.normal(2, t + old, 3, dtype=float64)
        past = (k[:, :old], v[:, :old]) if old else None
        agree_attention(student, q, k[:, old:], v[:, old:], past, says=f"output for {name} scores")
    n = t + old
    q, k, v = (draw.normal(n, 4, dtype=float64) for _ in range(3))
    q[:, 0], k[:, 0] = 1e20, -1e20 * (1 + draw.permutation(n))
    past = (k[:old], v[:old]) if old else None
    says = "output for scores below -1e40"
    agree_attention(student, q[old:], k[old:], v[old:], past, says=says)
    with torch.no_grad():
        agree_attention(student, q[old:], k[old:], v[old:], past, says=says)
    agree_given_scores(student, draw, device, t, old, q, k, float64)
    if t > 1:
        return
    for low, value in (60, 1e26), (300, 1e130):
        layer_of_a_small_weight_agrees(student, draw, device, low, value)


def layer_of_a_small_weight_agrees(student, draw, device, low, value):
    """Compare a layer, without a cache and with one, in which a weight of exp(-low) counts."""
    score = float(draw.integer(low, low + 9))
    layer, _ = new_layers(student, draw, device, 2, 1, False, float64)
    layer.requires_grad_(False)
    weights = {name: torch.zeros(2, 2, dtype=float64) for name in parameters(2, False)}
    weights["w_q.weight"][0, 0], weights["w_k.weight"][0, 0] = math.sqrt(2), 1.0
    weights["w_v.weight"][1, 1] = weights["w_o.weight"][1, 1] = 1.0
    layer.load_state_dict(weights, strict=False)
    x = torch.tensor([[[-score, value], [1.0, 0.0]]], dtype=float64, device=device)
    right = torch.tensor([[[0.0, math.exp(-score - 1) * value]]], dtype=float64)
    cache, _ = new_caches(student, device, 1, 1, 2, 2, float64)
    layer(x[:, :1], cache=cache)
    says = "output for a small weight and a large value"
    for output in layer(x)[:, 1:], layer(x[:, 1:], cache=cache):
        agree(output, right, says=says, within=1e-3 * right.max().item())


def layer_of_low_scores(student, draw, device, length):
    """Return layers with frozen weights, and an input whose scores are all -80,000.

    A token with a large second number has large scores. Its last two numbers are its values.
    """
    layer, right = new_layers(student, draw, device, 4, 1, False)
    weights = {f"w_{w}.weight": torch.zeros(4, 4, device=device) for w in "qkv"}
    weights["w_q.weight"][0, 0], weights["w_k.weight"][0, 0] = -1.0, 1.0
    weights["w_q.weight"][1, 0] = weights["w_k.weight"][1, 1] = 1.0
    weights["w_v.weight"][2:, 2:] = torch.eye(2, device=device)
    weights["w_o.weight"] = torch.eye(4, device=device)
    layer.load_state_dict(weights, strict=False)
    layer.requires_grad_(False)
    right.load_state_dict(weights)
    x = draw.normal(2, length, 4)
    x[..., 0], x[..., 1] = 400.0, 0.0
    return layer, right, x
