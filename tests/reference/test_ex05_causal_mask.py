"""Oracle, yardstick and solution of ex05 agree, and PyTorch's fused operator agrees with them."""

import doctest
import importlib.util
import re
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch.nn.attention.bias import causal_lower_right

from reference import ex05_causal_mask as reference
from reference.expected import f64, raised

SOURCE = Path(__file__).parents[2] / "solutions" / "ex05_causal_mask.py"
spec = importlib.util.spec_from_file_location("solution_ex05", SOURCE)
solution = importlib.util.module_from_spec(spec)
spec.loader.exec_module(solution)

LENGTHS = [(1, 1), (4, 4), (2, 5), (5, 2), (1, 7), (7, 1), (0, 3), (3, 0), (17, 65), (65, 17)]
# Around the solution's chunks of 64 rows: below, at, above, and empty rows that do not divide.
LONG = [(63, 63), (64, 64), (65, 65), (130, 130), (70, 200), (200, 70), (64, 1), (3, 0), (0, 3)]
TOLERANCE = {torch.float64: 1e-12, torch.float32: 1e-5, torch.float16: 4e-3, torch.bfloat16: 4e-2}


def draw(*shapes, dtype=torch.float64):
    generator = torch.Generator().manual_seed(5)
    return [
        torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype) for shape in shapes
    ]


def qkv(q_len, k_len, leading=(2, 3), dim=8, value_dim=5, dtype=torch.float64):
    shapes = (*leading, q_len, dim), (*leading, k_len, dim), (*leading, k_len, value_dim)
    return draw(*shapes, dtype=dtype)


def fused(q, k, v):
    """PyTorch's operator under PyTorch's own bottom-right mask; the operator zeroes empty rows."""
    keep = torch.ones(q.shape[-2], k.shape[-2]).tril(k.shape[-2] - q.shape[-2]).bool()
    return F.scaled_dot_product_attention(q, k, v, attn_mask=keep)


def close(got, want, atol=1e-12):
    torch.testing.assert_close(torch.as_tensor(got), torch.as_tensor(want), rtol=0, atol=atol)


@pytest.mark.parametrize(("q_len", "k_len"), LENGTHS)
def test_causal_mask_is_the_same_in_oracle_yardstick_and_solution(q_len, k_len):
    expected = reference.causal_mask(q_len, k_len)
    got = solution.causal_mask(q_len, k_len)
    assert got.dtype == expected.plain.dtype == torch.bool
    assert np.array_equal(expected.plain, expected.exact)
    assert np.array_equal(got, expected.exact)


@pytest.mark.parametrize(("q_len", "k_len"), [(4, 4), (2, 5), (1, 7)])
def test_causal_mask_is_the_lower_right_one_of_pytorch(q_len, k_len):
    lower_right = causal_lower_right(q_len, k_len)._materialize()
    assert torch.equal(solution.causal_mask(q_len, k_len), lower_right)


def test_causal_mask_of_more_queries_than_keys_begins_with_rows_of_nothing():
    want = [[False, False], [False, False], [True, False], [True, True]]
    assert solution.causal_mask(4, 2).tolist() == want
    assert reference.causal_mask(4, 2).exact.tolist() == want


@pytest.mark.parametrize("window", [1, 2, 3, 64, 1000])
@pytest.mark.parametrize(("q_len", "k_len"), LENGTHS)
def test_window_is_the_same_in_oracle_yardstick_and_solution(q_len, k_len, window):
    expected = reference.sliding_window_mask(q_len, k_len, window)
    got = solution.sliding_window_mask(q_len, k_len, window)
    assert got.dtype == expected.plain.dtype == torch.bool
    assert np.array_equal(expected.plain, expected.exact)
    assert np.array_equal(got, expected.exact)


def test_window_holds_the_last_keys_with_the_own_among_them():
    want = [[0, 1, 1, 0], [0, 0, 1, 1]]
    assert solution.sliding_window_mask(2, 4, window=2).int().tolist() == want
    assert reference.sliding_window_mask(2, 4, window=2).exact.astype(int).tolist() == want


def test_window_of_one_is_the_query_itself():
    assert torch.equal(solution.sliding_window_mask(4, 4, window=1), torch.eye(4).bool())


def test_masks_are_built_on_the_device_that_was_asked_for():
    masks = [
        solution.causal_mask(2, 3, device="meta"),
        solution.sliding_window_mask(2, 3, 1, device="meta"),
        reference.plain_sliding_window_mask(2, 3, 1, device="meta"),
    ]
    assert [mask.device.type for mask in masks] == ["meta"] * 3


@pytest.mark.parametrize(("q_len", "k_len"), LENGTHS + LONG)
def test_attention_is_the_same_in_oracle_yardstick_solution_and_the_fused_operator(q_len, k_len):
    q, k, v = qkv(q_len, k_len)
    expected = reference.causal_attention(q, k, v)
    close(expected.plain, expected.exact)
    close(solution.causal_attention(q, k, v), expected.exact)
    close(fused(q, k, v), expected.exact)


@pytest.mark.parametrize(
    "leading",
    [((), (), ()), ((0, 2), (0, 2), (0, 2)), ((1,), (1,), (1,)), ((2, 1), (3,), (2, 3)),
     ((2, 3, 1, 2), (2, 3, 1, 2), (2, 3, 1, 2))],
)  # fmt: skip
@pytest.mark.parametrize(("q_len", "k_len"), [(3, 5), (5, 3)])
def test_any_leading_dimensions_and_their_broadcast(leading, q_len, k_len):
    shapes = [(*leading[0], q_len, 4), (*leading[1], k_len, 4), (*leading[2], k_len, 6)]
    q, k, v = draw(*shapes)
    expected = reference.causal_attention(q, k, v)
    assert expected.exact.shape == (*np.broadcast_shapes(*leading), q_len, 6)
    close(expected.plain, expected.exact)
    close(solution.causal_attention(q, k, v), expected.exact)


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_dtype_is_kept_and_the_values_are_as_good_as_it_allows(dtype):
    q, k, v = qkv(70, 90, dtype=dtype)
    expected = reference.causal_attention(q, k, v)
    got = solution.causal_attention(q, k, v)
    assert got.dtype == expected.plain.dtype == dtype
    close(f64(got), expected.exact, atol=TOLERANCE[dtype])
    close(f64(expected.plain), expected.exact, atol=2 * TOLERANCE[dtype])


def test_half_precision_survives_products_of_256s():
    q, k, v = qkv(5, 5, dim=64, dtype=torch.float16)
    q, k = q.sign() * 256, k.sign() * 256  # a score before the scale is up to 2**22
    expected = raised(reference.causal_attention, q, k, v)
    close(f64(solution.causal_attention(q, k, v)), expected.exact, atol=4e-3)
    close(f64(expected.plain), expected.exact, atol=4e-3)


@pytest.mark.parametrize(("q_len", "k_len"), [(6, 6), (70, 90), (200, 70), (3, 0)])
def test_rows_before_the_first_key_are_zero_and_no_others(q_len, k_len):
    q, k, v = qkv(q_len, k_len)
    zero = (solution.causal_attention(q, k, v) == 0).all(-1)  # (2, 3, Lq)
    assert torch.equal(zero, (torch.arange(q_len) < q_len - k_len).expand(2, 3, q_len))


@pytest.mark.parametrize("poison", [-1e30, 1e30])
@pytest.mark.parametrize("seen", [1, 3, 66])
@pytest.mark.parametrize("answer", ["solution", "oracle"])
def test_what_stands_behind_the_mask_has_no_influence(answer, seen, poison):
    q, k, v = qkv(70, 70)
    clean = fused(q, k, v)[..., :seen, :]
    k[..., seen:, :] = v[..., seen:, :] = poison
    answers = {
        "solution": lambda: solution.causal_attention(q, k, v),
        "oracle": lambda: reference.exact_causal_attention(f64(q), f64(k), f64(v)),
    }
    with np.errstate(all="ignore"):
        close(answers[answer]()[..., :seen, :], clean)


def test_a_row_that_sees_nothing_may_hold_anything():
    q, k, v = qkv(5, 3)
    q[..., :2, :] = torch.nan
    inputs = [x.requires_grad_() for x in (q, k, v)]
    output = solution.causal_attention(*inputs)
    gradients = torch.autograd.grad(output.sum(), inputs)
    assert not output[..., :2, :].any()
    assert all(gradient.isfinite().all() for gradient in gradients)


def test_inputs_that_are_strided_or_expanded_are_read_and_left_alone():
    base = draw((2, 70, 3, 8))[0]
    q = base.transpose(1, 2)  # (2, 3, 70, 8)
    k, v = base[:1, :, :1].transpose(1, 2).expand(2, 3, 70, 8), base[..., ::2].transpose(1, 2)
    before = base.clone()
    close(solution.causal_attention(q, k, v), fused(q, k, v))
    assert torch.equal(base, before)


@pytest.mark.parametrize(("q_len", "k_len"), [(4, 4), (2, 4), (4, 2)])
def test_gradients_agree_with_finite_differences_of_the_oracle(q_len, k_len):
    inputs = qkv(q_len, k_len, leading=(2,), dim=3, value_dim=2)
    (upstream,) = draw((2, q_len, 2))
    expected = reference.causal_attention_gradients(*inputs, upstream=upstream)
    leaves = [x.clone().requires_grad_() for x in inputs]
    got = torch.autograd.grad(solution.causal_attention(*leaves), leaves, upstream)
    for i, gradient in enumerate(got):
        differences = central_differences([f64(x) for x in inputs], i, f64(upstream))
        close(expected[i].exact, differences, atol=1e-8)
        close(gradient, expected[i].exact)


def central_differences(inputs, i, upstream, step=1e-5):
    """The gradient of sum(upstream * oracle) with respect to input `i`, one entry at a time."""
    gradient = np.zeros_like(inputs[i])
    for at in np.ndindex(*gradient.shape):
        sides = []
        for sign in (1, -1):
            moved = [x.copy() for x in inputs]
            moved[i][at] += sign * step
            sides.append((upstream * reference.exact_causal_attention(*moved)).sum())
        gradient[at] = (sides[0] - sides[1]) / (2 * step)
    return gradient


@pytest.mark.parametrize(("q_len", "k_len"), [(70, 70), (70, 90), (90, 70)])
def test_gradients_pass_through_the_chunks(q_len, k_len):
    inputs = qkv(q_len, k_len)
    (upstream,) = draw((2, 3, q_len, 5))
    expected = reference.causal_attention_gradients(*inputs, upstream=upstream)
    leaves = [x.clone().requires_grad_() for x in inputs]
    got = torch.autograd.grad(solution.causal_attention(*leaves), leaves, upstream)
    for gradient, want in zip(got, expected, strict=True):
        close(gradient, want.exact)


def test_the_example_of_the_lesson_is_true():
    fences = re.findall(r"```pycon\n(.*?)```", re.sub(r"(?m)^# ?", "", SOURCE.read_text()), re.S)
    names = vars(solution) | {"np": np, "torch": torch}
    examples = doctest.DocTestParser().get_doctest("".join(fences), names, "lesson", None, None)
    assert len(examples.examples) == 10  # five in each language
    assert doctest.DocTestRunner().run(examples).failed == 0
