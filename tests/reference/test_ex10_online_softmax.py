"""The oracle, the yardstick and the solution of tiled attention agree, and others with them."""

import importlib.util
import math
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from scipy.special import logsumexp
from torch.nn.attention import flex_attention as flex

from reference import ex10_online_softmax as reference

SOURCE = Path(__file__).parents[2] / "solutions" / "ex10_online_softmax.py"
spec = importlib.util.spec_from_file_location("solution_ex10_online_softmax", SOURCE)
assert spec is not None and spec.loader is not None
solution = importlib.util.module_from_spec(spec)
spec.loader.exec_module(solution)

TOLERANCE = {torch.float64: 1e-12, torch.float32: 5e-6, torch.float16: 8e-3, torch.bfloat16: 6e-2}
LENGTHS = [(1, 1), (5, 17), (17, 5), (17, 17), (3, 65)]
each_dtype = pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
each_lengths = pytest.mark.parametrize("lengths", LENGTHS, ids=str)
each_block_size = pytest.mark.parametrize("block_size", [1, 4, 17, 1000])


@pytest.fixture(autouse=True)
def one_seed_for_all():
    torch.manual_seed(10)


def draw(*shape, dtype=torch.float64):
    return torch.randn(*shape, dtype=torch.float64).to(dtype)


def inputs(q_len, k_len, dtype=torch.float64):
    return [draw(2, 3, n, d, dtype=dtype) for n, d in ((q_len, 4), (k_len, 4), (k_len, 5))]


def close(got, expected, tolerance=1e-12):
    got, expected = (torch.as_tensor(x, dtype=torch.float64) for x in (got, expected))
    torch.testing.assert_close(got, expected, rtol=0, atol=tolerance)


def agree(got, expected, dtype):
    """Both parts of the answer are the yardstick's and the oracle's, up to rounding in `dtype`."""
    for one, right in zip(got, expected, strict=True):
        assert one.dtype == right.plain.dtype and one.shape == right.plain.shape
        close(one, right.plain, TOLERANCE[dtype])
        close(one, right.exact, TOLERANCE[dtype])


def keep_of(q_len, k_len, causal):
    keep = torch.ones(q_len, k_len, dtype=torch.bool)
    return keep.tril(k_len - q_len) if causal else keep


@each_block_size
def test_the_statistics_give_torchs_softmax_and_scipys_logsumexp(block_size):
    x = draw(3, 17) * 5
    row_max, row_sum = solution.online_softmax(x, block_size)
    close(torch.exp(x - row_max[:, None]) / row_sum[:, None], torch.softmax(x, -1))
    close(row_max + row_sum.log(), logsumexp(x.numpy(), -1))
    agree((row_max, row_sum), reference.online_softmax(x, block_size), x.dtype)


@each_dtype
@each_block_size
def test_statistics_survive_hidden_and_large_scores(dtype, block_size):
    x = draw(4, 33, dtype=dtype)
    x[0, :20], x[1], x[2] = -torch.inf, -torch.inf, x[2] - 3000
    row_max, row_sum = solution.online_softmax(x, block_size)
    assert row_max.dtype == row_sum.dtype == torch.promote_types(dtype, torch.float32)
    assert (row_max[1].item(), row_sum[1].item()) == (-math.inf, 0.0)
    wide = torch.float64 if dtype == torch.float64 else torch.float32  # nothing is lost in half
    agree((row_max, row_sum), reference.online_softmax(x, block_size), wide)


def test_the_gradient_of_the_statistics_is_softmax():
    x, upstream = draw(2, 9), draw(2)
    x[0, :5] = -torch.inf
    row_max, row_sum = solution.online_softmax(x.requires_grad_(), 3)
    [got] = torch.autograd.grad(row_max + row_sum.log(), x, upstream)
    [expected] = reference.online_softmax_gradients(x, upstream=upstream)
    close(got, upstream[:, None] * torch.softmax(x, -1))
    close(expected.exact, got.detach())


@each_dtype
@pytest.mark.parametrize("spread", [1, 100])
def test_merging_two_parts_is_a_softmax_over_their_lse(dtype, spread):
    wide = torch.promote_types(dtype, torch.float32)
    a, b = ((draw(3, 7, 5, dtype=dtype), spread * draw(3, 7, dtype=wide)) for _ in "ab")
    weights = torch.softmax(torch.stack([a[1], b[1]]).double(), 0)[..., None]
    mixed = weights[0] * a[0].double() + weights[1] * b[0].double()
    expected = reference.merge_partials(a, b)
    close(expected[0].exact, mixed)
    close(expected[1].exact, torch.logaddexp(a[1].double(), b[1].double()))
    output, lse = solution.merge_partials(a, b)
    assert (output.dtype, lse.dtype) == (dtype, wide)
    close(output, mixed, TOLERANCE[dtype])
    close(lse, expected[1].exact, TOLERANCE[wide] * spread)


@pytest.mark.parametrize("junk", [0.0, math.nan, math.inf])
@pytest.mark.parametrize("merge", [solution.merge_partials, reference.plain_merge_partials])
def test_an_empty_part_has_no_influence_and_no_gradient(merge, junk):
    nothing = torch.full((7, 5), junk, requires_grad=True), torch.full((7,), -torch.inf)
    some = draw(7, 5, dtype=torch.float32).requires_grad_(), draw(7, dtype=torch.float32)
    for a, b in (nothing, some), (some, nothing):
        output, lse = merge(a, b)
        close(output, some[0].detach())
        close(lse, some[1])
        slopes = torch.autograd.grad(output.sum(), [nothing[0], some[0]])
        close(slopes[0], torch.zeros(7, 5))
        close(slopes[1], torch.ones(7, 5))
    output, lse = merge(nothing, nothing)
    assert (output == 0).all() and (lse == -torch.inf).all()
    exact = [x.exact for x in reference.merge_partials(nothing, nothing)]
    assert (exact[0] == 0).all() and (exact[1] == -np.inf).all()


def test_merging_gradients_are_the_finite_differences_of_the_oracle():
    a, b = ((draw(4, 3), draw(4)) for _ in "ab")
    a[1][0] = b[1][1] = -torch.inf
    for of, shape in (0, (4, 3)), (1, (4,)):
        upstream = draw(*shape)

        def oracle(*leaves, of=of, upstream=upstream):
            exact = reference.merge_partials(leaves[:2], leaves[2:])[of].exact
            return float((exact * upstream.numpy()).sum())

        got = reference.merge_partials_gradients(a, b, upstream=upstream, of=of)
        found = list(differences(oracle, [*a, *b]))[of :: of + 1]
        for one, right in zip(got, found, strict=True):
            close(one.exact, right, 1e-8)


@each_lengths
@each_block_size
@pytest.mark.parametrize("causal", [False, True])
def test_tiles_of_any_size_give_pytorchs_attention_and_logsumexp(lengths, block_size, causal):
    q, k, v = inputs(*lengths)
    keep = keep_of(*lengths, causal)
    seen = keep.any(-1)
    output, lse = solution.flash_attention(q, k, v, causal, block_size=block_size)
    theirs = F.scaled_dot_product_attention(q, k, v, attn_mask=keep)
    close(output, torch.where(seen[:, None], theirs, 0.0))
    scores = (q @ k.mT / 2).masked_fill(~keep, -torch.inf)
    close(lse, torch.logsumexp(scores, -1))
    agree((output, lse), reference.flash_attention(q, k, v, causal), q.dtype)


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@each_lengths
@pytest.mark.parametrize("causal", [False, True])
def test_flex_attention_gives_the_same_log_sum_exp(lengths, causal):
    q, k, v = inputs(*lengths, dtype=torch.float32)
    corner = lengths[1] - lengths[0]

    def hide(score, _batch, _head, i, j):
        return torch.where(i + corner >= j, score, -torch.inf) if causal else score

    new = hasattr(flex, "AuxRequest")  # PyTorch 2.9 and later
    asked = {"return_aux": flex.AuxRequest(lse=True)} if new else {"return_lse": True}
    theirs, extra = flex.flex_attention(q, k, v, score_mod=hide, **asked)
    output, own = solution.flash_attention(q, k, v, causal, block_size=4)
    close(output, theirs, 1e-5)
    close(own, extra.lse if new else extra, 1e-5)


@each_dtype
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("scale", [None, 0.0, -0.3, 0.7])
def test_the_solution_agrees_with_the_oracle_in_every_dtype(dtype, causal, scale):
    q, k, v = inputs(9, 17, dtype)
    got = solution.flash_attention(q, k, v, causal, scale, 4)
    agree(got, reference.flash_attention(q, k, v, causal, scale), dtype)


def test_parts_of_the_keys_merge_into_the_whole():
    q, k, v = inputs(5, 17)
    parts = [
        solution.flash_attention(q, *(x[..., start : start + 6, :] for x in (k, v)))
        for start in (0, 6, 12)
    ]
    left = solution.merge_partials(solution.merge_partials(parts[0], parts[1]), parts[2])
    right = solution.merge_partials(parts[0], solution.merge_partials(parts[2], parts[1]))
    for merged in left, right:
        agree(merged, reference.flash_attention(q, k, v), q.dtype)


@pytest.mark.parametrize("lengths", [(3, 4), (4, 2)], ids=str)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("of", [0, 1])
def test_gradients_are_the_finite_differences_of_the_oracle(lengths, causal, of):
    q, k, v = (x[0, 0] for x in inputs(*lengths))
    answer = solution.flash_attention(q, k, v, causal)[of]
    upstream = draw(*answer.shape)
    names = (q, k, v)[: 3 - of]

    def oracle(q, k, v=v):
        exact = reference.flash_attention(q, k, v, causal)[of].exact
        return float((np.where(np.isfinite(exact), exact, 0.0) * upstream.numpy()).sum())

    leaves = [x.clone().requires_grad_() for x in (q, k, v)]
    ours = solution.flash_attention(*leaves, causal, block_size=2)[of]
    got = torch.autograd.grad(ours, leaves[: 3 - of], upstream)
    right = reference.flash_attention_gradients(q, k, v, causal, upstream=upstream, of=of)
    for one, expected, found in zip(got, right, differences(oracle, names), strict=True):
        close(one, found, 1e-8)
        close(expected.exact, found, 1e-8)


def differences(scalar, inputs, step=1e-6):
    """Central differences of `scalar(*inputs)` for every element of every input."""
    for x in inputs:
        found = torch.zeros_like(x)
        for index in np.ndindex(*x.shape):
            kept = x[index].item()
            if not math.isfinite(kept):
                continue
            x[index] = kept + step
            up = scalar(*inputs)
            x[index] = kept - step
            found[index] = (up - scalar(*inputs)) / (2 * step)
            x[index] = kept
        yield found


@pytest.mark.parametrize("block_size", [0, -3])
def test_a_block_size_below_1_is_refused(block_size):
    q, k, v = inputs(3, 4)
    for refused in (
        lambda: solution.online_softmax(q, block_size),
        lambda: solution.flash_attention(q, k, v, block_size=block_size),
    ):
        with pytest.raises(ValueError, match=f"{block_size},"):
            refused()


def test_inputs_are_left_alone_and_may_be_strided_expanded_or_empty():
    q, k, v = draw(2, 4, 9).mT, draw(1, 9, 4).expand(2, 9, 4), draw(2, 9, 10)[..., ::2]
    before = [x.clone() for x in (q, k, v)]
    got = solution.flash_attention(q, k, v, True, block_size=4)
    agree(got, reference.flash_attention(q, k, v, True), q.dtype)
    assert all(torch.equal(x, y) for x, y in zip((q, k, v), before, strict=True))
    assert [x.shape for x in solution.flash_attention(q[:0], k[:0], v[:0])] == [(0, 9, 5), (0, 9)]
