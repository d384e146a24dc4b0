"""The paged cache by itself, a decoding step of a ragged batch, packed sequences, and prefill."""

import pytest
import torch
from torch import bfloat16, float16, float32, float64, int32, int64

from grader.judging import (
    Hard,
    agree,
    backward,
    check,
    expect,
    gradcheck,
    lasting,
    rejects,
    same,
    untouched,
)
from grader.suites.ex16_paged_cache import cases
from grader.suites.ex16_paged_cache.both import Both, packed, pair, scored
from grader.suites.ex16_paged_cache.close_scores import (
    close_scores_agree,
    each_learns_alone,
    low_packed_agree,
    low_prompts_agree,
    low_steps_agree,
    small_weights_count,
    wide_past_agrees,
)
from grader.suites.ex16_paged_cache.empty import empty_keep_their_dtype
from grader.suites.ex16_paged_cache.together import pools_together, ragged_together
from reference import ex16_paged_cache as reference
from reference import raised
from reference.expected import add_up

HALVES = [float16, bfloat16]
SCORED = 300  # keys with hard scores: more than a tile holds
POOLS = [*[(sizes, float32) for sizes in cases.POOLS], *[((6, 4, 2, 5), x) for x in HALVES]]
POOLS.append(("together", None))


@check(points=1)
@pytest.mark.parametrize("sizes", [*cases.POOLS, Hard.LONG], ids=str)
def test_cache(student, draw, device, sizes):
    """PagedKVCache.gather gives back a sequence's keys and values in order, and length counts them,
    in every size: tokens, blocks, places in a block, heads and width may be more than 1024."""
    for hard in draw.hard(sizes, **cases.STORED) if sizes is Hard.LONG else ():
        size, heads, tokens, width = hard.values()
        both = Both(student, device, tokens // size + 5, size, heads, width)
        numbers = [both.add() for _ in range(2)]
        for which, t in ((0, tokens), (1, 1), (0, 2)):
            both.grow(draw, numbers[which], t)
        both.agree()
    both = Both(student, device, 300, *(cases.POOLS[0] if sizes is Hard.LONG else sizes)[1:])
    numbers = [both.add() for _ in range(3)]
    for which, t in cases.TURNS:
        both.grow(draw, numbers[which], t)
        both.agree(numbers[which])
    both.grow(draw, numbers[1], 270)
    both.agree(*numbers)


@check(points=1, needs=[test_cache])
@pytest.mark.parametrize("sizes", cases.POOLS, ids=str)
def test_blocks(student, draw, device, sizes):
    """A sequence of n tokens holds ceil(n / block_size) blocks of its own; free gives them back,
    they serve again wherever they lie, and no number is given out twice."""
    both = Both(student, device, *sizes)
    both.count()
    numbers = [both.add() for _ in range(3)]
    for which, t in cases.TURNS:
        both.grow(draw, numbers[which], t)
        both.count()
    for number in (numbers[1], numbers[0], numbers[2]):
        both.free(number)
        both.count()
    both = Both(student, device, 6, 4, *sizes[2:])
    first, kept, last = (both.add() for _ in range(3))
    for number, t in ((first, 3), (kept, 3), (last, 4), (first, 2), (last, 5)):
        both.grow(draw, number, t)
    for number in (last, first):
        both.free(number)
    new, newer = both.add(), both.add()
    for number, t in ((new, 7), (kept, 1), (newer, 2), (new, 6), (newer, 1)):
        both.grow(draw, number, t)
    both.agree()
    both.count()
    for more in 8, 12:  # tokens, so that blocks which were given back serve in another order
        both = Both(student, device, 6, 4, *sizes[2:])
        old, kept = both.fill(draw, (5, 5))
        with lasting(both.cache.block_table, old):
            both.free(old)
            both.grow(draw, kept, more)
            both.grow(draw, both.add(), 3)


@check(points=1, needs=[test_cache])
@pytest.mark.parametrize("sizes, dtype", POOLS, ids=str)
def test_pool(student, draw, device, sizes, dtype):
    """keys and values are the pools of this cache alone, in its dtype and on its device: token p
    lies at [table[p // block_size], p % block_size], written in place, and gather reads it there;
    k and v may be of any dtype, have any strides, and be one tensor; sizes, chunks, layouts and
    dtypes do not disturb each other."""
    if sizes == "together":
        pools_together(student, draw, device)
        return
    draw.hard(Hard.OPTIONS)
    both = Both(student, device, *sizes, dtype)
    others = [Both(student, device, *sizes, dtype), Both(student, device, *sizes)]
    mine = [other.add() for other in others]
    both.agree_pools()
    numbers = [both.add() for _ in range(3)]
    for which, t in cases.TURNS:
        both.stay(lambda number=numbers[which], t=t: both.grow(draw, number, t))
        for other, number in zip(others, mine, strict=True):
            other.grow(draw, number, 1)
    for one in (both, *others):
        one.agree()
        one.agree_pools()
    both.free(numbers[0])
    new, (heads, width) = both.add(), sizes[2:]
    draw.hard(Hard.SAME)
    k = draw.strided(heads, 3, width)
    k[:, 1] = torch.inf
    both.append(new, k, k)
    both.append(new, k.double(), draw.normal(1, 3, width, dtype=float16).expand(heads, 3, width))
    both.agree()
    both.agree_pools()
    draw.hard(Hard.CHANGED)
    both.overwrite(draw)
    both.agree(when="after writing to keys and values")
    both.free(numbers[1])
    both.grow(draw, new, 2)
    both.agree_pools()
    for number in list(both.there):
        both.stay(lambda number=number: both.free(number))
    draw.hard(Hard.DEVICE)
    for wanted, given in (("meta", {"device": "meta"}), (str(torch.get_default_device()), {})):
        there = student.PagedKVCache(*sizes, **given)
        for name in ("keys", "values"):
            where = str(there.read(f"{name}.device"))
            expect(where == wanted, f"cache.{name} is on {where}, but should be on {wanted}")


@check(points=1, needs=[test_cache])
@pytest.mark.parametrize("lengths, which, t, numbers", cases.REFUSED)
def test_refused(student, draw, device, lengths, which, t, numbers):
    """A full pool is a ValueError with the blocks needed and free, and every method refuses with
    its number a sequence that is not there: freed (even if it was empty), never added, below 0.
    Nothing is changed by it, and all goes on."""
    for hard in (Hard.FAILED, Hard.FULL):
        draw.hard(hard)
    both = Both(student, device, 5, 4, 2, 3)
    gone, empty = both.add(), both.add()
    both.grow(draw, gone, 6)
    for number in (gone, empty):
        both.free(number)
    mine = both.fill(draw, (*lengths, 0))
    wants, (k, v) = mine[which], pair(draw, 2, t, 3)
    for nobody in {gone, empty, draw.integer(1000, 9999), -1, -2, -3} - set(mine):
        both.refuses(nobody, k[:, :1], v[:, :1])
    both.unwritten(lambda: rejects(lambda: both.cache.append(wants, k, v), *numbers))
    both.agree(when="after a refused append")
    both.count()
    held = both.right.length(both.there[wants])
    both.grow(draw, wants, -held % 4 + 4 * both.right.free_blocks)  # exactly what fits
    both.agree()
    same(both.cache.free_blocks, 0)
    new = both.add()
    for blocks in 1, draw.integer(20, 99):
        k, v = pair(draw, 2, 4 * blocks, 3)
        both.unwritten(
            lambda k=k, v=v, n=blocks: rejects(lambda: both.cache.append(new, k, v), n, 0)
        )
    for number in mine:
        both.free(number)
    both.grow(draw, new, 20)
    both.agree()
    both.count()


@check(points=1, needs=[test_cache])
@pytest.mark.parametrize("batch", [*cases.BATCHES, Hard.ONE, Hard.LONG], ids=str)
def test_paged(student, draw, device, batch):
    """paged_attention: every row attends to all tokens of its own sequence, step after step, in
    every size: heads, tokens and width may be 1, or more than 1024."""
    for lengths, heads, width, block_size in cases.batches(draw, batch):
        blocks = sum(n // block_size + 1 for n in lengths)
        both = Both(student, device, blocks, block_size, heads, width)
        numbers = both.fill(draw, lengths)
        for step in range(2):
            for number in numbers if step else ():
                both.grow(draw, number, 1)
            q = draw.normal(len(lengths), heads, width)
            agree(student.paged_attention(q, both.cache, numbers), both.step(q, numbers))


@check(points=1, needs=[test_paged])
@pytest.mark.parametrize("width", [5, 64, Hard.LONG], ids=str)
def test_paged_batch(student, draw, device, width):
    """paged_attention takes sequences in any order and more than once, 1025 rows, scores of
    hundreds or all far below 0, and NaN left in freed blocks; it leaves q alone, attends to what
    the pools and q hold when it is called, and names a sequence that is not there."""
    long = width is Hard.LONG
    width = 5 if long else width
    both = Both(student, device, 16, 4, 4, width)
    gone = both.spoil()
    numbers = both.fill(draw, (9, 2, 33, 4, 1))
    batch = [numbers[i] for i in (2, 0, 1, 4, 0, 3)]
    if long:
        *_, longest = draw.hard(Hard.LONG, N=len(batch))
        both.steps(draw, student, (batch * longest["N"])[: longest["N"]])
        both.agree_pools()
        return
    q = draw.strided(6, 4, width)
    output = untouched(lambda: student.paged_attention(q, both.cache, batch))
    agree(output, both.step(q, batch))
    rejects(lambda: student.paged_attention(q[:2], both.cache, [numbers[0], gone]), gone)
    draw.hard(Hard.CHANGED)
    both.steps(draw, student, batch)
    both.agree_pools()
    with lasting(student.paged_attention, q, both.cache, batch):
        for more in 0, 1:  # tokens since the step before
            both.overwrite(draw)
            for number in numbers[: 5 * more]:
                both.grow(draw, number, more)
            both.steps(draw, student, batch, says="output after writing to keys and values")
    left = both.free_ends()
    both.overwrite(draw)
    both.steps(draw, student, left, says="output beside NaN in the first and the last block")
    q, keys = scored(draw, 2, SCORED, 4)
    both, numbers = Both(student, device, 400, 4, 2, 4), []
    for i, (name, k) in enumerate(keys.items()):
        numbers.append(both.add())
        both.append(numbers[-1], k[:, 3 * i :], draw.normal(2, SCORED - 3 * i, 4))
        output = student.paged_attention(q[None, :, 0], both.cache, numbers[-1:])
        agree(output, both.step(q[None, :, 0], numbers[-1:]), says=f"output for {name} scores")
    q = q[None, :, 0].repeat(len(numbers), 1, 1)
    agree(student.paged_attention(q, both.cache, numbers), both.step(q, numbers))
    low_steps_agree(student, draw, device)


@check(points=1)
@pytest.mark.parametrize("batch", [*cases.PACKED, Hard.ONE, Hard.SQUARE, Hard.LONG], ids=str)
def test_ragged(student, draw, device, batch):
    """ragged_attention attends causally within each sequence, aligned bottom-right, no further, in
    every size: sequences, heads, queries, keys and widths may be 1, or more than 1024."""
    for sizes in cases.ragged(draw, batch):
        given = packed(draw, device, *sizes)
        agree(student.ragged_attention(*given), reference.ragged_attention(*given))


@check(points=1, needs=[test_ragged])
@pytest.mark.parametrize("q_lens, k_lens", cases.UNSEEING, ids=str)
def test_ragged_apart(student, draw, device, q_lens, k_lens):
    """In ragged_attention a query without keys gives 0; no number up to 1e30 reaches a query from
    what it may not see, not even past scores of hundreds or all far below 0."""
    given = packed(draw, device, q_lens, k_lens, 2, 4, 3)
    agree(student.ragged_attention(*given), reference.ragged_attention(*given))
    if (q_lens, k_lens) != cases.UNSEEING[0]:
        return
    low_packed_agree(student, draw, device)
    q, k, v, *bounds = packed(draw, device, (2, 3, 1), (4, 3, 2), 2, 4, 3)
    q[..., 0], k[..., 0] = 1.0, -1e5  # scores so low that -1e4 would hide nothing
    expected = reference.ragged_attention(q, k, v, *bounds)
    for rows, hidden in (([0, 1], [4, 5, 6, 7, 8]), ([2, 3], [0, 6]), ([5], [0, 3, 4, 5, 6])):
        dirty_k, dirty_v = k.clone(), v.clone()
        dirty_k[hidden] = dirty_v[hidden] = 1e30
        leaves = [x.clone().requires_grad_() for x in (q, dirty_k, dirty_v)]
        output = student.ragged_attention(*leaves, *bounds)
        right = expected._replace(exact=expected.exact[rows], plain=expected.plain[rows])
        agree(output[rows], right, says=f"with 1e30 in what they may not see, rows {rows}")
        upstream = torch.zeros_like(output)
        upstream[rows] = 1.0
        rights = reference.ragged_attention_gradients(q, k, v, *bounds, upstream=upstream)
        for name, got, one in zip(
            "qkv", backward(output, *leaves, upstream=upstream), rights, strict=True
        ):
            agree(got, one, says=f"with 1e30 in what rows {rows} may not see, gradient of {name}")
    q, keys = scored(draw, 2, SCORED, 4)
    k = torch.cat(list(keys.values()), 1).transpose(0, 1)
    q = q[:, :7].transpose(0, 1).repeat(len(keys), 1, 1)
    cu_q, cu_k = (torch.arange(len(keys) + 1, device=device) * n for n in (7, SCORED))
    given = q, k, draw.normal(len(k), 2, 3), cu_q, cu_k
    says = f"output for {', '.join(keys)} scores"
    agree(student.ragged_attention(*given), reference.ragged_attention(*given), says=says)


@check(points=1, needs=[test_ragged])
@pytest.mark.parametrize("whole", [int32, int64])
def test_ragged_manners(student, draw, device, whole):
    """ragged_attention has right gradients (0 for a query without keys), takes int32 and int64
    bounds, any strides and one tensor for all three, leaves its inputs alone, and looks at them
    anew in every call."""
    lens = (9, 17, 14), (9, 33, 20)
    q, k, v, *bounds = packed(draw, device, *lens, 2, 16, 17, whole=whole)
    output = untouched(lambda: student.ragged_attention(q, k, v, *bounds))
    agree(output, reference.ragged_attention(q, k, v, *bounds))
    draw.hard(Hard.CHANGED)
    attend, right = student.ragged_attention, reference.ragged_attention
    with lasting(attend, q, k, v, *bounds):
        bounds[0][1] -= 4  # 5 and 21 queries
        q.neg_()
        agree(attend(q, k, v, *bounds), right(q, k, v, *bounds))
        bounds[1][1] -= 3  # 6 and 36 keys
        agree(attend(q, k, v, *bounds), right(q, k, v, *bounds))
    q, k, v = draw.strided(40, 2, 16), k[:, :1].expand(62, 2, 16), v.flip(0)
    agree(student.ragged_attention(q, k, v, *bounds), reference.ragged_attention(q, k, v, *bounds))
    draw.hard(Hard.SAME)
    x, _, _, cu, _ = packed(draw, device, (5, 1, 6), (), 2, 4, 1, whole=whole)
    x = x.requires_grad_()
    output = untouched(lambda: student.ragged_attention(x, x, x, cu, cu))
    agree(output, reference.ragged_attention(x, x, x, cu, cu))
    upstream = draw.normal(*output.shape)
    parts = reference.ragged_attention_gradients(x, x, x, cu, cu, upstream=upstream)
    [got] = backward(output, x, upstream=upstream)
    agree(got, add_up(parts), says="gradient of a tensor that is q, k and v")
    [square] = draw.hard(Hard.SQUARE, Lq=3, Lk=5)
    for lens in (((3, 4, 0, 2), (3, 2, 2, 5)), [(n, 3) for n in square.values()]):
        gradients_agree(student, draw, packed(draw, device, *lens, 2, 4, 3, whole=whole))
    if whole is int32:
        each_learns_alone(student, draw, device)
    else:
        ragged_together(student, draw, device, float32)


@check(points=1, needs=[test_cache])
@pytest.mark.parametrize("prompt", [*cases.PROMPTS, Hard.ONE, Hard.LONG], ids=str)
def test_prefill(student, draw, device, prompt):
    """chunked_prefill in chunks of any size is dense causal attention, and fills the cache, in
    every size: tokens, chunk, heads and width may be 1, or more than 1024."""
    for length, chunk_size, block_size, heads, width in cases.prompts(draw, prompt):
        both = Both(student, device, -(-length // block_size), block_size, heads, width)
        number = both.add()
        given = [draw.normal(heads, length, width) for _ in "qkv"]
        output = student.chunked_prefill(*given, both.cache, number, chunk_size)
        agree(output, both.prefill(*given, number, chunk_size))
        both.agree()


@check(points=1, needs=[test_prefill])
@pytest.mark.parametrize("width", [4, 16])
def test_prefill_past(student, draw, device, width):
    """chunked_prefill goes on behind a past, as the pools hold it then, beside other sequences,
    until the pool is full, and what was appended stays; it takes any strides, one tensor for all
    three, and scores of hundreds or all far below 0, and leaves its inputs alone."""
    both = Both(student, device, 11, 4, 4, width)
    both.spoil()
    _, number = both.fill(draw, (5, 6))
    for length, chunk_size in ((17, 5), (1, 1), (4, 3)):
        given = [draw.strided(4, length, width) for _ in range(3)]
        if length == 4:
            given = [x[:1].expand(4, length, width) for x in given]
        ask = (*given, both.cache, number, chunk_size)
        output = untouched(lambda ask=ask: student.chunked_prefill(*ask))
        agree(output, both.prefill(*given, number, chunk_size))
    both.agree()
    draw.hard(Hard.FAILED)
    # 28 tokens in 7 blocks and 2 blocks free: chunks of 3 fit twice, and the third does not.
    q, k, v = (draw.normal(4, 12, width) for _ in range(3))
    rejects(lambda: student.chunked_prefill(q, k, v, both.cache, number, 3), 1, 0)
    both.right.append(both.there[number], k[:, :6], v[:, :6])
    both.agree(when="after two chunks and a refused one")
    both.count()
    both = Both(student, device, 400, 4, 2, width)
    q, keys = scored(draw, 2, SCORED, width)
    for name, k in keys.items():
        ask, number = (q, k, draw.normal(2, SCORED, width)), both.add()
        output = student.chunked_prefill(*ask, both.cache, number, 48)
        agree(output, both.prefill(*ask, number, 48), says=f"output for {name} scores")
    low_prompts_agree(student, draw, device)
    draw.hard(Hard.SAME)
    x = draw.normal(2, 9, width)
    output = untouched(lambda: student.chunked_prefill(x, x, x, both.cache, number, 4))
    agree(output, both.prefill(x, x, x, number, 4))
    draw.hard(Hard.CHANGED)
    both.agree_pools()
    with lasting(student.chunked_prefill, x, x, x, both.cache, number, 4):
        both.prefill(x, x, x, number, 4)
        both.overwrite(draw)
        output = student.chunked_prefill(x, x, x, both.cache, number, 2)
        says = "output after writing to keys and values"
        agree(output, both.prefill(x, x, x, number, 2), says=says)


@check(points=1, needs=[test_paged, test_ragged, test_prefill])
@pytest.mark.parametrize("size", [1, 2500])
def test_float64(student, draw, device, size):
    """All three functions compute float64 in float64, right to its last digits, with scores of some
    thousands too, and so do the gradients of ragged_attention."""
    both = Both(student, device, 20, 16, 3, 5, float64)
    numbers = both.fill(draw, (65, 2, 33))
    q = size * draw.normal(3, 3, 5, dtype=float64)
    agree(student.paged_attention(q, both.cache, numbers), both.step(q, numbers))
    q, k, v = (draw.normal(3, 17, 5, dtype=float64) for _ in "qkv")
    output = student.chunked_prefill(size * q, k, v, both.cache, numbers[1], 5)
    agree(output, both.prefill(size * q, k, v, numbers[1], 5))
    both.agree()
    given = packed(draw, device, (1, 17, 3), (5, 17, 65), 2, 8, 5, float64)
    given[0] *= size
    agree(student.ragged_attention(*given), reference.ragged_attention(*given))
    gradients_agree(student, draw, packed(draw, device, (3, 0, 4), (5, 2, 2), 2, 4, 3, float64))
    *small, cu_q, cu_k = packed(draw, device, (1, 2), (1, 1), 1, 2, 1, float64)
    leaves = [x.requires_grad_() for x in small]
    gradcheck(lambda *x: student.ragged_attention(*x, cu_q, cu_k), *leaves)
    if size == 1:
        for low_scores_agree in low_steps_agree, low_packed_agree, low_prompts_agree:
            low_scores_agree(student, draw, device, float64)
        small_weights_count(student, device, float64)
        ragged_together(student, draw, device, float64)


@check(points=1, needs=[test_paged, test_ragged, test_prefill])
@pytest.mark.parametrize("dtype", HALVES)
def test_half(student, draw, device, dtype):
    """All three functions compute half precision in float32, so that products of 256s and sums of
    70,000 weights do not overflow; their outputs have the dtype of q, whatever the cache's, and the
    gradients of ragged_attention are right."""
    both = Both(student, device, 18, 4, 4, 64, dtype)
    numbers = both.fill(draw, (9, 2, 33, 4, 1))
    q = draw.normal(5, 4, 64, dtype=dtype)
    agree(student.paged_attention(q, both.cache, numbers), both.step(q, numbers))
    for wide in (q.float(), draw.normal(5, 4, 64, dtype=float64)):
        output = student.paged_attention(wide, both.cache, numbers)
        agree(
            output,
            both.step(wide, numbers),
            says=f"output for q in {wide.dtype}".replace("torch.", ""),
        )
    large = torch.full((4, 6, 64), 256.0, dtype=dtype, device=device)
    both.append(numbers[3], large, draw.normal(4, 6, 64, dtype=dtype))
    ask = large[None, :, 0], numbers[3:4]
    expected = raised(both.step, *ask)
    output = student.paged_attention(ask[0], both.cache, ask[1])
    agree(output, expected, says="output for products of 256s")
    for number in numbers[1:]:
        both.free(number)
    prompts_agree(student, draw, both, numbers[0], large[:, :2])
    packed_agree(student, draw, device, dtype)
    close_scores_agree(student, draw, device, dtype)
    wide_past_agrees(student, draw, device, dtype)
    for low_scores_agree in low_steps_agree, low_packed_agree, low_prompts_agree:
        low_scores_agree(student, draw, device, dtype)
    ragged_together(student, draw, device, dtype)


@check(points=1, needs=[test_paged, test_ragged, test_prefill])
@pytest.mark.parametrize("length", [0, 4])
def test_empty(student, draw, device, length):
    """Nothing is allowed everywhere: an append of no tokens takes no block, the table of an empty
    sequence is int64 too, its row is 0, and a batch of no rows, a ragged batch of no sequences or
    of empty ones, and a prompt of no tokens give outputs of that size and dtype."""
    both = Both(student, device, 2, 4, 2, 3)
    number, empty = both.add(), both.add()
    nothing = draw.normal(2, 0, 3)
    for t in {0, length}:
        both.grow(draw, number, t)
        both.append(number, nothing, nothing)
        both.agree()
        both.count()
    same(both.whole(empty), [])
    q = draw.normal(3, 2, 3)
    agree(student.paged_attention(q[:0], both.cache, []), q[:0])
    for batch in ([empty, number, empty], [empty], [number]):
        output = student.paged_attention(q[: len(batch)], both.cache, batch)
        agree(output, both.step(q[: len(batch)], batch))
    nobody = draw.integer(1000, 9999)
    rejects(lambda: student.paged_attention(q[:2], both.cache, [empty, nobody]), nobody)
    for one in (number, empty):
        agree(student.chunked_prefill(*[nothing] * 3, both.cache, one, 2), nothing)
    both.grow(draw, number, 8 - length)
    both.append(number, nothing, nothing)  # the pool is full
    both.agree()
    both.count()
    for lens in (((), ()), ((0,), (0,)), ((0, 0), (3, length)), ((length,), (0,))):
        given = packed(draw, device, *lens, 2, 4, 3)
        agree(student.ragged_attention(*given), reference.ragged_attention(*given))
    for dtype in bfloat16, float64:
        empty_keep_their_dtype(student, draw, device, dtype)


def gradients_agree(student, draw, given):
    """The gradients of a ragged batch are right."""
    *qkv, cu_q, cu_k = given
    upstream = draw.normal(len(qkv[0]), 2, qkv[2].shape[2], dtype=qkv[0].dtype)
    expected = reference.ragged_attention_gradients(*given, upstream=upstream)
    leaves = [x.requires_grad_() for x in qkv]
    got = backward(student.ragged_attention(*leaves, cu_q, cu_k), *leaves, upstream=upstream)
    for name, one, right in zip("qkv", got, expected, strict=True):
        agree(one, right, says=f"gradient of {name}")


def prompts_agree(student, draw, both, number, large):
    """Prompts in half precision are attended to as they should, of 256s too, and of float32."""
    given = [draw.normal(*large.shape[:1], 7, 64, dtype=large.dtype) for _ in "qkv"]
    output = student.chunked_prefill(*given, both.cache, number, 3)
    agree(output, both.prefill(*given, number, 3))
    new, v = both.add(), draw.normal(*large.shape, dtype=large.dtype)
    expected = raised(lambda *x: both.prefill(*x, new, 2), large, large, v)
    output = student.chunked_prefill(large, large, v, both.cache, new, 2)
    agree(output, expected, says="output for products of 256s")
    for dtype in float32, float64:
        wide = [draw.normal(*large.shape, dtype=dtype) for _ in "qkv"]  # rounded by the cache
        output = student.chunked_prefill(*wide, both.cache, new, 2)
        says = f"output for q in {dtype}".replace("torch.", "")
        agree(output, both.prefill(*wide, new, 2), says=says)
        whole = both.add()  # a prompt of one chunk
        output = student.chunked_prefill(*wide, both.cache, whole, 7)
        agree(output, both.prefill(*wide, whole, 7), says=says)
        both.free(whole)


def packed_agree(student, draw, device, dtype):
    """Ragged batches in half precision are right, of 256s and of 70,000 keys too."""
    given = packed(draw, device, (9, 17, 14), (9, 33, 20), 2, 16, 17, dtype)
    agree(student.ragged_attention(*given), reference.ragged_attention(*given))
    gradients_agree(student, draw, packed(draw, device, (3, 4), (3, 5), 2, 4, 3, dtype))
    q, k, v, *bounds = packed(draw, device, (2, 3), (5, 3), 2, 64, 5, dtype)
    q[:], k[:] = 256.0, 256.0
    expected = raised(lambda *x: reference.ragged_attention(*x, *bounds), q, k, v)
    output = student.ragged_attention(q, k, v, *bounds)
    agree(output, expected, says="output for products of 256s")
    q, k, v, *bounds = packed(draw, device, (1,), (70_000,), 1, 1, 1, dtype)
    v = (torch.arange(70_000, device=device) >= 35_000).to(dtype)[:, None, None]
    output = student.ragged_attention(0 * q, k, v, *bounds)
    agree(
        output,
        torch.full((1, 1, 1), 0.5),
        says="mean of 35,000 zeros, then as many ones",
        within=0.02,
    )
