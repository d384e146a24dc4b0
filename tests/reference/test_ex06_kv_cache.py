"""The oracle, the yardstick and the solution of the cache agree, and PyTorch agrees with them."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from reference import ex06_kv_cache as reference

SOURCE = Path(__file__).parents[2] / "solutions" / "ex06_kv_cache.py"
spec = importlib.util.spec_from_file_location("solution_ex06_kv_cache", SOURCE)
assert spec is not None and spec.loader is not None
solution = importlib.util.module_from_spec(spec)
spec.loader.exec_module(solution)

CHUNKINGS = [[7], [1] * 7, [3, 4], [4, 3], [1, 5, 1], [6, 1]]
TOLERANCE = {torch.float64: 1e-12, torch.float32: 3e-6, torch.float16: 8e-3, torch.bfloat16: 6e-2}


@pytest.fixture(autouse=True)
def one_seed_for_all():
    torch.manual_seed(6)


def draw(*shape, dtype=torch.float64):
    return torch.randn(*shape, dtype=torch.float64).to(dtype)


def close(got, expected, tolerance=1e-12):
    got, expected = torch.as_tensor(got), torch.as_tensor(expected)
    torch.testing.assert_close(got, expected, rtol=0, atol=tolerance)


def agree(got, expected):
    """The answer is the yardstick's and the oracle's, up to the rounding of its dtype."""
    torch.testing.assert_close(got, expected.plain, rtol=0, atol=TOLERANCE[got.dtype])
    close(got.double(), expected.exact, TOLERANCE[got.dtype])


def in_chunks(step, sizes, *tensors):
    """`step` on one chunk after another along the length, its outputs joined."""
    parts = zip(*(x.split(sizes, -2) for x in tensors), strict=True)
    return torch.cat([step(*part) for part in parts], -2)


def layers(d_model=12, num_heads=3, bias=True, dtype=torch.float64):
    """The student's layer and the oracle with the same weights."""
    student = solution.CachedAttention(d_model, num_heads, bias).to(dtype)
    oracle = reference.CachedAttention(d_model, num_heads, bias)
    oracle.load_state_dict(student.state_dict())
    return student, oracle


@pytest.mark.parametrize("attend", [solution.attend_with_past, reference.plain_attend_with_past])
@pytest.mark.parametrize("sizes", CHUNKINGS, ids=str)
def test_chunks_of_any_size_equal_pytorchs_full_causal_attention(attend, sizes):
    q, k, v = draw(2, 3, 7, 5), draw(2, 3, 7, 5), draw(2, 3, 7, 4)
    past = None

    def step(q, k, v):
        nonlocal past
        output, past = attend(q, k, v, past)
        return output

    close(in_chunks(step, sizes, q, k, v), F.scaled_dot_product_attention(q, k, v, is_causal=True))
    assert torch.equal(past[0], k) and torch.equal(past[1], v)


def test_a_chunk_after_a_past_is_aligned_bottom_right():
    q, k, v = draw(2, 3, 2, 5), draw(2, 3, 6, 5), draw(2, 3, 6, 4)
    corner = torch.tensor([[1, 1, 1, 1, 1, 0], [1, 1, 1, 1, 1, 1]], dtype=torch.bool)
    (past_k, new_k), (past_v, new_v) = k.split([4, 2], 2), v.split([4, 2], 2)
    expected, _ = reference.attend_with_past(q, new_k, new_v, (past_k, past_v))
    close(expected.exact, F.scaled_dot_product_attention(q, k, v, attn_mask=corner))


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("leading", [(), (4,), (2, 3), (0, 3), (2, 1, 3)], ids=str)
@pytest.mark.parametrize("t", [1, 5])
def test_output_and_past_agree_with_the_oracle(dtype, leading, t):
    q, k, v = (draw(*leading, t, d, dtype=dtype) for d in (8, 8, 6))
    past = draw(*leading, 17, 8, dtype=dtype), draw(*leading, 17, 6, dtype=dtype)
    output, (keys, values) = solution.attend_with_past(q, k, v, past)
    expected, (expected_keys, expected_values) = reference.attend_with_past(q, k, v, past)
    agree(output, expected)
    agree(keys, expected_keys)
    agree(values, expected_values)


@pytest.mark.parametrize("junk", [-1e30, 1e30])
def test_what_a_later_token_holds_reaches_no_earlier_one(junk):
    clean = [draw(6, 4) for _ in "qkv"]
    dirty = [x.clone() for x in clean]
    for x in dirty:
        x[3:] = junk
        x.requires_grad_()
    output, _ = solution.attend_with_past(*dirty)
    agree(output[:3], reference.attend_with_past(*(x[:3] for x in clean))[0])
    assert torch.autograd.grad(output[:3].sum(), dirty)[0][:3].isfinite().all()


def test_half_precision_survives_scores_beyond_its_range():
    q = torch.full((1, 2, 64), 256.0, dtype=torch.float16)
    v = draw(1, 2, 64, dtype=torch.float16)
    close(solution.attend_with_past(q, q, v)[0], torch.stack([v[0, 0], v[0].mean(0)])[None], 2e-3)


def test_inputs_are_left_alone_and_may_be_strided_or_expanded():
    q, k = draw(2, 5, 3, 4).transpose(1, 2), draw(1, 3, 5, 4).expand(2, 3, 5, 4)
    past = draw(2, 3, 4, 2).mT, draw(2, 3, 4, 4)[:, :, ::2]
    before = [x.clone() for x in (q, k, *past)]
    output, _ = solution.attend_with_past(q, k, k, past)
    agree(output, reference.attend_with_past(q, k, k, past)[0])
    assert all(torch.equal(x, y) for x, y in zip((q, k, *past), before, strict=True))


@pytest.mark.parametrize("with_past", [False, True])
def test_gradients_are_the_finite_differences_of_the_oracle(with_past):
    q, k, v, upstream = draw(2, 3, 4), draw(2, 3, 4), draw(2, 3, 2), draw(2, 3, 2)
    past = (draw(2, 2, 4), draw(2, 2, 2)) if with_past else None
    inputs = [q, k, v, *(past or ())]

    def oracle(q, k, v, *past):
        output, _ = reference.attend_with_past(q, k, v, past or None)
        return float((output.exact * upstream.numpy()).sum())

    leaves = [x.clone().requires_grad_() for x in inputs]
    output, _ = solution.attend_with_past(*leaves[:3], tuple(leaves[3:]) or None)
    got = torch.autograd.grad(output, leaves, upstream)
    expected = reference.attend_with_past_gradients(q, k, v, past, upstream=upstream)
    for i, difference in enumerate(differences(oracle, inputs)):
        close(expected[i].exact, difference, 1e-8)
        close(got[i], difference, 1e-8)


def differences(scalar, inputs, step=1e-6):
    """Central differences of `scalar(*inputs)` for every element of every input."""
    for x in inputs:
        found = torch.zeros_like(x)
        for index in np.ndindex(*x.shape):
            kept = x[index].item()
            x[index] = kept + step
            up = scalar(*inputs)
            x[index] = kept - step
            found[index] = (up - scalar(*inputs)) / (2 * step)
            x[index] = kept
        yield found


@pytest.mark.parametrize("cache", [solution.KVCache, reference.PlainKVCache])
@pytest.mark.parametrize("sizes", CHUNKINGS, ids=str)
def test_the_cache_returns_all_that_was_appended_in_order(cache, sizes):
    k, v = draw(2, 3, 7, 4), draw(2, 3, 7, 4)
    student = cache(2, 3, 7, 4, dtype=torch.float64)
    oracle = reference.KVCache(2, 3, 7, 4, dtype=torch.float64)
    for new_k, new_v in zip(k.split(sizes, 2), v.split(sizes, 2), strict=True):
        end = student.length + new_k.shape[2]
        keys, values = student.append(new_k, new_v)
        assert torch.equal(keys, k[:, :, :end]) and torch.equal(values, v[:, :, :end])
        agree(keys, oracle.append(new_k, new_v)[0])
        assert student.length == oracle.length == end and type(student.length) is int


def test_the_cache_keeps_copies_in_its_own_dtype():
    k, v = draw(1, 1, 2, 3), draw(1, 1, 2, 3)
    cache = solution.KVCache(1, 1, 4, 3, dtype=torch.bfloat16)
    expected = k.bfloat16(), v.bfloat16()
    cache.append(k, v)
    keys, values = cache.append(k.zero_()[:, :, :0], v.zero_()[:, :, :0])
    assert torch.equal(keys, expected[0]) and torch.equal(values, expected[1])


@pytest.mark.parametrize("cache", [solution.KVCache, reference.KVCache])
def test_after_a_reset_the_cache_starts_again(cache):
    cache = cache(1, 1, 4, 2)
    cache.append(torch.ones(1, 1, 3, 2), torch.ones(1, 1, 3, 2))
    cache.reset()
    assert cache.length == 0
    keys, _ = cache.append(torch.zeros(1, 1, 1, 2), torch.zeros(1, 1, 1, 2))
    assert getattr(keys, "plain", keys).tolist() == [[[[0.0, 0.0]]]] and cache.length == 1


@pytest.mark.parametrize(
    ("k_shape", "v_shape", "numbers"),
    [
        ((2, 3, 1, 5), (2, 3, 1, 5), r"9\D+8"),
        ((2, 3, 4, 5), (2, 3, 4, 5), r"12\D+8"),
        ((1, 3, 1, 5), (1, 3, 1, 5), r"k .*\(1, 3, 1, 5\).*\(2, 3, 1, 5\)"),
        ((2, 1, 1, 5), (2, 1, 1, 5), r"k .*\(2, 1, 1, 5\).*\(2, 3, 1, 5\)"),
        ((2, 3, 1, 5), (2, 3, 1, 1), r"v .*\(2, 3, 1, 1\).*\(2, 3, 1, 5\)"),
        ((2, 3, 2, 5), (2, 3, 1, 5), r"v .*\(2, 3, 1, 5\).*\(2, 3, 2, 5\)"),
    ],
)
def test_what_does_not_fit_is_refused_and_changes_nothing(k_shape, v_shape, numbers):
    cache, k, v = solution.KVCache(2, 3, 8, 5), draw(2, 3, 8, 5).float(), draw(2, 3, 8, 5).float()
    cache.append(k, v)
    with pytest.raises(ValueError, match=numbers):
        cache.append(torch.ones(k_shape), torch.ones(v_shape))
    keys, values = cache.append(k[:, :, :0], v[:, :, :0])
    assert cache.length == 8 and torch.equal(keys, k) and torch.equal(values, v)


@pytest.mark.parametrize("bias", [False, True])
def test_the_layer_without_a_cache_is_pytorchs_causal_self_attention(bias):
    student, oracle = layers(bias=bias)
    theirs = nn.MultiheadAttention(12, 3, bias=bias, batch_first=True, dtype=torch.float64)
    state = {f"out_proj.{name}": x for name, x in student.w_o.state_dict().items()}
    for name in student.w_q.state_dict():
        parts = [getattr(student, w).state_dict()[name] for w in ("w_q", "w_k", "w_v")]
        state[f"in_proj_{name}"] = torch.cat(parts)
    theirs.load_state_dict(state)
    x, blocked = draw(2, 5, 12), torch.ones(5, 5, dtype=torch.bool).triu(1)
    expected, _ = theirs(x, x, x, attn_mask=blocked, need_weights=False)
    close(student(x), expected)
    close(oracle(x).exact, expected)


@pytest.mark.parametrize("sizes", CHUNKINGS, ids=str)
def test_the_layer_with_a_cache_equals_the_layer_without(sizes):
    student, oracle = layers()
    x, other = draw(2, 7, 12), draw(2, 7, 12)
    ours = [solution.KVCache(2, 3, 9, 4, dtype=torch.float64) for _ in "xo"]
    theirs = reference.KVCache(2, 3, 9, 4, dtype=torch.float64)

    def interleaved(x, other):
        student(other, ours[1])  # a second text must not be noticed
        return student(x, ours[0])

    close(in_chunks(interleaved, sizes, x, other), student(x))
    close(in_chunks(lambda x: torch.tensor(oracle(x, theirs).exact), sizes, x), oracle(x).exact)
    assert ours[0].length == theirs.length == 7


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("shape", [(2, 17, 12), (1, 1, 12), (0, 3, 12)], ids=str)
def test_the_layer_agrees_with_the_oracle_in_every_dtype(dtype, shape):
    student, oracle = layers(dtype=dtype)
    x, step = draw(*shape, dtype=dtype), draw(shape[0], 1, 12, dtype=dtype)
    ours = solution.KVCache(shape[0], 3, 20, 4, dtype=dtype)
    theirs = reference.KVCache(shape[0], 3, 20, 4, dtype=dtype)
    agree(student(x, ours), oracle(x, theirs))
    agree(student(step, ours), oracle(step, theirs))


def test_gradients_of_the_layer_are_the_finite_differences_of_the_oracle():
    student, oracle = layers(d_model=4, num_heads=2)
    x, upstream = draw(2, 3, 4).requires_grad_(), draw(2, 3, 4)
    leaves = [x, *student.parameters()]
    ours = torch.autograd.grad(student(x), leaves, upstream)
    theirs = oracle.gradients(x, upstream=upstream)
    for got, expected in zip(ours, theirs, strict=True):
        agree(got, expected)
    [found] = differences(lambda x: float((oracle(x).exact * upstream.numpy()).sum()), [x.detach()])
    close(theirs[0].exact, found, 1e-8)


def test_a_width_that_the_heads_do_not_divide_is_refused():
    with pytest.raises(ValueError, match=r"10\D+4"):
        solution.CachedAttention(10, 4)
