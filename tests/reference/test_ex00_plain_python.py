"""The oracle, the yardstick and the solution on lists agree, and PyTorch agrees with them."""

import importlib.util
import math
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from reference import ex00_plain_python as reference

SOURCE = Path(__file__).parents[2] / "solutions" / "ex00_plain_python.py"
spec = importlib.util.spec_from_file_location("solution_ex00_plain_python", SOURCE)
assert spec is not None and spec.loader is not None
solution = importlib.util.module_from_spec(spec)
spec.loader.exec_module(solution)

SIZES = [(1, 1), (2, 3), (4, 4), (3, 1), (1, 17), (17, 3)]
ATTENTIONS = [(3, 5, 4, 2), (1, 1, 1, 3), (2, 17, 3, 1), (9, 2, 1, 4), (4, 4, 4, 4)]
number = st.integers(-10_000, 10_000) | st.floats(-1e4, 1e4)


@pytest.fixture(autouse=True)
def one_seed_for_all():
    torch.manual_seed(0)


def draw(*shape, scale=1.0):
    return torch.randn(*shape, dtype=torch.float64) * scale


def rows(*shape, scale=1.0):
    return draw(*shape, scale=scale).tolist()


def agree(found, expected, tolerance=1e-12):
    """The rows are the yardstick's and the oracle's."""
    np.testing.assert_allclose(np.array(found, float), expected.exact, rtol=0, atol=tolerance)
    np.testing.assert_allclose(expected.plain, expected.exact, rtol=0, atol=tolerance)


@pytest.mark.parametrize("n, m, p", [(2, 3, 4), (1, 1, 1), (4, 4, 4), (3, 1, 5), (17, 5, 3)])
def test_the_product_is_numpys(n, m, p):
    a, b = rows(n, m), rows(m, p)
    agree(solution.matmul(a, b), reference.matmul(a, b))
    np.testing.assert_allclose(reference.matmul(a, b).exact, np.array(a) @ np.array(b))


@pytest.mark.parametrize("multiply", [solution.matmul, reference.plain_matmul])
@pytest.mark.parametrize("a, b", [((2, 3), (2, 4)), ((2, 2), (3, 4)), ((1, 1), (2, 1))])
def test_a_product_that_does_not_exist_is_refused_with_both_numbers(multiply, a, b):
    with pytest.raises(ValueError, match=rf"{a[1]}\D+{b[0]}"):
        multiply(rows(*a), rows(*b))


@pytest.mark.parametrize("n, m", [*SIZES, (0, 0)])
def test_twice_transposed_is_the_matrix_again(n, m):
    a = rows(n, m)
    agree(solution.transpose(a), reference.transpose(a))
    assert solution.transpose(solution.transpose(a)) == a


@pytest.mark.parametrize("n, m", SIZES)
@pytest.mark.parametrize("scale", [0.0, 1.0, 5000.0])
def test_the_weights_are_pytorchs_softmax(n, m, scale):
    scores = rows(n, m, scale=scale)
    found = solution.row_softmax(scores)
    agree(found, reference.row_softmax(scores))
    np.testing.assert_allclose(
        found, torch.softmax(torch.tensor(scores, dtype=torch.float64), -1), atol=1e-12
    )


def test_minus_infinity_has_no_weight_and_nothing_else_is_a_row_of_zeros():
    scores = [[-math.inf, 1e4, -math.inf], [-math.inf] * 3, [-1e4, -1e4, -math.inf]]
    found = solution.row_softmax(scores)
    assert found == [[0, 1, 0], [0, 0, 0], [0.5, 0.5, 0]]
    agree(found, reference.row_softmax(scores))


@given(st.lists(st.lists(number, min_size=3, max_size=3), min_size=1, max_size=4), number)
@settings(max_examples=50, deadline=None)
def test_a_number_added_to_all_scores_changes_no_weight(scores, shift):
    moved = [[x + shift for x in row] for row in scores]
    np.testing.assert_allclose(
        solution.row_softmax(moved), solution.row_softmax(scores), atol=1e-10
    )


@pytest.mark.parametrize("n, m", SIZES)
def test_what_is_hidden_becomes_minus_infinity_whatever_it_was(n, m):
    scores, keep = draw(n, m), torch.rand(n, m) < 0.5
    spoilt = torch.where(keep, scores, math.nan).tolist()
    found = solution.apply_mask(spoilt, keep.tolist())
    assert found == scores.masked_fill(~keep, -math.inf).tolist()
    agree(found, reference.apply_mask(spoilt, keep.tolist()))


@pytest.mark.parametrize("sizes", ATTENTIONS)
@pytest.mark.parametrize("masked", [False, True])
def test_attention_is_pytorchs(sizes, masked):
    q_len, k_len, dim, value_dim = sizes
    q, k, v = draw(q_len, dim, scale=3), draw(k_len, dim), draw(k_len, value_dim)
    keep = torch.rand(q_len, k_len) < 0.5
    keep[:, 0] = True
    mask = keep.tolist() if masked else None
    answer = solution.attention(q.tolist(), k.tolist(), v.tolist(), mask)
    expected = reference.attention(q.tolist(), k.tolist(), v.tolist(), mask)
    for found, right in zip(answer, expected, strict=True):
        agree(found, right)
    theirs = F.scaled_dot_product_attention(q, k, v, attn_mask=keep if masked else None)
    np.testing.assert_allclose(answer[0], theirs, atol=1e-12)


@pytest.mark.parametrize("attend", [solution.attention, reference.plain_attention])
@pytest.mark.parametrize("garbage", [math.nan, math.inf, -math.inf, 1e30])
def test_what_is_hidden_has_no_influence(attend, garbage):
    q, k, v = rows(3, 2), rows(4, 2), rows(4, 5)
    keep = [[True, False, True, False], [False] * 4, [False, False, True, False]]
    clean = attend(q, k, v, keep)
    k[1], k[3], v[1], v[3] = (
        [garbage] * 2,
        [garbage, 1.0],
        [garbage] * 5,
        [0.0, garbage, *[1.0] * 3],
    )
    output, weights = attend(q, k, v, keep)
    assert (output, weights) == clean
    assert output[1] == [0] * 5 and weights[1] == [0] * 4


def test_ints_do_as_well_as_floats():
    q, k, v = ([[1, -2], [0, 3]], [[2, 2], [-1, 0], [1, 1]], [[1], [2], [3]])
    found = solution.attention(q, k, v)
    for one, right in zip(found, reference.attention(q, k, v), strict=True):
        agree(one, right)


def test_the_arguments_are_left_as_they_were():
    q, k, v, keep = rows(2, 3), rows(2, 3), rows(2, 3), [[True, False], [False, False]]
    before = [[list(row) for row in x] for x in (q, k, v, keep)]
    output, weights = solution.attention(q, k, v, keep)
    masked, turned = solution.apply_mask(q[:1], [[True] * 3]), solution.transpose(q)
    for x in (output, weights, masked, turned):
        x[0][0] = 99.0
    assert [q, k, v, keep] == before
