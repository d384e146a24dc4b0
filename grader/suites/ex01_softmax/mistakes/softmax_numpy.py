"""Wrong answers to `softmax_numpy`."""

import numpy as np

from grader.judging import mistake

from ..test_softmax import (
    test_numpy_axis,
    test_numpy_large_scores,
    test_numpy_precisions,
    test_numpy_values,
)
from .shared import (
    is_last,
    raised_array,
    shifted_array,
    shifted_array_in_place,
    softmax_of_array,
    summed_array,
    unchanged,
)


@mistake(of="softmax_numpy", caught_by=test_numpy_large_scores)
def no_maximum_subtracted_numpy(x, axis=-1):
    """The maximum is not subtracted before exp, so large scores overflow.

    Subtract x.max(axis, keepdims=True) first: it changes nothing on paper.
    """
    return softmax_of_array(x, axis, shift=unchanged)


@mistake(of="softmax_numpy", caught_by=test_numpy_large_scores)
def straight_from_the_formula_numpy(x, axis=-1):
    """No maximum is subtracted before exp, and float16 is summed in float16.

    Raise float16 to float32, and subtract x.max(axis, keepdims=True): it changes nothing on paper.
    """
    return softmax_of_array(x, axis, widen=unchanged, shift=unchanged)


@mistake(of="softmax_numpy", caught_by=test_numpy_large_scores)
def mean_subtracted_numpy(x, axis=-1):
    """The mean is subtracted before exp, so a score far above the others overflows.

    Subtract x.max(axis, keepdims=True): then no exponent is above 0.
    """
    return softmax_of_array(x, axis, shift=lambda wide, axis: wide - wide.mean(axis, keepdims=True))


@mistake(of="softmax_numpy", caught_by=test_numpy_large_scores)
def global_maximum_numpy(x, axis=-1):
    """One maximum is taken for the whole array: rows of small scores become 0/0, and an empty
    array has none.

    Take the maximum of each row: x.max(axis, keepdims=True).
    """
    return softmax_of_array(x, axis, shift=lambda wide, axis: wide - wide.max())


@mistake(of="softmax_numpy", caught_by=test_numpy_axis)
def axis_ignored_numpy(x, axis=-1):
    """`axis` is ignored: the last axis is used whatever was asked for.

    Hand `axis` to the maximum and to the sum.
    """
    return softmax_of_array(x, -1)


@mistake(of="softmax_numpy", caught_by=test_numpy_precisions)
def half_precision_not_raised_numpy(x, axis=-1):
    """float16 is summed in float16, where 70,000 ones are infinity.

    Compute in float32 (x.astype(np.float32)) and convert the weights back at the end.
    """
    return softmax_of_array(x, axis, widen=unchanged)


@mistake(of="softmax_numpy", caught_by=test_numpy_axis)
def input_overwritten_numpy(x, axis=-1):
    """The scores are overwritten: `x -= top` changes the caller's array.

    Write x = x - top: it makes a new array.
    """
    return softmax_of_array(x, axis, shift=shifted_array_in_place)


@mistake(of="softmax_numpy", caught_by=test_numpy_precisions)
def differences_in_half_precision_numpy(x, axis=-1):
    """float16 is raised after the maximum was subtracted, so the differences are rounded.

    Raise the scores first: x.astype(np.float32), then the maximum.
    """

    def shift(x, axis):
        return raised_array(shifted_array(x, axis))

    return softmax_of_array(x, axis, widen=unchanged, shift=shift)


@mistake(of="softmax_numpy", caught_by=test_numpy_precisions)
def powers_in_half_precision_numpy(x, axis=-1):
    """The exponentials are rounded to float16 before they are summed.

    Convert once, at the end: the smallest of many exponentials are 0 in float16.
    """

    def power(wide):
        return raised_array(np.exp(wide).astype(x.dtype))

    return softmax_of_array(x, axis, power=power)


@mistake(of="softmax_numpy", caught_by=test_numpy_axis)
def float32_overwritten_numpy(x, axis=-1):
    """float32 scores are overwritten: `x.astype(np.float32, copy=False)` is x itself.

    Write wide = wide - top instead of wide -= top: it makes a new array.
    """
    in_place = x.dtype == np.float32
    return softmax_of_array(x, axis, shift=shifted_array_in_place if in_place else shifted_array)


@mistake(of="softmax_numpy", caught_by=test_numpy_precisions)
def float16_overwritten_numpy(x, axis=-1):
    """float16 scores are overwritten: the weights are written into the caller's array.

    Return the new array that astype makes.
    """
    weights = softmax_of_array(x, axis)
    if x.dtype == np.float16:
        x[...] = weights
        return x
    return weights


@mistake(of="softmax_numpy", caught_by=test_numpy_axis)
def overwritten_along_other_axes_numpy(x, axis=-1):
    """The scores are overwritten when `axis` is not the last one.

    Write x = x - top instead of x -= top, whatever `axis` is.
    """
    return softmax_of_array(
        x, axis, shift=shifted_array if is_last(x, axis) else shifted_array_in_place
    )


@mistake(of="softmax_numpy", caught_by=test_numpy_axis)
def axis_ignored_in_float32_numpy(x, axis=-1):
    """`axis` is ignored in float32: the last axis is used whatever was asked for.

    Hand `axis` to the maximum and to the sum, whatever the dtype.
    """
    return softmax_of_array(x, -1 if x.dtype == np.float32 else axis)


@mistake(of="softmax_numpy", caught_by=test_numpy_precisions)
def axis_ignored_in_float16_numpy(x, axis=-1):
    """`axis` is ignored in float16: the last axis is used whatever was asked for.

    Hand `axis` to the maximum and to the sum of the raised scores, too.
    """
    return softmax_of_array(x, -1 if x.dtype == np.float16 else axis)


@mistake(of="softmax_numpy", caught_by=test_numpy_precisions)
def no_maximum_in_float16_numpy(x, axis=-1):
    """float16 is raised to float32, but its maximum is not subtracted, so large scores overflow.

    Subtract the maximum of the raised scores, too.
    """
    return softmax_of_array(x, axis, shift=unchanged if x.dtype == np.float16 else shifted_array)


@mistake(of="softmax_numpy", caught_by=test_numpy_large_scores)
def no_maximum_along_other_axes_numpy(x, axis=-1):
    """The maximum is subtracted along the last axis only; along others large scores overflow.

    Subtract x.max(axis=axis, keepdims=True), with the `axis` that was given.
    """
    return softmax_of_array(x, axis, shift=shifted_array if is_last(x, axis) else unchanged)


@mistake(of="softmax_numpy", caught_by=test_numpy_precisions)
def uniform_in_float16_numpy(x, axis=-1):
    """In float16 every score gets the same weight.

    Raise the scores with x.astype(np.float32), and compute their softmax like any other.
    """
    return (
        np.full_like(x, 1 / x.shape[axis]) if x.dtype == np.float16 else softmax_of_array(x, axis)
    )


@mistake(of="softmax_numpy", caught_by=test_numpy_axis)
def sum_over_the_last_axis_numpy(x, axis=-1):
    """The sum runs over the last axis whatever `axis` is; the maximum does not.

    Hand `axis` to the sum as well: sum(axis, keepdims=True).
    """
    return softmax_of_array(x, axis, total=lambda powers, axis: summed_array(powers, -1))


@mistake(of="softmax_numpy", caught_by=test_numpy_axis)
def maximum_of_the_last_axis_numpy(x, axis=-1):
    """The maximum is taken over the last axis whatever `axis` is; the sum is not.

    Hand `axis` to the maximum as well: it cancels only if it is the same in numerator and sum.
    """
    return softmax_of_array(x, axis, shift=lambda wide, axis: shifted_array(wide, -1))


@mistake(of="softmax_numpy", caught_by=test_numpy_values)
def summed_over_everything_numpy(x, axis=-1):
    """The sum runs over the whole array instead of one row.

    Sum along `axis` only, with keepdims=True.
    """
    return softmax_of_array(x, axis, total=lambda powers, axis: powers.sum())


@mistake(of="softmax_numpy", caught_by=test_numpy_values)
def denominator_not_kept_numpy(x, axis=-1):
    """The sum loses its axis, and is then lined up with the wrong one.

    Keep the axis: sum(axis, keepdims=True).
    """
    return softmax_of_array(x, axis, total=np.sum)


@mistake(of="softmax_numpy", caught_by=test_numpy_values)
def maximum_not_kept_numpy(x, axis=-1):
    """The maximum loses its axis, and is then lined up with the wrong one.

    Keep the axis: x.max(axis, keepdims=True).
    """
    return softmax_of_array(x, axis, shift=lambda wide, axis: wide - wide.max(axis))


@mistake(of="softmax_numpy", caught_by=test_numpy_values)
def divided_by_the_norm_numpy(x, axis=-1):
    """The exponentials are divided by their Euclidean norm instead of their sum.

    Divide by the sum: it is the weights that sum to one, and not their squares.
    """
    return softmax_of_array(
        x, axis, total=lambda powers, axis: summed_array(powers**2, axis) ** 0.5
    )


@mistake(of="softmax_numpy", caught_by=test_numpy_values)
def first_left_out_of_the_sum_numpy(x, axis=-1):
    """The sum leaves out the first exponential: its loop begins at 1.

    Begin at 0, or take powers.sum(axis, keepdims=True).
    """
    return softmax_of_array(
        x, axis, total=lambda powers, axis: summed_array(np.delete(powers, 0, axis), axis)
    )


@mistake(of="softmax_numpy", caught_by=test_numpy_large_scores)
def scores_clamped_numpy(x, axis=-1):
    """Scores are cut off at -50 and 50, instead of having the maximum subtracted.

    Leave them as they are, and subtract x.max(axis, keepdims=True): differences count, not sizes.
    """
    return softmax_of_array(x, axis, shift=lambda wide, axis: wide.clip(-50, 50))


@mistake(of="softmax_numpy", caught_by=test_numpy_values)
def no_exponential_numpy(x, axis=-1):
    """The scores themselves are divided by their sum: exp is missing.

    Take exp first: it makes every number positive, and the weights sum to one.
    """
    return softmax_of_array(x, axis, shift=unchanged, power=unchanged)


@mistake(of="softmax_numpy", caught_by=test_numpy_values)
def not_divided_numpy(x, axis=-1):
    """The exponentials are returned without the division by their sum.

    Divide by powers.sum(axis, keepdims=True).
    """
    return softmax_of_array(x, axis, total=lambda powers, axis: 1)


@mistake(of="softmax_numpy", caught_by=test_numpy_axis)
def axis_not_moved_back_numpy(x, axis=-1):
    """`axis` is moved to the end and never moved back.

    Move it back at the end: np.moveaxis(weights, -1, axis). Or leave it: max and sum take any axis.
    """
    return softmax_of_array(np.moveaxis(x, axis, -1), -1)


@mistake(of="softmax_numpy", caught_by=test_numpy_precisions)
def epsilon_in_the_denominator_numpy(x, axis=-1):
    """A small number is added to the denominator, so that the weights sum to less than one.

    Leave it out: with the maximum subtracted the sum is at least 1.
    """
    return softmax_of_array(x, axis, total=lambda powers, axis: summed_array(powers, axis) + 1e-6)


@mistake(of="softmax_numpy", caught_by=test_numpy_precisions)
def float64_lowered_numpy(x, axis=-1):
    """float64 is computed in float32, and the digits are gone.

    Raise float16 only; leave float32 and float64 as they are.
    """
    return softmax_of_array(x, axis, widen=lambda x: x.astype(np.float32))


@mistake(of="softmax_numpy", caught_by=test_numpy_precisions)
def dtype_promoted_numpy(x, axis=-1):
    """The weights of float16 scores come back in float32.

    Convert the result to the dtype of the input: .astype(x.dtype).
    """
    return softmax_of_array(x, axis, narrow=unchanged)
