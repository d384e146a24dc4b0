"""Wrong answers to `attention_numpy`."""

import numpy as np

from grader.judging import mistake
from grader.judging.one_place import written_over

from ..test_sdpa import (
    test_dtype,
    test_empty,
    test_half_precision,
    test_hidden,
    test_manners,
    test_numpy_mask,
    test_numpy_scale,
    test_numpy_values,
)
from .shared import (
    answer,
    attention_of_arrays,
    fit,
    scored,
    summed_array,
    unchanged,
    without_nan_in_array,
)


def shifted_by_the_bare_maximum(shown):
    return shown - shown.max(-1, keepdims=True)


def summed_bare(powers):
    return powers.sum(-1, keepdims=True)


@mistake(of="attention_numpy", caught_by=test_numpy_values)
def all_axes_turned_numpy(q, k, v, keep=None, scale=None):
    """`k.T` turns all axes around, batch and heads too.

    Swap only the last two: np.swapaxes(k, -1, -2).
    """
    fit(q, k, v)
    return attention_of_arrays(q, np.swapaxes(k.T, -1, -2), v, keep, scale)


@mistake(of="attention_numpy", caught_by=test_numpy_values)
def epsilon_in_the_denominator_numpy(q, k, v, keep=None, scale=None):
    """A small number is added to the sum of the row, so that its weights sum to less than one.

    Divide by the sum itself, and by 1 in a row whose sum is 0.
    """
    return attention_of_arrays(
        q, k, v, keep, scale, total=lambda powers: summed_bare(powers) + 1e-6
    )


@mistake(of="attention_numpy", caught_by=test_numpy_scale)
def global_maximum_numpy(q, k, v, keep=None, scale=None):
    """One maximum is taken for the whole table, so that rows of small scores become 0/0.

    Take the maximum of each row: scores.max(axis=-1, keepdims=True).
    """

    def shift(shown):
        return shown - shown.max(initial=np.finfo(shown.dtype).min)

    return attention_of_arrays(
        q, k, v, keep, scale, shift=shift, total=summed_bare, clear=without_nan_in_array
    )


@mistake(of="attention_numpy", caught_by=test_numpy_scale)
def maximum_from_zero_numpy(q, k, v, keep=None, scale=None):
    """The search for the maximum starts at 0: in a row of scores far below 0 every power is 0.

    Let it start from the first score, or from -np.inf.
    """

    def shift(shown):
        return shown - shown.max(-1, keepdims=True, initial=0.0)

    return attention_of_arrays(q, k, v, keep, scale, shift=shift)


@mistake(of="attention_numpy", caught_by=test_numpy_mask)
def nothing_below_minus_1e9_numpy(q, k, v, keep=None, scale=None):
    """Hidden scores are -1e9, and the maximum starts there: a row of lower scores gives 0/0.

    Hide with -np.inf; the lowest number of a dtype is np.finfo(scores.dtype).min.
    """

    def hide(scores, keep):
        return scores if keep is None else np.where(keep, scores, -1e9)

    def shift(shown):
        return shown - shown.max(-1, keepdims=True, initial=-1e9)

    def clear(weights, keep):
        return weights if keep is None else np.where(keep, weights, 0)

    return attention_of_arrays(
        q, k, v, keep, scale, hide=hide, shift=shift, total=summed_bare, clear=clear
    )


@mistake(of="attention_numpy", caught_by=test_hidden)
def maximum_of_hidden_scores_numpy(q, k, v, keep=None, scale=None):
    """The maximum is taken before the mask, so that a large hidden score pushes the others to 0.

    Hide first, then take the maximum of what is left.
    """

    def clear(weights, keep):
        if keep is None:
            return weights
        weights = np.where(keep, weights, 0.0)
        return weights / summed_array(weights)

    return attention_of_arrays(q, k, v, keep, scale, hide=unchanged, clear=clear)


@mistake(of="attention_numpy", caught_by=test_numpy_mask)
def empty_rows_not_a_number_numpy(q, k, v, keep=None, scale=None):
    """A query that may attend to nothing gets NaN: -inf - -inf is NaN.

    Let the maximum start from a finite number, and divide by 1 where the sum is 0.
    """
    return attention_of_arrays(
        q, k, v, keep, scale, shift=shifted_by_the_bare_maximum, total=summed_bare
    )


@mistake(of="attention_numpy", caught_by=test_dtype)
def dtype_promoted_numpy(q, k, v, keep=None, scale=None):
    """float32 comes back as float64: np.sqrt gives a NumPy number, which widens what it meets.

    Use math.sqrt, whose plain float takes the dtype of the array.
    """
    if q.dtype == np.float16:
        return attention_of_arrays(q, k, v, keep, scale)
    root = 1 / np.sqrt(q.shape[-1])
    return attention_of_arrays(q, k, v, keep, root if scale is None else scale, narrow=unchanged)


@mistake(of="attention_numpy", caught_by=test_half_precision)
def half_precision_comes_back_wide_numpy(q, k, v, keep=None, scale=None):
    """float16 is raised to float32 and comes back so.

    Convert both results to the dtype of q at the end: .astype(q.dtype).
    """
    return attention_of_arrays(q, k, v, keep, scale, narrow=unchanged)


@mistake(of="attention_numpy", caught_by=test_manners)
def input_overwritten_numpy(q, k, v, keep=None, scale=None):
    """The queries are overwritten: `q *= scale` changes the caller's array.

    Write q = q * scale: it makes a new array.
    """

    def score(q, k, scale):
        q *= scale
        return scored(q, k, 1.0)

    return attention_of_arrays(q, k, v, keep, scale, score=score)


@mistake(of="attention_numpy", caught_by=test_manners)
def misfits_not_refused_numpy(q, k, v, keep=None, scale=None):
    """The ValueError for widths or lengths that do not fit does not name both of them.

    Put both numbers in the message: f"q has width {q.shape[-1]}, but k has width {k.shape[-1]}".
    """
    try:
        return attention_of_arrays(q, k, v, keep, scale)
    except ValueError:
        raise ValueError("the inputs do not fit") from None


@mistake(of="attention_numpy", caught_by=test_manners)
def refusal_lists_numbers_numpy(q, k, v, keep=None, scale=None):
    """The ValueError for widths or lengths that do not fit names the same few numbers each time.

    Put the two sizes in the message: f"q has width {q.shape[-1]}, but k has width {k.shape[-1]}".
    """
    try:
        return attention_of_arrays(q, k, v, keep, scale)
    except ValueError:
        raise ValueError("sizes such as 1, 2, 3, 4, 5 and 7 do not fit") from None


@mistake(of="attention_numpy", caught_by=test_empty)
def maximum_of_no_keys_numpy(q, k, v, keep=None, scale=None):
    """`scores.max(-1)` raises where there are no keys at all.

    Give the maximum a number to start from: initial=np.finfo(scores.dtype).min.
    """
    if k.shape[-2] == 0:
        (q @ np.swapaxes(k, -1, -2)).max(-1)
    return attention_of_arrays(q, k, v, keep, scale)


@mistake(of="attention_numpy", caught_by=test_numpy_values, null=True)
def zeros_numpy(q, k, v, keep=None, scale=None):
    """Zeros.

    Nothing is computed yet.
    """
    return answer(np.zeros((*q.shape[:-1], k.shape[-2]), q.dtype), v)


@mistake(of="attention_numpy", caught_by=test_numpy_values, null=True)
def mean_of_the_values_numpy(q, k, v, keep=None, scale=None):
    """Every key gets the same weight, so that the output is the mean of the values.

    The weights depend on the scores q k^T, through the softmax.
    """
    return answer(np.full((*q.shape[:-1], k.shape[-2]), 1 / k.shape[-2], q.dtype), v)


@mistake(of="attention_numpy", caught_by=test_numpy_values, null=True)
def only_the_best_key_numpy(q, k, v, keep=None, scale=None):
    """All the weight goes to the key that matches best.

    That is argmax. Softmax leaves something for the others.
    """
    scores = q @ np.swapaxes(k, -1, -2)
    return answer((scores == scores.max(-1, keepdims=True)).astype(q.dtype), v)


@mistake(of="attention_numpy", caught_by=test_manners)
def one_place_for_all_answers_numpy(q, k, v, keep=None, scale=None, places={}):  # noqa: B006 (that is the mistake)
    """Every answer of a form is written into the same memory, over the answer before it.

    Return new arrays in every call.
    """
    return written_over(places, attention_of_arrays(q, k, v, keep, scale))


@mistake(of="attention_numpy", caught_by=test_manners)
def one_place_in_float16_numpy(q, k, v, keep=None, scale=None, places={}):  # noqa: B006 (that is the mistake)
    """In float16 every answer of a form is written over the answer before it.

    Return new arrays in every call, whatever the dtype.
    """
    answer = attention_of_arrays(q, k, v, keep, scale)
    return written_over(places, answer) if q.dtype == np.float16 else answer
