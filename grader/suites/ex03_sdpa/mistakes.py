"""What goes wrong in scaled dot-product attention, by name.

A mistake is a right function with one step changed: `check`, `widen`, `score`, `hide`, `shift`,
`total`, `clear`, `mix`, `narrow`. What is written with `xp` can be a mistake in NumPy as well.
"""

import math
from types import FunctionType

import numpy as np
import torch

from grader.judging import mistake
from grader.judging.one_place import written_over

from .test_sdpa import (
    test_dtype,
    test_empty,
    test_empty_rows,
    test_gradients,
    test_half_precision,
    test_hidden,
    test_manners,
    test_mask,
    test_numpy_mask,
    test_numpy_scale,
    test_numpy_values,
    test_scale,
    test_values,
)

HALVES = (torch.float16, torch.bfloat16)
xp = torch


def unchanged(numbers, *_):
    """In the place of a step that is left out."""
    return numbers


def fit(q, k, v):
    if q.shape[-1] != k.shape[-1]:
        raise ValueError(f"widths {q.shape[-1]} and {k.shape[-1]}")
    if k.shape[-2] != v.shape[-2]:
        raise ValueError(f"lengths {k.shape[-2]} and {v.shape[-2]}")


def scored(q, k, scale):
    return q @ k.mT * scale


def mixed(weights, v):
    return weights @ v


def chosen(q, scale):
    return q.shape[-1] ** -0.5 if scale is None else scale


# The steps in PyTorch.


def raised(x):
    return x.float() if x.dtype in HALVES else x


def hidden(scores, keep):
    """Hidden scores -inf, but 0 in empty rows, whose softmax would be NaN."""
    if keep is None:
        return scores
    empty = ~keep.any(-1, keepdim=True)
    return torch.where(keep, scores, -torch.inf).masked_fill(empty, 0.0)


def shifted(shown, dim=-1):
    return shown - shown.detach().amax(dim, keepdim=True) if shown.numel() else shown


def summed(powers, dim=-1):
    return powers.sum(dim, keepdim=True)


def without_nan(weights, keep):
    """Zeros for empty rows."""
    return weights if keep is None else weights.masked_fill(~keep.any(-1, keepdim=True), 0.0)


def hidden_in_empty_rows_too(scores, keep):
    return scores if keep is None else torch.where(keep, scores, -torch.inf)


def converted_back(x, dtype):
    return x.to(dtype)


def attention(
    q, k, v, keep, scale, check=fit, widen=raised, score=scored, hide=hidden, shift=shifted,
    total=summed, clear=without_nan, mix=mixed, narrow=converted_back,
):  # fmt: skip
    """Right, but for what a mistake passes."""
    check(q, k, v)
    dtype, scale = q.dtype, chosen(q, scale)
    q, k, v = widen(q), widen(k), widen(v)
    powers = torch.exp(shift(hide(score(q, k, scale), keep)))
    weights = clear(powers / total(powers), keep)
    return narrow(mix(weights, v), dtype), narrow(weights, dtype)


# The steps in NumPy.


def raised_array(x):
    return x.astype(np.float32) if x.dtype == np.float16 else x


def hidden_in_array(scores, keep):
    return scores if keep is None else np.where(keep, scores, -np.inf)


def shifted_array(shown, axis=-1):
    return shown - shown.max(axis, keepdims=True, initial=np.finfo(shown.dtype).min)


def summed_array(powers, axis=-1):
    """The sum of each row; 1 for empty rows."""
    total = powers.sum(axis, keepdims=True)
    return np.where(total == 0, 1, total)


def shifted_by_the_bare_maximum(shown):
    return shown - shown.max(-1, keepdims=True)


def summed_bare(powers):
    return powers.sum(-1, keepdims=True)


def without_nan_in_array(weights, keep):
    return weights if keep is None else np.where(keep.any(-1, keepdims=True), weights, 0.0)


def converted_array_back(x, dtype):
    return x.astype(dtype)


def attention_of_arrays(
    q, k, v, keep, scale, check=fit, widen=raised_array, score=scored, hide=hidden_in_array,
    shift=shifted_array, total=summed_array, clear=unchanged, mix=mixed,
    narrow=converted_array_back,
):  # fmt: skip
    """Right, but for what a mistake passes."""
    check(q, k, v)
    dtype, scale = q.dtype, chosen(q, scale)
    q, k, v = widen(q), widen(k), widen(v)
    with np.errstate(all="ignore"):
        powers = np.exp(shift(hide(score(q, k, scale), keep)))
        weights = clear(powers / total(powers), keep)
        return narrow(mix(weights, v), dtype), narrow(weights, dtype)


IN_NUMPY = {
    "xp": np, "attention": attention_of_arrays, "raised": raised_array, "hidden": hidden_in_array,
    "shifted": shifted_array, "summed": summed_array, "without_nan": without_nan_in_array,
    "converted_back": converted_array_back,
}  # fmt: skip


def also_of_arrays(*, caught_by):
    """Let a mistake be one of `attention_numpy` as well, with the steps in NumPy."""

    def mark(function):
        names = {**globals(), **IN_NUMPY}
        made = FunctionType(function.__code__, names, argdefs=function.__defaults__)
        made.__name__ = f"{function.__name__}_numpy"
        made.__doc__ = function.__doc__.replace("torch.", "np.").replace("dim=", "axis=")
        globals()[made.__name__] = mistake(of="attention_numpy", caught_by=caught_by)(made)
        return function

    return mark


# The scale.


@also_of_arrays(caught_by=test_numpy_values)
@mistake(of="scaled_dot_product_attention", caught_by=test_values)
def scale_missing(q, k, v, keep=None, scale=None):
    """The scores are not divided by sqrt(D).

    Multiply q, or the scores, by 1 / sqrt(D), where D is the width of q.
    """
    return attention(q, k, v, keep, 1.0 if scale is None else scale)


@also_of_arrays(caught_by=test_numpy_values)
@mistake(of="scaled_dot_product_attention", caught_by=test_values)
def divided_by_d(q, k, v, keep=None, scale=None):
    """The scores are divided by D instead of sqrt(D).

    The standard deviation of a score grows with the square root of D: take 1 / sqrt(D).
    """
    return attention(q, k, v, keep, 1 / q.shape[-1] if scale is None else scale)


@mistake(of="scaled_dot_product_attention", caught_by=test_values)
def divided_by_the_model_width(q, k, v, keep=None, scale=None):
    """The scale is that of the whole model, 1 / sqrt(H * D), instead of one head.

    D is the last size of q, the width of the vectors whose dot product is taken.
    """
    width = q.shape[-1] * (q.shape[-3] if q.ndim > 2 else 1)
    return attention(q, k, v, keep, width**-0.5 if scale is None else scale)


@also_of_arrays(caught_by=test_numpy_values)
@mistake(of="scaled_dot_product_attention", caught_by=test_values)
def divided_by_the_value_width(q, k, v, keep=None, scale=None):
    """The scale is taken from the width of the values instead of the queries.

    The scores are dot products of q and k, so it is their width that counts: q.shape[-1].
    """
    return attention(q, k, v, keep, v.shape[-1] ** -0.5 if scale is None else scale)


@also_of_arrays(caught_by=test_numpy_values)
@mistake(of="scaled_dot_product_attention", caught_by=test_values)
def divided_by_the_length(q, k, v, keep=None, scale=None):
    """The scale is taken from the number of keys instead of their width.

    Take 1 / sqrt(q.shape[-1]): the last size is the width D, the one before it the length.
    """
    return attention(q, k, v, keep, k.shape[-2] ** -0.5 if scale is None else scale)


@also_of_arrays(caught_by=test_numpy_values)
@mistake(of="scaled_dot_product_attention", caught_by=test_values)
def scale_inverted(q, k, v, keep=None, scale=None):
    """The scores are multiplied by sqrt(D) instead of divided.

    The scale makes the scores smaller: multiply by 1 / sqrt(D).
    """
    return attention(q, k, v, keep, math.sqrt(q.shape[-1]) if scale is None else scale)


@also_of_arrays(caught_by=test_numpy_values)
@mistake(of="scaled_dot_product_attention", caught_by=test_values)
def scale_1_percent_off(q, k, v, keep=None, scale=None):
    """The scale is about 1 % too small.

    It is 1 / sqrt(D) exactly: leave no small constant in the square root or beside it.
    """
    return attention(q, k, v, keep, 0.99 * q.shape[-1] ** -0.5 if scale is None else scale)


@also_of_arrays(caught_by=test_numpy_values)
@mistake(of="scaled_dot_product_attention", caught_by=test_values)
def scale_after_the_softmax(q, k, v, keep=None, scale=None):
    """The weights are scaled, after the softmax, instead of the scores before it.

    Scale first: the softmax has the last word, and its weights sum to one.
    """
    factor = chosen(q, scale)
    return attention(
        q, k, v, keep, 1.0, clear=lambda weights, keep: without_nan(weights, keep) * factor
    )


@also_of_arrays(caught_by=test_numpy_scale)
@mistake(of="scaled_dot_product_attention", caught_by=test_scale)
def scale_ignored(q, k, v, keep=None, scale=None):
    """`scale` is ignored: the scores are divided by sqrt(D) whatever was asked for.

    Use 1 / sqrt(D) only where `scale is None`.
    """
    return attention(q, k, v, keep, None)


@also_of_arrays(caught_by=test_numpy_scale)
@mistake(of="scaled_dot_product_attention", caught_by=test_scale)
def scale_of_zero_ignored(q, k, v, keep=None, scale=None):
    """A scale of 0 counts as none given: `scale or ...` takes the other side.

    Ask whether `scale is None`; 0.0 is a number like any other.
    """
    return attention(q, k, v, keep, scale or q.shape[-1] ** -0.5)


@also_of_arrays(caught_by=test_numpy_scale)
@mistake(of="scaled_dot_product_attention", caught_by=test_scale)
def scale_on_top_of_the_default(q, k, v, keep=None, scale=None):
    """A given scale is applied on top of 1 / sqrt(D) instead of in its place.

    Multiply by one number: `scale` if it is given, else 1 / sqrt(D).
    """
    return attention(q, k, v, keep, q.shape[-1] ** -0.5 * (1.0 if scale is None else scale))


@also_of_arrays(caught_by=test_numpy_scale)
@mistake(of="scaled_dot_product_attention", caught_by=test_scale)
def divided_by_the_given_scale(q, k, v, keep=None, scale=None):
    """The scores are divided by a given scale instead of multiplied.

    `scale` stands for 1 / sqrt(D), not for sqrt(D): multiply by it.
    """
    return attention(q, k, v, keep, scale and 1 / scale)


# The product and the softmax.


@also_of_arrays(caught_by=test_numpy_values)
@mistake(of="scaled_dot_product_attention", caught_by=test_values)
def keys_reshaped(q, k, v, keep=None, scale=None):
    """The keys are reshaped to (..., D, Lk) instead of transposed, which mixes up their numbers.

    k.mT, or k.transpose(-2, -1), makes columns of the rows; reshape only counts them anew.
    """
    fit(q, k, v)
    mixed = k.reshape(*k.shape[:-2], k.shape[-1], k.shape[-2])
    return attention(q, mixed.mT, v, keep, scale)


@mistake(of="attention_numpy", caught_by=test_numpy_values)
def all_axes_turned_numpy(q, k, v, keep=None, scale=None):
    """`k.T` turns all axes around, batch and heads too.

    Swap only the last two: np.swapaxes(k, -1, -2).
    """
    fit(q, k, v)
    return attention_of_arrays(q, np.swapaxes(k.T, -1, -2), v, keep, scale)


@also_of_arrays(caught_by=test_numpy_values)
@mistake(of="scaled_dot_product_attention", caught_by=test_values)
def softmax_over_the_queries(q, k, v, keep=None, scale=None):
    """The softmax runs over the queries, so that columns sum to one instead of rows.

    The scores are (..., Lq, Lk), and the weights of one query sum to one: dim=-1.
    """
    return attention(
        q, k, v, keep, scale, shift=lambda x: shifted(x, -2), total=lambda x: summed(x, -2),
        clear=lambda weights, keep: without_nan(xp.nan_to_num(weights), keep),
    )  # fmt: skip


@also_of_arrays(caught_by=test_numpy_values)
@mistake(of="scaled_dot_product_attention", caught_by=test_values)
def softmax_over_the_table(q, k, v, keep=None, scale=None):
    """The weights of the whole table sum to one, instead of those of each row.

    Take the softmax over the last dimension only.
    """
    return attention(
        q,
        k,
        v,
        keep,
        scale,
        shift=lambda x: shifted(x, (-2, -1)),
        total=lambda x: summed(x, (-2, -1)),
    )


@also_of_arrays(caught_by=test_numpy_values)
@mistake(of="scaled_dot_product_attention", caught_by=test_values)
def summed_over_the_table(q, k, v, keep=None, scale=None):
    """The sum runs over queries and keys together, so that the whole table sums to one.

    Sum each row by itself: dim=-1, with keepdim=True.
    """
    return attention(q, k, v, keep, scale, total=lambda x: summed(x, (-2, -1)))


@also_of_arrays(caught_by=test_numpy_values)
@mistake(of="scaled_dot_product_attention", caught_by=test_values)
def softmax_over_the_heads(q, k, v, keep=None, scale=None):
    """The softmax runs over dimension -3, the heads, instead of the keys.

    The weights of one query sum to one over its keys: dim=-1.
    """

    def along(x):
        return -3 if x.ndim > 2 else -1

    return attention(
        q,
        k,
        v,
        keep,
        scale,
        shift=lambda x: shifted(x, along(x)),
        total=lambda x: summed(x, along(x)),
    )


@also_of_arrays(caught_by=test_numpy_values)
@mistake(of="scaled_dot_product_attention", caught_by=test_values)
def softmax_over_dimension_1(q, k, v, keep=None, scale=None):
    """The softmax runs over dimension 1, which are the keys of a single table only.

    Count from the end, whatever stands in front: dim=-1.
    """
    return attention(
        q, k, v, keep, scale, shift=lambda x: shifted(x, 1), total=lambda x: summed(x, 1)
    )


@also_of_arrays(caught_by=test_numpy_values)
@mistake(of="scaled_dot_product_attention", caught_by=test_values)
def scores_returned(q, k, v, keep=None, scale=None):
    """The second result is the scores, from before the softmax.

    Return the weights: what comes out of the softmax and is multiplied with v.
    """
    output, _ = attention(q, k, v, keep, scale)
    return output, scored(q, k, chosen(q, scale))


@also_of_arrays(caught_by=test_numpy_values)
@mistake(of="scaled_dot_product_attention", caught_by=test_values)
def masked_scores_returned(q, k, v, keep=None, scale=None):
    """The second result is the scores after the mask, from before the softmax.

    Return the weights: what comes out of the softmax and is multiplied with v.
    """
    output, _ = attention(q, k, v, keep, scale)
    return output, hidden(scored(q, k, chosen(q, scale)), keep)


@also_of_arrays(caught_by=test_numpy_values)
@mistake(of="scaled_dot_product_attention", caught_by=test_values)
def results_exchanged(q, k, v, keep=None, scale=None):
    """The weights come first and the output second.

    Return (output, weights), in this order.
    """
    output, weights = attention(q, k, v, keep, scale)
    return weights, output


@also_of_arrays(caught_by=test_numpy_values)
@mistake(of="scaled_dot_product_attention", caught_by=test_values)
def only_the_output(q, k, v, keep=None, scale=None):
    """Only the output is returned, without the weights.

    Return both, as a tuple: output, weights.
    """
    return attention(q, k, v, keep, scale)[0]


@also_of_arrays(caught_by=test_numpy_values)
@mistake(of="scaled_dot_product_attention", caught_by=test_values)
def keys_mixed(q, k, v, keep=None, scale=None):
    """The weights are multiplied with the keys instead of the values.

    Mix the values: weights @ v.
    """
    return attention(q, k, v, keep, scale, mix=lambda weights, v: weights @ raised(k))


@mistake(of="scaled_dot_product_attention", caught_by=test_values)
def letters_for_one_batch(q, k, v, keep=None, scale=None):
    """The letters of einsum ask for exactly one leading dimension: none, or two, is an error.

    Write q @ k.mT, or "...qd,...kd->...qk": both carry any leading dimensions along.
    """
    return attention(
        q, k, v, keep, scale,
        score=lambda q, k, scale: torch.einsum("bqd,bkd->bqk", q, k) * scale,
    )  # fmt: skip


@mistake(of="scaled_dot_product_attention", caught_by=test_values)
def letters_for_batch_and_heads(q, k, v, keep=None, scale=None):
    """The letters of einsum ask for exactly two leading dimensions, batch and heads.

    Write q @ k.mT, or "...qd,...kd->...qk": both carry any leading dimensions along.
    """
    return attention(
        q, k, v, keep, scale,
        score=lambda q, k, scale: torch.einsum("bhqd,bhkd->bhqk", q, k) * scale,
    )  # fmt: skip


@mistake(of="scaled_dot_product_attention", caught_by=test_values)
def epsilon_in_the_denominator(q, k, v, keep=None, scale=None):
    """A small number is added to the sum of the row, so that its weights sum to less than one.

    Use torch.softmax, or divide by the sum itself.
    """
    return attention(q, k, v, keep, scale, total=lambda powers: summed(powers) + 1e-6)


@also_of_arrays(caught_by=test_numpy_values)
@mistake(of="scaled_dot_product_attention", caught_by=test_values)
def always_causal(q, k, v, keep=None, scale=None):
    """Keys that come after the query are hidden, though nobody asked for it.

    Hide what `keep` hides, and nothing if it is None.
    """
    behind = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool, device=q.device).tril()
    behind = xp.asarray(behind)
    return attention(q, k, v, behind if keep is None else behind & keep, scale)


@mistake(of="scaled_dot_product_attention", caught_by=test_values)
def cosine_similarity(q, k, v, keep=None, scale=None):
    """Queries and keys are normalised to length one, so that only their angle counts.

    The score is the plain dot product: longer keys count for more.
    """
    unit_q, unit_k = (torch.nn.functional.normalize(x, dim=-1) for x in (q, k))
    return attention(unit_q, unit_k, v, keep, scale)


@mistake(of="attention_numpy", caught_by=test_numpy_values)
def epsilon_in_the_denominator_numpy(q, k, v, keep=None, scale=None):
    """A small number is added to the sum of the row, so that its weights sum to less than one.

    Divide by the sum itself, and by 1 in a row whose sum is 0.
    """
    return attention_of_arrays(
        q, k, v, keep, scale, total=lambda powers: summed_bare(powers) + 1e-6
    )


@also_of_arrays(caught_by=test_numpy_scale)
@mistake(of="scaled_dot_product_attention", caught_by=test_scale)
def no_maximum_subtracted(q, k, v, keep=None, scale=None):
    """The exponentials are taken of the bare scores, and large ones overflow.

    Use torch.softmax, or subtract the maximum of each row before exp.
    """
    return attention(q, k, v, keep, scale, shift=unchanged)


@mistake(of="scaled_dot_product_attention", caught_by=test_scale)
def global_maximum(q, k, v, keep=None, scale=None):
    """One maximum is taken for the whole table, so that rows of small scores become 0/0.

    Take the maximum of each row, or use torch.softmax.
    """
    return attention(q, k, v, keep, scale, shift=lambda x: shifted(x, tuple(range(x.ndim))))


@mistake(of="scaled_dot_product_attention", caught_by=test_scale)
def scores_clamped(q, k, v, keep=None, scale=None):
    """The scores are clamped, and those beyond the bound all weigh the same.

    Leave them as they are: torch.softmax subtracts the maximum, and nothing overflows.
    """
    return attention(
        q, k, v, keep, scale, score=lambda q, k, scale: scored(q, k, scale).clamp(-50, 50)
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


# The mask.


@also_of_arrays(caught_by=test_numpy_mask)
@mistake(of="scaled_dot_product_attention", caught_by=test_mask)
def mask_inverted(q, k, v, keep=None, scale=None):
    """The mask is read the wrong way round: keys where `keep` is True are hidden.

    True = may attend. Hide the others: torch.where(keep, scores, -torch.inf).
    """
    return attention(q, k, v, None if keep is None else ~keep, scale)


@also_of_arrays(caught_by=test_numpy_mask)
@mistake(of="scaled_dot_product_attention", caught_by=test_mask)
def mask_ignored(q, k, v, keep=None, scale=None):
    """`keep` is ignored: every key is attended to.

    Put -inf in the place of the scores where `keep` is False, before the softmax.
    """
    return attention(q, k, v, None, scale)


@also_of_arrays(caught_by=test_numpy_mask)
@mistake(of="scaled_dot_product_attention", caught_by=test_mask)
def mask_after_the_softmax(q, k, v, keep=None, scale=None):
    """Weights are set to zero after the softmax, and the others no longer sum to one.

    Hide the scores before the softmax, with -inf.
    """

    def clear(weights, keep):
        return weights if keep is None else weights * keep

    return attention(q, k, v, keep, scale, hide=unchanged, clear=clear)


@also_of_arrays(caught_by=test_hidden)
@mistake(of="scaled_dot_product_attention", caught_by=test_hidden)
def renormalised_after_the_softmax(q, k, v, keep=None, scale=None):
    """Weights are set to zero after the softmax and divided by what is left of their sum, which is
    nothing if a hidden key had taken all the weight.

    Hide the scores before the softmax, with -inf.
    """

    def clear(weights, keep):
        if keep is not None:
            weights = xp.where(keep, weights, 0.0)
            total = weights.sum(-1, keepdims=True)
            weights = weights / xp.where(total == 0, 1.0, total)
        return weights

    return attention(q, k, v, keep, scale, hide=unchanged, clear=clear)


@also_of_arrays(caught_by=test_numpy_mask)
@mistake(of="scaled_dot_product_attention", caught_by=test_mask)
def hidden_scores_zero(q, k, v, keep=None, scale=None):
    """Hidden scores are set to 0, and exp(0) = 1 is a weight like any other.

    Set them to -inf, whose exponential is 0.
    """

    def hide(scores, keep):
        return scores if keep is None else xp.where(keep, scores, 0.0)

    return attention(q, k, v, keep, scale, hide=hide, clear=unchanged)


@also_of_arrays(caught_by=test_numpy_mask)
@mistake(of="scaled_dot_product_attention", caught_by=test_mask)
def scores_times_the_mask(q, k, v, keep=None, scale=None):
    """Hidden scores are multiplied by 0, and exp(0) = 1 is a weight like any other.

    Put -inf in their place: torch.where(keep, scores, -torch.inf).
    """

    def hide(scores, keep):
        return scores if keep is None else scores * keep

    return attention(q, k, v, keep, scale, hide=hide, clear=unchanged)


@also_of_arrays(caught_by=test_numpy_mask)
@mistake(of="scaled_dot_product_attention", caught_by=test_mask)
def mask_added_as_numbers(q, k, v, keep=None, scale=None):
    """The mask is added to the scores as it is: True counts as 1, and nothing is hidden.

    Put -inf in the place of hidden scores: torch.where(keep, scores, -torch.inf).
    """

    def hide(scores, keep):
        return scores if keep is None else scores + keep

    return attention(q, k, v, keep, scale, hide=hide, clear=unchanged)


@also_of_arrays(caught_by=test_numpy_mask)
@mistake(of="scaled_dot_product_attention", caught_by=test_mask)
def hidden_scores_a_little_low(q, k, v, keep=None, scale=None):
    """Hidden scores are set to a number like -30, and a little weight leaks to them.

    Set them to -inf, whose exponential is 0.
    """

    def hide(scores, keep):
        return scores if keep is None else xp.where(keep, scores, -30.0)

    return attention(q, k, v, keep, scale, hide=hide, clear=without_nan)


@also_of_arrays(caught_by=test_numpy_mask)
@mistake(of="scaled_dot_product_attention", caught_by=test_empty_rows)
def hidden_scores_very_low(q, k, v, keep=None, scale=None):
    """Where all keys are hidden they share the weight, as if hidden scores were -1e9 or finfo.min.

    Set them to -inf, and treat a query without any key on its own: its weights are 0.
    """

    def hide(scores, keep):
        return scores if keep is None else xp.where(keep, scores, -1e9)

    return attention(q, k, v, keep, scale, hide=hide, clear=unchanged)


@also_of_arrays(caught_by=test_numpy_mask)
@mistake(of="scaled_dot_product_attention", caught_by=test_empty_rows)
def hidden_scores_at_minus_10000(q, k, v, keep=None, scale=None):
    """Hidden scores are set to -1e4; where all are hidden they share the weight.

    Set them to -inf, and treat a query without any key on its own: its weights are 0.
    """

    def hide(scores, keep):
        return scores if keep is None else xp.where(keep, scores, -1e4)

    return attention(q, k, v, keep, scale, hide=hide, clear=unchanged)


@also_of_arrays(caught_by=test_hidden)
@mistake(of="scaled_dot_product_attention", caught_by=test_hidden)
def very_low_number_added(q, k, v, keep=None, scale=None):
    """-1e9 is added to hidden scores, and a hidden key of 1e30 still wins.

    Replace hidden scores by -inf instead of adding to them: torch.where(keep, scores, -torch.inf).
    """

    def hide(scores, keep):
        return scores if keep is None else scores + ~keep * -1e9

    return attention(q, k, v, keep, scale, hide=hide, clear=without_nan)


@also_of_arrays(caught_by=test_numpy_mask)
@mistake(of="scaled_dot_product_attention", caught_by=test_empty_rows)
def very_low_number_added_to_all(q, k, v, keep=None, scale=None):
    """-1e9 is added to hidden scores; where all are hidden they share the weight.

    Replace hidden scores by -inf, and give a query without any key weights of 0.
    """

    def hide(scores, keep):
        return scores if keep is None else scores + ~keep * -1e9

    return attention(q, k, v, keep, scale, hide=hide, clear=unchanged)


@also_of_arrays(caught_by=test_hidden)
@mistake(of="scaled_dot_product_attention", caught_by=test_hidden)
def minus_infinity_added(q, k, v, keep=None, scale=None):
    """-inf is added to hidden scores, but NaN + -inf is NaN.

    Replace hidden scores by -inf instead of adding to them: torch.where(keep, scores, -torch.inf).
    """

    def hide(scores, keep):
        return scores if keep is None else scores + hidden(xp.zeros_like(scores), keep)

    return attention(q, k, v, keep, scale, hide=hide)


@also_of_arrays(caught_by=test_hidden)
@mistake(of="scaled_dot_product_attention", caught_by=test_hidden)
def only_unseen_keys_cleared(q, k, v, keep=None, scale=None):
    """-inf is added to hidden scores, which is NaN for a hidden key of NaN that others may see:
    only keys that no query sees were set to zero.

    Replace hidden scores by -inf instead of adding to them: torch.where(keep, scores, -torch.inf).
    """
    if keep is None:
        return attention(q, k, v, keep, scale)

    def hide(scores, keep):
        return scores + hidden(xp.zeros_like(scores), keep)

    seen = xp.broadcast_to(keep, (*q.shape[:-1], k.shape[-2])).any(-2)
    return attention(q, xp.where(seen[..., None], k, 0 * v[..., :1]), v, keep, scale, hide=hide)


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


@also_of_arrays(caught_by=test_numpy_mask)
@mistake(of="scaled_dot_product_attention", caught_by=test_mask)
def zero_times_infinity(q, k, v, keep=None, scale=None):
    """The mask is multiplied by -inf, but 0 * -inf is NaN.

    Choose between two numbers instead: torch.where(keep, scores, -torch.inf).
    """

    def hide(scores, keep):
        return scores if keep is None else scores + ~keep * -math.inf

    return attention(q, k, v, keep, scale, hide=hide, clear=unchanged)


@also_of_arrays(caught_by=test_numpy_mask)
@mistake(of="scaled_dot_product_attention", caught_by=test_mask)
def mask_of_the_first_batch(q, k, v, keep=None, scale=None):
    """The mask of the first batch is used for all of them.

    `keep` may have a row of its own for each batch and head: leave its broadcasting to torch.where.
    """
    return attention(q, k, v, keep[:1] if keep is not None and keep.ndim == q.ndim else keep, scale)


@mistake(of="scaled_dot_product_attention", caught_by=test_mask)
def hidden_keys_cleared(q, k, v, keep=None, scale=None):
    """Hidden keys and values are set to zero, but a key of zeros has score 0 and a weight still.

    Hide the scores, with -inf: only they say who may see whom.
    """
    if keep is None:
        return attention(q, k, v, None, scale)
    seen = keep.any(-2).unsqueeze(-1)  # (..., Lk, 1)
    return attention(q, torch.where(seen, k, 0.0), torch.where(seen, v, 0.0), None, scale)


@also_of_arrays(caught_by=test_numpy_mask)
@mistake(of="scaled_dot_product_attention", caught_by=test_mask)
def weights_returned_without_the_mask(q, k, v, keep=None, scale=None):
    """The output is right, but the weights that are returned are those without the mask.

    Return the weights that were multiplied with v.
    """
    return attention(q, k, v, keep, scale)[0], attention(q, k, v, None, scale)[1]


@also_of_arrays(caught_by=test_numpy_mask)
@mistake(of="scaled_dot_product_attention", caught_by=test_mask)
def mask_of_the_first_query(q, k, v, keep=None, scale=None):
    """The mask of the first query is used for all of them.

    `keep` is (..., Lq, Lk), a row for each query: leave its broadcasting to torch.where.
    """
    return attention(q, k, v, None if keep is None else keep[..., :1, :], scale)


@also_of_arrays(caught_by=test_numpy_mask)
@mistake(of="scaled_dot_product_attention", caught_by=test_mask)
def mask_transposed(q, k, v, keep=None, scale=None):
    """The mask is transposed: its rows are taken for the keys.

    `keep` is (..., Lq, Lk), a row for each query: use it as it is.
    """
    turned = keep if keep is None or keep.ndim < 2 else keep.mT
    return attention(q, k, v, turned, scale)


@mistake(of="scaled_dot_product_attention", caught_by=test_empty_rows)
def empty_rows_not_a_number(q, k, v, keep=None, scale=None):
    """A query that may attend to nothing gets NaN: the softmax of -inf everywhere is 0 / 0.

    Give such rows finite scores before the softmax and weights of 0 after it.
    """
    return attention(q, k, v, keep, scale, hide=hidden_in_empty_rows_too, clear=unchanged)


@mistake(of="attention_numpy", caught_by=test_numpy_mask)
def empty_rows_not_a_number_numpy(q, k, v, keep=None, scale=None):
    """A query that may attend to nothing gets NaN: -inf - -inf is NaN.

    Let the maximum start from a finite number, and divide by 1 where the sum is 0.
    """
    return attention_of_arrays(
        q, k, v, keep, scale, shift=shifted_by_the_bare_maximum, total=summed_bare
    )


@mistake(of="scaled_dot_product_attention", caught_by=test_empty_rows)
def empty_rows_times_zero(q, k, v, keep=None, scale=None):
    """A query that may attend to nothing sees all keys, and its weights are multiplied by 0, which
    is NaN where a key is NaN.

    Hide the scores of such a query as well, or replace its weights by masked_fill(empty, 0.0).
    """

    def hide(scores, keep):
        return scores if keep is None else hidden(scores, keep | ~keep.any(-1, keepdim=True))

    def clear(weights, keep):
        return weights if keep is None else weights * keep.any(-1, keepdim=True)

    return attention(q, k, v, keep, scale, hide=hide, clear=clear)


@mistake(of="scaled_dot_product_attention", caught_by=test_empty_rows)
def not_a_number_replaced_too_late(q, k, v, keep=None, scale=None):
    """The NaN of empty rows is replaced in the results, but the gradient of v is NaN all the same.

    Let no NaN into the weights: give such rows finite scores before the softmax, or replace their
    weights before the product with v.
    """
    output, weights = attention(
        q, k, v, keep, scale, hide=hidden_in_empty_rows_too, clear=unchanged
    )
    return output.nan_to_num(), weights.nan_to_num()


@also_of_arrays(caught_by=test_numpy_mask)
@mistake(of="scaled_dot_product_attention", caught_by=test_mask)
def hidden_by_a_finite_number(q, k, v, keep=None, scale=None):
    """Hidden scores are -1e9, above seen scores that are lower still.

    Give hidden scores minus infinity, which no score is below, and see to the empty rows apart.
    """

    def hide(scores, keep):
        return scores if keep is None else xp.where(keep, scores, -1e9)

    def clear(weights, keep):
        return weights if keep is None else xp.where(keep.any(-1)[..., None], weights, 0.0)

    return attention(q, k, v, keep, scale, hide=hide, clear=clear)


@also_of_arrays(caught_by=test_numpy_mask)
@mistake(of="scaled_dot_product_attention", caught_by=test_mask)
def a_mask_without_dimensions_is_indexed(q, k, v, keep=None, scale=None):
    """The mask is taken to have a dimension: one that is a single True ends in an IndexError.

    Let it broadcast instead of reading its sizes: masked_fill and where do so.
    """
    return attention(q, k, v, None if keep is None else keep[..., :], scale)


# Precision, gradients and manners.


@also_of_arrays(caught_by=test_half_precision)
@mistake(of="scaled_dot_product_attention", caught_by=test_half_precision)
def half_precision_not_raised(q, k, v, keep=None, scale=None):
    """Half precision is computed in half precision, where 256 * 256 is infinity.

    Convert q, k and v to float32 before the first product, and the results back at the end.
    """
    return attention(q, k, v, keep, scale, widen=unchanged)


@also_of_arrays(caught_by=test_half_precision)
@mistake(of="scaled_dot_product_attention", caught_by=test_half_precision)
def half_precision_not_raised_but_scaled_first(q, k, v, keep=None, scale=None):
    """Half precision is computed in half precision: scaling q first does not save the products.

    Convert q, k and v to float32 before the first product, and the results back at the end.
    """
    return attention(
        q, k, v, keep, scale, widen=unchanged, score=lambda q, k, scale: q * scale @ k.mT
    )


@also_of_arrays(caught_by=test_half_precision)
@mistake(of="scaled_dot_product_attention", caught_by=test_half_precision)
def half_precision_raised_too_late(q, k, v, keep=None, scale=None):
    """Only the softmax is computed in float32; the scores have overflowed before it.

    Convert q, k and v to float32 before the first product, not just before the softmax.
    """
    return attention(
        q, k, v, keep, scale, widen=unchanged,
        score=lambda q, k, scale: raised(scored(q, k, scale)),
        mix=lambda weights, v: mixed(converted_back(weights, v.dtype), v),
    )  # fmt: skip


@mistake(of="scaled_dot_product_attention", caught_by=test_half_precision)
def float16_alone_is_raised(q, k, v, keep=None, scale=None):
    """float16 is computed in float32, but bfloat16 is not: it never overflows, and has 8 bits.

    Convert both to float32: if q.dtype in (torch.float16, torch.bfloat16).
    """

    def widen(x):
        return x.float() if x.dtype == torch.float16 else x

    return attention(q, k, v, keep, scale, widen=widen)


@also_of_arrays(caught_by=test_half_precision)
@mistake(of="scaled_dot_product_attention", caught_by=test_half_precision)
def half_precision_raised_once_scaled(q, k, v, keep=None, scale=None):
    """The queries are scaled in half precision, and the scores inherit the rounding.

    Convert q, k and v to float32 before anything is computed, the scaling too.
    """
    if raised(q) is q:
        return attention(q, k, v, keep, scale)
    scaled = converted_back(q * chosen(q, scale), q.dtype)
    return attention(scaled, k, v, keep, 1.0)


@also_of_arrays(caught_by=test_half_precision)
@mistake(of="scaled_dot_product_attention", caught_by=test_half_precision)
def scale_rounded_to_half_precision(q, k, v, keep=None, scale=None):
    """A given scale is rounded to half precision, because it is made a number of the dtype of q.

    Leave it a number of Python: it takes part in float32 then.
    """
    scale = raised(xp.asarray(chosen(q, scale), dtype=q.dtype))
    return attention(q, k, v, keep, scale)


@mistake(of="scaled_dot_product_attention", caught_by=test_half_precision)
def dtype_promoted(q, k, v, keep=None, scale=None):
    """The results come back in float32 although the inputs were in half precision.

    Convert both to the dtype of q at the end: .to(q.dtype).
    """
    return attention(q, k, v, keep, scale, narrow=unchanged)


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


@also_of_arrays(caught_by=test_dtype)
@mistake(of="scaled_dot_product_attention", caught_by=test_dtype)
def float64_lowered(q, k, v, keep=None, scale=None):
    """float64 is computed in float32, and half of its digits are gone.

    Raise half precision only; leave float32 and float64 as they are.
    """
    return attention(q, k, v, keep, scale, widen=lambda x: converted_back(x, xp.float32))


@mistake(of="scaled_dot_product_attention", caught_by=test_gradients)
def graph_cut(q, k, v, keep=None, scale=None):
    """The gradient of the queries and keys is cut: the weights were detached before the product.

    Use PyTorch operators only, from the inputs to the results.
    """
    _, weights = attention(q.detach(), k.detach(), v, keep, scale)
    wide = torch.promote_types(q.dtype, torch.float32)
    return (weights.to(wide) @ v.to(wide)).to(q.dtype), weights


@mistake(of="scaled_dot_product_attention", caught_by=test_gradients)
def keys_learn_only_beside_queries(q, k, v, keep=None, scale=None):
    """The graph is cut where q needs no gradient, although k or v may need one.

    Do not ask which input learns: PyTorch finds that out by itself.
    """
    if q.requires_grad:
        return attention(q, k, v, keep, scale)
    return attention(q.detach(), k.detach(), v.detach(), keep, scale)


@mistake(of="scaled_dot_product_attention", caught_by=test_gradients)
def output_of_detached_weights(q, k, v, keep=None, scale=None):
    """Detached weights are multiplied with v: no gradient reaches q and k through the output.

    Multiply v by the weights as they are, without detach or .data.
    """
    return attention(q, k, v, keep, scale, mix=lambda weights, v: weights.detach() @ v)


@mistake(of="scaled_dot_product_attention", caught_by=test_gradients)
def whole_graph_cut(q, k, v, keep=None, scale=None):
    """Both results are detached, and no gradient reaches the inputs.

    Return them as they are, without detach, .data or no_grad.
    """
    return tuple(x.detach() for x in attention(q, k, v, keep, scale))


@mistake(of="scaled_dot_product_attention", caught_by=test_gradients)
def returned_weights_detached(q, k, v, keep=None, scale=None):
    """The weights that are returned carry no gradient.

    Return the weights as they are, without detach or .data.
    """
    output, weights = attention(q, k, v, keep, scale)
    return output, weights.detach()


@mistake(of="scaled_dot_product_attention", caught_by=test_manners)
def input_overwritten(q, k, v, keep=None, scale=None):
    """The queries are overwritten: `q *= scale`, or an operator with a trailing underscore.

    Write q = q * scale: it makes a new tensor.
    """

    def score(q, k, scale):
        q.data.mul_(scale)
        return scored(q, k, 1.0)

    return attention(q, k, v, keep, scale, score=score)


@mistake(of="attention_numpy", caught_by=test_manners)
def input_overwritten_numpy(q, k, v, keep=None, scale=None):
    """The queries are overwritten: `q *= scale` changes the caller's array.

    Write q = q * scale: it makes a new array.
    """

    def score(q, k, scale):
        q *= scale
        return scored(q, k, 1.0)

    return attention_of_arrays(q, k, v, keep, scale, score=score)


@mistake(of="scaled_dot_product_attention", caught_by=test_manners)
def misfits_not_refused(q, k, v, keep=None, scale=None):
    """Widths or lengths that do not fit are not looked at before the first product.

    Compare q.shape[-1] with k.shape[-1] and k.shape[-2] with v.shape[-2], and raise a ValueError
    with both numbers in it.
    """
    dim, length = min(q.shape[-1], k.shape[-1]), min(k.shape[-2], v.shape[-2])
    if (q.shape[-1], k.shape[-2]) == (k.shape[-1], v.shape[-2]):
        return attention(q, k, v, keep, scale)
    return attention(q[..., :dim], k[..., :length, :dim], v[..., :length, :], keep, scale)


@mistake(of="scaled_dot_product_attention", caught_by=test_manners)
def misfits_left_to_matmul(q, k, v, keep=None, scale=None):
    """Widths or lengths that do not fit are left to matmul, which raises a RuntimeError.

    Compare the sizes first, and raise a ValueError with both numbers in it.
    """
    return attention(q, k, v, keep, scale, check=unchanged)


@mistake(of="attention_numpy", caught_by=test_manners)
def misfits_not_refused_numpy(q, k, v, keep=None, scale=None):
    """The ValueError for widths or lengths that do not fit does not name both of them.

    Put both numbers in the message: f"q has width {q.shape[-1]}, but k has width {k.shape[-1]}".
    """
    try:
        return attention_of_arrays(q, k, v, keep, scale)
    except ValueError:
        raise ValueError("the inputs do not fit") from None


@mistake(of="scaled_dot_product_attention", caught_by=test_manners)
def refusal_lists_numbers(q, k, v, keep=None, scale=None):
    """The ValueError for widths or lengths that do not fit lists numbers, whatever the sizes are.

    Put the two sizes in the message: f"q has width {q.shape[-1]}, but k has width {k.shape[-1]}".
    """
    try:
        return attention(q, k, v, keep, scale)
    except ValueError:
        raise ValueError(f"one of {list(range(128))} does not fit") from None


@mistake(of="attention_numpy", caught_by=test_manners)
def refusal_lists_numbers_numpy(q, k, v, keep=None, scale=None):
    """The ValueError for widths or lengths that do not fit names the same few numbers each time.

    Put the two sizes in the message: f"q has width {q.shape[-1]}, but k has width {k.shape[-1]}".
    """
    try:
        return attention_of_arrays(q, k, v, keep, scale)
    except ValueError:
        raise ValueError("sizes such as 1, 2, 3, 4, 5 and 7 do not fit") from None


# Two options at once.


@also_of_arrays(caught_by=test_numpy_scale)
@mistake(of="scaled_dot_product_attention", caught_by=test_scale)
def scale_ignored_under_a_mask(q, k, v, keep=None, scale=None):
    """With a mask, a given `scale` is ignored and the scores are divided by sqrt(D).

    Choose the scale once, before you ask whether there is a mask.
    """
    return attention(q, k, v, keep, scale if keep is None else None)


@also_of_arrays(caught_by=test_numpy_scale)
@mistake(of="scaled_dot_product_attention", caught_by=test_scale)
def mask_before_the_scale(q, k, v, keep=None, scale=None):
    """The scores are hidden before they are scaled: -inf times a negative scale is +inf.

    Scale first, q or the scores; then put -inf where `keep` is False.
    """
    factor = chosen(q, scale)

    def hide(scores, keep):
        return hidden(scores, keep) * factor

    return attention(q, k, v, keep, 1.0, hide=hide)


@also_of_arrays(caught_by=test_numpy_scale)
@mistake(of="scaled_dot_product_attention", caught_by=test_scale)
def no_maximum_under_a_mask(q, k, v, keep=None, scale=None):
    """With a mask, the exponentials are taken of the bare scores, and large ones overflow.

    Use torch.softmax there too, or subtract the maximum of each row before exp.
    """
    return attention(q, k, v, keep, scale, shift=shifted if keep is None else unchanged)


@mistake(of="attention_numpy", caught_by=test_dtype)
def dtype_promoted_by_the_scale_numpy(q, k, v, keep=None, scale=None):
    """float32 comes back as float64 if a scale is given: np.float64(scale) widens what it meets.

    Leave the scale a plain float, which takes the dtype of the array.
    """
    output, weights = attention_of_arrays(q, k, v, keep, scale)
    wide = output.dtype if scale is None else np.float64
    return output.astype(wide), weights.astype(wide)


@mistake(of="scaled_dot_product_attention", caught_by=test_half_precision)
def dtype_promoted_by_the_scale(q, k, v, keep=None, scale=None):
    """Half precision comes back as float32 if a scale is given.

    Convert both results to the dtype of q, whatever the options.
    """
    output, weights = attention(q, k, v, keep, scale)
    wide = output.dtype if scale is None else torch.promote_types(output.dtype, torch.float32)
    return output.to(wide), weights.to(wide)


@also_of_arrays(caught_by=test_half_precision)
@mistake(of="scaled_dot_product_attention", caught_by=test_half_precision)
def half_precision_not_raised_under_a_mask(q, k, v, keep=None, scale=None):
    """With a mask, half precision is computed in half precision, where 256 * 256 is infinity.

    Convert q, k and v to float32 before the first product, whether or not there is a mask.
    """
    return attention(q, k, v, keep, scale, widen=raised if keep is None else unchanged)


@mistake(of="scaled_dot_product_attention", caught_by=test_empty_rows)
def empty_rows_not_a_number_in_half_precision(q, k, v, keep=None, scale=None):
    """In half precision a query that may attend to nothing gets NaN, for only float32 and float64
    are guarded.

    Treat empty rows alike in every dtype.
    """
    how = empty_rows_not_a_number if q.dtype in HALVES else attention
    return how(q, k, v, keep, scale)


@mistake(of="scaled_dot_product_attention", caught_by=test_hidden)
def minus_infinity_added_in_half_precision(q, k, v, keep=None, scale=None):
    """In half precision -inf is added to hidden scores, but NaN + -inf is NaN.

    Replace hidden scores in every dtype: torch.where(keep, scores, -torch.inf).
    """
    how = minus_infinity_added if q.dtype in HALVES else attention
    return how(q, k, v, keep, scale)


@mistake(of="scaled_dot_product_attention", caught_by=test_mask)
def three_dimensions_taken_for_batches(q, k, v, keep=None, scale=None):
    """A mask of three dimensions is taken for (B, Lq, Lk), but it broadcasts as (H, Lq, Lk).

    Leave the mask as it is: whoever has one for each batch item writes keep[:, None].
    """
    if keep is not None and keep.ndim == 3 and q.ndim == 4:
        keep = keep[:, None] if len(keep) == len(q) else keep[: len(q), None]
    return attention(q, k, v, keep, scale)


@mistake(of="scaled_dot_product_attention", caught_by=test_values)
def causal_if_the_lengths_agree(q, k, v, keep=None, scale=None):
    """As many queries as keys are taken for a causal model, and later keys are hidden.

    Hide what `keep` hides, and nothing if it is None, whatever the lengths.
    """
    if keep is None and q.dtype not in HALVES and q.shape[-2] == k.shape[-2]:
        keep = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool, device=q.device).tril()
    return attention(q, k, v, keep, scale)


@mistake(of="scaled_dot_product_attention", caught_by=test_values)
def transposed_only_if_the_shapes_ask(q, k, v, keep=None, scale=None):
    """The keys are transposed only if they do not fit as they are: as many keys as numbers in each
    are multiplied row by row.

    Always transpose the last two axes of k.
    """
    if q.shape[-1] == k.shape[-1] == k.shape[-2]:
        return attention(q, k.mT, v, keep, scale)
    return attention(q, k, v, keep, scale)


@mistake(of="scaled_dot_product_attention", caught_by=test_gradients)
def graph_cut_by_the_scale(q, k, v, keep=None, scale=None):
    """With a scale and a mask, queries and keys are detached, and never learn.

    Use PyTorch operators only, from the inputs to the results.
    """
    if keep is None or scale is None:
        return attention(q, k, v, keep, scale)
    return attention(q.detach(), k.detach(), v, keep, scale)


@mistake(of="scaled_dot_product_attention", caught_by=test_gradients)
def returned_weights_detached_under_a_mask(q, k, v, keep=None, scale=None):
    """With a mask, the weights that are returned carry no gradient.

    Return the weights as they are, without detach or .data.
    """
    output, weights = attention(q, k, v, keep, scale)
    return output, weights if keep is None else weights.detach()


@mistake(of="scaled_dot_product_attention", caught_by=test_manners)
def input_overwritten_in_single_precision(q, k, v, keep=None, scale=None):
    """The queries are overwritten, by `q *= scale`, in float32 and without a mask only.

    Write q = q * scale: it makes a new tensor.
    """
    answer = attention(q, k, v, keep, scale)
    if keep is None and q.dtype == torch.float32:
        q.data.mul_(0.5)
    return answer


@mistake(of="attention_numpy", caught_by=test_manners)
def input_overwritten_in_single_precision_numpy(q, k, v, keep=None, scale=None):
    """The queries are overwritten, by `q *= scale`, in float32 and without a mask only.

    Write q = q * scale: it makes a new array.
    """
    answer = attention_of_arrays(q, k, v, keep, scale)
    if keep is None and q.dtype == np.float32:
        q *= 0.5
    return answer


@mistake(of="scaled_dot_product_attention", caught_by=test_manners)
def misfits_not_refused_under_a_mask(q, k, v, keep=None, scale=None):
    """With a mask, widths or lengths that do not fit are not looked at before the first product.

    Compare the sizes first of all, whether or not there is a mask.
    """
    how = attention if keep is None else misfits_not_refused
    return how(q, k, v, keep, scale)


# What shows with few inputs only.


@mistake(of="scaled_dot_product_attention", caught_by=test_mask)
def mask_of_keys_taken_for_queries(q, k, v, keep=None, scale=None):
    """A mask of one dimension is taken for one of the queries, if there are as many as keys.

    `keep` broadcasts from the right: its last dimension is the keys, whatever the lengths.
    """
    if keep is not None and keep.ndim == 1 and q.shape[-2] == k.shape[-2]:
        keep = keep[:, None]
    return attention(q, k, v, keep, scale)


@mistake(of="scaled_dot_product_attention", caught_by=test_mask)
def upper_triangle_turned(q, k, v, keep=None, scale=None):
    """A square mask that shows no earlier keys is taken for one that was written the wrong way
    round, and transposed.

    Use `keep` as it is given: it need not be causal.
    """
    if keep is not None and keep.shape == (q.shape[-2], q.shape[-2]) and not keep.tril(-1).any():
        keep = keep.mT
    return attention(q, k, v, keep, scale)


@mistake(of="attention_numpy", caught_by=test_numpy_mask)
def mask_transposed_if_square_numpy(q, k, v, keep=None, scale=None):
    """A square mask is read as (Lk, Lq): rows and columns are exchanged.

    `keep` is (..., Lq, Lk), a row for each query: use it as it is.
    """
    if keep is not None and keep.shape[-2:] == (q.shape[-2], q.shape[-2]) == keep.shape:
        keep = keep.T if q.shape[-2] == k.shape[-2] else keep
    return attention_of_arrays(q, k, v, keep, scale)


@mistake(of="scaled_dot_product_attention", caught_by=test_gradients)
def graph_cut_if_the_lengths_agree(q, k, v, keep=None, scale=None):
    """With as many queries as keys, the weights carry no gradient to q and k.

    Use PyTorch operators only, from the inputs to the results, whatever the lengths.
    """
    if q.shape[-2] == k.shape[-2]:
        return graph_cut(q, k, v, keep, scale)
    return attention(q, k, v, keep, scale)


@mistake(of="scaled_dot_product_attention", caught_by=test_gradients)
def graph_cut_for_one_query(q, k, v, keep=None, scale=None):
    """A single query, as in decoding, gets no gradient.

    Training may have sequences of length 1 as well: use PyTorch operators only.
    """
    return attention(q.detach() if q.shape[-2] == 1 else q, k, v, keep, scale)


@mistake(of="scaled_dot_product_attention", caught_by=test_values)
def squeezed(q, k, v, keep=None, scale=None):
    """Dimensions of 1 are squeezed out, and a batch of one loses its dimension.

    Let the leading dimensions be: matmul carries them along, 1 or not.
    """
    output, weights = attention(q, k, v, keep, scale)
    return output.squeeze(0), weights.squeeze(0)


@mistake(of="attention_numpy", caught_by=test_numpy_values)
def one_key_for_all_numpy(q, k, v, keep=None, scale=None):
    """A single key is averaged away: with Lk = 1 the mean of the values over the heads comes out.

    The mean is over the keys, axis -2, and over nothing else.
    """
    output, weights = attention_of_arrays(q, k, v, keep, scale)
    if k.shape[-2] == 1 and q.ndim > 3:
        output = np.broadcast_to(output.mean(-3, keepdims=True), output.shape)
    return output, weights


def in_two_halves(q, k, v, keep, scale, attend, joined):
    """Attention to the first keys and to the last, averaged as if each had half the weight."""
    middle = k.shape[-2] // 2
    parts = [
        attend(
            q,
            k[..., span, :],
            v[..., span, :],
            keep if keep is None or keep.shape[-1] == 1 else keep[..., span],
            scale,
        )
        for span in (slice(None, middle), slice(middle, None))
    ]
    (one, first), (other, second) = parts
    return (one + other) / 2, joined([first, second], -1) / 2


@mistake(of="scaled_dot_product_attention", caught_by=test_values)
def tiles_averaged(q, k, v, keep=None, scale=None):
    """More than 2048 keys go through two softmaxes, whose results are averaged.

    Weigh the two by the sums of their exponentials, or take one softmax over all keys.
    """
    if k.shape[-2] <= 2048:
        return attention(q, k, v, keep, scale)
    return in_two_halves(q, k, v, keep, scale, attention, torch.cat)


@mistake(of="attention_numpy", caught_by=test_numpy_values)
def tiles_averaged_numpy(q, k, v, keep=None, scale=None):
    """More than 128 keys go through two softmaxes, whose results are averaged.

    Weigh the two by the sums of their exponentials, or take one softmax over all keys.
    """
    if k.shape[-2] <= 128:
        return attention_of_arrays(q, k, v, keep, scale)
    return in_two_halves(q, k, v, keep, scale, attention_of_arrays, np.concatenate)


@mistake(of="scaled_dot_product_attention", caught_by=test_mask)
def mask_cut_with_the_queries(q, k, v, keep=None, scale=None):
    """More than 256 queries are taken in chunks, and the mask is cut along the queries even where
    it has a single row for all of them.

    Broadcast the mask before you cut it: keep.expand(*q.shape[:-1], k.shape[-2]).
    """
    if keep is None or q.shape[-2] <= 256 or keep.ndim < 2:
        return attention(q, k, v, keep, scale)
    masks = keep[..., :256, :], keep[..., 256:, :] if keep.shape[-2] > 1 else None
    chunks = q[..., :256, :], q[..., 256:, :]
    parts = [attention(c, k, v, m, scale) for c, m in zip(chunks, masks, strict=True)]
    output, weights = (torch.cat(found, -2) for found in zip(*parts, strict=True))
    return output, weights


@mistake(of="attention_numpy", caught_by=test_numpy_scale)
def maximum_before_the_scale_numpy(q, k, v, keep=None, scale=None):
    """The maximum is taken before the scale: a negative one makes the smallest score the largest.

    Scale first, then take the maximum of what goes into exp.
    """
    factor = chosen(q, scale)

    def hide(scores, keep):
        shown = hidden_in_array(scores, keep)
        top = shown.max(-1, keepdims=True, initial=np.finfo(scores.dtype).min)
        return hidden_in_array((scores - top) * factor, keep)

    return attention_of_arrays(q, k, v, keep, 1.0, hide=hide, shift=unchanged)


@mistake(of="scaled_dot_product_attention", caught_by=test_manners)
def scaled_in_place_and_back(q, k, v, keep=None, scale=None):
    """q is scaled in place and divided again at the end, which shows where q is k or v.

    Write q = q * scale: it makes a new tensor.
    """
    factor = q.shape[-1] ** -0.5 if scale is None else scale
    if q.requires_grad:
        return attention(q, k, v, keep, scale)
    before = q.data.clone()
    q.data.mul_(factor)
    try:
        return attention(q, k, v, keep, 1.0)
    finally:
        q.data.copy_(before)


@mistake(of="attention_numpy", caught_by=test_manners)
def scaled_in_place_and_back_numpy(q, k, v, keep=None, scale=None):
    """q is scaled in place and put back at the end, which shows where q is k or v.

    Write q = q * scale: it makes a new array.
    """
    before = q.copy()
    q *= q.shape[-1] ** -0.5 if scale is None else scale
    try:
        return attention_of_arrays(q, k, v, keep, 1.0)
    finally:
        q[:] = before


@mistake(of="scaled_dot_product_attention", caught_by=test_manners)
def answer_kept_by_identity(q, k, v, keep=None, scale=None, kept={}):  # noqa: B006 (the mistake)
    """The answer is kept for the next call with the same tensors, whose numbers may have changed.

    Compute it anew: a tensor that is the same object need not hold the same numbers.
    """
    if q.requires_grad:
        return attention(q, k, v, keep, scale)
    asked = id(q), id(k), id(v), id(keep), scale
    if asked not in kept:
        kept[asked] = *attention(q, k, v, keep, scale), (q, k, v, keep)  # so no id is used again
    return kept[asked][:2]


@mistake(of="attention_numpy", caught_by=test_manners)
def answer_kept_by_identity_numpy(q, k, v, keep=None, scale=None, kept={}):  # noqa: B006 (as above)
    """The answer is kept for the next call with the same arrays, whose numbers may have changed.

    Compute it anew: an array that is the same object need not hold the same numbers.
    """
    asked = id(q), id(k), id(v), id(keep), scale
    if asked not in kept:
        found = attention_of_arrays(q, k, v, keep, scale)
        kept[asked] = *found, (q, k, v, keep)  # so no id is used again
    return kept[asked][:2]


@mistake(of="attention_numpy", caught_by=test_manners)
def half_keys_kept_by_identity_numpy(q, k, v, keep=None, scale=None, kept={}):  # noqa: B006
    """The keys in float32 are kept for the next call with the same float16 array, whose numbers may
    have changed.

    Convert them in every call: an array that is the same object need not hold the same numbers.
    """

    def widen(x):
        if x is not k or x.dtype != np.float16:
            return raised_array(x)
        return kept.setdefault(id(x), (raised_array(x), x))[0]  # x too, so no id is used again

    return attention_of_arrays(q, k, v, keep, scale, widen=widen)


@mistake(of="scaled_dot_product_attention", caught_by=test_manners)
def scale_left_by_a_failed_call(q, k, v, keep=None, scale=None, left={}):  # noqa: B006 (the mistake)
    """The scale is put aside while a call runs, and one that raised leaves it to the next.

    Keep what belongs to one call in variables of the function.
    """
    if scale is not None:
        left["scale"] = scale
    answer = attention(q, k, v, keep, left.get("scale"))
    left.clear()
    return answer


@mistake(of="attention_numpy", caught_by=test_manners)
def scale_left_by_a_failed_call_numpy(q, k, v, keep=None, scale=None, left={}):  # noqa: B006
    """The scale is put aside while a call runs, and one that raised leaves it to the next.

    Keep what belongs to one call in variables of the function.
    """
    if scale is not None:
        left["scale"] = scale
    answer = attention_of_arrays(q, k, v, keep, left.get("scale"))
    left.clear()
    return answer


@mistake(of="attention_numpy", caught_by=test_manners)
def width_of_one_broadcast_numpy(q, k, v, keep=None, scale=None):
    """Keys of width 1 are not refused: NumPy spreads them over the width of q.

    Compare q.shape[-1] with k.shape[-1] before the first product: 1 fits nothing but 1.
    """
    if k.shape[-1] == 1:
        k = np.broadcast_to(k, (*k.shape[:-1], q.shape[-1]))
    return attention_of_arrays(q, k, v, keep, scale)


@mistake(of="scaled_dot_product_attention", caught_by=test_manners)
def longer_values_cut(q, k, v, keep=None, scale=None):
    """Values beyond the last key are cut off instead of refused.

    Compare k.shape[-2] with v.shape[-2]: they must be equal, not just large enough.
    """
    return attention(q, k, v[..., : k.shape[-2], :], keep, scale)


@mistake(of="attention_numpy", caught_by=test_manners)
def mask_opened_in_place_numpy(q, k, v, keep=None, scale=None):
    """Rows without any key are opened in the caller's mask, to keep NaN away.

    Write to a copy, or give such rows a maximum that does no harm.
    """
    answer = attention_of_arrays(q, k, v, keep, scale)
    if keep is not None:
        keep |= ~keep.any(-1, keepdims=True)
    return answer


@mistake(of="scaled_dot_product_attention", caught_by=test_manners)
def mask_made_on_the_cpu(q, k, v, keep=None, scale=None):
    """Without `keep` a mask of ones is made on the default device, wherever the inputs are.

    Give what you make the device of the inputs: torch.ones(..., device=q.device).
    """
    if keep is None:
        keep = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool)
    return attention(q, k, v, keep, scale)


# Habits that cost one check.


@mistake(of="scaled_dot_product_attention", caught_by=test_dtype)
def square_root_of_a_tensor(q, k, v, keep=None, scale=None):
    """The scores are divided by torch.sqrt(torch.tensor(D)), which has the digits of float32.

    Take math.sqrt(q.shape[-1]), a Python float, which has the digits of float64.
    """
    root = torch.sqrt(torch.tensor(q.shape[-1], dtype=torch.float32))
    return attention(q, k, v, keep, (1 / root).item() if scale is None else scale)


@mistake(of="scaled_dot_product_attention", caught_by=test_empty)
def maximum_of_no_keys(q, k, v, keep=None, scale=None):
    """The maximum of each row is taken by hand, and a row of no keys at all has none.

    Use torch.softmax, or treat Lk = 0 on its own: output and weights are zeros.
    """
    if k.shape[-2] == 0:
        (q @ k.mT).amax(-1)
    return attention(q, k, v, keep, scale)


@mistake(of="attention_numpy", caught_by=test_empty)
def maximum_of_no_keys_numpy(q, k, v, keep=None, scale=None):
    """`scores.max(-1)` raises where there are no keys at all.

    Give the maximum a number to start from: initial=np.finfo(scores.dtype).min.
    """
    if k.shape[-2] == 0:
        (q @ np.swapaxes(k, -1, -2)).max(-1)
    return attention_of_arrays(q, k, v, keep, scale)


# No attention at all.


def answer(weights, v):
    return weights @ v, weights


@mistake(of="scaled_dot_product_attention", caught_by=test_values, null=True)
def zeros(q, k, v, keep=None, scale=None):
    """Zeros.

    Nothing is computed yet.
    """
    return answer((q @ k.mT).zero_(), v)


@mistake(of="attention_numpy", caught_by=test_numpy_values, null=True)
def zeros_numpy(q, k, v, keep=None, scale=None):
    """Zeros.

    Nothing is computed yet.
    """
    return answer(np.zeros((*q.shape[:-1], k.shape[-2]), q.dtype), v)


@mistake(of="scaled_dot_product_attention", caught_by=test_values, null=True)
def mean_of_the_values(q, k, v, keep=None, scale=None):
    """Every key gets the same weight, so that the output is the mean of the values.

    The weights depend on the scores q k^T, through the softmax.
    """
    return answer(torch.full_like(q @ k.mT, 1 / k.shape[-2]), v)


@mistake(of="attention_numpy", caught_by=test_numpy_values, null=True)
def mean_of_the_values_numpy(q, k, v, keep=None, scale=None):
    """Every key gets the same weight, so that the output is the mean of the values.

    The weights depend on the scores q k^T, through the softmax.
    """
    return answer(np.full((*q.shape[:-1], k.shape[-2]), 1 / k.shape[-2], q.dtype), v)


@mistake(of="scaled_dot_product_attention", caught_by=test_values, null=True)
def values_returned(q, k, v, keep=None, scale=None):
    """Query i gets the value of key i, whatever it asks for.

    Compare each query with each key: q @ k.mT.
    """
    rows = torch.eye(q.shape[-2], k.shape[-2], dtype=v.dtype, device=v.device)
    return answer(rows.expand(*q.shape[:-1], -1), v)


@mistake(of="scaled_dot_product_attention", caught_by=test_values, null=True)
def only_the_best_key(q, k, v, keep=None, scale=None):
    """All the weight goes to the key that matches best.

    That is argmax. Softmax leaves something for the others.
    """
    scores = q @ k.mT
    best = scores.argmax(-1, keepdim=True)
    return answer(torch.zeros_like(scores).scatter(-1, best, 1.0), v)


@mistake(of="attention_numpy", caught_by=test_numpy_values, null=True)
def only_the_best_key_numpy(q, k, v, keep=None, scale=None):
    """All the weight goes to the key that matches best.

    That is argmax. Softmax leaves something for the others.
    """
    scores = q @ np.swapaxes(k, -1, -2)
    return answer((scores == scores.max(-1, keepdims=True)).astype(q.dtype), v)


@mistake(of="scaled_dot_product_attention", caught_by=test_values, null=True)
def linear_layer(q, k, v, keep=None, scale=None):
    """The output is a linear function of the query alone.

    The output is made of the values: weights @ v.
    """
    table = torch.ones(q.shape[-1], v.shape[-1], dtype=q.dtype, device=q.device)
    return q @ table, torch.full_like(q @ k.mT, 1 / k.shape[-2])


@mistake(of="scaled_dot_product_attention", caught_by=test_manners)
def one_place_for_all_answers(q, k, v, keep=None, scale=None, places={}):  # noqa: B006 (that is the mistake)
    """Every answer of a form is written into the same memory, over the answer before it.

    Return new tensors in every call.
    """
    return written_over(places, attention(q, k, v, keep, scale))


@mistake(of="attention_numpy", caught_by=test_manners)
def one_place_for_all_answers_numpy(q, k, v, keep=None, scale=None, places={}):  # noqa: B006 (that is the mistake)
    """Every answer of a form is written into the same memory, over the answer before it.

    Return new arrays in every call.
    """
    return written_over(places, attention_of_arrays(q, k, v, keep, scale))


@mistake(of="scaled_dot_product_attention", caught_by=test_manners)
def strided_values_copied_without_graph(q, k, v, keep=None, scale=None):
    """Values that do not lie in memory one after another are first copied with .data, so that they
    get no gradient.

    Copy them with .contiguous() or .reshape(), which gradients pass through.
    """
    return attention(q, k, v if v.is_contiguous() else v.data.contiguous(), keep, scale)


@also_of_arrays(caught_by=test_manners)
@mistake(of="scaled_dot_product_attention", caught_by=test_manners)
def heads_of_the_mask_for_sequences(q, k, v, keep=None, scale=None):
    """A mask of three dimensions counts as one for each sequence if there are as many of them.

    Dimensions are lined up from the right: a keep of (H, Lq, Lk) is one mask for each head.
    """
    if keep is not None and keep.ndim == 3 and q.ndim == 4 and len(keep) == len(q):
        keep = keep[:, None]
    return attention(q, k, v, keep, scale)


@also_of_arrays(caught_by=test_manners)
@mistake(of="scaled_dot_product_attention", caught_by=test_manners)
def scale_forgotten_in_five_dimensions(q, k, v, keep=None, scale=None):
    """With more than two leading dimensions the function calls itself for each entry of the first,
    and does not hand the scale on.

    Hand every option on; or count dimensions from the end, and no loop is needed.
    """
    return attention(q, k, v, keep, scale if q.ndim < 5 else None)


@also_of_arrays(caught_by=test_manners)
@mistake(of="scaled_dot_product_attention", caught_by=test_manners)
def scale_of_zero_shared_among_none(q, k, v, keep=None, scale=None):
    """With a scale of 0 the weights are a mean over the kept keys, and 0/0 where none is kept.

    Let the softmax run with any scale, and set the weights of empty rows to 0.
    """
    if scale != 0 or keep is None:
        return attention(q, k, v, keep, scale)
    _, weights = attention(q, k, v, keep, scale)
    shares = 0 * weights + keep
    with np.errstate(all="ignore"):
        weights = shares / shares.sum(-1, keepdims=True)
    return weights @ v, weights


@also_of_arrays(caught_by=test_numpy_values)
@mistake(of="scaled_dot_product_attention", caught_by=test_values)
def full_last_tile_of_queries_left_out(q, k, v, keep=None, scale=None):
    """The output is computed in tiles of 128 queries, and a last tile that is full stays 0: it
    counts Lq % 128 queries.

    A tile ends at min(start + 128, Lq).
    """
    output, weights = attention(q, k, v, keep, scale)
    n = q.shape[-2]
    if n > 128 and n % 128 == 0:
        output[..., n - 128 :, :] = 0.0
    return output, weights


@mistake(of="scaled_dot_product_attention", caught_by=test_manners)
def one_place_without_a_mask(q, k, v, keep=None, scale=None, places={}):  # noqa: B006 (that is the mistake)
    """Without a mask every answer of a form is written over the answer before it.

    Return new tensors in every call, with a mask and without.
    """
    answer = attention(q, k, v, keep, scale)
    return written_over(places, answer) if keep is None else answer


@mistake(of="attention_numpy", caught_by=test_manners)
def one_place_in_float16_numpy(q, k, v, keep=None, scale=None, places={}):  # noqa: B006 (that is the mistake)
    """In float16 every answer of a form is written over the answer before it.

    Return new arrays in every call, whatever the dtype.
    """
    answer = attention_of_arrays(q, k, v, keep, scale)
    return written_over(places, answer) if q.dtype == np.float16 else answer


@mistake(of="scaled_dot_product_attention", caught_by=test_dtype)
def hidden_at_a_number_in_float64(q, k, v, keep=None, scale=None):
    """In float64 hidden scores become -1e30, more than a very low score of a key that is seen.

    Put -inf in their place in every dtype.
    """

    def fill(scores, keep):
        low = -1e30 if scores.dtype == torch.float64 else -torch.inf
        return hidden(scores, keep) if keep is None else torch.where(keep, scores, low)

    def clear(weights, keep):
        return weights if keep is None else weights.masked_fill(~keep, 0.0)

    return attention(q, k, v, keep, scale, hide=fill, clear=clear)


@mistake(of="scaled_dot_product_attention", caught_by=test_scale)
def small_powers_cut(q, k, v, keep=None, scale=None):
    """Exponentials of distances below -20 are set to 0, though many of them count together.

    Leave exp as it is: it is 0 by itself where a number is too small for the dtype.
    """

    def cut(shown, dim=-1):
        distances = shifted(shown, dim)
        return torch.where(distances < -20, -torch.inf, distances)

    return attention(q, k, v, keep, scale, shift=cut)


@mistake(of="scaled_dot_product_attention", caught_by=test_manners)
def weights_cut_where_values_are_fixed(q, k, v, keep=None, scale=None):
    """Where v needs no gradient, the weights that are returned are cut off from q and k.

    Return the weights as they are: whoever needs their gradient may have fixed the values.
    """
    output, weights = attention(q, k, v, keep, scale)
    return output, weights if v.requires_grad else weights.detach()
