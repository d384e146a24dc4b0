"""Wrong answers to `masked_softmax`."""

import torch

from grader.judging import mistake
from grader.judging.one_place import written_over

from ..steps import (
    converted_back,
    everything_if_none,
    filled,
    masked,
    replaced,
    rows_without_keys,
    shifted,
    summed,
    unchanged,
    wide,
    zero_in_empty_rows,
)
from ..test_masking import (
    test_broadcasting,
    test_empty_rows,
    test_gradient,
    test_hidden_scores,
    test_large_scores,
    test_manners,
    test_precisions,
    test_values,
)
from .shared import chosen


def with_infinity(scores, keep):
    """-inf added to hidden scores, not put in their place."""
    return scores + torch.zeros_like(keep, dtype=scores.dtype).masked_fill(~keep, -torch.inf)


def summed_as_a_constant(powers, keep, dim):
    return summed(powers, keep, dim).detach()


def unhidden(hidden, keep, scores):
    """Rows without keys with all their scores."""
    return torch.where(rows_without_keys(keep), scores, hidden)


def multiplied(distances, keep):
    return distances.exp() * keep


def one_if_empty(powers, keep, dim):
    """The sums, and 1 for rows without keys."""
    return torch.where(rows_without_keys(keep), 1.0, summed(powers, keep, dim))


def never_zero(powers, keep, dim):
    """The sums, and 1 in the place of 0."""
    total = powers.sum(dim, keepdim=True)
    return torch.where(total == 0, 1.0, total)


def broadcasts(scores, keep):
    """Whether there is a mask, of another shape than the scores."""
    return keep is not None and keep.shape != scores.shape


@mistake(of="masked_softmax", caught_by=test_values)
def polarity_inverted(scores, keep):
    """The mask is applied the wrong way round: what should be seen is hidden.

    True means may attend, so -inf goes where keep is False.
    """
    return masked(scores, None if keep is None else ~keep)


@mistake(of="masked_softmax", caught_by=test_values)
def masked_after_the_softmax(scores, keep):
    """The mask is applied after the softmax, so the rows no longer sum to one.

    Hide the scores before the softmax: a hidden key must not take a share of the sum.
    """

    def close(weights, keep):
        return torch.where(keep, weights, 0.0)

    return masked(scores, keep, hide=unchanged, mend=unchanged, close=close)


@mistake(of="masked_softmax", caught_by=test_values)
def multiplied_after_the_softmax(scores, keep):
    """The weights are multiplied by the mask after the softmax, so the rows no longer sum to one.

    Hide the scores before the softmax: a hidden key must not take a share of the sum.
    """

    def close(weights, keep):
        return weights * keep

    return masked(scores, keep, hide=unchanged, mend=unchanged, close=close)


@mistake(of="masked_softmax", caught_by=test_values)
def hidden_scores_zero(scores, keep):
    """Hidden scores are set to 0, and e^0 is 1: hidden keys still get a share.

    Set them to -inf: e^-inf is 0.
    """
    return masked(scores, keep, hide=filled(0.0))


@mistake(of="masked_softmax", caught_by=test_values)
def hidden_scores_minus_five(scores, keep):
    """Hidden scores are set to a small negative number, -5, so some weight leaks to hidden keys.

    Set them to -inf: e^-inf is 0.
    """
    return masked(scores, keep, hide=filled(-5.0))


@mistake(of="masked_softmax", caught_by=test_values)
def zero_means_hidden(scores, keep):
    """Scores are multiplied by the mask, and then every 0 counts as hidden: kept scores of 0, too.

    Ask the mask which keys are hidden, not the scores: torch.where(keep, scores, -torch.inf).
    """

    def visible(scores, keep):
        return torch.where(everything_if_none(scores, keep), scores, 0.0) != 0

    return masked(scores, keep, visible=visible)


@mistake(of="masked_softmax", caught_by=test_hidden_scores)
def hidden_scores_minus_hundred(scores, keep):
    """Hidden scores are set to -100: their weights are tiny, but not 0.

    Set them to -inf: e^-inf is 0, however low the other scores of the row are.
    """
    return masked(scores, keep, hide=filled(-100.0))


@mistake(of="masked_softmax", caught_by=test_large_scores)
def hidden_scores_minus_ten_thousand(scores, keep):
    """Hidden scores are set to -10,000, which is not low where the kept ones are as low as that.

    Set them to -inf: it is below every score.
    """
    return masked(scores, keep, hide=filled(-1e4))


@mistake(of="masked_softmax", caught_by=test_precisions)
def large_number_in_half_precision(scores, keep):
    """Hidden scores are set to -1e9, which float16 cannot hold.

    Set them to -inf, which every floating dtype has.
    """
    return masked(scores, keep, widen=unchanged, hide=filled(-1e9))


@mistake(of="masked_softmax", caught_by=test_empty_rows)
def empty_rows_uniform(scores, keep):
    """A row with nothing to attend to attends to all keys equally, as if hidden scores were -1e9.

    Give such rows the weights 0: find them with keep.any(-1, keepdim=True).
    """
    return masked(scores, keep, hide=filled(-1e9), mend=unchanged, close=unchanged)


@mistake(of="masked_softmax", caught_by=test_empty_rows)
def empty_rows_nan(scores, keep):
    """A row with nothing to attend to is NaN: its scores are all -inf, and -inf - -inf is NaN.

    Put ordinary scores into such rows before the softmax, and weights of 0 after it.
    """
    return masked(scores, keep, mend=unchanged, close=unchanged)


@mistake(of="masked_softmax", caught_by=test_empty_rows)
def only_an_empty_mask(scores, keep):
    """An empty row is found only if the whole mask is empty.

    Ask row by row: keep.any(-1, keepdim=True).
    """

    def mend(numbers, keep, *_):
        return numbers if keep.any() else torch.zeros_like(numbers)

    return masked(scores, keep, mend=mend, close=mend)


@mistake(of="masked_softmax", caught_by=test_gradient)
def nan_removed_afterwards(scores, keep):
    """The NaN of empty rows is replaced after the softmax, but its gradient is still NaN.

    Mend such rows before the softmax, so that no NaN is ever computed.
    """

    def hide(scores, keep):
        return with_infinity(scores.nan_to_num(), keep)

    def close(weights, keep):
        return weights.nan_to_num(nan=0.0)

    return masked(scores, keep, hide=hide, mend=unchanged, close=close)


@mistake(of="masked_softmax", caught_by=test_gradient)
def empty_rows_unhidden(scores, keep):
    """Empty rows keep all their scores, and the weights are multiplied by 0: NaN * 0 is NaN.

    Put 0 into the scores of empty rows before the softmax; do not rely on what they hold.
    """
    return masked(scores, keep, mend=unhidden, close=lambda weights, keep: weights * keep)


@mistake(of="masked_softmax", caught_by=test_gradient)
def empty_rows_keep_their_scores(scores, keep):
    """Empty rows keep their scores, and their weights are set to 0: the gradient of NaN is NaN.

    Put 0 into the scores of empty rows before the softmax; do not rely on what they hold.
    """
    return masked(scores, keep, mend=unhidden)


@mistake(of="masked_softmax", caught_by=test_values)
def zero_times_infinity(scores, keep):
    """The mask is multiplied by -inf before it is added, and 0 * -inf is NaN.

    Choose with torch.where or masked_fill, without a multiplication.
    """
    return masked(scores, keep, hide=lambda scores, keep: scores + ~keep * -torch.inf)


@mistake(of="masked_softmax", caught_by=test_hidden_scores)
def infinity_added(scores, keep):
    """-inf is added to hidden scores, and the sum is NaN where they hold NaN or inf.

    Replace hidden scores, do not add to them: torch.where(keep, scores, -torch.inf).
    """
    return masked(scores, keep, hide=with_infinity)


@mistake(of="masked_softmax", caught_by=test_hidden_scores)
def maximum_of_hidden_scores(scores, keep):
    """The maximum is taken over hidden scores too, and a large one of them turns the row into 0/0.

    Hide the scores first, then take the maximum of what is kept.
    """
    return masked(
        scores, keep, hide=unchanged, mend=unchanged, power=multiplied, total=one_if_empty
    )


@mistake(of="masked_softmax", caught_by=test_hidden_scores)
def renormalised(scores, keep):
    """The softmax runs over all keys, and the kept weights are divided by their sum afterwards.

    On paper that is right, but a large hidden score leaves 0/0. Hide the scores first.
    """

    def power(distances, keep):
        return torch.where(keep, torch.softmax(distances, -1), 0.0)

    return masked(
        scores,
        keep,
        hide=unchanged,
        mend=unchanged,
        close=unchanged,
        power=power,
        total=one_if_empty,
    )


@mistake(of="masked_softmax", caught_by=test_large_scores)
def no_maximum_subtracted(scores, keep):
    """No maximum is subtracted before exp, so large scores overflow.

    Use torch.softmax, which does it, or subtract the maximum of the kept scores.
    """
    return masked(scores, keep, shift=unchanged)


@mistake(of="masked_softmax", caught_by=test_values)
def epsilon_in_the_denominator(scores, keep):
    """A small number in the denominator saves empty rows, and makes all the others a bit too small.

    Divide by the sum itself, and treat rows that keep nothing apart.
    """

    def total(powers, keep, dim):
        return summed(powers, keep, dim) + 1e-6

    return masked(scores, keep, total=total)


@mistake(of="masked_softmax", caught_by=test_values)
def softmax_over_queries(scores, keep):
    """The softmax runs over the queries: the columns sum to one instead of the rows.

    Keys are the last axis: dim=-1.
    """
    keep = everything_if_none(scores, keep).expand_as(scores)
    return masked(scores.mT, keep.mT).mT


@mistake(of="masked_softmax", caught_by=test_values)
def scaled_once_more(scores, keep):
    """The scores are divided by the square root of the number of keys.

    Take the scores as they come: they are scaled before they get here, and by the head width.
    """
    return masked(scores, keep, widen=lambda scores: wide(scores) / scores.shape[-1] ** 0.5)


@mistake(of="masked_softmax", caught_by=test_broadcasting)
def padding_hides_queries(scores, keep):
    """A padding mask (B, 1, 1, L) is turned to (B, 1, L, 1) and hides queries instead of keys.

    Use the mask as it comes: broadcasting fills the axis of size 1.
    """
    padding = keep is not None and keep.ndim == 4 and keep.shape[-2] == 1
    return masked(scores, keep.mT if padding else keep)


@mistake(of="masked_softmax", caught_by=test_broadcasting)
def mask_squeezed(scores, keep):
    """The axes of size 1 are squeezed out of the mask, so that sentences line up with queries.

    Leave the mask (B, 1, 1, L): its axes of size 1 say what it holds for.
    """
    four = keep is not None and keep.ndim > 3
    return masked(scores, keep.squeeze((-3, -2)) if four else keep)


@mistake(of="masked_softmax", caught_by=test_broadcasting)
def mask_of_the_first_sentence(scores, keep):
    """The padding of the first sentence is used for every sentence of the batch.

    Let the whole mask broadcast; do not index into it.
    """
    shared = keep is not None and keep.ndim == 4 and keep.shape[-2] == 1
    return masked(scores, keep[:1] if shared else keep)


@mistake(of="masked_softmax", caught_by=test_broadcasting)
def none_not_expected(scores, keep):
    """A mask that is None is used like any other.

    None hides nothing: then it is the plain softmax of the scores.
    """
    keep.any(-1, keepdim=True)
    return masked(scores, keep)


@mistake(of="masked_softmax", caught_by=test_precisions)
def half_precision_not_raised(scores, keep):
    """Half precision is summed in half precision; in float16, 66,000 ones are infinity.

    Compute in float32 (scores.float()) and convert the weights back at the end.
    """
    return masked(scores, keep, widen=unchanged)


@mistake(of="masked_softmax", caught_by=test_precisions)
def differences_in_half_precision(scores, keep):
    """Half precision is raised after the maximum was subtracted, so the differences are rounded.

    Raise the scores first: scores.float(), then the maximum.
    """

    def shift(hidden, scores, dim):
        return wide(shifted(hidden, scores, dim))

    return masked(scores, keep, widen=unchanged, shift=shift)


@mistake(of="masked_softmax", caught_by=test_precisions)
def reciprocal_in_half_precision(scores, keep):
    """The exponentials are multiplied by the reciprocal in half precision, where the gradient of a
    long row overflows.

    Divide in float32, and convert the weights once, at the end.
    """

    powers = masked(scores, keep, total=lambda *_: 1.0, narrow=unchanged)
    reciprocal = 1 / powers.sum(-1, keepdim=True).clamp(min=0.5)  # 0 in rows that keep nothing
    return powers.to(scores.dtype) * reciprocal.to(scores.dtype)


@mistake(of="masked_softmax", caught_by=test_precisions)
def dtype_promoted(scores, keep):
    """The weights of scores in half precision come back in float32.

    Convert the result to the dtype of the scores: .to(scores.dtype).
    """
    return masked(scores, keep, narrow=unchanged)


@mistake(of="masked_softmax", caught_by=test_precisions)
def float64_lowered(scores, keep):
    """float64 is computed in float32, and the digits are gone.

    Raise half precision only; leave float32 and float64 as they are.
    """
    return masked(scores, keep, widen=torch.Tensor.float)


@mistake(of="masked_softmax", caught_by=test_manners)
def scores_overwritten(scores, keep):
    """-inf is written into the caller's scores, by an operator with a trailing underscore.

    Use torch.where or masked_fill without the underscore: both make a new tensor.
    """
    weights = masked(scores, keep)
    if keep is not None:
        scores.data.masked_fill_(~keep, -torch.inf)
    return weights


@mistake(of="masked_softmax", caught_by=test_manners)
def mask_overwritten(scores, keep):
    """The caller's mask is changed: rows that keep nothing are opened in place.

    Make a new mask: seen = keep | empty instead of keep |= empty.
    """
    weights = masked(scores, keep)
    if keep is not None:
        keep |= rows_without_keys(keep)
    return weights


@mistake(of="masked_softmax", caught_by=test_manners)
def view_of_strided_scores(scores, keep):
    """`view` joins axes of contiguous tensors only, and the scores may lie otherwise in memory.

    No reshaping is needed here; where it is, flatten and reshape take any tensor.
    """
    rows = scores.view(-1, scores.shape[-1])
    keep = everything_if_none(scores, keep).expand_as(scores).reshape(rows.shape)
    return masked(rows, keep).view(scores.shape)


@mistake(of="masked_softmax", caught_by=test_gradient)
def graph_cut(scores, keep):
    """The gradient is cut: something in between is detached, or goes through NumPy.

    Use PyTorch operators only, from the scores to the weights.
    """
    return masked(scores.detach(), keep)


@mistake(of="masked_softmax", caught_by=test_gradient)
def denominator_detached(scores, keep):
    """The weights are right, but the sum they are divided by is cut out of the graph.

    Only the maximum may be detached, because it cancels. The sum must stay.
    """
    return masked(scores, keep, total=summed_as_a_constant)


@mistake(of="masked_softmax", caught_by=test_large_scores)
def no_mask_by_hand(scores, keep):
    """Without a mask the softmax is exp over the sum of detached scores: it overflows.

    Use torch.softmax for keep=None, too, on the scores with their graph.
    """
    if keep is not None:
        return masked(scores, keep)
    return masked(scores.detach(), keep, shift=unchanged)


@mistake(of="masked_softmax", caught_by=test_large_scores)
def no_maximum_behind_broadcast_masks(scores, keep):
    """Behind a mask that broadcasts no maximum is subtracted, so large scores overflow.

    Use torch.softmax, whatever the shape of the mask.
    """
    return masked(scores, keep, shift=unchanged if broadcasts(scores, keep) else shifted)


@mistake(of="masked_softmax", caught_by=test_gradient)
def no_maximum_beside_empty_rows(scores, keep):
    """Where the mask has empty rows, no maximum is subtracted, so large scores overflow.

    Mend the empty rows, and then take torch.softmax of all rows.
    """
    empty_rows = keep is not None and not keep.any(-1).all()
    return masked(scores, keep, shift=unchanged if empty_rows else shifted)


@mistake(of="masked_softmax", caught_by=test_gradient)
def graph_cut_without_a_mask(scores, keep):
    """The gradient is cut where there is no mask.

    Take torch.softmax of the scores themselves for keep=None, without detach.
    """
    return masked(scores.detach() if keep is None else scores, keep)


@mistake(of="masked_softmax", caught_by=test_gradient)
def graph_cut_behind_broadcast_masks(scores, keep):
    """The gradient is cut where the mask broadcasts.

    Use PyTorch operators only, whatever the shape of the mask.
    """
    return masked(scores.detach() if broadcasts(scores, keep) else scores, keep)


@mistake(of="masked_softmax", caught_by=test_precisions)
def graph_cut_in_half_precision(scores, keep):
    """The gradient is cut in half precision: the scores are rebuilt from a list of numbers.

    Raise them with scores.float(), which keeps the graph.
    """
    return masked(scores.detach() if scores.dtype.itemsize == 2 else scores, keep)


@mistake(of="masked_softmax", caught_by=test_precisions)
def denominator_detached_in_half_precision(scores, keep):
    """In half precision the sum is cut out of the graph, and the gradient lacks its part.

    Only the maximum may be detached, because it cancels. The sum must stay.
    """
    half = scores.dtype.itemsize == 2 and keep is not None
    return masked(scores, keep, total=summed_as_a_constant if half else summed)


@mistake(of="masked_softmax", caught_by=test_gradient)
def float32_empty_rows_unhidden(scores, keep):
    """In float32 empty rows keep all their scores, and the weights are multiplied by 0.

    NaN * 0 is NaN: put 0 into the scores of empty rows before the softmax, in every dtype.
    """
    if scores.dtype != torch.float32:
        return masked(scores, keep)
    return empty_rows_unhidden(scores, keep)


@mistake(of="masked_softmax", caught_by=test_precisions)
def half_precision_not_raised_without_a_mask(scores, keep):
    """Where there is no mask, half precision is summed in half precision.

    Compute in float32 (scores.float()) for keep=None, too.
    """
    return masked(scores, keep, widen=unchanged if keep is None else wide)


@mistake(of="masked_softmax", caught_by=test_precisions)
def half_precision_not_raised_behind_broadcast_masks(scores, keep):
    """Behind a mask that broadcasts, half precision is summed in half precision.

    Compute in float32 (scores.float()), whatever the shape of the mask.
    """
    return masked(scores, keep, widen=unchanged if broadcasts(scores, keep) else wide)


@mistake(of="masked_softmax", caught_by=test_precisions)
def dtype_promoted_without_a_mask(scores, keep):
    """Where there is no mask, the weights of half precision come back in float32.

    Convert them to the dtype of the scores for keep=None, too.
    """
    return masked(scores, keep, narrow=unchanged if keep is None else converted_back)


@mistake(of="masked_softmax", caught_by=test_precisions)
def first_sentence_in_half_precision(scores, keep):
    """In half precision the padding of the first sentence is used for every sentence.

    Let the whole mask broadcast, whatever the dtype.
    """
    first = scores.dtype.itemsize == 2 and keep is not None and keep.ndim == 4
    return masked(scores, keep[:1] if first else keep)


@mistake(of="masked_softmax", caught_by=test_precisions)
def empty_rows_nan_in_half_precision(scores, keep):
    """In half precision a row with nothing to attend to is NaN.

    Mend such rows before the softmax, whatever the dtype.
    """
    step = unchanged if scores.dtype.itemsize == 2 else zero_in_empty_rows
    return masked(scores, keep, mend=step, close=step)


@mistake(of="masked_softmax", caught_by=test_precisions)
def infinity_added_in_half_precision(scores, keep):
    """In half precision -inf is added to hidden scores: the sum is NaN if they hold NaN or inf.

    Replace hidden scores in every dtype: torch.where(keep, scores, -torch.inf).
    """
    return masked(scores, keep, hide=with_infinity if scores.dtype.itemsize == 2 else replaced)


@mistake(of="masked_softmax", caught_by=test_hidden_scores)
def infinity_added_by_broadcast_masks(scores, keep):
    """A mask that broadcasts is added as -inf: the sum is NaN where scores hold NaN or inf.

    Replace hidden scores, whatever the shape of the mask.
    """
    return masked(scores, keep, hide=with_infinity if broadcasts(scores, keep) else replaced)


@mistake(of="masked_softmax", caught_by=test_manners)
def scores_overwritten_without_a_mask(scores, keep):
    """Where there is no mask, the weights are written over the caller's scores.

    Return the new tensor that torch.softmax makes.
    """
    weights = masked(scores, keep)
    if keep is None and not scores.requires_grad:
        scores.copy_(weights)
    return weights


@mistake(of="masked_softmax", caught_by=test_manners)
def scores_overwritten_in_float64(scores, keep):
    """float64 scores are overwritten: they need no raising, so no copy of them was made.

    Use torch.where or masked_fill without the underscore: both make a new tensor.
    """
    weights = masked(scores, keep)
    if keep is not None and scores.dtype == torch.float64:
        scores.data.masked_fill_(~keep, -torch.inf)
    return weights


@mistake(of="masked_softmax", caught_by=test_manners)
def broadcast_mask_overwritten(scores, keep):
    """A mask that broadcasts is changed: its rows that keep nothing are opened in place.

    Make a new mask: seen = keep | empty instead of keep |= empty.
    """
    weights = masked(scores, keep)
    if broadcasts(scores, keep):
        keep |= rows_without_keys(keep)
    return weights


@mistake(of="masked_softmax", caught_by=test_hidden_scores)
def minus_a_billion_added(scores, keep):
    """-1e9 is added to hidden scores, and a score of 1e30 makes light of it.

    Replace hidden scores, do not add to them: torch.where(keep, scores, -torch.inf).
    """
    return masked(scores, keep, hide=lambda scores, keep: scores + torch.where(keep, 0.0, -1e9))


@mistake(of="masked_softmax", caught_by=test_hidden_scores)
def minus_ten_thousand_added(scores, keep):
    """-10,000 is added to hidden scores, which is little for large ones.

    Replace hidden scores, do not add to them: torch.where(keep, scores, -torch.inf).
    """
    return masked(scores, keep, hide=lambda scores, keep: scores + torch.where(keep, 0.0, -1e4))


@mistake(of="masked_softmax", caught_by=test_values)
def hidden_scores_plus_infinity(scores, keep):
    """Hidden scores are set to +inf, and inf - inf is NaN: the sign is lost.

    Set them to -inf.
    """
    return masked(scores, keep, hide=filled(torch.inf))


@mistake(of="masked_softmax", caught_by=test_empty_rows)
def empty_rows_equal_shares(scores, keep):
    """Rows with nothing to attend to are given equal scores before the softmax, and not the
    weights 0 after it.

    Set their weights to 0 after the softmax as well.
    """
    return masked(scores, keep, close=unchanged)


@mistake(of="masked_softmax", caught_by=test_empty_rows)
def empty_rows_opened(scores, keep):
    """A row with nothing to attend to attends to all keys by their scores.

    Give such rows the weights 0: find them with keep.any(-1, keepdim=True).
    """

    def visible(scores, keep):
        keep = everything_if_none(scores, keep)
        return keep | rows_without_keys(keep)

    return masked(scores, keep, visible=visible)


@mistake(of="masked_softmax", caught_by=test_hidden_scores)
def powers_multiplied_by_the_mask(scores, keep):
    """Hidden scores go through exp and are multiplied by 0 afterwards: NaN * 0 and inf * 0 are NaN,
    and kept scores far below a hidden one vanish.

    Replace hidden scores first: torch.where(keep, scores, -torch.inf).
    """
    return masked(
        scores,
        keep,
        hide=unchanged,
        mend=unchanged,
        close=unchanged,
        power=multiplied,
        total=never_zero,
    )


@mistake(of="masked_softmax", caught_by=test_large_scores)
def maximum_of_the_whole_tensor(scores, keep):
    """One maximum is taken for all rows, so rows that lie far below it become 0/0.

    Take the maximum of each row: amax(-1, keepdim=True).
    """

    def shift(hidden, scores, dim):
        return hidden - hidden.detach().amax()

    return masked(scores, keep, shift=shift)


@mistake(of="masked_softmax", caught_by=test_values)
def total_of_all_powers(scores, keep):
    """The sum runs over all rows, so that each row sums to less than one.

    Sum each row: sum(-1, keepdim=True).
    """

    def total(powers, keep, dim):
        return powers.sum()

    return masked(scores, keep, total=total)


@mistake(of="masked_softmax", caught_by=test_values)
def softmax_of_mended_rows_over_queries(scores, keep):
    """The softmax runs over the queries: dim is that of the rows.

    Keys are the last axis: dim=-1.
    """

    def close(weights, keep):
        return torch.where(keep, weights, 0.0)

    return masked(scores, keep, dim=-2 if scores.ndim > 1 else -1, close=close)


@mistake(of="masked_softmax", caught_by=test_manners)
def scores_masked_in_place(scores, keep):
    """-inf is written into the caller's scores by masked_fill_, which also fails where they need a
    gradient.

    Use masked_fill without the underscore: it makes a new tensor.
    """
    return masked(scores if keep is None else scores.masked_fill_(~keep, -torch.inf), keep)


@mistake(of="masked_softmax", caught_by=test_manners)
def raised_scores_masked_in_place(scores, keep):
    """-inf is written in place into scores that needed no raising: those are the caller's own.

    Use masked_fill without the underscore: it makes a new tensor.
    """
    return masked(scores, keep, hide=lambda scores, keep: scores.masked_fill_(~keep, -torch.inf))


@mistake(of="masked_softmax", caught_by=test_values)
def weights_and_scores_returned(scores, keep):
    """The masked scores are returned beside the weights.

    Return the weights alone.
    """
    return masked(scores, keep), scores


@mistake(of="masked_softmax", caught_by=test_values)
def weights_squeezed(scores, keep):
    """A squeeze drops the axes of size 1.

    Leave the shape of the scores as it is.
    """
    return masked(scores, keep).squeeze()


@mistake(of="masked_softmax", caught_by=test_hidden_scores)
def maximum_of_hidden_scores_and_no_sum(scores, keep):
    """The maximum is taken over hidden scores too: kept ones far below it vanish, and their sum,
    0, is replaced by 1.

    Hide the scores first, then take the maximum of what is kept: then no sum is 0.
    """
    return masked(
        scores,
        keep,
        hide=unchanged,
        mend=unchanged,
        close=unchanged,
        power=chosen,
        total=never_zero,
    )


@mistake(of="masked_softmax", caught_by=test_large_scores)
def no_maximum_and_no_sum(scores, keep):
    """No maximum is subtracted before exp: large scores overflow, low ones vanish, and their sum,
    0, is replaced by 1.

    Use torch.softmax, or subtract the maximum of the kept scores: then no sum is 0.
    """
    return masked(scores, keep, shift=unchanged, total=never_zero)


@mistake(of="masked_softmax", caught_by=test_values, null=True)
def zeros(scores, keep):
    """Zeros.

    Nothing is computed yet.
    """
    return torch.zeros_like(masked(scores, keep))


@mistake(of="masked_softmax", caught_by=test_values, null=True)
def mask_ignored(scores, keep):
    """The mask is ignored: this is the softmax over all keys.

    Hide the scores where keep is False before the softmax.
    """
    return masked(scores, None)


@mistake(of="masked_softmax", caught_by=test_values, null=True)
def equal_shares(scores, keep):
    """Every kept key gets the same weight.

    The weights depend on the scores, through the softmax.
    """
    keep = everything_if_none(scores, keep).expand_as(scores).to(scores.dtype)
    return keep / keep.sum(-1, keepdim=True).clamp(min=1)


@mistake(of="masked_softmax", caught_by=test_values, null=True)
def argmax(scores, keep):
    """All the weight goes to the largest kept score.

    That is argmax. Softmax leaves something for the others.
    """
    weights = masked(scores, keep)
    return torch.zeros_like(weights).scatter(-1, weights.argmax(-1, keepdim=True), 1.0)


@mistake(of="masked_softmax", caught_by=test_values, null=True)
def scores_returned(scores, keep):
    """The scores are returned, with -inf where they are hidden, but without the softmax.

    Take the softmax of them over the keys: dim=-1.
    """
    return torch.where(everything_if_none(scores, keep), scores, -torch.inf)


@mistake(of="masked_softmax", caught_by=test_manners)
def heads_of_the_mask_for_sequences(scores, keep):
    """A mask of three dimensions counts as one for each sequence if there are as many of them.

    Dimensions are lined up from the right: a keep of (H, Lq, Lk) is one mask for each head.
    """
    if keep is not None and keep.ndim == 3 and scores.ndim == 4 and len(keep) == len(scores):
        keep = keep[:, None]
    return masked(scores, keep)


@mistake(of="masked_softmax", caught_by=test_manners)
def first_mask_for_all_of_five_dimensions(scores, keep):
    """Of a mask with five dimensions only the first entry is used, for all.

    keep may have as many dimensions as scores: let it broadcast, or expand it to their shape.
    """
    return masked(scores, keep if keep is None or keep.ndim < 5 else keep[0])


@mistake(of="masked_softmax", caught_by=test_manners)
def strided_scores_copied_without_graph(scores, keep):
    """Scores that do not lie in memory in one piece are first copied with .data, so that they get
    no gradient.

    Copy them with .contiguous(), which gradients pass through.
    """
    return masked(scores if scores.is_contiguous() else scores.data.contiguous(), keep)


@mistake(of="masked_softmax", caught_by=test_manners)
def expanded_scores_read_once(scores, keep):
    """Of scores that are expanded and have no mask only the first entry is read, and gets all of
    the gradient.

    Expanded tensors need no path of their own: read each entry, and each gets its gradient.
    """
    if keep is None and scores.ndim > 1 and scores.stride(0) == 0 and len(scores) > 1:
        return masked(scores[:1], None).expand_as(scores)
    return masked(scores, keep)


@mistake(of="masked_softmax", caught_by=test_broadcasting)
def mask_without_dimensions_refused(scores, keep):
    """The last length of the mask is read, which a single True or False has not.

    Let PyTorch broadcast: torch.where(keep, scores, -torch.inf) takes a mask of any dimensions.
    """
    if keep is not None and keep.shape[-1] == 1:
        keep = keep.expand(*keep.shape[:-1], scores.shape[-1])
    return masked(scores, keep)


@mistake(of="masked_softmax", caught_by=test_large_scores)
def filled_with_minus_1e30(scores, keep):
    """Hidden scores become -1e30, and get all the weight where those that are kept are lower.

    Put -inf in their place: torch.where(keep, scores, -torch.inf).
    """

    def close(weights, keep):
        return weights.masked_fill(~keep, 0.0)

    return masked(scores, keep, hide=filled(-1e30), close=close)


@mistake(of="masked_softmax", caught_by=test_manners)
def one_place_without_a_mask(scores, keep, places={}):  # noqa: B006 (that is the mistake)
    """Without a mask every answer of a form is written over the answer before it.

    Return a new tensor in every call, with a mask and without.
    """
    weights = masked(scores, keep)
    return written_over(places, weights) if keep is None else weights


@mistake(of="masked_softmax", caught_by=test_large_scores)
def small_powers_cut(scores, keep):
    """Exponentials of distances below -22 are set to 0, though many of them count together.

    Leave exp as it is: it is 0 by itself where a number is too small for the dtype.
    """

    def cut(distances, keep):
        return torch.where(distances < -22, 0.0, distances.exp())

    return masked(scores, keep, power=cut)


@mistake(of="masked_softmax", caught_by=test_precisions)
def long_rows_in_tiles_in_half_precision(scores, keep):
    """In half precision rows of more than 64 scores are turned into weights in tiles of 64, and
    each tile sums to one by itself.

    Sum the exponentials of the whole row before the division.
    """
    if scores.dtype.itemsize > 2 or keep is None or keep.shape != scores.shape:
        return masked(scores, keep)
    tiles = zip(scores.split(64, -1), keep.split(64, -1), strict=True)
    return torch.cat([masked(*tile) for tile in tiles], -1)


@mistake(of="masked_softmax", caught_by=test_large_scores)
def small_scores_not_shifted(scores, keep):
    """The maximum is not subtracted where exp can hold each power; the sum of a long row is inf.

    Subtract the maximum, always, or call torch.softmax, which does.
    """

    def less(hidden, scores, dim):
        kept = hidden.detach().masked_fill(hidden == -torch.inf, 0.0).abs()
        return shifted(hidden, scores, dim) if kept.numel() and kept.max() > 85 else hidden

    return masked(scores, keep, shift=less)
