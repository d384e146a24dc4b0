"""The paged cache by itself, a decoding step of a ragged batch, packed sequences, and prefill."""

import pytest
import torch
from torch import bfloat16, float16, float32, float64

from grader.judging import agree, backward, check, gradcheck, rejects, same, untouched
from grader.suites.ex16_paged_cache import cases
from grader.suites.ex16_paged_cache.both import Both, packed, pair
from reference import ex16_paged_cache as reference
from reference import raised

HALVES = [float16, bfloat16]
ALL = [float32, float64, *HALVES]
# Dtype and size of the scores; large ones in float64 only, where rounding leaves room for them.
SIZES = [(float32, 1), (float64, 1), (float64, 2500)]


@check(points=1)
@pytest.mark.parametrize("sizes", cases.POOLS, ids=str)
def test_cache(student, draw, device, sizes):
    """PagedKVCache.gather gives back a sequence's keys and values in order; length counts them."""
    both = Both(student, device, 300, *sizes[1:])
    numbers = [both.add() for _ in range(3)]
    for which, t in cases.TURNS:
        both.grow(draw, numbers[which], t)
        both.agree(numbers[which])
    both.grow(draw, numbers[1], 270)
    both.agree()


@check(points=1, needs=[test_cache])
@pytest.mark.parametrize("sizes", cases.POOLS, ids=str)
def test_blocks(student, draw, device, sizes):
    """A sequence of n tokens holds ceil(n / block_size) blocks of its own; free gives them back."""
    both = Both(student, device, *sizes)
    both.count()
    numbers = [both.add() for _ in range(3)]
    for which, t in cases.TURNS:
        both.grow(draw, numbers[which], t)
        both.count()
    for number in (numbers[1], numbers[0], numbers[2]):
        both.free(number)
        both.count()


@check(points=1, needs=[test_blocks])
@pytest.mark.parametrize("sizes", [*cases.POOLS, (5, 4, 2, 3, bfloat16)], ids=str)
def test_pool(student, draw, device, sizes):
    """keys and values are the pools: token p lies at [table[p // block_size], p % block_size]."""
    both = Both(student, device, *sizes)
    both.agree_pools()
    numbers = [both.add() for _ in range(3)]
    for which, t in cases.TURNS:
        both.stay(lambda number=numbers[which], t=t: both.grow(draw, number, t))
    both.agree_pools()
    both.free(numbers[0])
    new = both.add()
    both.grow(draw, new, 7)
    both.agree()
    both.agree_pools()
    both.overwrite(draw)
    both.agree(when="after writing to keys and values")
    both.free(numbers[1])
    both.grow(draw, new, 1)
    both.agree_pools()


@check(points=1, needs=[test_cache])
@pytest.mark.parametrize("dtype", [float32, float64])
def test_reuse(student, draw, device, dtype):
    """Blocks that were freed serve again, wherever they lie; a freed sequence is there no more."""
    both = Both(student, device, 6, 4, 2, 3, dtype)
    first, kept, last = (both.add() for _ in range(3))
    for number, t in ((first, 3), (kept, 3), (last, 4), (first, 2), (last, 5)):
        both.grow(draw, number, t)
    for number in (last, first):
        both.free(number)
    k, v = pair(draw, 2, 1, 3, dtype)
    nobody = min(0, *both.there, *both.gone) - 1
    for number in (first, last, nobody, 987):
        both.refuses(number, k, v)
    new, newer = both.add(), both.add()
    for number, t in ((new, 7), (kept, 1), (newer, 2), (new, 6), (newer, 1)):
        both.grow(draw, number, t)
    both.agree()
    same(both.cache.free_blocks, both.right.free_blocks)


@check(points=1, needs=[test_cache])
@pytest.mark.parametrize("lengths, which, t, numbers", cases.REFUSED)
def test_full(student, draw, device, lengths, which, t, numbers):
    """A full pool refuses (ValueError: blocks needed, blocks free) and changes nothing."""
    both = Both(student, device, 5, 4, 2, 3)
    wants = both.fill(draw, (*lengths, 0))[which]
    k, v = pair(draw, 2, t, 3)
    both.unwritten(lambda: rejects(lambda: both.cache.append(wants, k, v), *numbers))
    both.agree(when="after a refused append")
    both.count()
    held = both.right.length(both.there[wants])
    both.grow(draw, wants, -held % 4 + 4 * both.right.free_blocks)  # exactly what fits
    both.agree()
    same(both.cache.free_blocks, 0)


@check(points=1, needs=[test_cache])
def test_cache_own(student, draw, device):
    """Every PagedKVCache has blocks, sequences and a dtype of its own, and takes any strides."""
    pairs = [Both(student, device, *sizes) for sizes, _ in cases.CACHES]
    numbers = [[both.add() for _ in range(2 + i % 2)] for i, both in enumerate(pairs)]
    for turn in (0, 1, 0):
        for both, mine, (sizes, dtype) in zip(pairs, numbers, cases.CACHES, strict=True):
            k = draw.strided(sizes[2], 3, sizes[3], dtype=dtype)
            v = draw.normal(1, 3, sizes[3], dtype=dtype).expand(sizes[2], 3, sizes[3])
            both.append(mine[turn], k, v)
    pairs[0].free(numbers[0][0])
    for both in pairs:
        both.agree()
        both.count()


@check(points=1, needs=[test_cache])
@pytest.mark.parametrize("dtype, size", SIZES)
@pytest.mark.parametrize("lengths, heads, width, block_size", cases.BATCHES)
def test_paged(student, draw, device, lengths, heads, width, block_size, dtype, size):
    """paged_attention: every row attends to all tokens of its own sequence, step after step."""
    blocks = sum(n // block_size + 1 for n in lengths)
    both = Both(student, device, blocks, block_size, heads, width, dtype)
    numbers = both.fill(draw, lengths)
    for step in range(2):
        for number in numbers if step else ():
            both.grow(draw, number, 1)
        q = size * draw.normal(len(lengths), heads, width, dtype=dtype)
        agree(student.paged_attention(q, both.cache, numbers), both.step(q, numbers))


@check(points=1, needs=[test_paged])
@pytest.mark.parametrize("dtype", ALL)
def test_paged_batch(student, draw, device, dtype):
    """paged_attention takes any batch: out of order, twice, empty, half precision, stale blocks."""
    both = Both(student, device, 16, 4, 4, 64, dtype)
    gone = both.spoil()
    numbers = both.fill(draw, (9, 0, 33, 4, 1))
    batch = [numbers[i] for i in (2, 0, 1, 4, 0, 3)]
    q = draw.strided(6, 4, 64, dtype=dtype)
    output = untouched(lambda: student.paged_attention(q, both.cache, batch))
    agree(output, both.step(q, batch))
    agree(student.paged_attention(q[:0], both.cache, []), q[:0])
    rejects(lambda: student.paged_attention(q[:2], both.cache, [numbers[0], gone]), gone)
    if dtype in HALVES:
        wide = q.float()
        output = student.paged_attention(wide, both.cache, batch)
        agree(output, both.step(wide, batch), says="output for q in float32")
        large = torch.full((4, 6, 64), 256.0, dtype=dtype, device=device)
        both.append(numbers[3], large, draw.normal(4, 6, 64, dtype=dtype))
        expected = raised(lambda q: both.step(q, numbers[3:4]), large[:, 0][None])
        output = student.paged_attention(large[:, 0][None], both.cache, numbers[3:4])
        agree(output, expected, says="output for products of 256s")
    if dtype is float64:
        k, v = pair(draw, 4, 5, 64, dtype)
        q[..., 0], k[..., 0] = 1.0, -1e6  # scores so low that -1e4 would hide no padding
        both.append(numbers[1], k, v)
        output = student.paged_attention(q[:3], both.cache, batch[:3])
        agree(output, both.step(q[:3], batch[:3]), says="output for low scores")
    both.agree(numbers[0])


@check(points=1)
@pytest.mark.parametrize("dtype, size", SIZES)
@pytest.mark.parametrize("q_lens, k_lens, heads, width, value_width", cases.PACKED)
def test_ragged(student, draw, device, q_lens, k_lens, heads, width, value_width, dtype, size):
    """ragged_attention attends causally within each sequence, aligned bottom-right, no further."""
    given = packed(draw, device, q_lens, k_lens, heads, width, value_width, dtype=dtype)
    given[0] *= size
    agree(student.ragged_attention(*given), reference.ragged_attention(*given))


@check(points=1, needs=[test_ragged])
@pytest.mark.parametrize("dtype", [float32, float64])
@pytest.mark.parametrize("q_lens, k_lens", cases.EMPTY, ids=str)
def test_ragged_apart(student, draw, device, q_lens, k_lens, dtype):
    """In ragged_attention a query without keys gives 0; nothing reaches it from other sequences."""
    given = packed(draw, device, q_lens, k_lens, 2, 4, 3, dtype=dtype)
    agree(student.ragged_attention(*given), reference.ragged_attention(*given))
    q, k, v, *bounds = packed(draw, device, (2, 3, 1), (4, 3, 2), 2, 4, 3, dtype=dtype)
    q[..., 0], k[..., 0] = 1.0, -1e5  # scores so low that -1e4 would hide nothing
    expected = reference.ragged_attention(q, k, v, *bounds)
    for rows, hidden in (([0, 1], [4, 5, 6, 7, 8]), ([2, 3], [0, 6]), ([5], [0, 3, 4, 5, 6])):
        dirty_k, dirty_v = k.clone(), v.clone()
        dirty_k[hidden] = dirty_v[hidden] = 1e30
        output = student.ragged_attention(q, dirty_k, dirty_v, *bounds)
        right = expected._replace(exact=expected.exact[rows], plain=expected.plain[rows])
        agree(output[rows], right, says=f"with 1e30 in what they may not see, rows {rows}")


@check(points=1, needs=[test_ragged])
@pytest.mark.parametrize("dtype", ALL)
def test_ragged_manners(student, draw, device, dtype):
    """ragged_attention keeps dtypes and inputs, takes any strides, and has right gradients."""
    lens = (9, 17, 14), (9, 33, 20)
    q, k, v, *bounds = packed(draw, device, *lens, 2, 16, 17, dtype=dtype)
    output = untouched(lambda: student.ragged_attention(q, k, v, *bounds))
    agree(output, reference.ragged_attention(q, k, v, *bounds))
    q, k, v = draw.strided(40, 2, 16, dtype=dtype), k[:, :1].expand(62, 2, 16), v.flip(0)
    agree(student.ragged_attention(q, k, v, *bounds), reference.ragged_attention(q, k, v, *bounds))
    q, k, v, *bounds = packed(draw, device, (3, 4, 0, 2), (3, 2, 2, 5), 2, 4, 3, dtype=dtype)
    upstream = draw.normal(9, 2, 3, dtype=dtype)
    expected = reference.ragged_attention_gradients(q, k, v, *bounds, upstream=upstream)
    leaves = [x.requires_grad_() for x in (q, k, v)]
    got = backward(student.ragged_attention(*leaves, *bounds), *leaves, upstream=upstream)
    for name, one, right in zip("qkv", got, expected, strict=True):
        agree(one, right, says=f"gradient of {name}")
    if dtype is float64:
        *small, cu_q, cu_k = packed(draw, device, (1, 2), (1, 1), 1, 2, 1, dtype=dtype)
        leaves = [x.requires_grad_() for x in small]
        gradcheck(lambda *x: student.ragged_attention(*x, cu_q, cu_k), *leaves)
    if dtype in HALVES:
        q, k, v, *bounds = packed(draw, device, (2, 3), (5, 3), 2, 64, 5, dtype=dtype)
        q[:], k[:] = 256.0, 256.0
        expected = raised(lambda *x: reference.ragged_attention(*x, *bounds), q, k, v)
        output = student.ragged_attention(q, k, v, *bounds)
        agree(output, expected, says="output for products of 256s")
        q, k, v, *bounds = packed(draw, device, (1,), (70_000,), 1, 1, 1, dtype=dtype)
        output = student.ragged_attention(0 * q, k, torch.ones_like(v), *bounds)
        agree(output, torch.ones(1, 1, 1), says="mean of 70,000 ones", within=0.02)


@check(points=1, needs=[test_cache])
@pytest.mark.parametrize("dtype, size", SIZES)
@pytest.mark.parametrize("length, chunk_size, block_size", cases.PROMPTS)
def test_prefill(student, draw, device, length, chunk_size, block_size, dtype, size):
    """chunked_prefill in chunks of any size is dense causal attention, and fills the cache."""
    blocks = -(-length // block_size)
    both = Both(student, device, blocks, block_size, 2, 5, dtype)
    number = both.add()
    q, k, v = (draw.normal(2, length, 5, dtype=dtype) for _ in range(3))
    given = size * q, k, v
    output = student.chunked_prefill(*given, both.cache, number, chunk_size)
    agree(output, both.prefill(*given, number, chunk_size))
    both.agree()


@check(points=1, needs=[test_prefill])
@pytest.mark.parametrize("dtype", ALL)
def test_prefill_past(student, draw, device, dtype):
    """chunked_prefill goes on behind a past, beside other sequences, until the pool is full."""
    both = Both(student, device, 11, 4, 4, 16, dtype)
    both.spoil()
    _, number = both.fill(draw, (5, 6))
    for length, chunk_size in ((17, 5), (1, 1), (4, 3)):
        given = [draw.strided(4, length, 16, dtype=dtype) for _ in range(3)]
        ask = (*given, both.cache, number, chunk_size)
        output = untouched(lambda ask=ask: student.chunked_prefill(*ask))
        agree(output, both.prefill(*given, number, chunk_size))
    both.agree()
    if dtype in HALVES:
        large = torch.full((4, 2, 16), 256.0, dtype=dtype, device=device)
        v = draw.normal(4, 2, 16, dtype=dtype)
        new = both.add()
        expected = raised(lambda *x: both.prefill(*x, new, 2), large, large, v)
        output = student.chunked_prefill(large, large, v, both.cache, new, 2)
        agree(output, expected, says="output for products of 256s")
        wide = [draw.normal(4, 2, 16) for _ in range(3)]  # rounded by the cache
        output = student.chunked_prefill(*wide, both.cache, new, 2)
        agree(output, both.prefill(*wide, new, 2), says="output for q in float32")
        both.free(new)
    if dtype is float64:
        q, k, v = (draw.normal(4, 6, 16, dtype=dtype) for _ in range(3))
        q[..., 0], k[..., 0] = 1.0, -1e6
        k[:, 5], v[:, 5] = 1e30, 1e30
        new = both.add()
        expected = both.prefill(q[:, :5], k[:, :5], v[:, :5], new, 3)
        output = student.chunked_prefill(q, k, v, both.cache, new, 3)
        says = "with low scores and 1e30 in the last token, the output before it"
        agree(output[:, :5], expected, says=says)
        both.free(new)
    # 28 tokens in 7 blocks and 2 blocks free: chunks of 3 fit twice, and the third does not.
    q, k, v = (draw.normal(4, 12, 16, dtype=dtype) for _ in range(3))
    rejects(lambda: student.chunked_prefill(q, k, v, both.cache, number, 3), 1, 0)
    both.right.append(both.there[number], k[:, :6], v[:, :6])
    both.agree(when="after two chunks and a refused one")
    both.count()


@check(points=1, needs=[test_pool, test_paged, test_prefill])
@pytest.mark.parametrize("dtype", [float32, float64])
def test_pool_read(student, draw, device, dtype):
    """paged_attention and chunked_prefill attend to what the pools hold when they are called."""
    both = Both(student, device, 9, 4, 2, 8, dtype)
    numbers = both.fill(draw, (9, 3, 6))
    for says in ("output", "output after writing to keys and values"):
        q = draw.normal(3, 2, 8, dtype=dtype)
        agree(student.paged_attention(q, both.cache, numbers), both.step(q, numbers), says=says)
        prompt = (*(draw.normal(2, 3, 8, dtype=dtype) for _ in range(3)),)
        output = student.chunked_prefill(*prompt, both.cache, numbers[0], 2)
        agree(output, both.prefill(*prompt, numbers[0], 2), says=says)
        both.agree_pools()
        both.overwrite(draw)
