"""Gradients by hand: oracle, yardstick and solution against autograd and finite differences."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from reference import ex09_gradients as reference
from reference.ex03_sdpa import exact_attention, plain_attention
from reference.expected import raised

SOURCE = Path(__file__).parents[2] / "solutions" / "ex09_gradients.py"
spec = importlib.util.spec_from_file_location("solution_ex09_gradients", SOURCE)
assert spec is not None and spec.loader is not None
solution = importlib.util.module_from_spec(spec)
spec.loader.exec_module(solution)

SIZES = [  # leading dimensions, Lq, Lk, D, Dv
    *[((4,), 4, 4, 4, 4), ((), 3, 5, 4, 2), ((2,), 1, 1, 1, 3), ((2, 3), 17, 65, 16, 9)],
    *[((1, 2, 3), 65, 3, 3, 17), ((0, 2), 3, 4, 2, 2)],
]
TOLERANCE = {np.float64: 1e-11, np.float32: 3e-5, np.float16: 4e-2}
both = pytest.mark.parametrize(
    "back",
    [solution.attention_backward, reference.plain_attention_backward,
     reference.exact_attention_backward],
    ids=["solution", "yardstick", "oracle"],
)  # fmt: skip
softmaxes = pytest.mark.parametrize(
    "back",
    [solution.softmax_backward, reference.plain_softmax_backward,
     reference.exact_softmax_backward],
    ids=["solution", "yardstick", "oracle"],
)  # fmt: skip


@pytest.fixture(autouse=True)
def one_seed_for_all():
    torch.manual_seed(9)


def draw(*shape, dtype=np.float64):
    return torch.randn(*shape, dtype=torch.float64).numpy().astype(dtype)


def inputs(leading, q_len, k_len, dim, value_dim, dtype=np.float64):
    shapes = (q_len, dim), (k_len, dim), (k_len, value_dim), (q_len, value_dim)
    return [draw(*leading, *shape, dtype=dtype) for shape in shapes]


def with_empty_rows(*shape):
    keep = (torch.rand(*shape) < 0.6).numpy()
    keep[..., 0, :] = False
    return keep


def close(found, expected, tolerance=1e-11):
    for one, right in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, right, rtol=0, atol=tolerance)


def autograd(q, k, v, grad, keep=None, scale=None):
    """What PyTorch's autograd gives through the plain formula."""
    leaves = [torch.tensor(x, requires_grad=True) for x in (q, k, v)]
    mask = None if keep is None else torch.tensor(keep)
    output, _ = plain_attention(*leaves, mask, scale)
    return torch.autograd.grad(output, leaves, torch.tensor(grad))


@softmaxes
@pytest.mark.parametrize("shape", [(5,), (4, 4), (2, 3, 17), (1,), (3, 1), (0, 4)], ids=str)
def test_softmax_backward_is_autograd(back, shape):
    scores, grad = torch.tensor(3 * draw(*shape), requires_grad=True), draw(*shape)
    weights = torch.softmax(scores, -1)
    [expected] = torch.autograd.grad(weights, scores, torch.tensor(grad))
    np.testing.assert_allclose(back(weights.detach().numpy(), grad), expected, atol=1e-12)


@softmaxes
def test_rows_that_cannot_move_have_no_gradient(back):
    weights = np.stack([np.zeros(5), np.eye(5)[2]])
    np.testing.assert_allclose(back(weights, draw(2, 5)), np.zeros((2, 5)), atol=1e-15)


@both
@pytest.mark.parametrize("scale", [None, 0.0, -0.3, 3.0])
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_attention_backward_is_autograd(back, sizes, scale):
    arrays = inputs(*sizes)
    close(back(*arrays, None, scale), autograd(*arrays, None, scale))


@both
@pytest.mark.parametrize(
    "shape", [(9, 17), (3, 9, 17), (2, 1, 1, 17), (1, 3, 9, 17), (2, 3, 9, 1)], ids=str
)
def test_with_a_mask_too(back, shape):
    arrays, keep = inputs((2, 3), 9, 17, 8, 5), with_empty_rows(*shape)
    close(back(*arrays, keep), autograd(*arrays, keep))


def test_pytorchs_own_operator_agrees():
    q, k, v, grad = inputs((2, 3), 7, 9, 4, 5)
    keep = (torch.rand(7, 9) < 0.5).numpy() | np.eye(7, 9, dtype=bool)
    leaves = [torch.tensor(x, requires_grad=True) for x in (q, k, v)]
    output = F.scaled_dot_product_attention(*leaves, attn_mask=torch.tensor(keep), scale=0.6)
    expected = torch.autograd.grad(output, leaves, torch.tensor(grad))
    close(solution.attention_backward(q, k, v, grad, keep, 0.6), expected)


@both
@pytest.mark.parametrize("masked", [False, True])
def test_the_gradients_are_the_finite_differences_of_the_forward_pass(back, masked):
    *tensors, grad = inputs((2,), 3, 4, 2, 3)
    keep = with_empty_rows(3, 4) if masked else None
    found = back(*tensors, grad, keep)
    for i, x in enumerate(tensors):
        for place in np.ndindex(*x.shape):
            ends = []
            for step in (1e-6, -1e-6):
                moved = [y.copy() for y in tensors]
                moved[i][place] += step
                ends.append(float((exact_attention(*moved, keep)[0] * grad).sum()))
            assert found[i][place] == pytest.approx((ends[0] - ends[1]) / 2e-6, abs=1e-8)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("masked", [False, True])
def test_solution_yardstick_and_oracle_agree_in_every_dtype(dtype, masked):
    arrays = inputs((2, 3), 9, 17, 8, 5, dtype=dtype)
    keep = with_empty_rows(2, 1, 9, 17) if masked else None
    found = solution.attention_backward(*arrays, keep)
    for one, right in zip(found, reference.attention_backward(*arrays, keep), strict=True):
        assert one.dtype == right.plain.dtype == dtype
        close([one, right.plain], [right.exact] * 2, TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("garbage", [1e30, -1e30])
def test_what_is_hidden_has_no_influence_and_no_gradient(dtype, garbage):
    q, k, v, grad = inputs((2,), 4, 6, 3, 3, dtype=dtype)
    keep = np.arange(6) < 4
    clean = solution.attention_backward(q, k, v, grad, keep)
    k[:, 4:] = v[:, 4:] = garbage
    found = solution.attention_backward(q, k, v, grad, keep)
    close(found, clean, 1e-6)
    assert not found[1][:, 4:].any() and not found[2][:, 4:].any()


def test_float16_survives_products_beyond_its_range():
    q, k = draw(3, 8, dtype=np.float16) / 128, draw(5, 8, dtype=np.float16) / 128
    grad, v = (256 * np.sign(draw(n, 16, dtype=np.float16)) for n in (3, 5))
    found = solution.attention_backward(q, k, v, grad)
    for one, right in zip(found, raised(reference.attention_backward, q, k, v, grad), strict=True):
        np.testing.assert_allclose(one, right.exact, rtol=2e-3, atol=1)


def test_what_leaves_all_scores_alone_changes_nothing():
    """Scores are bilinear in q and k: scaling one up and the other down moves no score."""
    q, k, v, grad = inputs((2,), 5, 7, 4, 3)
    dq, dk, _ = solution.attention_backward(q, k, v, grad)
    np.testing.assert_allclose((dq * q).sum((1, 2)), (dk * k).sum((1, 2)), atol=1e-12)


def test_inputs_are_left_alone():
    arrays, keep = inputs((2,), 4, 4, 4, 4), with_empty_rows(4, 4)
    before = [x.copy() for x in (*arrays, keep)]
    solution.attention_backward(*arrays, keep, 0.5)
    solution.softmax_backward(arrays[0], arrays[1])
    assert all(np.array_equal(x, y) for x, y in zip((*arrays, keep), before, strict=True))
