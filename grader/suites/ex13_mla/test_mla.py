"""Multi-head latent attention: the cache of latents, and the layer in its two ways."""

import pytest
import torch
from torch import float32, float64

from grader.judging import Hard, agree, check, expect, rejects, same
from grader.judging.case import StudentFault
from grader.suites.ex13_mla.appended import (
    changed_inputs,
    devices,
    filled,
    long_caches,
    several,
)
from grader.suites.ex13_mla.caches import (
    BUFFERS,
    agree_buffers,
    agree_bytes,
    append,
    branch,
    multiply,
    new_caches,
    stay,
)
from grader.suites.ex13_mla.cases import (
    HALVES,
    LONG_TEXT,
    NARROW,
    PLAIN,
    REFUSED,
    SIZES,
    TEXTS,
    TRAINED,
    layer_case,
)
from grader.suites.ex13_mla.expanded import never_expanded
from grader.suites.ex13_mla.extremes import one_learns_alone
from grader.suites.ex13_mla.layers import (
    expect_no_more,
    new_layers,
    parameters,
    state_of,
)
from grader.suites.ex13_mla.manners import (
    each_of,
    each_way_of,
    hard_scores,
    large_scores,
    later_tokens,
    modes,
    refused_calls,
    small_sizes,
)
from grader.suites.ex13_mla.outputs import DIGITS, ROUNDED, agree_gradients, agree_output
from grader.suites.ex13_mla.texts import read_far, read_long, read_texts
from grader.suites.ex13_mla.together import caches_together, chunks_together, texts_together

both_ways = pytest.mark.parametrize("absorbed", [False, True], ids=["naive", "absorbed"])


@check(points=1)
@pytest.mark.parametrize("kind, which", SIZES)
def test_values(student, draw, device, kind, which):
    """Without a cache the layer is causal latent attention, with and without a q_rank: in float32,
    for sizes from 2 to beyond 1024."""
    case = layer_case(draw, kind, which)
    agree_output(student, draw, device, *case, float32, absorbed=False)


@check(points=1, needs=[test_values])
@pytest.mark.parametrize("kind, which", SIZES)
def test_absorbed(student, draw, device, kind, which):
    """With absorbed=True the layer answers the same, in float32."""
    case = layer_case(draw, kind, which)
    agree_output(student, draw, device, *case, float32, absorbed=True)


@check(points=1)
@each_of(filled, changed_inputs, several, long_caches, devices, caches_together)
def test_cache(student, draw, device, ask):
    """LatentCache.append returns all latents and rotary keys so far, in the cache's dtype and on
    its device, whatever the dtypes and layouts; length and nbytes are right, reset empties it, and
    each cache has its own memory."""
    ask(student, draw, device)


@check(points=1, needs=[test_cache])
@pytest.mark.parametrize("old, latent, k_rope, numbers", REFUSED)
def test_cache_refuses(student, draw, device, old, latent, k_rope, numbers):
    """A LatentCache refuses what does not fit (ValueError with both numbers), unchanged by it."""
    draw.hard(Hard.FAILED)
    cache, right = new_caches(student, device, 3, 8, 5, 4)
    if old:
        append(cache, right, draw.normal(3, old, 5), draw.normal(3, old, 4))
    new = draw.normal(*latent), draw.normal(*k_rope)
    before = [getattr(cache, name).clone() for name in BUFFERS]
    rejects(lambda: cache.append(*new), *numbers)
    same(cache.length, old, says="length after a refused append")
    for name, held in zip(BUFFERS, before, strict=True):
        same(getattr(cache, name), held, says=f"{name} after a refused append")
    if old == 8:
        draw.hard(Hard.FULL)
        for one in (cache, right):
            one.reset()
    for t in (8 - right.length, 0):
        append(cache, right, draw.normal(3, t, 5), draw.normal(3, t, 4))
    room = draw.integer(20, 99)
    cache, _ = new_caches(student, device, 1, room, 3, 2)
    new = draw.normal(1, room + 2, 3), draw.normal(1, room + 2, 2)
    rejects(lambda: cache.append(*new), room + 2, room)
    refused = False  # with any numbers, for those of two dimensions say little
    try:
        cache.append(*(x[0, :2] for x in new))
    except StudentFault as error:
        refused = bool(error.kind)
    expect(refused, "new tokens of two dimensions are taken, but should be a ValueError")


@check(points=1, needs=[test_values, test_cache])
@pytest.mark.parametrize("sizes, chunks", [*TEXTS, LONG_TEXT])
def test_with_cache(student, draw, device, sizes, chunks):
    """With a cache the layer answers the same in chunks of any size, until the cache is full and
    after a reset; texts do not mix."""
    if sizes is None:
        read_long(student, draw, device, absorbed=False)
    else:
        draw.hard(Hard.FULL)
        read_texts(student, draw, device, sizes, chunks, float32, ways=[False])


@check(points=1, needs=[test_absorbed, test_with_cache])
@pytest.mark.parametrize("sizes, chunks", [*TEXTS, (None, None)])
def test_absorbed_with_cache(student, draw, device, sizes, chunks):
    """With absorbed=True it answers the same, and never expands the latents, with a cache or
    without, for any sizes; the two ways may take turns on one cache."""
    draw.hard(Hard.OPTIONS)
    if chunks is None:
        never_expanded(student, draw, device)
    else:
        ways = [False, True] if 1 in chunks[1:] else [True]
        read_texts(student, draw, device, sizes, chunks, float32, ways)


@check(points=1, needs=[test_with_cache])
@pytest.mark.parametrize("sizes", [PLAIN, NARROW])
def test_cache_contents(student, draw, device, sizes):
    """Normalised latents and rotated keys lie in `latents` and `k_ropes`, in memory that is taken
    once, and nothing else is kept; append and the layer go on with what lies there."""
    cache, right = new_caches(student, device, 2, 9, 5, 4)
    append(cache, right, draw.normal(2, 2, 5), draw.normal(2, 2, 4))
    agree_buffers(cache, right)
    multiply(cache, right, -2)
    new = draw.normal(2, 7, 5), draw.normal(2, 7, 4)
    stay(cache, lambda: append(cache, right, *new))
    stay(cache, cache.reset)
    layer, right = new_layers(student, draw, device, sizes, float32)
    layer.requires_grad_(False)
    cache, seen = new_caches(student, device, 2, 64, sizes[5], sizes[3])
    for t in (3, 1, 2):
        x = draw.normal(2, t, sizes[0])
        layer(x, cache=cache)
        right(x, cache=seen)
    latents, right_keys = seen.so_far()[0], torch.from_numpy(seen.k_ropes)
    agree(cache.latents[:, :6], latents, says="latents in the cache")
    # Dot products, because in which order a key's places are kept is the layer's own business.
    keys = cache.k_ropes[:, :6].double()
    says = "dot products of the rotary keys in the cache"
    products = right_keys @ right_keys.mT
    agree(keys @ keys.mT, products, says=says, within=1e-5 * float(products.abs().max()))
    agree_bytes(cache, seen)
    multiply(cache, seen, -0.5)
    x = draw.normal(2, 1, sizes[0])
    agree(layer(x, cache), right(x, seen), says="output once other numbers lie in the cache")
    draw.hard(Hard.BRANCHES)
    branches = [(cache, seen), *(branch(student, device, cache, seen) for _ in range(2))]
    for t in (2, 1):
        for number, (one, exact) in enumerate(branches, 1):
            x = draw.normal(2, t, sizes[0])
            says = f"output of continuation {number} of one beginning"
            agree(layer(x, one), right(x, exact), says=says)


@check(points=1, needs=[test_with_cache])
@both_ways
def test_far(student, draw, device, absorbed):
    """After 5,000 tokens positions are still right, both ways."""
    read_far(student, draw, device, float32, absorbed)


@check(points=1, needs=[test_absorbed, test_with_cache])
@each_way_of(
    *(small_sizes, modes, later_tokens, large_scores, hard_scores, refused_calls),
    once=(texts_together, chunks_together),
)
def test_manners(student, draw, device, ask, way):
    """x is left alone, strided or not; sizes may be 1 or odd, and scores of any size; later tokens
    change nothing; each call reads x and the weights anew, in .train(), in .eval(), and after a
    call that failed; no options, sizes, layouts and dtypes disturb each other."""
    ask(student, draw, device, *way)


@check(points=1, needs=[test_values, test_absorbed])
@pytest.mark.parametrize("sizes, t", TRAINED)
def test_parameters(student, draw, device, sizes, t):
    """The state dict has DeepSeek-V3's names and no others, and an odd rope_dim is a ValueError;
    without a cache the gradients are right both ways, of x and of every parameter."""
    layer = student.MultiHeadLatentAttention(*sizes)
    wanted, names = parameters(sizes).keys(), state_of(layer).keys()
    missing = sorted(wanted - names)
    expect(not missing, f"the state dict has no {', '.join(missing)}")
    expect_no_more(names - wanted)
    for odd, rank in (7, 6), (2 * draw.integer(10, 49) + 1, None):
        asked = 16, 2, 4, odd, 4, 8, rank
        rejects(lambda a=asked: student.MultiHeadLatentAttention(*a), odd)
    for absorbed in (False, True):
        agree_gradients(student, draw, device, sizes, t, float32, absorbed)
        if (sizes, t) == TRAINED[0]:
            one_learns_alone(student, draw, device, absorbed)


@check(points=1, needs=[test_absorbed, test_with_cache])
@both_ways
@pytest.mark.parametrize("ask, case", DIGITS)
def test_float64(student, draw, device, ask, case, absorbed):
    """Float64 keeps its digits both ways: with and without a cache, after 5,000 tokens, and in the
    gradients."""
    ask(student, draw, device, *case, float64, absorbed)


@check(points=1, needs=[test_absorbed, test_with_cache])
@both_ways
@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("ask, case", ROUNDED)
def test_half_precision(student, draw, device, ask, case, dtype, absorbed):
    """Half precision stays; norms and scores do not overflow; the gradients are right, and so are
    positions after 5,000 tokens."""
    ask(student, draw, device, *case, dtype, absorbed)


@check(points=1, needs=[test_absorbed, test_with_cache])
@both_ways
def test_empty(student, draw, device, absorbed):
    """A batch of none has an empty output, with a cache or without; an append of no tokens changes
    nothing."""
    for sizes in (PLAIN, NARROW):
        layer, right = new_layers(student, draw, device, sizes, float32)
        layer.requires_grad_(False)
        cache, seen = new_caches(student, device, 0, 5, sizes[5], sizes[3])
        for t in (3, 2):
            x = draw.normal(0, t, sizes[0])
            agree(layer(x, absorbed=absorbed), right(x, absorbed=absorbed))
            agree(layer(x, cache, absorbed), right(x, seen, absorbed))
    cache, right = new_caches(student, device, 2, 5, 4, 6)
    for t in (0, 3, 0):
        append(cache, right, draw.normal(2, t, 4), draw.normal(2, t, 6))
