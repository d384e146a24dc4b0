"""The key/value cache: the past as a tuple, the cache by itself, and the layer that uses it."""

import pytest
import torch
from torch import bfloat16, float16, float32, float64

from grader.judging import Hard, agree, check, lasting, on_meta, rejects, same, untouched
from grader.suites.ex06_kv_cache import together
from grader.suites.ex06_kv_cache.attention import (
    agree_attention,
    agree_gradients,
    agree_ties_and_low_scores,
    answers_last,
    each_input_learns_alone,
    gradients_outlast_a_call,
    new_tokens,
    same_tensor_learns,
    shapes,
    small_weight_counts,
)
from grader.suites.ex06_kv_cache.caches import (
    BUFFERS,
    agree_buffers,
    append,
    negate,
    new_caches,
    stay,
)
from grader.suites.ex06_kv_cache.layers import (
    agree_after_double,
    agree_after_too_many,
    agree_changed_weights,
    agree_given_scores,
    agree_gradients_of_a_layer,
    agree_large_scores,
    agree_products_of_256,
    agree_with_cache,
    each_learns_alone,
    layer_of_low_scores,
    layer_sizes,
    load,
    new_layers,
)
from reference import ex06_kv_cache as reference

HALVES = [float16, bfloat16]
SHAPES = [  # leading dimensions, new tokens, old tokens, width of queries and keys, and of values
    *[((), 1, 0, 1, 1), ((2, 3), 17, 0, 8, 5), ((), 3, 4, 4, 4), ((1, 2, 2), 1, 65, 16, 24)],
    *[((3,), 17, 48, 3, 2), ((2, 1), 65, 3, 8, 8), Hard.ONE, Hard.SQUARE, Hard.LONG],
]
CHUNKS = [[1] * 9, [9], [4, 5], [1, 7, 1], [5, 1, 1, 2]]
REFUSED = [  # tokens in a cache of (3, 2, 8, 4); the shapes of k and of v; numbers in the message
    *[(0, (3, 2, 9, 4), (3, 2, 9, 4), (9, 8)), (7, (3, 2, 3, 4), (3, 2, 3, 4), (10, 8))],
    *[(8, (3, 2, 1, 4), (3, 2, 1, 4), (9, 8)), (5, (1, 2, 1, 4), (1, 2, 1, 4), (1, 3))],
    *[(0, (3, 5, 1, 4), (3, 5, 1, 4), (5, 2)), (5, (3, 2, 1, 7), (3, 2, 1, 7), (7, 4))],
    *[(5, (3, 2, 2, 4), (3, 2, 1, 4), (1, 2)), (5, (3, 2, 2, 4), (1, 2, 2, 4), (1, 3))],
    *[(5, (1, 2, 2, 4), (3, 2, 2, 4), (1, 3)), (5, (3, 2, 1, 4), (3, 2, 2, 4), (1, 2))],
    *[(5, (3, 2, 2, 4), (3, 1, 2, 4), (1, 2)), (0, (3, 2, 2, 4), (3, 2, 2, 1), (1, 4))],
    *[(5, (3, 2, 0, 4), (3, 2, 2, 4), (2, 0)), (5, (3, 2, 2, 4), (3, 2, 0, 4), (0, 2))],
    (5, (3, 2, 2, 4), (3, 2, 4), (3, 4)),
]
LAYERS = [  # batch, tokens, heads, width of a head, bias
    *[(2, 3, 8, 1, True), (1, 1, 1, 4, False), (1, 17, 3, 4, True), (3, 65, 4, 8, False)],
    *[Hard.ONE, Hard.LONG],
]
GRADIENTS = [((2,), 7, 0, 4, 3), ((2,), 7, 5, 4, 3), ((1, 2), 1, 5, 4, 3), Hard.ONE, Hard.SQUARE]
CACHES = [  # a cache and the dtype of what is appended to it
    *[((2, 3, 9, 4, float64), float64), ((2, 3, 9, 4, float64), float64)],
    *[((1, 1, 17, 1, float16), float16), ((3, 2, 9, 65, bfloat16), float32)],
]


@check(points=1)
@pytest.mark.parametrize("shape", SHAPES)
def test_values(student, draw, shape):
    """attend_with_past attends to the past and, causally, to the new tokens; the past grows."""
    for lead, *sizes in shapes(draw, shape):
        agree_attention(student, *new_tokens(draw, lead, *sizes))


@check(points=1, needs=[test_values])
@pytest.mark.parametrize("chunks", [*CHUNKS, "together"], ids=str)
def test_chunks(student, draw, chunks):
    """attend_with_past answers the same in chunks of any size and in branches of one past; inputs
    may be strided, expanded or the same tensor, and stay as they were. No pasts, sizes, layouts and
    dtypes disturb each other, in the gradients too."""
    if chunks == "together":
        together.attention_agrees(student, draw, float32)
        for dtype in float32, *HALVES, float64:
            for old, learns in (4, False), (0, dtype is float64):
                answers_last(student, draw, dtype, old, learns)
        return
    tokens = new_tokens(draw, (2, 3), sum(chunks), 0, 8, 5)[:3]
    past, start = None, 0
    draw.hard(Hard.BRANCHES)
    for t in chunks:
        q, k, v = (x[..., start : start + t, :] for x in tokens)
        seen = tokens[1][..., :start, :], tokens[2][..., :start, :]
        other = new_tokens(draw, (2, 3), t, 0, 8, 5)[:3]  # another text that begins the same
        agree_attention(student, *other, past, says="another branch of the past, output")
        expected = reference.attend_with_past(q, k, v, seen)
        now = (q, k, v, past)
        output, past = untouched(lambda now=now: student.attend_with_past(*now))
        agree((output, past), expected)
        start += t
    inputs_left_alone(student, draw, chunks[-1])


def inputs_left_alone(student, draw, t):
    """Check t tokens that are strided, expanded, the same tensor, changed, or on another device."""
    q, k, v = (draw.strided(2, 3, t, n) for n in (8, 8, 6))
    past = draw.strided(2, 3, 4, 8), draw.strided(2, 3, 4, 6)
    untouched(lambda: agree_attention(student, q, k, v, past))
    k, past = k[:, :1].expand(2, 3, t, 8), tuple(x[:1].expand(2, 3, 4, -1) for x in past)
    agree_attention(student, q, k, v, past)
    draw.hard(Hard.SAME)
    x, y = draw.normal(2, 3, t, 8), draw.normal(2, 3, t, 8)
    for v, past in (x, None), (x, (x, x)), (x, (x, y)), (y, (x, x)):
        untouched(lambda v=v, past=past: agree_attention(student, x, x, v, past))
    draw.hard(Hard.CHANGED)
    q, k, v, past = new_tokens(draw, (2, 3), t, 4, 8, 6)
    with lasting(student.attend_with_past, q, k, v, past):
        for x in (v, q, k, *past):
            x.neg_()
            agree_attention(student, q, k, v, past, says="after an input was changed, the answer")
    with torch.no_grad():
        _, longer = student.attend_with_past.held(q, k, v, past)
    with lasting(student.attend_with_past, q, k, v, longer):  # another branch of it
        student.attend_with_past(-q, -k, -v, longer)
    draw.hard(Hard.DEVICE)
    on_meta(student.attend_with_past, *(x.to("meta") for x in (q, k, v)))
    on_meta(
        student.attend_with_past,
        *(x.to("meta") for x in (q, k, v)),
        tuple(x.to("meta") for x in past),
    )


@check(points=1)
@pytest.mark.parametrize("sizes", [(2, 3, 17, 5), Hard.ONE, Hard.LONG])
def test_cache(student, draw, device, sizes):
    """KVCache.append gives back all keys and values so far, in order, and length counts them."""
    hard = isinstance(sizes, Hard)
    many = draw.hard(sizes, B=2, H=3, L=5, D=4) if hard else [dict(zip("BHLD", sizes, strict=True))]
    for batch, heads, places, width in (tuple(one.values()) for one in many):
        cache, right = new_caches(student, device, batch, heads, places + 1, width)
        same(cache.length, 0, says="length of a new cache")
        for t in [max(places - 1, 1), 1] if hard else (1, 4, 1, 1, 7):
            if right.length + t <= places:
                append(cache, right, *(draw.normal(batch, heads, t, width) for _ in range(2)))


@check(points=1, needs=[test_cache])
@pytest.mark.parametrize("case", ["each alone", "together"])
def test_cache_own(student, draw, device, case):
    """The memory of a KVCache, `keys` and `values`, is its own, is taken once, and has its dtype
    and device; append writes into it and returns what lies there; reset empties that one alone. No
    dtypes, chunks and layouts disturb each other."""
    if case == "together":
        together.caches_agree(student, draw, device)
        return
    pairs = [new_caches(student, device, *sizes) for sizes, _ in CACHES]
    for t in (1, 5, 0, 2):
        for pair, ((batch, heads, _, width, _), dtype) in zip(pairs, CACHES, strict=True):
            k, v = (draw.strided(batch, heads, t, width, dtype=dtype) for _ in range(2))
            stay(pair[0], lambda pair=pair, k=k, v=v: append(*pair, k, v))
            agree_buffers(*pair)
        if t == 5:
            for first in pairs[0]:
                first.reset()
            negate(*pairs[1])  # so it is seen that append returns what lies in the memory
        for cache, right in pairs:
            same(cache.length, right.length)
    draw.hard(Hard.FULL)
    for pair in pairs[:2]:
        for many in (9 - pair[1].length, 9):
            k, v = (draw.normal(2, 3, many, 4, dtype=float64) for _ in range(2))
            stay(pair[0], lambda pair=pair, k=k, v=v: append(*pair, k, v))
            stay(pair[0], pair[0].reset)
            pair[1].reset()
    draw.hard(Hard.CHANGED)
    cache, right = pairs[0]
    append(cache, right, k[:, :, :2], v[:, :, :2])
    k.neg_()
    v.neg_()
    append(cache, right, k[:, :, :2], v[:, :, :2])
    draw.hard(Hard.DEVICE)
    for options, right in ({"device": "meta"}, "meta"), ({}, "cpu"):
        cache = student.KVCache(2, 3, 9, 4, float64, **options)
        for name in ("keys", "values"):
            where = getattr(cache.read(f"{name}.device"), "type", None)
            same(where, right, says=f"the device of {name}")


@check(points=1, needs=[test_cache])
@pytest.mark.parametrize("old, k_shape, v_shape, numbers", REFUSED)
def test_cache_refuses(student, draw, device, old, k_shape, v_shape, numbers):
    """A KVCache refuses what does not fit (ValueError with both numbers) and stays as it was, full
    or not; after a reset there is room again."""
    cache, right = new_caches(student, device, 3, 2, 8, 4)
    if old:
        append(cache, right, draw.normal(3, 2, old, 4), draw.normal(3, 2, old, 4))
    k, v = draw.normal(*k_shape), draw.normal(*v_shape)
    draw.hard(Hard.FAILED)
    before = [getattr(cache, name).clone() for name in BUFFERS]
    rejects(lambda: cache.append(k, v), *numbers)
    same(cache.length, old, says="length after a refused append")
    for name, then in zip(BUFFERS, before, strict=True):
        same(getattr(cache, name), then, says=f"{name} after a refused append")
    if old < 8:
        append(cache, right, draw.normal(3, 2, 8 - old, 4), draw.normal(3, 2, 8 - old, 4))
    draw.hard(Hard.FULL)
    append(cache, right, draw.normal(3, 2, 0, 4), draw.normal(3, 2, 0, 4))
    k, v = draw.normal(3, 2, 1, 4), draw.normal(3, 2, 1, 4)
    rejects(lambda: cache.append(k, v), 9, 8)
    same(cache.length, 8, says="length after a refused append")
    for one in (cache, right):
        one.reset()
    append(cache, right, draw.normal(3, 2, 8, 4), draw.normal(3, 2, 8, 4))
    room = draw.integer(20, 99)
    cache, _ = new_caches(student, device, 1, 1, room, 2)
    k, v = draw.normal(1, 1, room + 2, 2), draw.normal(1, 1, room + 2, 2)
    rejects(lambda: cache.append(k, v), room + 2, room)


@check(points=1)
@pytest.mark.parametrize("sizes", LAYERS)
def test_layer(student, draw, device, sizes):
    """Without a cache CachedAttention is causal multi-head self-attention, in training and in
    evaluation; it leaves x alone, which may be strided, and checks num_heads."""
    for batch, length, heads, width, bias in layer_sizes(draw, sizes):
        layer, right = new_layers(student, draw, device, heads * width, heads, bias)
        x = draw.normal(batch, length, heads * width)
        agree(untouched(lambda layer=layer, x=x: layer(x)), right(x))
    draw.hard(Hard.MODES)
    draw.hard(Hard.CHANGED)
    for mode in (layer.eval, layer.train):
        mode()
        agree(layer(x), right(x), says="output in .eval() and in .train()")
        with lasting(layer.forward, x):
            x.neg_()
            agree(layer(x), right(x), says="output after x was changed in place")
            load(draw, (layer, right), heads * width, bias)
            agree(layer(x), right(x), says="output after the weights were changed")
    x = draw.strided(batch, length, heads * width)
    agree(layer(x), right(x))
    if not isinstance(sizes, Hard):
        layer.requires_grad_(False)
        agree_changed_weights(draw, layer, right, heads * width, bias)
    draw.hard(Hard.DEVICE)
    layer.to("meta")
    on_meta(layer.forward, x.to("meta"))
    many = draw.integer(20, 49)
    for width, heads in (10, 4), (3 * many - 1, many):
        rejects(lambda e=width, h=heads: student.CachedAttention(e, h), width, heads)


@check(points=1, needs=[test_layer, test_cache])
@pytest.mark.parametrize(
    "chunks, bias",
    [
        *[([1] * 5, True), ([4, 5], False), ([17, 1, 3], True), (Hard.ONE, False)],
        *[(Hard.LONG, True), ("together", None)],
    ],
    ids=str,
)
def test_layer_with_cache(student, draw, device, chunks, bias):
    """With a cache CachedAttention answers the same in chunks of any size, in training and in
    evaluation; texts do not mix, and what the cache refuses is the cache's ValueError. No caches,
    sizes, layouts, modes and dtypes disturb each other, without a cache in the gradients too."""
    if chunks == "together":
        together.layers_agree(student, draw, device, float32)
        return
    if isinstance(chunks, Hard):
        limits = {"B": 128, "H": 128, "D": 128}
        for one in draw.hard(chunks, limits, B=1, Lt=3, Lo=5, H=2, D=2):
            agree_with_cache(student, draw, device, bias, *one.values())
        return
    layer, right = new_layers(student, draw, device, 12, 3, bias)
    layer.requires_grad_(False)
    texts = [new_caches(student, device, 3, 3, sum(chunks), 4) for _ in range(2)]
    draw.hard(Hard.MODES)
    for t in chunks:
        for cache, seen in (*texts, (None, None)):
            before = f"after {seen.length} earlier token(s)" if seen else "without a cache"
            x = draw.normal(3, t, 12)
            expected = right(x, cache=seen)
            output = untouched(lambda x=x, cache=cache: layer(x, cache=cache))
            agree(output, expected, says=f"{before}, output")
            layer.train(cache is None)  # the first text in training, then in evaluation
    cache, seen = texts[0]
    draw.hard(Hard.FULL)
    draw.hard(Hard.FAILED)
    rejects(lambda: layer(x[:, :1], cache=cache), sum(chunks) + 1, sum(chunks))
    for one in (cache, seen):
        one.reset()
    rejects(lambda: layer(x[:1, :1], cache=cache), 1, 3)
    agree_after_too_many(student, draw, device, layer, right)
    x = draw.normal(3, sum(chunks), 12)
    right(x[:, :1], cache=seen)
    with lasting(layer.forward, x[:, :1], cache):
        says = "after 1 earlier token(s), output"
        agree(layer(x[:, 1:2], cache=cache), right(x[:, 1:2], cache=seen), says=says)
    for one in (cache, seen):
        one.reset()
    agree(layer(x, cache=cache), right(x, cache=seen), says="after a reset, output")
    for cache, seen in texts:
        same(cache.length, seen.length)


@check(points=1, needs=[test_values, test_layer])
@pytest.mark.parametrize("shape", GRADIENTS)
def test_gradient(student, draw, device, shape):
    """The gradients of attend_with_past are right, for q, k, v and the past, through the output and
    the past that is returned; so are those of CachedAttention without a cache, for x and all
    parameters."""
    for lead, t, *sizes in shapes(draw, shape):
        agree_gradients(student, draw, lead, t, *sizes, dtype=float32)
    for bias in (False, True):
        agree_gradients_of_a_layer(student, draw, device, t, bias, float32)
    if shape == GRADIENTS[1]:
        each_input_learns_alone(student, draw, *shape[1:3])
        gradients_outlast_a_call(student, draw, *shape[1:3])
        same_tensor_learns(student, draw, float32)
        each_learns_alone(student, draw, device, t, True)


@check(points=1, needs=[test_values, test_layer])
@pytest.mark.parametrize("t, old", [(9, 0), (4, 5), (2, 8)])
def test_hidden(student, draw, device, t, old):
    """Later tokens count for nothing in attend_with_past and CachedAttention, neither where all
    scores are below -10,000 nor if a later token is as large as 1e30."""
    q, k, v, past = new_tokens(draw, (2, 3), t, old, 8, 5)
    for x in (q, k, *(past or ())[:1]):
        x.zero_()[..., 0] = -1e5  # scores that are all equal, so that rounding plays no part
    q[..., 0] = 1.0
    (right, _) = reference.attend_with_past(q[..., :-1, :], k[..., :-1, :], v[..., :-1, :], past)
    for large in (False, True):
        if large:
            k[..., -1, :], v[..., -1, :] = 1e30, 1e30
        output, _ = student.attend_with_past(q, k, v, past)
        agree(output[..., :-1, :], right, says="the output before the last token")
    for before in (300, old):
        q, k = draw.low(before + t, before + t, 4)
        v = draw.normal(before + t, 4)
        past = (k[:before], v[:before]) if before else None
        new = (x[before:] for x in (q, k, v))
        agree_attention(student, *new, past, says="output for very low scores")
    agree_given_scores(student, draw, device, t, old, q, k, float32)

    layer, right, x = layer_of_low_scores(student, draw, device, old + t)
    expected = right(x[:, :-1])
    x[:, -1, 1:] = 1e30
    if not old:
        agree(layer(x)[:, :-1], expected, says="the output before the last token")
    cache, _ = new_caches(student, device, 2, 1, old + t + 1, 4)
    if old:
        layer(x[:, :old], cache=cache)
    expected = expected._replace(exact=expected.exact[:, old:], plain=expected.plain[:, old:])
    output = layer(x[:, old:], cache=cache)
    agree(output[:, :-1], expected, says="with a cache, the output before the last token")


@check(points=1, needs=[test_values, test_layer])
@pytest.mark.parametrize("dtype", [float64, *HALVES])
@pytest.mark.parametrize("t, old", [(33, 0), (33, 20), (1, 20)])
def test_precision(student, draw, device, t, old, dtype):
    """float64 keeps its digits, for large scores too, and half precision is computed in float32 and
    given back in half precision: in attend_with_past, in CachedAttention, and in the gradients."""
    tokens = new_tokens(draw, (2, 4), t, old, 10, 17, dtype)
    untouched(lambda: agree_attention(student, *tokens))
    agree_gradients(student, draw, (2,), min(t, 7), min(old, 5), 5, 3, dtype)
    agree_gradients_of_a_layer(student, draw, device, min(t, 7), old > 0, dtype)
    sizes = (300, 1) if dtype is float64 else (1,)
    for size in sizes:
        agree_with_cache(student, draw, device, True, 2, t, old, 4, 3, dtype, size)
    if dtype is float64:
        agree_large_scores(student, draw, device, t, old)
        for one in (float32, float64) if t == 1 else ():
            small_weight_counts(student, draw, one)
        if t == 1:
            agree_after_double(student, draw, device)
    else:
        agree_products_of_256(student, draw, device, t, old, dtype)
        agree_ties_and_low_scores(student, draw, t, old, dtype)
        t_few, old_few = min(t, 9), min(old, 9)
        n = t_few + old_few
        exact = draw.normal(n, 4), draw.normal(n, 4, dtype=dtype).float()
        for q, k in (draw.ties(n, n, dtype), draw.low(n, n, 4, dtype), exact) if old else ():
            agree_given_scores(student, draw, device, t_few, old_few, q, k, dtype)
    if t == 1:
        same_tensor_learns(student, draw, dtype)
        together.attention_agrees(student, draw, dtype)
        together.layers_agree(student, draw, device, dtype)
    if t == 1 and dtype is not float64:
        q, k, v, past = new_tokens(draw, (), 1, 69_999, 1, 1, dtype)
        ones = torch.ones_like(v), torch.ones_like(past[1])
        output, _ = student.attend_with_past(0 * q, k, ones[0], (past[0], ones[1]))
        agree(output, torch.ones(1, 1), says="mean of 70,000 ones", within=0.02)
        # Positions beyond 256 are no whole numbers of bfloat16, and those beyond 2048 of float16.
        q, k, v, past = new_tokens(draw, (), 40, 2100, 1, 2, dtype)
        rising = 4.0 * torch.arange(40, dtype=dtype)[:, None]  # who sees one too many, hears it
        agree_attention(student, q.fill_(1.0), k.copy_(rising), v, past)


@check(points=1, needs=[test_values, test_layer])
def test_empty(student, draw, device):
    """A batch of no texts, no new tokens (t = 0) and a past of no tokens are taken like any other:
    by attend_with_past, KVCache and CachedAttention."""
    for lead, t, old in (((0, 3), 5, 4), ((0,), 1, 0), ((2, 3), 0, 4), ((2, 3), 3, 2)):
        q, k, v, past = new_tokens(draw, lead, t, old, 8, 6)
        agree_attention(student, q, k, v, past)
    agree_attention(student, q, k, v, (k[..., :0, :], v[..., :0, :]))
    agree_attention(student, q[..., :0, :], k[..., :0, :], v[..., :0, :])
    for batch in (0, 2):
        cache, right = new_caches(student, device, batch, 3, 6, 4)
        for t in (0, 2, 0, 3, 0):
            append(cache, right, *(draw.normal(batch, 3, t, 4) for _ in range(2)))
    layer, right = new_layers(student, draw, device, 12, 3, True)
    layer.requires_grad_(False)
    for batch in (0, 2):
        cache, seen = new_caches(student, device, batch, 3, 6, 4)
        for t in (0, 2, 0, 3):
            x = draw.normal(batch, t, 12)
            agree(layer(x), right(x))
            agree(layer(x, cache=cache), right(x, cache=seen), says="output with a cache")
            same(cache.length, seen.length)
