"""Wrong answers to `scaled_dot_product_attention`."""

import math

import numpy as np
import torch

from grader.judging import mistake
from grader.judging.one_place import written_over

from ..test_sdpa import (
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
from .shared import (
    also_of_arrays,
    answer,
    attention,
    chosen,
    converted_back,
    fit,
    hidden,
    mixed,
    raised,
    scored,
    shifted,
    summed,
    unchanged,
    without_nan,
)

xp = torch


def hidden_in_empty_rows_too(scores, keep):
    return scores if keep is None else torch.where(keep, scores, -torch.inf)


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
    """The results of inputs in half precision come back in float32.

    Convert both to the dtype of q at the end: .to(q.dtype).
    """
    return attention(q, k, v, keep, scale, narrow=unchanged)


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


@mistake(of="scaled_dot_product_attention", caught_by=test_manners)
def refusal_lists_numbers(q, k, v, keep=None, scale=None):
    """The ValueError for widths or lengths that do not fit lists numbers, whatever the sizes are.

    Put the two sizes in the message: f"q has width {q.shape[-1]}, but k has width {k.shape[-1]}".
    """
    try:
        return attention(q, k, v, keep, scale)
    except ValueError:
        raise ValueError(f"one of {list(range(128))} does not fit") from None


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


@mistake(of="scaled_dot_product_attention", caught_by=test_values, null=True)
def zeros(q, k, v, keep=None, scale=None):
    """Zeros.

    Nothing is computed yet.
    """
    return answer((q @ k.mT).zero_(), v)


@mistake(of="scaled_dot_product_attention", caught_by=test_values, null=True)
def mean_of_the_values(q, k, v, keep=None, scale=None):
    """Every key gets the same weight, so that the output is the mean of the values.

    The weights depend on the scores q k^T, through the softmax.
    """
    return answer(torch.full_like(q @ k.mT, 1 / k.shape[-2]), v)


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
