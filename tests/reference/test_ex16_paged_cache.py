"""The oracle, the yardstick and the solution of the paged cache agree, and PyTorch with them."""

import importlib.util
from itertools import accumulate
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from reference import ex16_paged_cache as reference

SOURCE = Path(__file__).parents[2] / "solutions" / "ex16_paged_cache.py"
spec = importlib.util.spec_from_file_location("solution_ex16_paged_cache", SOURCE)
assert spec is not None and spec.loader is not None
solution = importlib.util.module_from_spec(spec)
spec.loader.exec_module(solution)

TOLERANCE = {torch.float64: 1e-12, torch.float32: 3e-6, torch.float16: 8e-3, torch.bfloat16: 6e-2}
HEADS, WIDTH = 2, 4
RAGGED = [
    *[((3,), (3,)), ((1, 17, 3), (5, 17, 9)), ((4, 2, 5), (2, 6, 5)), ((1, 1), (1, 33))],
    *[((0, 3, 0, 2), (2, 3, 0, 0)), ((0,), (0,)), ((), ())],
]


@pytest.fixture(autouse=True)
def one_seed_for_all():
    torch.manual_seed(16)


def draw(*shape, dtype=torch.float64):
    return torch.randn(*shape, dtype=torch.float64).to(dtype)


def close(got, expected, tolerance=1e-12):
    got, expected = torch.as_tensor(got), torch.as_tensor(expected)
    torch.testing.assert_close(got, expected, rtol=0, atol=tolerance)


def agree(got, expected):
    """The answer is the yardstick's and the oracle's, up to the rounding of its dtype."""
    torch.testing.assert_close(got, expected.plain, rtol=0, atol=TOLERANCE[got.dtype])
    close(got.double(), expected.exact, TOLERANCE[got.dtype])


def dense(q, k, v):
    """PyTorch's causal attention of the last t of n positions; a row that sees nothing is 0."""
    t, n = q.shape[-2], k.shape[-2]
    keep = torch.ones(t, n, dtype=torch.bool).tril(n - t)
    output = F.scaled_dot_product_attention(q, k, v, attn_mask=keep)
    return output.masked_fill(~keep.any(-1)[:, None], 0.0)


def caches(num_blocks, block_size, dtype=torch.float64):
    """The student's cache and the oracle's."""
    sizes = num_blocks, block_size, HEADS, WIDTH, dtype
    return solution.PagedKVCache(*sizes), reference.PagedKVCache(*sizes)


def filled(lengths, block_size=4, spare=2, dtype=torch.float64):
    """Both caches with such sequences, appended in turn, and all that was appended."""
    blocks = spare + sum(-(-n // block_size) for n in lengths)
    both = caches(blocks, block_size, dtype)
    tokens = [draw(2, HEADS, n, WIDTH, dtype=dtype) for n in lengths]
    numbers = [[cache.add() for cache in both] for _ in lengths]
    for first in (True, False):
        for (k, v), n, of in zip(tokens, lengths, numbers, strict=True):
            part = slice(0, n // 2) if first else slice(n // 2, n)
            for cache, sequence in zip(both, of, strict=True):
                cache.append(sequence, k[:, part], v[:, part])
    return (*both, tokens, [of[0] for of in numbers])


def packed(q_lens, k_lens, dtype=torch.float64, whole=torch.int32):
    """q, k and v of sequences end to end, and their bounds."""
    shapes = [(sum(q_lens), HEADS, 4), (sum(k_lens), HEADS, 4), (sum(k_lens), HEADS, 3)]
    bounds = [torch.tensor([0, *accumulate(lens)], dtype=whole) for lens in (q_lens, k_lens)]
    return [*(draw(*shape, dtype=dtype) for shape in shapes), *bounds]


actions = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3), st.integers(0, 9)), max_size=25)


@settings(max_examples=60, deadline=None)
@given(num_blocks=st.integers(1, 9), block_size=st.integers(1, 5), actions=actions)
def test_the_cache_is_a_dict_of_growing_tensors(num_blocks, block_size, actions):
    cache, oracle = caches(num_blocks, block_size, torch.float32)
    plain = reference.PlainPagedKVCache(num_blocks, block_size, HEADS, WIDTH)
    held: dict[int, torch.Tensor] = {}
    ever = set()
    for action, which, t in actions:
        sequence = sorted(held)[which % len(held)] if held else None
        if sequence is None or action == 0:
            sequence = cache.add()
            assert plain.add() == oracle.add() == sequence and sequence not in ever
            ever.add(sequence)
            held[sequence] = torch.zeros(HEADS, 0, WIDTH)
        elif action == 1:
            for one in (cache, plain, oracle):
                one.free(sequence)
            del held[sequence]
        else:
            new = torch.randn(HEADS, t, WIDTH)
            grown = torch.cat([held[sequence], new], 1)
            lacking = blocks(grown, block_size) - blocks(held[sequence], block_size)
            free = cache.free_blocks
            for one in (cache, plain, oracle):
                if lacking <= free:
                    one.append(sequence, new, -new)
                else:
                    with pytest.raises(ValueError, match=rf"{lacking}\D+{free}"):
                        one.append(sequence, new, -new)
            held[sequence] = grown if lacking <= free else held[sequence]
        check(cache, plain, oracle, held, num_blocks, block_size)


def blocks(tokens, block_size):
    return -(-tokens.shape[1] // block_size)


def check(cache, plain, oracle, held, num_blocks, block_size):
    """All three hold just this, each block in one table at most, each token where that says."""
    tables = [cache.block_table(sequence) for sequence in held]
    assert all(table.dtype == torch.int64 for table in tables)
    named = [block for table in tables for block in table.tolist()]
    assert len(set(named)) == len(named) and set(named) <= set(range(num_blocks))
    free = num_blocks - sum(blocks(tokens, block_size) for tokens in held.values())
    assert cache.free_blocks == plain.free_blocks == oracle.free_blocks == free
    assert num_blocks - len(named) == free
    for sequence, tokens in held.items():
        for one in (cache, plain):
            for k, v in (one.gather(sequence), in_the_pools(one, sequence, block_size)):
                assert torch.equal(k, tokens) and torch.equal(v, -tokens)
        assert np.array_equal(oracle.gather(sequence)[0].exact, tokens.numpy())
        assert cache.length(sequence) == oracle.length(sequence) == tokens.shape[1]


def in_the_pools(cache, sequence, block_size):
    """What the pools hold at the places of a sequence's tokens, (H, n, D) each."""
    token = torch.arange(cache.length(sequence))
    places = cache.block_table(sequence)[token // block_size], token % block_size
    return [pool[places].transpose(0, 1) for pool in (cache.keys, cache.values)]


def test_what_is_written_to_the_pools_is_read_and_append_does_not_move_them():
    cache, oracle, _, numbers = filled((6, 3))
    pools = cache.keys, cache.values
    for pool in pools:
        pool.copy_(draw(*pool.shape))
    for sequence in numbers:
        oracle.overwrite(sequence, *in_the_pools(cache, sequence, 4))
    q, k = draw(2, HEADS, WIDTH), draw(HEADS, 5, WIDTH)
    agree(
        solution.paged_attention(q, cache, numbers), reference.paged_attention(q, oracle, numbers)
    )
    expected = reference.chunked_prefill(k, k, k, oracle, numbers[0], 2)
    agree(solution.chunked_prefill(k, k, k, cache, numbers[0], 2), expected)
    for got, right in zip(cache.gather(numbers[0]), oracle.gather(numbers[0]), strict=True):
        agree(got, right)
    assert cache.keys is pools[0] and cache.values is pools[1]


def test_a_sequence_that_is_not_there_is_named():
    cache, _, _, (kept, gone) = filled((3, 5))
    cache.free(gone)
    k = draw(HEADS, 1, WIDTH)
    for ask in (cache.gather, cache.length, cache.block_table, cache.free):
        with pytest.raises(ValueError, match=str(gone)):
            ask(gone)
    with pytest.raises(ValueError, match="77"):
        cache.append(77, k, k)
    with pytest.raises(ValueError, match=str(gone)):
        solution.paged_attention(draw(2, HEADS, WIDTH), cache, [kept, gone])
    with pytest.raises(ValueError, match=str(gone)):
        solution.chunked_prefill(k, k, k, cache, gone, 1)


def test_two_caches_share_nothing_and_keep_copies_in_their_dtype():
    one, other = (solution.PagedKVCache(2, 2, 1, 1, dtype=torch.float16) for _ in "ab")
    k = torch.tensor([[[1 / 3]]])
    for cache, sign in ((one, 1), (other, -1)):
        cache.append(cache.add(), sign * k, sign * k)
    k.zero_()
    assert one.gather(0)[0].item() == -other.gather(0)[0].item() == torch.tensor(1 / 3).half()
    assert one.gather(0)[1].dtype == torch.float16
    other.free(0)
    assert one.free_blocks == 1 and one.length(0) == 1


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("lengths", [(1,), (3, 17, 1, 4), (5, 0, 33)], ids=str)
@pytest.mark.parametrize("block_size", [1, 4, 64])
def test_a_decoding_step_is_pytorchs_attention_of_every_sequence(lengths, block_size, dtype):
    cache, oracle, tokens, numbers = filled(lengths, block_size, dtype=dtype)
    order = [*reversed(numbers), numbers[0]]
    q = draw(len(order), HEADS, WIDTH, dtype=dtype)
    got, expected = (
        module.paged_attention(q, one, order)
        for module, one in ((solution, cache), (reference, oracle))
    )
    agree(got, expected)
    for row, sequence in enumerate(order):
        if lengths[sequence]:
            k, v = (x.double() for x in tokens[sequence])
            theirs = F.scaled_dot_product_attention(q[row][:, None].double(), k, v)
            close(expected.exact[row], theirs[:, 0])
        else:
            assert not got[row].any()


def test_the_output_has_the_dtype_of_the_queries():
    cache, oracle, _, numbers = filled((9, 2), dtype=torch.bfloat16)
    q = draw(2, HEADS, WIDTH, dtype=torch.float32)
    agree(
        solution.paged_attention(q, cache, numbers), reference.paged_attention(q, oracle, numbers)
    )
    assert solution.paged_attention(q[:0], cache, []).shape == (0, HEADS, WIDTH)


@pytest.mark.parametrize("junk", [torch.nan, torch.inf, 1e30])
def test_what_freed_blocks_hold_has_no_influence(junk):
    cache, oracle = caches(5, 4)
    dirty = torch.full((HEADS, 20, WIDTH), junk, dtype=torch.float64)
    for one in (cache, oracle):
        one.append(one.add(), dirty, dirty)
        one.free(0)
        assert one.add() == 1
    q, k, v = (draw(HEADS, 6, WIDTH) for _ in "qkv")
    expected = dense(q, k, v)
    close(solution.chunked_prefill(q, k, v, cache, 1, 4), expected)
    close(reference.chunked_prefill(q, k, v, oracle, 1, 4).exact, expected)
    close(solution.paged_attention(q[:, -1][None], cache, [1])[0], expected[:, -1])


@pytest.mark.parametrize("whole", [torch.int32, torch.int64], ids=str)
@pytest.mark.parametrize("q_lens, k_lens", RAGGED, ids=str)
def test_a_ragged_batch_is_pytorchs_attention_of_every_sequence(q_lens, k_lens, whole):
    given = packed(q_lens, k_lens, whole=whole)
    got, expected = solution.ragged_attention(*given), reference.ragged_attention(*given)
    agree(got, expected)
    parts = (x.split(list(n)) for x, n in zip(given, (q_lens, k_lens, k_lens), strict=False))
    for output, *one in zip(got.split(list(q_lens)), *parts, strict=True):
        close(output.transpose(0, 1), dense(*(x.transpose(0, 1) for x in one)))


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
def test_a_ragged_batch_agrees_with_the_oracle_in_every_dtype(dtype):
    given = packed((9, 17, 14, 0), (9, 33, 10, 2), dtype=dtype)
    before = [x.clone() for x in given]
    agree(solution.ragged_attention(*given), reference.ragged_attention(*given))
    assert all(torch.equal(x, y) for x, y in zip(given, before, strict=True))


def test_half_precision_survives_scores_beyond_its_range():
    q = torch.full((2, 1, 64), 256.0, dtype=torch.float16)
    v, bounds = draw(2, 1, 64, dtype=torch.float16), torch.tensor([0, 2])
    output = solution.ragged_attention(q, q, v, bounds, bounds)
    close(output, torch.stack([v[0], v.mean(0)]), 2e-3)


def test_gradients_are_the_finite_differences_of_the_oracle():
    *given, cu_q, cu_k = packed((3, 2, 0, 2), (2, 4, 1, 0))
    upstream, bounds = draw(7, HEADS, 3), (cu_q, cu_k)
    leaves = [x.clone().requires_grad_() for x in given]
    got = torch.autograd.grad(solution.ragged_attention(*leaves, *bounds), leaves, upstream)
    expected = reference.ragged_attention_gradients(*given, *bounds, upstream=upstream)

    def oracle():
        output = reference.ragged_attention(*given, *bounds).exact
        return float((output * upstream.numpy()).sum())

    for x, one, right in zip(given, got, expected, strict=True):
        found = differences(oracle, x)
        close(right.exact, found, 1e-8)
        close(one, found, 1e-8)


def differences(scalar, x, step=1e-6):
    """Central differences of `scalar()` for every element of x."""
    found = torch.zeros_like(x)
    for index in np.ndindex(*x.shape):
        kept = x[index].item()
        x[index] = kept + step
        up = scalar()
        x[index] = kept - step
        found[index] = (up - scalar()) / (2 * step)
        x[index] = kept
    return found


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("past", [0, 6])
@pytest.mark.parametrize("chunk_size", [1, 4, 5, 9, 20])
def test_a_prompt_in_chunks_is_pytorchs_dense_attention(past, chunk_size, dtype):
    cache, oracle, tokens, numbers = filled((past, 3), spare=3, dtype=dtype)
    q, k, v = (draw(HEADS, 9, WIDTH, dtype=dtype) for _ in "qkv")
    expected = reference.chunked_prefill(q, k, v, oracle, numbers[0], chunk_size)
    agree(solution.chunked_prefill(q, k, v, cache, numbers[0], chunk_size), expected)
    keys, values = (torch.cat([old, new], 1) for old, new in zip(tokens[0], (k, v), strict=True))
    close(expected.exact, dense(q.double(), keys.double(), values.double()))
    assert torch.equal(cache.gather(numbers[0])[0], keys)
    assert torch.equal(cache.gather(numbers[0])[1], values)
    assert torch.equal(cache.gather(numbers[1])[0], tokens[1][0])


def test_a_prompt_for_which_there_is_no_room_stays_as_far_as_it_went():
    cache = solution.PagedKVCache(3, 2, HEADS, WIDTH, dtype=torch.float64)
    k, sequence = draw(HEADS, 9, WIDTH), cache.add()
    with pytest.raises(ValueError, match=r"2\D+1"):
        solution.chunked_prefill(k, k, k, cache, sequence, 4)
    assert cache.length(sequence) == 4 and cache.free_blocks == 1
    assert torch.equal(cache.gather(sequence)[0], k[:, :4])
