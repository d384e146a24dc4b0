"""The key/value cache: the past as a tuple, the cache by itself, and the layer that uses it."""

import pytest
import torch
from torch import bfloat16, float16, float32, float64

from grader.judging import agree, backward, check, expect, gradcheck, rejects, same, untouched
from reference import ex06_kv_cache as reference
from reference import raised

SHAPES = [  # leading dimensions, new tokens, old tokens, width of queries and keys, and of values
    *[((), 1, 0, 1, 1), ((2, 3), 17, 0, 8, 5), ((), 3, 4, 4, 4), ((1, 2, 2), 1, 65, 16, 24)],
    *[((3,), 17, 48, 3, 2), ((2, 1), 65, 3, 8, 8)],
]
# Dtype and size of the scores. Large ones in float64 only: in float32 their rounding errors differ
# too much from one right answer to the next, on outputs as small as these.
SIZES = [(float32, 1), (float64, 1), (float64, 2500)]
HALVES = [float16, bfloat16]
CHUNKS = [[1] * 9, [9], [4, 5], [1, 7, 1], [5, 1, 1, 2]]
REFUSED = [  # tokens in a cache of (3, 2, 8, 4); the shapes of k and of v; numbers in the message
    *[(0, (3, 2, 9, 4), (3, 2, 9, 4), (9, 8)), (7, (3, 2, 2, 4), (3, 2, 2, 4), (8,))],
    *[(8, (3, 2, 1, 4), (3, 2, 1, 4), (8,)), (5, (1, 2, 1, 4), (1, 2, 1, 4), (1, 3))],
    *[(0, (3, 5, 1, 4), (3, 5, 1, 4), (5, 2)), (5, (3, 2, 1, 7), (3, 2, 1, 7), (7, 4))],
    *[(5, (3, 2, 2, 4), (3, 2, 1, 4), (1, 2)), (5, (3, 2, 2, 4), (1, 2, 2, 4), (1, 3))],
    *[(5, (1, 2, 2, 4), (3, 2, 2, 4), (1, 3)), (5, (3, 2, 1, 4), (3, 2, 2, 4), (1, 2))],
    *[(5, (3, 2, 2, 4), (3, 1, 2, 4), (1, 2)), (0, (3, 2, 2, 4), (3, 2, 2, 1), (1, 4))],
]
LAYERS = [  # batch, tokens, d_model, num_heads, bias
    *[(2, 3, 8, 8, True), (1, 1, 4, 1, False), (1, 17, 12, 3, True), (3, 65, 32, 4, False)],
]
CACHES = [  # a cache and the dtype of what is appended to it
    *[((2, 3, 9, 4, float64), float64), ((2, 3, 9, 4, float64), float64)],
    *[((1, 1, 17, 1, float16), float16), ((3, 2, 9, 65, bfloat16), float32)],
]


@check(points=1)
@pytest.mark.parametrize("dtype, size", SIZES)
@pytest.mark.parametrize("shape", SHAPES)
def test_values(student, draw, shape, dtype, size):
    """attend_with_past attends to the past and, causally, to the new tokens; the past grows."""
    q, k, v, past = _tokens(draw, *shape, dtype=dtype)
    expected = reference.attend_with_past(size * q, k, v, past)
    agree(student.attend_with_past(size * q, k, v, past), expected)


@check(points=1, needs=[test_values])
@pytest.mark.parametrize("dtype", [float32, float64])
@pytest.mark.parametrize("chunks", CHUNKS, ids=str)
def test_chunks(student, draw, chunks, dtype):
    """attend_with_past answers the same in chunks of any size; later tokens change nothing."""
    tokens = _tokens(draw, (2, 3), 9, 0, 8, 5, dtype=dtype)[:3]
    past, start = None, 0
    for t in chunks:
        q, k, v = (x[..., start : start + t, :] for x in tokens)
        seen = tokens[1][..., :start, :], tokens[2][..., :start, :]
        expected = reference.attend_with_past(q, k, v, seen)
        output, past = student.attend_with_past(q, k, v, past)
        agree((output, past), expected)
        start += t
    q, k, v, _ = _tokens(draw, (2, 3), 9, 0, 8, 5, dtype=float64)
    q[..., 0], k[..., 0] = 1.0, -1e5  # scores so low that -1e4 would hide nothing
    old, past = 9 - chunks[-1] if chunks[-1] > 1 else 0, None  # so many tokens are past
    expected, _ = reference.attend_with_past(q[..., :8, :], k[..., :8, :], v[..., :8, :])
    k[..., 8:, :] = v[..., 8:, :] = 1e30
    if old:
        past = k[..., :old, :], v[..., :old, :]
        expected = expected._replace(
            exact=expected.exact[..., old:, :], plain=expected.plain[..., old:, :]
        )
    output, _ = student.attend_with_past(q[..., old:, :], k[..., old:, :], v[..., old:, :], past)
    says = "with 1e30 in the last token, the output before it"
    agree(output[..., : 8 - old, :], expected, says=says)


@check(points=1, needs=[test_values])
@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("t, old", [(33, 0), (33, 20), (1, 20)])
def test_half_precision(student, draw, device, t, old, dtype):
    """attend_with_past keeps half precision, and nothing overflows on the way."""
    q, k, v, past = _tokens(draw, (2, 4), t, old, 16, 17, dtype=dtype)
    expected = reference.attend_with_past(q, k, v, past)
    agree(student.attend_with_past(q, k, v, past), expected)
    new = torch.full((2, 4, t, 64), 256.0, dtype=dtype, device=device)
    past = (new[:, :, :1].expand(2, 4, old, 64), past[1]) if old else None
    expected = raised(lambda *new: reference.attend_with_past(*new, past)[0], new, new, v)
    output, _ = student.attend_with_past(new, new, v, past)
    agree(output, expected, says="output for products of 256s")
    if t == 1:
        q, k, v, past = _tokens(draw, (), 1, 69_999, 1, 1, dtype=dtype)
        ones = torch.ones_like(v), torch.ones_like(past[1])
        output, _ = student.attend_with_past(0 * q, k, ones[0], (past[0], ones[1]))
        agree(output, torch.ones(1, 1), says="mean of 70,000 ones", within=0.02)


@check(points=1, needs=[test_values])
@pytest.mark.parametrize("dtype", [float32, float64, *HALVES])
@pytest.mark.parametrize("t", [5, 1])
def test_manners(student, draw, t, dtype):
    """attend_with_past leaves q, k, v and the past alone; strided, expanded and empty ones work."""
    for old in (4, 4, 0):
        q, k, v, past = _tokens(draw, (2, 3), t, old, 8, 6, dtype=dtype)
        answer = untouched(lambda new=(q, k, v, past): student.attend_with_past(*new))
        agree(answer, reference.attend_with_past(q, k, v, past))
    q, k, v = (draw.strided(2, 3, t, n, dtype=dtype) for n in (8, 8, 6))
    past = draw.strided(2, 3, 4, 8, dtype=dtype), draw.strided(2, 3, 4, 6, dtype=dtype)
    agree(student.attend_with_past(q, k, v, past), reference.attend_with_past(q, k, v, past))
    k, past = k[:, :1].expand(2, 3, t, 8), tuple(x[:1].expand(2, 3, 4, -1) for x in past)
    agree(student.attend_with_past(q, k, v, past), reference.attend_with_past(q, k, v, past))
    q, k, v, past = _tokens(draw, (0, 3), t, 4, 8, 6, dtype=dtype)
    agree(student.attend_with_past(q, k, v, past), reference.attend_with_past(q, k, v, past))


@check(points=1, needs=[test_values])
@pytest.mark.parametrize("dtype", [float32, float64, *HALVES])
@pytest.mark.parametrize("lead, t, old", [((2,), 7, 0), ((2,), 7, 5), ((1, 2), 1, 5)])
def test_gradient(student, draw, lead, t, old, dtype):
    """The gradients of attend_with_past are right: for q, k and v, and for the past."""
    q, k, v, past = _tokens(draw, lead, t, old, 4, 3, dtype=dtype)
    upstream = draw.normal(*lead, t, 3, dtype=dtype)
    expected = reference.attend_with_past_gradients(q, k, v, past, upstream=upstream)
    leaves = [x.requires_grad_() for x in (q, k, v, *(past or ()))]
    output, joined = student.attend_with_past(q, k, v, past)
    got = backward(output, *leaves, upstream=upstream)
    for name, one, right in zip(("q", "k", "v", "past[0]", "past[1]"), got, expected, strict=False):
        agree(one, right, says=f"gradient of {name}")
    for name, grown, new in zip(("past[0]", "past[1]"), joined, (k, v), strict=True):
        [got] = backward(grown, new, upstream=torch.ones_like(grown))
        agree(got, torch.ones_like(new), says=f"gradient through the {name} that is returned")
    if old and t > 1 and dtype == float64:
        q, k, v, past = _tokens(draw, (), 2, 1, 2, 1, dtype=dtype)
        leaves = [x.requires_grad_() for x in (q, k, v, *past)]
        gradcheck(lambda q, k, v, *past: student.attend_with_past(q, k, v, past)[0], *leaves)


@check(points=1)
def test_cache(student, draw, device):
    """KVCache.append gives back all keys and values so far, in order, and length counts them."""
    cache, right = _caches(student, device, 2, 3, 17, 5)
    same(cache.length, 0, says="length of a new cache")
    for t in (1, 4, 1, 1, 7):
        _append(cache, right, draw.normal(2, 3, t, 5), draw.normal(2, 3, t, 5))


@check(points=1, needs=[test_cache])
def test_cache_own(student, draw, device):
    """Every KVCache has memory, a length and a dtype of its own; reset empties that one alone."""
    pairs = [_caches(student, device, *sizes) for sizes, _ in CACHES]
    for t in (1, 5, 2):
        for pair, ((batch, heads, _, width, _), dtype) in zip(pairs, CACHES, strict=True):
            k, v = (draw.strided(batch, heads, t, width, dtype=dtype) for _ in range(2))
            _append(*pair, k, v)
        if t == 5:
            for first in pairs[0]:
                first.reset()
        for cache, right in pairs:
            same(cache.length, right.length)
    k, v = (draw.normal(2, 3, 7, 4, dtype=float64) for _ in range(2))
    _append(*pairs[0], k, v)  # full, for the first time since it was emptied


@check(points=1, needs=[test_cache])
@pytest.mark.parametrize("old, k_shape, v_shape, numbers", REFUSED)
def test_cache_refuses(student, draw, device, old, k_shape, v_shape, numbers):
    """A KVCache refuses what does not fit (ValueError with both numbers) and stays as it was."""
    cache, right = _caches(student, device, 3, 2, 8, 4)
    if old:
        _append(cache, right, draw.normal(3, 2, old, 4), draw.normal(3, 2, old, 4))
    k, v = draw.normal(*k_shape), draw.normal(*v_shape)
    rejects(lambda: cache.append(k, v), *numbers)
    same(cache.length, old, says="length after a refused append")
    if old < 8:
        _append(cache, right, draw.normal(3, 2, 8 - old, 4), draw.normal(3, 2, 8 - old, 4))


@check(points=1)
@pytest.mark.parametrize("dtype", [float32, float64, *HALVES])
@pytest.mark.parametrize("sizes", LAYERS)
def test_layer(student, draw, device, sizes, dtype):
    """Without a cache CachedAttention is causal multi-head self-attention, in every dtype."""
    batch, length, width, *_ = sizes
    layer, right = _layers(student, draw, device, *sizes[2:], dtype=dtype)
    x = draw.normal(batch, length, width, dtype=dtype)
    agree(layer(x), right(x))


@check(points=1, needs=[test_layer, test_cache_own])
@pytest.mark.parametrize("dtype", [float32, float64, *HALVES])
@pytest.mark.parametrize(
    "chunks, bias", [([1] * 5, True), ([4, 5], False), ([17, 1, 3], True)], ids=str
)
def test_layer_with_cache(student, draw, device, chunks, bias, dtype):
    """With a cache CachedAttention answers the same in chunks of any size; texts do not mix."""
    layer, right = _layers(student, draw, device, 12, 3, bias, dtype=dtype)
    layer.requires_grad_(False)
    texts = [_caches(student, device, 3, 3, 1 + sum(chunks), 4, dtype) for _ in range(2)]
    size = 300 if dtype is float64 else 1  # large scores, for one of the texts
    for t in chunks:
        for (cache, seen), times in zip((*texts, (None, None)), (1, size, 1), strict=True):
            before = f"after {seen.length} earlier token(s)" if seen else "without a cache"
            x = draw.normal(3, t, 12, dtype=dtype, scale=times)
            expected = right(x, cache=seen)
            output = untouched(lambda x=x, cache=cache: layer(x, cache=cache))
            agree(output, expected, says=f"{before}, output")
    for cache, seen in texts:
        same(cache.length, seen.length)
    if dtype is float16:
        layer, _ = _layers(student, draw, device, 64, 1, False, dtype=dtype)
        layer.requires_grad_(False)
        _same_tokens(layer, device, _caches(student, device, 1, 1, 5, 64, dtype)[0])


@check(points=1, needs=[test_layer])
@pytest.mark.parametrize("dtype", [float64, float32, *HALVES])
@pytest.mark.parametrize("t, bias", [(5, True), (1, False)])
def test_layer_manners(student, draw, device, t, bias, dtype):
    """CachedAttention leaves x alone, does not overflow, has right gradients, checks num_heads."""
    layer, right = _layers(student, draw, device, 12, 3, bias, dtype=dtype)
    for x in (draw.strided(2, t, 12, dtype=dtype), draw.normal(0, t, 12, dtype=dtype)):
        agree(untouched(lambda x=x: layer(x)), right(x))
    x, upstream = draw.normal(2, t, 12, dtype=dtype), draw.normal(2, t, 12, dtype=dtype)
    expected = right.gradients(x, upstream=upstream)
    [got] = backward(layer(x.requires_grad_()), x, upstream=upstream)
    agree(got, expected[0], says="gradient of x")
    for name, one in zip(_parameters(12, bias), expected[1:], strict=True):
        agree(layer.read(f"{name}.grad"), one, says=f"gradient of {name}")
    if dtype is float64:
        x = draw.normal(2, t, 12, dtype=dtype, scale=300)
        agree(layer(x), right(x), says="output for large scores")
    if dtype is float16:
        layer, _ = _layers(student, draw, device, 64, 1, False, dtype=dtype)
        _same_tokens(layer, device)
    rejects(lambda: student.CachedAttention(10, 4), 10, 4)


def _same_tokens(layer, device, cache=None):
    """Tokens of 256s through projections that change nothing come out as they went in."""
    layer.load_state_dict(
        {name: torch.eye(64, device=device) for name in _parameters(64, False)}, strict=False
    )
    large = torch.full((1, 5, 64), 256.0, dtype=float16, device=device)
    for x in large.split([5] if cache is None else [4, 1], 1):
        agree(layer(x, cache=cache), x, says="output for products of 256s")


def _tokens(draw, leading, t, old, width, value_width, dtype):
    """q, k, v of t new tokens, and the keys and values of old ones (None if there are none)."""
    shapes = [(t, width), (t, width), (t, value_width), (old, width), (old, value_width)]
    q, k, v, *past = (draw.normal(*leading, *shape, dtype=dtype) for shape in shapes)
    return q, k, v, tuple(past) if old else None


def _caches(student, device, *sizes):
    """An empty cache of the student's, and the reference's beside it."""
    return student.KVCache(*sizes, device=device), reference.KVCache(*sizes, device=device)


def _append(cache, right, k, v):
    before = f"after {right.length} earlier token(s)"
    keys, values = untouched(lambda: cache.append(k, v))
    right_keys, right_values = right.append(k, v)
    agree(keys, right_keys, says=f"{before}, keys")
    agree(values, right_values, says=f"{before}, values")
    same(cache.length, right.length)


def _parameters(width, bias):
    """The shape of every parameter of a layer, by its name."""
    shapes = {"weight": (width, width), "bias": (width,)} if bias else {"weight": (width, width)}
    return {f"w_{w}.{name}": shape for w in "qkvo" for name, shape in shapes.items()}


def _layers(student, draw, device, width, heads, bias, dtype):
    """The student's layer and the reference's, with the same weights."""
    both = (
        student.CachedAttention(width, heads, bias),
        reference.CachedAttention(width, heads, bias),
    )
    both[0].to(device, dtype)
    state = {}
    for name, shape in _parameters(width, bias).items():
        got = getattr(both[0].read(name), "shape", None)
        got = got if got is None else tuple(got)
        expect(got == shape, f"the shape of {name} is {got}, but should be {shape}")
        state[name] = draw.normal(*shape, dtype=dtype, scale=width**-0.5)
    both[0].load_state_dict(state, strict=False)  # buffers of the student's own are welcome
    both[1].load_state_dict(state)
    return both
