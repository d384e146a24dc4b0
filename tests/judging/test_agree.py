"""The judges are judged: what agrees, what does not, and in which words."""

import re

import numpy as np
import pytest
import torch

from grader.core.errors import GraderFault
from grader.judging import agree, backward, expect, gradcheck, rejects, same, untouched
from grader.judging.case import CURRENT_CASE, Case, StudentFault, fail_check, find_case
from reference.expected import Expected

X = torch.linspace(-1, 1, 12, dtype=torch.float64).reshape(3, 4)


@pytest.fixture(autouse=True)
def case():
    CURRENT_CASE.set(Case(last_call="f(float64 (3, 4))"))
    return find_case()


def expected(x: torch.Tensor, dtype=torch.float64, magnitude=1.0, **more) -> Expected:
    return Expected(x.double().numpy(), x.to(dtype), magnitude, **more)


def message(got, right, **more) -> str:
    with pytest.raises(StudentFault) as caught:
        agree(got, right, **more)
    return str(caught.value)


def changed(x: torch.Tensor, place: tuple, value: float) -> torch.Tensor:
    x = x.clone()
    x[place] = value
    return x


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_the_yardstick_itself_agrees(dtype):
    agree(X.to(dtype), expected(X.to(dtype), dtype))


@pytest.mark.parametrize(
    "got, says",
    [
        (None, "out is None, but should be a tensor  [f(float64 (3, 4))]"),
        (X.tolist(), "out is a list of 3, but should be a tensor  [f(float64 (3, 4))]"),
        (X.numpy(), "out is an array, but should be a tensor  [f(float64 (3, 4))]"),
        (X[0], "out.shape is (4,), but should be (3, 4)  [f(float64 (3, 4))]"),
        (X[:1], "out.shape is (1, 4), but should be (3, 4)  [f(float64 (3, 4))]"),
        (X.float(), "out.dtype is float32, but should be float64  [f(float64 (3, 4))]"),
        (
            X.to("meta"),
            "out.device is meta, but should be cpu  [f(float64 (3, 4))]",
        ),
    ],
)
def test_type_shape_dtype_and_device_come_first(got, says):
    assert message(got, expected(X)) == says


def test_a_difference_is_said_in_two_lines():
    assert message(changed(X, (1, 2), 5.0), expected(X)).splitlines() == [
        "out[1, 2] is 5, but should be 0.090909091  [f(float64 (3, 4))]",
        "1 of 12 entries differ; largest error 4.9, allowed 1e-10.",
    ]


def test_numbers_are_told_apart_however_close_they_are():
    says = message(changed(X, (1, 2), float(X[1, 2]) * (1 + 2e-9)), expected(X, magnitude=0.0))
    assert "out[1, 2] is 0.09090909109" in says
    assert "should be 0.09090909090909" in says


@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
def test_what_is_not_finite_agrees_with_nothing(value):
    assert "1 of 12 entries differ." in message(changed(X, (0, 0), value), expected(X))


def test_infinity_agrees_with_itself_only():
    right = changed(X, (0, 0), -torch.inf)
    agree(right.clone(), expected(right))
    assert "out[0, 0] is inf, but should be -inf" in message(-right, expected(right))
    assert "out[0, 0] is -1e+09" in message(changed(X, (0, 0), -1e9), expected(right))


def test_nan_in_the_right_answer_is_our_fault():
    with pytest.raises(GraderFault):
        agree(X + 1, Expected(X.numpy(), changed(X, (0, 0), torch.nan), 1.0))


def test_booleans_and_integers_agree_exactly():
    keep = X > 0
    agree(keep, Expected(keep.numpy(), keep, 1.0))
    says = message(~keep, Expected(keep.numpy(), keep, 1.0))
    assert says.startswith("out[0, 0] is True, but should be False")


def test_one_broken_row_does_not_drown_in_the_others():
    right = torch.zeros(512, 64, dtype=torch.float64)
    plain, broken = right.clone(), right.clone()
    plain[:, 0] = 1e-3  # one entry of each row is this far off, so that many may be ...
    broken[7] = 1e-3  # ... but not all of one row
    says = message(broken, Expected(right.numpy(), plain, 1.0))
    assert "out[7, 0] is 0.001" in says
    assert "RMS error of the worst row 0.001, allowed 0.0006" in says


def test_a_small_bias_in_half_precision_is_seen_on_many_elements():
    right = torch.randn(64, 64, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    yardstick = Expected(right.numpy(), right.bfloat16(), float(right.abs().max()))
    agree(right.bfloat16(), yardstick)
    assert "mean error" in message((right * 1.01).bfloat16(), yardstick)


def test_gradients_get_a_little_more_room():
    right = torch.tensor([1.0], dtype=torch.float64)
    got = torch.tensor([1 + 5 * 2.0**-10]).half()
    plain = torch.tensor([1 + 2 * 2.0**-10]).half()
    agree(got, Expected(right.numpy(), plain, 0.0, gradient=True))
    message(got, Expected(right.numpy(), plain, 0.0))


def test_values_alone_set_shape_and_values_with_the_floor_of_the_answer():
    agree(torch.full((4,), 1 + 5e-7), torch.ones(4))
    agree(torch.full((4,), 1.0).half(), torch.ones(4))
    assert "row sums[0]" in message(torch.full((4,), 1.001), torch.ones(4), says="row sums")
    assert "shape" in message(torch.ones(4, 1), torch.ones(4))


def test_within_is_the_allowance_for_values_alone():
    agree(torch.full((4,), 1.01), torch.ones(4), within=0.02)
    assert "allowed 0.02" in message(torch.full((4,), 1.03), torch.ones(4), within=0.02)
    assert "nan" in message(torch.full((4,), torch.nan), torch.ones(4), within=0.02)


def test_tuples_agree_part_by_part():
    agree((X, X), (expected(X), expected(X)))
    message((X, X + 1), (expected(X), expected(X)))


def test_the_call_that_gave_the_answer_is_named(case):
    other = X.clone()
    case.returned(other, "weights", "g(float64 (3, 4), dim=0)")
    case.last_call = "something else"
    says = message(other, expected(X + 1))
    assert says.startswith("weights[0, 0] is")
    assert "[g(float64 (3, 4), dim=0)]" in says


@pytest.mark.parametrize("right", [X, X.numpy(), None, 3, (1, 2), "flash"])
def test_same_is_equal_to_the_last_bit(right):
    same(right, right)


@pytest.mark.parametrize(
    "got, right", [(X + 1e-15, X), (X.float(), X), (None, X), (3.0, 3), (True, 1), ("a", "b")]
)
def test_same_refuses_everything_else(got, right):
    with pytest.raises(StudentFault, match="but should be"):
        same(got, right)


def test_expect_says_the_sentence():
    expect(True, "never said")
    with pytest.raises(StudentFault, match=r"The cache is full  \[f\("):
        expect(False, "The cache is full")


def raising(kind: str, detail: str):
    def call():
        raise StudentFault("", kind=kind, detail=detail)

    return call


def test_rejects_wants_a_value_error_with_the_numbers():
    rejects(raising("ValueError", "width 10 is not divisible by 3 heads"), 10, 3)


@pytest.mark.parametrize(
    "call, says",
    [
        (lambda: 1, "no error, but should be a ValueError that names 10 and 3"),
        (raising("TypeError", "oops"), "raised TypeError, but should raise ValueError"),
        (raising("ValueError", "10 and 31"), "does not name 3"),
        (raising("ValueError", ""), "does not name 10 and 3"),
    ],
)
def test_rejects_refuses_everything_else(call, says):
    with pytest.raises(StudentFault, match=says):
        rejects(call, 10, 3)


@pytest.mark.parametrize(
    "detail",
    [
        "shapes (2, 6, 9, 10) and (2, 6, 9, 3) of float32 and int64 do not fit",
        f"10 and 3; the sequences here are {list(range(100, 116))}",
        "every size that was given: 3 10 " + " ".join(map(str, range(100, 200))),
    ],
)
def test_rejects_takes_other_numbers_in_the_message(case, detail):
    case.calls.add(f"g(float64 {tuple(range(100, 200))})" if "every" in detail else "g(x)")
    rejects(raising("ValueError", detail), 10, 3)


@pytest.mark.parametrize("numbers", [range(20), range(500), range(3, 40)])
def test_rejects_refuses_a_message_with_numbers_at_random(numbers):
    detail = ", ".join(f"q{n}" for n in numbers)
    with pytest.raises(StudentFault, match="numbers that stand in no call: name 10 and 3"):
        rejects(raising("ValueError", detail), 10, 3)


def test_rejects_lets_other_faults_through():
    def hang():
        raise fail_check("no answer within 10 s", "f()")

    with pytest.raises(StudentFault, match="no answer"):
        rejects(hang, 10, 3)


def test_untouched_names_what_was_changed(case):
    with pytest.raises(StudentFault, match="the call changed q, v in place"):
        untouched(lambda: case.modified.extend(["q", "v", "q"]))
    assert untouched(lambda: 5) == 5


def test_backward_gives_the_gradients():
    x = X.clone().requires_grad_()
    [got] = backward(x * 3, x, upstream=torch.ones_like(X))
    assert torch.equal(got, torch.full_like(X, 3.0))


def test_backward_hands_over_one_number_expanded():
    x, given = X.clone().requires_grad_(), []
    y = x * 3
    y.register_hook(lambda gradient: given.append(gradient.stride()))
    [got] = backward(y, x, upstream=torch.tensor(2.0).double().expand(X.shape))
    assert torch.equal(got, torch.full_like(X, 6.0)) and given == [(0, 0)]


def test_backward_says_where_no_gradient_flows():
    x, y = X.clone().requires_grad_(), X.clone().requires_grad_()
    with pytest.raises(StudentFault, match="no gradient flows through out"):
        backward(X * 3, x, upstream=X)
    with pytest.raises(StudentFault, match=r"no gradient reaches input 2 \(float64 \(3, 4\)\)"):
        backward(x * 3, x, y, upstream=X)
    with pytest.raises(StudentFault, match=r"out.shape is \(3,\), but should be \(3, 4\)"):
        backward(x.sum(-1), x, upstream=X)


def test_backward_names_an_input_as_the_parameter_it_was_given_for(case):
    x, y = X.clone().requires_grad_(), X.clone().requires_grad_()
    case.learns(y, "k")
    with pytest.raises(StudentFault, match=r"no gradient reaches k \(float64"):
        backward(x * 3, x, y, upstream=X)
    [got] = backward(y * 3, y, upstream=X)
    assert case.origin(got)[0] == "gradient of k"


class _Wrong(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g


def test_gradcheck_refuses_a_wrong_gradient():
    x = X.clone().requires_grad_()
    gradcheck(lambda x: x.square(), x)
    with pytest.raises(
        StudentFault, match=r"by finite differences\)\[0, 0\] is 0.5, but should be 1"
    ):
        gradcheck(_Wrong.apply, x)
    with pytest.raises(StudentFault, match="no gradient flows"):
        gradcheck(lambda x: x.detach() * 2, x)


def test_arrays_are_judged_like_tensors():
    agree(X.numpy(), Expected(X.numpy(), X.numpy(), 1.0))
    says = message(X.numpy().astype(np.float32), Expected(X.numpy(), X.numpy(), 1.0))
    assert "out.dtype is float32, but should be float64" in says


def test_an_error_that_is_just_too_large_is_not_written_as_what_is_allowed():
    plain = torch.tensor([1.0, 1 + 1e-3])
    right = Expected(np.ones(2), plain, 0.0)
    says = message(torch.tensor([1.0, 1 + 4.004e-3]), right)
    assert "largest error 0.004, allowed 0.004" not in says
    assert re.search(r"largest error 0\.0040\d+, allowed 0\.004", says)
