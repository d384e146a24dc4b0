"""Oracle, yardstick and solution of ex02 agree with each other and with PyTorch's own operators."""

import copy
import importlib.util
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from reference import ex02_masking as reference

PATH = Path(__file__).parents[2] / "solutions" / "ex02_masking.py"
SPEC = importlib.util.spec_from_file_location("ex02_masking_solution", PATH)
solution = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(solution)

F64 = torch.float64
T, F = True, False
HALVES = [torch.float16, torch.bfloat16]
DTYPES = [*HALVES, torch.float32, F64]


def normal(*shape, scale=1.0, seed=0):
    return torch.randn(*shape, dtype=F64, generator=torch.Generator().manual_seed(seed)) * scale


def coin(*shape, seed=1):
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed)) < 0.6


def one_row_empty(keep):
    keep[..., 0, :] = False
    return keep


# name: (scores, keep)
SOFTMAXES = {
    "a matrix": (normal(3, 5), coin(3, 5)),
    "a vector": (normal(5), torch.tensor([T, F, T, T, F])),
    "nothing hidden": (normal(3, 5), torch.ones(3, 5, dtype=torch.bool)),
    "one key": (normal(2, 3, 1, 1), torch.tensor(True)),
    "an empty row": (normal(2, 3, 5, 7), one_row_empty(coin(5, 7))),
    "nothing kept": (normal(3, 5), torch.zeros(3, 5, dtype=torch.bool)),
    "padding": (normal(2, 3, 5, 7), solution.padding_mask(torch.tensor([7, 0]), 7)),
    "a column for all keys": (normal(3, 5), torch.tensor([[T], [F], [T]])),
    "a mask with more dimensions": (normal(5, 7), coin(2, 1, 5, 7)),
    "far below zero": (-normal(4, 17, scale=1e12).abs(), coin(4, 17)),
    "expanded and strided": (normal(7, 5).mT.expand(2, 3, 5, 7), coin(7, 5).mT.expand(3, 5, 7)),
    "an empty batch": (normal(0, 3, 5), coin(3, 5)),
}
softmaxes = pytest.mark.parametrize(("scores", "keep"), SOFTMAXES.values(), ids=SOFTMAXES)


@softmaxes
def test_oracle_yardstick_and_solution_agree_on_the_masked_softmax(scores, keep):
    exact, plain, *_ = reference.masked_softmax(scores, keep)
    assert_close(plain, exact)
    assert_close(solution.masked_softmax(scores, keep), exact)


@softmaxes
def test_hidden_weights_are_exactly_zero_and_the_others_sum_to_one(scores, keep):
    exact = reference.masked_softmax(scores, keep).exact
    hidden = ~np.broadcast_to(keep.numpy(), exact.shape)
    assert not exact[hidden].any()
    assert_close(exact.sum(-1), ~hidden.all(-1))


@pytest.mark.parametrize(
    "keep",
    [one_row_empty(coin(3, 1, 5, 7)), solution.padding_mask(torch.tensor([4, 7, 0]), 7)],
    ids=["empty rows", "padding"],
)
def test_weights_are_those_of_the_fused_operator(keep):
    scores, eye = normal(3, 2, 5, 7), torch.eye(7, dtype=F64).expand(3, 2, 7, 7)
    fused = scaled_dot_product_attention(scores, eye, eye, attn_mask=keep, scale=1.0)
    assert_close(solution.masked_softmax(scores, keep), fused)


def test_blocked_is_the_polarity_of_multihead_attention():
    x, blocked = normal(2, 5, 4), solution.padding_mask(torch.tensor([1, 3]), 5)[:, 0, 0]
    torch_says = torch.nn.MultiheadAttention(4, 1, bias=False, batch_first=True, dtype=F64)
    torch.nn.init.zeros_(torch_says.in_proj_weight)
    torch_says.in_proj_weight.data[:8] = torch.eye(4, dtype=F64).repeat(2, 1)
    _, weights = torch_says(x, x, x, key_padding_mask=blocked)
    keep = solution.keep_from_blocked(blocked)[:, None]
    assert_close(solution.masked_softmax(x @ x.mT / 2, keep), weights.detach())


def test_adding_the_additive_mask_does_what_the_boolean_mask_does():
    scores, keep = normal(3, 5), coin(3, 5)
    added = torch.softmax(scores + solution.additive_mask(keep, F64), -1)
    assert_close(added, solution.masked_softmax(scores, keep))


def test_no_mask_is_a_mask_that_hides_nothing():
    scores = normal(3, 5)
    exact, plain, *_ = reference.masked_softmax(scores, None)
    for answer in (exact, plain, solution.masked_softmax(scores, None)):
        assert_close(answer, torch.softmax(scores, -1))


@pytest.mark.parametrize("poison", [torch.nan, torch.inf, -torch.inf, 1e30])
def test_hidden_scores_have_no_influence_on_weights_or_gradient(poison):
    clean, keep, upstream = normal(4, 6), one_row_empty(coin(4, 6)), normal(4, 6, seed=2)
    poisoned = clean.masked_fill(~keep, poison)
    assert torch.equal(*(solution.masked_softmax(x, keep) for x in (clean, poisoned)))
    assert torch.equal(*(gradient(x, keep, upstream) for x in (clean, poisoned)))


@pytest.mark.parametrize("poison", [torch.nan, torch.inf])
def test_reference_ignores_hidden_scores(poison):
    keep, upstream = one_row_empty(coin(4, 6)), normal(4, 6, seed=2)
    scores = normal(4, 6), normal(4, 6).masked_fill(~keep, poison)
    weights = [reference.masked_softmax(x, keep) for x in scores]
    slopes = [reference.masked_softmax_gradients(x, keep, upstream=upstream)[0] for x in scores]
    for clean, poisoned in (weights, slopes):
        assert np.array_equal(clean.exact, poisoned.exact)
        assert torch.equal(clean.plain, poisoned.plain)


@pytest.mark.parametrize("dtype", DTYPES)
def test_gradient_is_exactly_zero_at_hidden_scores_and_in_empty_rows(dtype):
    scores, keep = normal(4, 6).to(dtype), one_row_empty(coin(4, 6))
    slopes = gradient(scores, keep, normal(4, 6, seed=2).to(dtype))
    assert slopes.dtype == dtype
    assert (slopes[~keep] == 0).all()


def test_nothing_arrives_at_the_scores_from_the_weights_of_hidden_keys():
    """As when a hidden value is NaN: the gradient of its weight is NaN as well."""
    scores, keep, upstream = normal(4, 6), coin(4, 6), normal(4, 6, seed=2)
    poisoned = upstream.masked_fill(~keep, torch.nan)
    assert torch.equal(*(gradient(scores, keep, g) for g in (upstream, poisoned)))


@pytest.mark.parametrize("name", sorted(SOFTMAXES.keys() - {"far below zero"}))  # flat there
def test_gradients_of_reference_and_solution_are_finite_differences_of_the_oracle(name):
    scores, keep = SOFTMAXES[name]
    upstream = normal(*torch.broadcast_shapes(scores.shape, keep.shape), seed=2)
    expected = reference.masked_softmax_gradients(scores, keep, upstream=upstream)[0]
    slopes = central_differences(scores.numpy(), keep.numpy(), upstream.numpy())
    assert_close(expected.exact, slopes, atol=1e-8)
    assert_close(expected.plain, expected.exact)
    assert_close(gradient(scores, keep, upstream), expected.exact)


@pytest.mark.parametrize("dtype", DTYPES)
def test_masked_softmax_computes_half_precision_in_float32_and_keeps_the_dtype(dtype):
    scores, keep = normal(3, 65, scale=4).to(dtype), coin(3, 65)
    answer = solution.masked_softmax(scores, keep)
    wide = scores.float() if dtype in HALVES else scores
    assert answer.dtype == reference.masked_softmax(scores, keep).plain.dtype == dtype
    assert torch.equal(answer, solution.masked_softmax(wide, keep).to(dtype))


@pytest.mark.parametrize("dtype", DTYPES)
def test_additive_mask_is_zero_where_kept_and_minus_infinity_where_hidden(dtype):
    keep = torch.tensor([[T, F], [F, T]])
    exact, plain, *_ = reference.additive_mask(keep, dtype)
    answer = solution.additive_mask(keep, dtype)
    assert exact.tolist() == [[0.0, -np.inf], [-np.inf, 0.0]]
    assert plain.dtype == answer.dtype == dtype
    assert plain.tolist() == answer.tolist() == exact.tolist()


@pytest.mark.parametrize(
    ("lengths", "max_len", "rows"),
    [([0, 1, 3], 3, [[F, F, F], [T, F, F], [T, T, T]]), ([1], 1, [[T]]), ([], 3, [])],
    ids=["empty, short and full", "one key", "empty batch"],
)
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_padding_mask_keeps_the_first_keys_of_each_sentence(lengths, max_len, rows, dtype):
    lengths = torch.tensor(lengths, dtype=dtype)
    exact, plain, *_ = reference.padding_mask(lengths, max_len)
    answer = solution.padding_mask(lengths, max_len)
    assert (exact.dtype, plain.dtype, answer.dtype) == (bool, torch.bool, torch.bool)
    assert answer.shape == plain.shape == exact.shape == (len(rows), 1, 1, max_len)
    assert answer[:, 0, 0].tolist() == plain[:, 0, 0].tolist() == exact[:, 0, 0].tolist() == rows


def test_keep_from_blocked_turns_every_value_round():
    blocked = torch.tensor([[T, F, F]]).expand(2, 3)
    exact, plain, *_ = reference.keep_from_blocked(blocked)
    answer = solution.keep_from_blocked(blocked)
    assert answer.tolist() == plain.tolist() == exact.tolist() == [[F, T, T]] * 2


@pytest.mark.parametrize(
    "masks",
    [
        [coin(5, 7)],
        [coin(2, 1, 1, 7), coin(5, 7, seed=2)],
        [coin(5, 1), None, coin(7, seed=2), coin(2, 3, 1, 1, seed=3)],
    ],
)
def test_combined_masks_keep_what_all_of_them_keep(masks):
    exact, plain, *_ = reference.combine_masks(*masks)
    answer = solution.combine_masks(*masks)
    counted = sum((~mask).int() for mask in masks if mask is not None) == 0
    assert answer.dtype == plain.dtype == torch.bool
    assert answer.tolist() == plain.tolist() == exact.tolist() == counted.tolist()


@pytest.mark.parametrize("masks", [[], [None], [None, None]])
def test_no_masks_combine_to_none(masks):
    assert solution.combine_masks(*masks) is None
    assert reference.combine_masks(*masks) is None


@pytest.mark.parametrize(
    ("name", "inputs"),
    [
        ("additive_mask", [coin(3, 5), torch.float32]),
        ("keep_from_blocked", [coin(3, 5)]),
        ("padding_mask", [torch.tensor([1, 4]), 5]),
        ("combine_masks", [coin(3, 5), coin(3, 5, seed=2), coin(5, seed=3)]),
        ("masked_softmax", [normal(3, 5), one_row_empty(coin(3, 5))]),
    ],
)
def test_inputs_are_left_as_they_were(name, inputs):
    before = copy.deepcopy(inputs)
    getattr(solution, name)(*inputs)
    for now, then in zip(inputs, before, strict=True):
        assert now is then or torch.equal(now, then)


def assert_close(got, expected, atol=1e-12):
    np.testing.assert_allclose(got, expected, rtol=0, atol=atol)


def gradient(scores, keep, upstream):
    leaf = scores.clone().requires_grad_()
    with torch.autograd.set_detect_anomaly(True):  # no NaN, not even on the way
        solution.masked_softmax(leaf, keep).backward(upstream)
    return leaf.grad


def central_differences(scores, keep, upstream, step=1e-6):
    def loss(x):
        return (reference.exact_masked_softmax(x, keep) * upstream).sum()

    slopes = np.zeros_like(scores)
    for place in np.ndindex(scores.shape):
        nudge = np.zeros_like(scores)
        nudge[place] = step
        slopes[place] = (loss(scores + nudge) - loss(scores - nudge)) / (2 * step)
    return slopes
