"""Multi-head latent attention: the cache of latents, and the layer in its two ways."""

import pytest
import torch
from torch import bfloat16, float16, float32, float64

from grader.judging import agree, backward, check, expect, gradcheck, rejects, same, untouched
from grader.suites.ex13_mla.caches import (
    agree_buffers,
    agree_bytes,
    append,
    multiply,
    new_caches,
    stay,
)
from grader.suites.ex13_mla.expanded import EXPANDED, never_expanded
from grader.suites.ex13_mla.layers import new_layers, parameters
from reference import raised

HALVES = [float16, bfloat16]
# d_model, heads, places of a key without and with rotation, of a value, kv_rank, q_rank, base
PLAIN, NARROW = (12, 3, 4, 6, 2, 10), (10, 2, 6, 4, 5, 8, 7)
LAYERS = [  # batch, tokens, sizes
    *[(2, 3, (8, 2, 6, 4, 5, 6)), (1, 1, (4, 1, 2, 2, 1, 4, 2)), (2, 17, (*PLAIN, None, 50.0))],
    *[(3, 65, (16, 4, 8, 8, 8, 16)), (2, 9, (*NARROW, 10.0)), (1, 17, (9, 3, 4, 2, 4, 4, 4))],
]
TEXTS = [  # sizes, tokens of each call, dtype
    *[(PLAIN, [1] * 4, float64), (NARROW, [4, 5], float64), (PLAIN, [7, 1, 3], float64)],
    *[(NARROW, [1, 4], float32), (PLAIN, [7, 1, 3], float16), (NARROW, [4, 1], bfloat16)],
]
TRAINED = [  # sizes, tokens, dtype
    *[(PLAIN, 5, float64), (NARROW, 5, float64), (NARROW, 1, float64), (NARROW, 5, float32)],
    *[(NARROW, 5, float16), (PLAIN, 5, bfloat16)],
]
CACHES = [  # a cache and the dtype of what is appended to it
    *[((2, 9, 4, 6, float64), float64), ((2, 9, 4, 6, float64), float64)],
    *[((1, 17, 1, 2, float16), float16), ((3, 9, 65, 4, bfloat16), float32)],
]
REFUSED = [  # tokens in a cache of (3, 8, 5, 4); shapes of latent and k_rope; the message's numbers
    *[(0, (3, 9, 5), (3, 9, 4), (9, 8)), (7, (3, 2, 5), (3, 2, 4), (8,))],
    *[(8, (3, 1, 5), (3, 1, 4), (8,)), (6, (1, 1, 5), (1, 1, 4), (1, 3))],
    *[(0, (3, 1, 7), (3, 1, 4), (7, 5)), (6, (3, 1, 5), (3, 1, 6), (6, 4))],
    *[(5, (3, 2, 5), (3, 1, 4), (1, 2)), (5, (3, 2, 5), (1, 2, 4), (1, 3))],
    *[(5, (1, 2, 5), (3, 2, 4), (1, 3)), (5, (3, 1, 5), (3, 2, 4), (1, 2))],
    *[(0, (3, 2, 1), (3, 2, 4), (1, 5)), (0, (3, 2, 5), (3, 2, 1), (1, 4))],
]
both_ways = pytest.mark.parametrize("absorbed", [False, True], ids=["naive", "absorbed"])


@check(points=1)
@pytest.mark.parametrize("dtype", [float32, float64])
@pytest.mark.parametrize("batch, tokens, sizes", LAYERS)
def test_values(student, draw, device, batch, tokens, sizes, dtype):
    """Without a cache the layer is causal latent attention, with and without a q_rank."""
    layer, right = new_layers(student, draw, device, sizes, dtype)
    x = draw.normal(batch, tokens, sizes[0], dtype=dtype)
    agree(layer(x), right(x))


@check(points=1, needs=[test_values])
@pytest.mark.parametrize("dtype", [float32, float64])
@pytest.mark.parametrize("batch, tokens, sizes", LAYERS)
def test_absorbed(student, draw, device, batch, tokens, sizes, dtype):
    """With absorbed=True the layer answers the same."""
    layer, right = new_layers(student, draw, device, sizes, dtype)
    x = draw.normal(batch, tokens, sizes[0], dtype=dtype)
    agree(layer(x, absorbed=True), right(x, absorbed=True))


@check(points=1, needs=[test_values])
@pytest.mark.parametrize("sizes", [PLAIN, NARROW])
def test_names(student, sizes):
    """The state dict has DeepSeek-V3's names and no others; an odd rope_dim is a ValueError."""
    layer = student.MultiHeadLatentAttention(*sizes)
    state = layer.state_dict()
    expect(isinstance(state, dict), "state_dict() should give a dict of tensors by name")
    wanted, names = set(parameters(sizes)), {str(name) for name in state}
    missing, more = sorted(wanted - names), sorted(names - wanted)
    expect(not missing, f"the state dict has no {', '.join(missing)}")
    expect(not more, f"the state dict has {', '.join(more)}, which should not be in it")
    rejects(lambda: student.MultiHeadLatentAttention(16, 2, 4, 7, 4, 8), 7)


@check(points=1, needs=[test_values, test_absorbed])
@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("q_rank", [None, 24])
@both_ways
def test_half_precision(student, draw, device, q_rank, dtype, absorbed):
    """Half precision stays; norms and scores do not overflow."""
    sizes = (16, 4, 8, 8, 8, 16, q_rank, 3.0)
    layer, right = new_layers(student, draw, device, sizes, dtype)
    x = draw.normal(2, 33, 16, dtype=dtype)
    agree(layer(x, absorbed=absorbed), right(x, absorbed=absorbed))
    large = draw.normal(1, 1, 16, dtype=dtype, scale=300).expand(1, 5, 16).contiguous()
    expected = raised(right, large, absorbed=absorbed)
    agree(layer(large, absorbed=absorbed), expected, says="output for large tokens")


@check(points=1)
def test_cache(student, draw, device):
    """LatentCache.append gives back all latents and rotary keys so far, and length counts them."""
    cache, right = new_caches(student, device, 2, 17, 5, 4)
    same(cache.length, 0, says="length of a new cache")
    for t in (1, 4, 1, 1, 7):
        append(cache, right, draw.normal(2, t, 5), draw.normal(2, t, 4))


@check(points=1, needs=[test_cache])
def test_cache_own(student, draw, device):
    """Every LatentCache has its own `latents` and `k_ropes`, in which all lies, and no more memory
    than nbytes; reset empties that one alone."""
    pairs = [new_caches(student, device, *sizes) for sizes, _ in CACHES]
    for cache, right in pairs:
        same(cache.nbytes, right.nbytes)
    for t in (1, 5, 2):
        for pair, ((batch, _, rank, rope, _), dtype) in zip(pairs, CACHES, strict=True):
            new = (draw.strided(batch, t, width, dtype=dtype) for width in (rank, rope))
            append(*pair, *new)
        if t == 5:
            for first in pairs[0]:
                first.reset()
        for cache, right in pairs:
            same(cache.length, right.length)
            same(cache.nbytes, right.nbytes)
            agree_buffers(cache, right)
    # Full, for the first time since it was emptied.
    multiply(*pairs[0], -2)
    new = draw.normal(2, 7, 4, dtype=float64), draw.normal(2, 7, 6, dtype=float64)
    stay(pairs[0][0], lambda: append(*pairs[0], *new))
    large = new_caches(student, device, 2, 64, 32, 8)
    append(*large, draw.normal(2, 3, 32), draw.normal(2, 3, 8))
    agree_bytes(*large)


@check(points=1, needs=[test_cache])
@pytest.mark.parametrize("old, latent, k_rope, numbers", REFUSED)
def test_cache_refuses(student, draw, device, old, latent, k_rope, numbers):
    """A LatentCache refuses what does not fit (ValueError with both numbers), unchanged by it."""
    cache, right = new_caches(student, device, 3, 8, 5, 4)
    if old:
        append(cache, right, draw.normal(3, old, 5), draw.normal(3, old, 4))
    new = draw.normal(*latent), draw.normal(*k_rope)
    rejects(lambda: cache.append(*new), *numbers)
    same(cache.length, old, says="length after a refused append")
    if old < 8:
        append(cache, right, draw.normal(3, 8 - old, 5), draw.normal(3, 8 - old, 4))


@check(points=1, needs=[test_values, test_cache_own])
@pytest.mark.parametrize("sizes, chunks, dtype", TEXTS)
def test_with_cache(student, draw, device, sizes, chunks, dtype):
    """With a cache the layer answers the same in chunks of any size; texts do not mix."""
    _texts(student, draw, device, sizes, chunks, dtype, ways=[False])


@check(points=1, needs=[test_with_cache])
@pytest.mark.parametrize("sizes", [PLAIN, NARROW])
def test_cache_contents(student, draw, device, sizes):
    """What the layer leaves in the cache are normalised latents and rotated keys, and nothing else;
    it attends to what lies there."""
    layer, right = new_layers(student, draw, device, sizes, float64)
    layer.requires_grad_(False)
    cache, seen = new_caches(student, device, 2, 64, sizes[5], sizes[3], float64)
    for t in (3, 1, 2):
        x = draw.normal(2, t, sizes[0], dtype=float64)
        layer(x, cache=cache)
        right(x, cache=seen)
    latents, right_keys = seen.so_far()[0], torch.from_numpy(seen.k_ropes)
    agree(cache.latents[:, :6], latents, says="latents in the cache")
    # Dot products, because in which order a key's places are kept is the layer's own business.
    keys = cache.k_ropes[:, :6].double()
    says = "dot products of the rotary keys in the cache"
    agree(keys @ keys.mT, right_keys @ right_keys.mT, says=says)
    agree_bytes(cache, seen)
    multiply(cache, seen, -0.5)
    x = draw.normal(2, 1, sizes[0], dtype=float64)
    agree(layer(x, cache), right(x, seen), says="output once other numbers lie in the cache")


@check(points=1, needs=[test_absorbed, test_cache_contents])
@pytest.mark.parametrize("sizes, chunks, dtype", TEXTS)
def test_absorbed_with_cache(student, draw, device, sizes, chunks, dtype):
    """With absorbed=True it answers the same, and never expands the latents, with a cache or
    without; the two ways may take turns on one cache."""
    ways = [False, True] if 1 in chunks[1:] else [True]
    _texts(student, draw, device, sizes, chunks, dtype, ways)
    if dtype in EXPANDED:
        never_expanded(student, draw, device, sizes, dtype)


@check(points=1, needs=[test_absorbed_with_cache])
@pytest.mark.parametrize("dtype", [float64, *HALVES])
@both_ways
def test_far(student, draw, device, dtype, absorbed):
    """After 5,000 tokens positions are still right, both ways and in half precision."""
    layer, right = new_layers(student, draw, device, (16, 2, 4, 8, 8, 16, None, 10.0), dtype)
    layer.requires_grad_(False)
    cache, seen = new_caches(student, device, 1, 5016, 16, 8, dtype)
    # Loud keys at the beginning, which drown what lies between.
    x = draw.normal(1, 16, 16, dtype=dtype, scale=3.0)
    nothing = [torch.zeros(1, 4992, width, dtype=dtype, device=device) for width in (16, 8)]
    for one, held in ((layer, cache), (right, seen)):
        one(x, held, absorbed)
        held.append(*nothing)
    x = draw.normal(1, 8, 16, dtype=dtype, scale=2.0)
    agree(layer(x, cache, absorbed), right(x, seen, absorbed))


@check(points=1, needs=[test_values, test_absorbed])
@pytest.mark.parametrize("dtype", [float64, float32, *HALVES])
@both_ways
def test_manners(student, draw, device, dtype, absorbed):
    """x is left alone; strided, expanded and empty ones work; later tokens change nothing."""
    layer, right = new_layers(student, draw, device, NARROW, dtype)
    for x in (
        draw.strided(2, 5, 10, dtype=dtype),
        draw.normal(1, 5, 10, dtype=dtype).expand(3, 5, 10),
        draw.normal(0, 5, 10, dtype=dtype),
    ):
        agree(untouched(lambda x=x: layer(x, absorbed=absorbed)), right(x, absorbed=absorbed))
    if dtype is float64:
        x = draw.normal(2, 9, 10, dtype=dtype)
        expected = right(x[:, :8], absorbed=absorbed)
        x[:, 8:] = 1e30
        output = layer(x, absorbed=absorbed)
        agree(output[:, :8], expected, says="with 1e30 in the last token, the output before it")
        x = draw.normal(2, 9, 10, dtype=dtype, scale=1e6)  # scores that -1e4 does not undercut
        expected = right(x, absorbed=absorbed)
        agree(layer(x, absorbed=absorbed), expected, says="output for large scores")


@check(points=1, needs=[test_values, test_absorbed])
@pytest.mark.parametrize("sizes, t, dtype", TRAINED)
@both_ways
def test_gradients(student, draw, device, sizes, t, dtype, absorbed):
    """The gradients are right both ways: of x and of every parameter."""
    layer, right = new_layers(student, draw, device, sizes, dtype)
    x, upstream = (draw.normal(2, t, sizes[0], dtype=dtype) for _ in range(2))
    expected = right.gradients(x, absorbed, upstream=upstream)
    [got] = backward(layer(x.requires_grad_(), absorbed=absorbed), x, upstream=upstream)
    agree(got, expected[0], says="gradient of x")
    for name, one in zip(parameters(sizes), expected[1:], strict=True):
        agree(layer.read(f"{name}.grad"), one, says=f"gradient of {name}")
    if t == 1:
        layer, _ = new_layers(student, draw, device, (3, 2, 2, 2, 1, 2), dtype)
        x = draw.normal(1, 2, 3, dtype=dtype).requires_grad_()
        gradcheck(lambda x: layer(x, absorbed=absorbed), x)


def _texts(student, draw, device, sizes, chunks, dtype, ways):
    """Two texts in turn, each with its cache, and one without; after a reset another text."""
    layer, right = new_layers(student, draw, device, sizes, dtype)
    layer.requires_grad_(False)
    rank, rope = sizes[5], sizes[3]
    texts = [new_caches(student, device, 3, 1 + sum(chunks), rank, rope, dtype) for _ in range(2)]
    for number, t in enumerate([*chunks, 2]):
        if number == len(chunks):
            for one in texts[0]:
                one.reset()
            texts = texts[:1]
        absorbed = ways[number % len(ways)]
        for cache, seen in (*texts, (None, None)):
            when = f"after {seen.length} earlier token(s)" if seen else "without a cache"
            x = draw.normal(3, t, sizes[0], dtype=dtype)
            expected = right(x, cache=seen, absorbed=absorbed)
            output = untouched(
                lambda x=x, cache=cache, way=absorbed: layer(x, cache=cache, absorbed=way)
            )
            agree(output, expected, says=f"{when}, output")
            if cache is not None:
                same(cache.length, seen.length)
