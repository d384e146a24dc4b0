"""The softmax oracle, its yardstick and SciPy agree."""

import numpy as np
import pytest
import scipy.optimize
import scipy.special
import torch

import reference
from reference.ex01_softmax import exact_softmax

CASES = [((7,), -1), ((3, 5), 0), ((2, 3, 4), 1), ((2, 3, 4), -2), ((1, 1), 0)]


@pytest.mark.parametrize("shape, axis", CASES)
@pytest.mark.parametrize("size", [1.0, 1e4])
def test_oracle_yardstick_and_scipy_agree(shape, axis, size):
    x = np.random.default_rng(0).normal(size=shape) * size
    exact = scipy.special.softmax(x, axis)
    for expected in (
        reference.softmax_numpy(x, axis),
        reference.softmax(torch.from_numpy(x), axis),
    ):
        np.testing.assert_allclose(expected.exact, exact, atol=1e-12)
        np.testing.assert_allclose(np.asarray(expected.plain), exact, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_the_oracle_sees_the_rounded_input_and_the_yardstick_keeps_its_dtype(dtype):
    x = torch.randn(4, 9, dtype=torch.float64)
    expected = reference.softmax(x.to(dtype))
    np.testing.assert_array_equal(expected.exact, exact_softmax(x.to(dtype).double().numpy()))
    assert expected.plain.dtype == dtype


def test_a_raised_yardstick_survives_what_overflows():
    half = np.zeros((1, 70_000), np.float16)
    with np.errstate(over="ignore"):
        assert reference.softmax_numpy(half).plain.max() == 0  # the sum of 70,000 ones is infinite
    raised = reference.raised(reference.softmax_numpy, half)
    assert raised.plain.dtype == np.float16
    np.testing.assert_allclose(raised.plain.astype(float), 1 / 70_000, rtol=1e-2)


def test_gradients_agree_with_finite_differences_of_the_oracle():
    x, upstream = np.random.default_rng(1).normal(size=(2, 3, 4))
    [expected] = reference.softmax_gradients(
        torch.from_numpy(x), dim=0, upstream=torch.from_numpy(upstream)
    )
    slope = scipy.optimize.approx_fprime(
        x.ravel(), lambda flat: (exact_softmax(flat.reshape(x.shape), 0) * upstream).sum(), 1e-7
    )
    np.testing.assert_allclose(expected.exact.ravel(), slope, atol=1e-6)
    assert expected.gradient
