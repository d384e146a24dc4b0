"""When two values differ beyond rounding."""

import math

import numpy as np
import pytest
import torch
from torch import float16, float32, float64, tensor

from grader.authoring.recorder import count_recorded_elements
from grader.diagnosis.coarse_values import compare_numbers_coarsely
from grader.diagnosis.copied_values import compare_copied_values, copy_value
from grader.judging.trials import Summed


def differ(right, got, near=None, scale=0.0):
    return compare_copied_values(
        copy_value(right),
        copy_value(got),
        near if near is None else copy_value(near),
        scale,
    )


UNIT = 2.0**-24
ALIKE = [
    (tensor([1.0, math.nan, math.inf]), tensor([1.0, math.nan, math.inf])),
    (tensor([1.0, 1e-9]), tensor([1.0 + 16 * UNIT, 0.0])),
    (tensor([1.0], dtype=float64), tensor([1.0 + 1e-11], dtype=float64)),
    (tensor([1.0, 0.5], dtype=float16), tensor([1.0, 0.5 + 2.0**-11], dtype=float16)),
    (tensor([]), tensor([])),
    (torch.empty(2, device="meta"), torch.empty(2, device="meta")),
    ([1, "x", None], [1, "x", None]),
    (math.nan, math.nan),
    (object(), object()),
]
DIFFERENT = [
    (tensor([1.0]), tensor([1.0], dtype=float64), "Tensor float64 (1,), not Tensor float32 (1,)"),
    (tensor([1.0]), tensor([[1.0]]), "Tensor float32 (1, 1), not Tensor float32 (1,)"),
    (tensor([1.0]), torch.empty(1, device="meta"), "Tensor float32 (1,) on meta, not"),
    (tensor([1.0]), tensor([1.0], requires_grad=True), "(1,) that requires a gradient, not"),
    (tensor([1.0]), np.ones(1, np.float32), "ndarray float32 (1,), not Tensor float32 (1,)"),
    (tensor([1.0, 2.0]), tensor([1.0, math.nan]), "[1] is nan, not 2.0"),
    (tensor([math.inf]), tensor([-math.inf]), "[0] is -inf, not inf"),
    (tensor([1.0]), tensor([1.0 + 1e-4]), "differs by 0.0001, beyond"),
    (tensor([1.0], dtype=float16), tensor([1.01], dtype=float16), "differs by 0.00977, beyond"),
    (tensor([True, False]), tensor([True, True]), "1 entries differ"),
    ([1, 2], [1, 3], "[1]: 3, not 2"),
    ([1, 2], [1], "list of 1, not list of 2"),
    ((1,), [1], "list of 1, not tuple of 1"),
    (1, 1.0, "1.0, not 1"),
    ({"a": 1}, {"b": 1}, "dict of 1, not dict of 1"),
    (None, "raises ValueError", "'raises ValueError', not None"),
]


@pytest.mark.parametrize("right, got", ALIKE)
def test_what_differs_by_rounding_is_alike(right, got):
    assert differ(right, got) == ""


@pytest.mark.parametrize("right, got, why", DIFFERENT)
def test_what_differs_is_said(right, got, why):
    assert why in differ(right, got)


def test_where_the_last_digit_of_the_inputs_matters_more_is_allowed():
    right, got, near = tensor([1.0]), tensor([1.001]), tensor([1.0005])
    assert differ(right, got)
    assert differ(right, got, near) == ""
    assert differ(right, tensor([1.1]), near)


def test_half_precision_computed_in_single_may_leave_a_rest_where_zero_is_due():
    right, got = tensor([0.0], dtype=float16), tensor([1e-6], dtype=float16)
    assert differ(right, got)
    assert differ(right, got, scale=2.0) == ""
    assert differ(right, got, near=tensor([1.0], dtype=float16)), "no input moves in half precision"


def test_sums_may_differ_by_the_rounding_of_their_parts():
    right, got = tensor([0.0], dtype=float16), tensor([2.0**-9], dtype=float16)
    assert differ([right], [got]), "a value is rounded once"
    assert differ(Summed([right]), Summed([got])) == ""
    assert differ(Summed([right]), Summed([tensor([0.01], dtype=float16)]))
    assert differ([tensor([0.0])], [tensor([1e-7])])
    assert differ(Summed([tensor([0.0])]), Summed([tensor([1e-7])])) == ""
    assert differ(Summed([tensor([0.0])]), Summed([tensor([1e-5])]))


def test_a_value_is_kept_as_it_was():
    x = torch.ones(2)
    before = copy_value([x])
    x.zero_()
    assert compare_copied_values(before, copy_value([torch.ones(2)])) == ""


def test_the_numbers_in_the_arguments_are_counted():
    given = [torch.ones(2, 3), np.ones(4), [[1, 2], [3, 4]], {"keep": None}, 7]
    assert count_recorded_elements(given) == 6 + 4 + 4 + 1 + 1


def test_float32_is_named_as_torch_names_it():
    assert str(copy_value(torch.ones(2, dtype=float32))) == "Tensor float32 (2,)"


def test_a_row_that_is_nan_in_both_is_not_compared_coarsely():
    one = copy_value(tensor([[math.nan, 0.0], [1.0, 2.0]]))
    spread = copy_value(tensor([[math.nan, math.nan], [1.0, 2.0]]))
    clean = copy_value(tensor([[0.0, 0.0], [1.0, 2.0]]))
    other = copy_value(tensor([[math.nan, 0.0], [1.0, 3.0]]))
    assert compare_numbers_coarsely(one, spread) == ""
    assert compare_numbers_coarsely(one, clean) != ""
    assert compare_numbers_coarsely(one, other) != ""


@pytest.mark.parametrize(("other", "alike"), [(1e-6, True), (1e-3, False)])
def test_of_a_gradient_that_is_zero_only_rounding_is_left(other, alike):
    """Each answer rounds in its own way, by as much as the other gradients are large."""
    one, two = (Summed([torch.tensor([x, 0.0]), torch.tensor([4.0])]) for x in (-1e-6, other))
    assert (not compare_numbers_coarsely(copy_value(one), copy_value(two))) is alike
    assert compare_numbers_coarsely(copy_value(list(one)), copy_value(list(two)))


@pytest.mark.parametrize(
    ("right", "got"),
    [
        ([tensor([1.0, 2.0])], [tensor([1.0, 2.0]), tensor([3.0, 4.0])]),
        ({"weight": tensor([1.0, 2.0])}, {"mask": tensor([1.0, 2.0])}),
        ({"weight": tensor([1.0])}, {"mask": tensor([1.0]), "weight": tensor([1.0])}),
    ],
)
def test_values_of_another_number_or_with_other_names_differ(right, got):
    assert compare_numbers_coarsely(copy_value(right), copy_value(got))
    assert not compare_numbers_coarsely(copy_value(got), copy_value(got))
