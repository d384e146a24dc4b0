"""What goes wrong with masks and behind them, by name."""

import torch

from grader.judging import mistake

from .test_masking import (
    test_additive_mask,
    test_broadcasting,
    test_combine_masks,
    test_empty_rows,
    test_gradient,
    test_hidden_scores,
    test_keep_from_blocked,
    test_large_scores,
    test_manners,
    test_padding_mask,
    test_precisions,
    test_values,
)


def wide(scores):
    """Half precision raised to float32; the other two as they are."""
    return scores.float() if scores.dtype.itemsize == 2 else scores


def everything_if_none(scores, keep):
    """The mask, or one that keeps everything."""
    return torch.ones_like(scores, dtype=torch.bool) if keep is None else keep


def replaced(scores, keep, filling):
    """A right masked softmax, but for what stands in the place of hidden scores."""
    keep = everything_if_none(scores, keep)
    empty = ~keep.any(-1, keepdim=True)
    safe = torch.where(empty, 0.0, torch.where(keep, wide(scores), filling))
    return torch.softmax(safe, -1).masked_fill(empty, 0.0).to(scores.dtype)


def right(scores, keep):
    """A right masked softmax, for the mistakes that lie before it or after it."""
    return replaced(scores, keep, -torch.inf)


def broadcasts(scores, keep):
    """Whether there is a mask, of another shape than the scores."""
    return keep is not None and keep.shape != scores.shape


@mistake(of="additive_mask", caught_by=test_additive_mask)
def additive_row_by_row(keep, dtype):
    """The mask is taken apart along its last axis, which a mask of no axes does not have.

    torch.zeros(keep.shape, ...).masked_fill(~keep, -torch.inf) takes a mask of any shape.
    """
    hidden = ~keep.flatten(0, -2) if keep.ndim > 1 else ~keep.reshape(1, keep.shape[-1])
    return torch.zeros_like(hidden, dtype=dtype).masked_fill(hidden, -torch.inf).reshape(keep.shape)


BUFFERS = {}


@mistake(of="additive_mask", caught_by=test_additive_mask)
def additive_in_one_buffer(keep, dtype):
    """One buffer is kept for each shape, so a later call writes over an earlier answer.

    Make a new tensor in every call.
    """
    key = keep.shape, dtype, keep.device
    mask = BUFFERS.setdefault(key, torch.empty(keep.shape, dtype=dtype, device=keep.device))
    return mask.zero_().masked_fill_(~keep, -torch.inf)


@mistake(of="additive_mask", caught_by=test_additive_mask)
def additive_large_number(keep, dtype):
    """A large negative number, -1e9, stands where -inf should.

    Use -torch.inf: only then is the weight of a hidden key exactly 0, whatever its score.
    """
    return torch.zeros(keep.shape, device=keep.device).masked_fill(~keep, -1e9).to(dtype)


@mistake(of="additive_mask", caught_by=test_additive_mask)
def additive_lowest_number(keep, dtype):
    """The lowest finite number of the dtype stands where -inf should.

    Use -torch.inf: a sum with finfo(dtype).min is finite, and two of them overflow.
    """
    lowest = torch.finfo(dtype).min
    return torch.zeros_like(keep, dtype=dtype).masked_fill(~keep, lowest)


@mistake(of="additive_mask", caught_by=test_additive_mask)
def additive_inverted(keep, dtype):
    """What is kept gets -inf, and what is hidden gets 0.

    True means may attend, so the -inf belongs where keep is False: fill at ~keep.
    """
    return torch.zeros_like(keep, dtype=dtype).masked_fill(keep, -torch.inf)


@mistake(of="additive_mask", caught_by=test_additive_mask)
def additive_zero_times_infinity(keep, dtype):
    """The hidden places are multiplied by -inf, and 0 * -inf is NaN.

    Choose between 0 and -inf with masked_fill or torch.where, without a multiplication.
    """
    return (~keep).to(dtype) * -torch.inf


@mistake(of="additive_mask", caught_by=test_additive_mask)
def additive_dtype_ignored(keep, dtype):
    """The mask is float32 whatever dtype was asked for.

    Hand dtype to the function that makes the zeros.
    """
    return torch.zeros(keep.shape, device=keep.device).masked_fill(~keep, -torch.inf)


@mistake(of="additive_mask", caught_by=test_additive_mask, null=True)
def additive_zeros(keep, dtype):
    """The mask is all zeros, so it hides nothing.

    Put -torch.inf where keep is False.
    """
    return torch.zeros_like(keep, dtype=dtype)


@mistake(of="keep_from_blocked", caught_by=test_keep_from_blocked, null=True)
def returned_as_it_came(blocked):
    """The mask comes back with the polarity that it had.

    Turn every value round: ~blocked.
    """
    return blocked.clone()


@mistake(of="keep_from_blocked", caught_by=test_keep_from_blocked)
def not_of_integers(blocked):
    """The mask was made an integer before `~`: ~0 is -1 and ~1 is -2, and both count as true.

    Use ~ on the boolean mask itself.
    """
    return (~blocked.int()).bool()


@mistake(of="keep_from_blocked", caught_by=test_keep_from_blocked)
def one_minus_blocked(blocked):
    """The answer is a mask of the numbers 0 and 1, not of booleans.

    Use ~blocked, which stays boolean.
    """
    return 1 - blocked.int()


@mistake(of="keep_from_blocked", caught_by=test_keep_from_blocked)
def inverted_in_place(blocked):
    """The caller's own mask is turned round, by an operator with a trailing underscore.

    Use ~blocked or logical_not without the underscore: both make a new mask.
    """
    return blocked.logical_not_()


@mistake(of="padding_mask", caught_by=test_padding_mask)
def positions_in_the_dtype_of_the_lengths(lengths, max_len):
    """The positions have the dtype of the lengths, and int8 has no position beyond 127.

    Leave torch.arange as it comes, in int64; the comparison takes two dtypes.
    """
    positions = torch.arange(max_len, device=lengths.device).to(lengths.dtype)
    return positions < lengths[:, None, None, None]


@mistake(of="padding_mask", caught_by=test_padding_mask)
def one_key_too_many(lengths, max_len):
    """Each sentence keeps one key too many: position n is compared with <=.

    The keys of a sentence of length n are 0 to n - 1, so compare with <.
    """
    return torch.arange(max_len, device=lengths.device) <= lengths[:, None, None, None]


@mistake(of="padding_mask", caught_by=test_padding_mask)
def padding_kept(lengths, max_len):
    """The padding is kept and the sentence is hidden.

    True means may attend: positions < lengths.
    """
    return torch.arange(max_len, device=lengths.device) >= lengths[:, None, None, None]


@mistake(of="padding_mask", caught_by=test_padding_mask)
def padding_on_the_left(lengths, max_len):
    """The last keys of each sentence are kept instead of the first.

    Padding follows the sentence: keep the positions below its length.
    """
    positions = torch.arange(max_len, device=lengths.device)
    return positions >= max_len - lengths[:, None, None, None]


@mistake(of="padding_mask", caught_by=test_padding_mask)
def padding_of_queries(lengths, max_len):
    """The mask is (B, 1, L, 1): it hides queries instead of keys.

    Keys are the last axis of the scores, so the L stands last.
    """
    positions = torch.arange(max_len, device=lengths.device)
    return (positions < lengths[:, None, None, None]).mT


@mistake(of="padding_mask", caught_by=test_padding_mask)
def padding_without_axes(lengths, max_len):
    """The mask is (B, L), and will be lined up with queries and keys, not with sentences.

    Put in the axes for heads and queries: keep[:, None, None, :].
    """
    return torch.arange(max_len, device=lengths.device) < lengths[:, None]


@mistake(of="padding_mask", caught_by=test_padding_mask)
def longest_instead_of_max_len(lengths, max_len):
    """The mask is as long as the longest sentence, whatever max_len says.

    Number the keys with torch.arange(max_len).
    """
    longest = int(lengths.max()) if len(lengths) else max_len
    return torch.arange(longest, device=lengths.device) < lengths[:, None, None, None]


@mistake(of="padding_mask", caught_by=test_padding_mask)
def one_length_for_all(lengths, max_len):
    """Every sentence is given the length of the longest one.

    Compare the positions with lengths[:, None, None, None]: every row has its own.
    """
    longest = lengths.amax(0, keepdim=True).expand_as(lengths) if len(lengths) else lengths
    return torch.arange(max_len, device=lengths.device) < longest[:, None, None, None]


@mistake(of="padding_mask", caught_by=test_padding_mask)
def one_key_at_least(lengths, max_len):
    """A sentence of length 0 keeps its first key, to save its rows from being empty.

    Length 0 keeps nothing. Rows that keep nothing are the matter of masked_softmax.
    """
    positions = torch.arange(max_len, device=lengths.device)
    return positions < lengths.clamp(min=1)[:, None, None, None]


@mistake(of="padding_mask", caught_by=test_padding_mask, null=True)
def padding_mask_of_ones(lengths, max_len):
    """Every key is kept, padding too.

    Compare the position of each key with the length of the sentence.
    """
    shape = (len(lengths), 1, 1, max_len)
    return torch.ones(shape, dtype=torch.bool, device=lengths.device)


@mistake(of="combine_masks", caught_by=test_combine_masks)
def masks_counted_in_a_byte(*masks):
    """The masks that keep a key are counted in uint8, which begins again at 256.

    A logical and needs no count: combined & mask.
    """
    given = [mask for mask in masks if mask is not None]
    count = sum(mask.to(torch.uint8) for mask in given)
    return count == len(given) % 256 if given else None


@mistake(of="combine_masks", caught_by=test_combine_masks)
def either_mask(*masks):
    """A key is kept if any of the masks keeps it.

    A key is seen only if every mask keeps it: `and`, not `or`.
    """
    combined = None
    for mask in masks:
        if mask is not None:
            combined = mask if combined is None else combined | mask
    return combined


@mistake(of="combine_masks", caught_by=test_combine_masks)
def second_mask_dropped(*masks):
    """The first mask is returned, and the others have no effect.

    Join every further mask with &.
    """
    return next((mask for mask in masks if mask is not None), None)


@mistake(of="combine_masks", caught_by=test_combine_masks)
def third_mask_dropped(*masks):
    """Only the first two masks are combined.

    Any number may come: go through all of them in a loop.
    """
    given = [mask for mask in masks if mask is not None][:2]
    if len(given) < 2:
        return given[0] if given else None
    return given[0] & given[1]


@mistake(of="combine_masks", caught_by=test_combine_masks)
def none_not_skipped(*masks):
    """A mask that is None is used like the others.

    Leave it out before you combine: `if mask is not None`.
    """
    combined, *others = masks
    for mask in others:
        combined = combined & mask
    return combined


@mistake(of="combine_masks", caught_by=test_combine_masks)
def truth_of_a_mask(*masks):
    """`if mask` asks whether a whole tensor is true, which has no answer.

    Ask `if mask is not None`.
    """
    combined = None
    for mask in masks:
        if mask:
            combined = mask if combined is None else combined & mask
    return combined


@mistake(of="combine_masks", caught_by=test_combine_masks)
def combined_in_place(*masks):
    """`&=` writes the result into the first mask of the caller.

    Write combined = combined & mask: it makes a new mask.
    """
    combined = None
    for mask in masks:
        if combined is None:
            combined = mask
        elif mask is not None:
            combined &= mask
    return combined


@mistake(of="combine_masks", caught_by=test_combine_masks)
def ones_for_no_mask(*masks):
    """Without any mask the answer is a mask that keeps everything, instead of None.

    Return None: a mask of ones costs memory and time, and its size cannot be known here.
    """
    combined = torch.ones((), dtype=torch.bool)
    for mask in masks:
        if mask is not None:
            combined = combined.to(mask.device) & mask
    return combined


@mistake(of="combine_masks", caught_by=test_combine_masks)
def third_mask_dropped_beside_none(*masks):
    """Where one of the masks is None, only the first two of the others are combined.

    Skip None inside the loop over all the masks.
    """
    given = [mask for mask in masks if mask is not None]
    given = given[:2] if len(given) < len(masks) else given
    return torch.stack(torch.broadcast_tensors(*given)).all(0) if given else None


@mistake(of="combine_masks", caught_by=test_combine_masks)
def third_mask_combined_in_place(*masks):
    """From the third mask on, `&=` writes the result into the first mask of the caller.

    Write combined = combined & mask: it makes a new mask.
    """
    given = [mask for mask in masks if mask is not None]
    if not given:
        return None
    combined = torch.stack(torch.broadcast_tensors(*given)).all(0)
    if len(given) > 2 and given[0].shape == combined.shape:
        given[0].copy_(combined)
    return combined


@mistake(of="combine_masks", caught_by=test_combine_masks, null=True)
def always_no_mask(*masks):
    """The answer is None although there are masks.

    Join the masks that are not None with &.
    """
    return None  # noqa: RET501 (it is the answer)


@mistake(of="masked_softmax", caught_by=test_values)
def polarity_inverted(scores, keep):
    """The mask is applied the wrong way round: what should be seen is hidden.

    True means may attend, so -inf goes where keep is False.
    """
    return right(scores, None if keep is None else ~keep)


@mistake(of="masked_softmax", caught_by=test_values)
def masked_after_the_softmax(scores, keep):
    """The mask is applied after the softmax, so the rows no longer sum to one.

    Hide the scores before the softmax: a hidden key must not take a share of the sum.
    """
    weights = torch.softmax(wide(scores), -1)
    return torch.where(everything_if_none(scores, keep), weights, 0.0).to(scores.dtype)


@mistake(of="masked_softmax", caught_by=test_values)
def hidden_scores_zero(scores, keep):
    """Hidden scores are set to 0, and e^0 is 1: hidden keys still get a share.

    Set them to -inf: e^-inf is 0.
    """
    return replaced(scores, keep, 0.0)


@mistake(of="masked_softmax", caught_by=test_values)
def hidden_scores_minus_five(scores, keep):
    """Hidden scores are set to a small negative number, -5, so some weight leaks to hidden keys.

    Set them to -inf: e^-inf is 0.
    """
    return replaced(scores, keep, -5.0)


@mistake(of="masked_softmax", caught_by=test_values)
def zero_means_hidden(scores, keep):
    """Scores are multiplied by the mask, and then every 0 counts as hidden: kept scores of 0, too.

    Ask the mask which keys are hidden, not the scores: torch.where(keep, scores, -torch.inf).
    """
    visible = torch.where(everything_if_none(scores, keep), scores, 0.0)
    return right(visible, visible != 0)


@mistake(of="masked_softmax", caught_by=test_hidden_scores)
def hidden_scores_minus_hundred(scores, keep):
    """Hidden scores are set to -100: their weights are tiny, but not 0.

    Set them to -inf: e^-inf is 0, however low the other scores of the row are.
    """
    return replaced(scores, keep, -100.0)


@mistake(of="masked_softmax", caught_by=test_large_scores)
def hidden_scores_minus_ten_thousand(scores, keep):
    """Hidden scores are set to -10,000, which is not low where the kept ones are as low as that.

    Set them to -inf: it is below every score.
    """
    return replaced(scores, keep, -1e4)


@mistake(of="masked_softmax", caught_by=test_precisions)
def large_number_in_half_precision(scores, keep):
    """Hidden scores are set to -1e9, which float16 cannot hold.

    Set them to -inf, which every floating dtype has.
    """
    keep = everything_if_none(scores, keep)
    empty = ~keep.any(-1, keepdim=True)
    safe = scores.masked_fill(~keep, -1e9).masked_fill(empty, 0.0)
    return torch.softmax(safe, -1).masked_fill(empty, 0.0)


@mistake(of="masked_softmax", caught_by=test_empty_rows)
def empty_rows_uniform(scores, keep):
    """Hidden scores are -1e9, and so a row with nothing to attend to attends to all keys equally.

    Give such rows the weights 0: find them with keep.any(-1, keepdim=True).
    """
    hidden = torch.where(everything_if_none(scores, keep), wide(scores), -1e9)
    return torch.softmax(hidden, -1).to(scores.dtype)


@mistake(of="masked_softmax", caught_by=test_empty_rows)
def empty_rows_nan(scores, keep):
    """A row with nothing to attend to is NaN: its scores are all -inf, and -inf - -inf is NaN.

    Put ordinary scores into such rows before the softmax, and weights of 0 after it.
    """
    hidden = torch.where(everything_if_none(scores, keep), wide(scores), -torch.inf)
    return torch.softmax(hidden, -1).to(scores.dtype)


@mistake(of="masked_softmax", caught_by=test_empty_rows)
def only_an_empty_mask(scores, keep):
    """An empty row is found only if the whole mask is empty.

    Ask row by row: keep.any(-1, keepdim=True).
    """
    if keep is not None and not keep.any():
        return torch.zeros_like(scores)
    return empty_rows_nan(scores, keep)


@mistake(of="masked_softmax", caught_by=test_gradient)
def nan_removed_afterwards(scores, keep):
    """The NaN of empty rows is replaced after the softmax, but its gradient is still NaN.

    Mend such rows before the softmax, so that no NaN is ever computed.
    """
    keep = everything_if_none(scores, keep)
    hidden = torch.zeros_like(keep, dtype=scores.dtype).masked_fill(~keep, -torch.inf)
    weights = torch.softmax(wide(scores).nan_to_num() + hidden, -1)
    return weights.nan_to_num(nan=0.0).to(scores.dtype)


@mistake(of="masked_softmax", caught_by=test_gradient)
def empty_rows_unhidden(scores, keep):
    """Empty rows keep all their scores, and the weights are multiplied by 0: NaN * 0 is NaN.

    Put 0 into the scores of empty rows before the softmax; do not rely on what they hold.
    """
    keep = everything_if_none(scores, keep)
    seen = keep | ~keep.any(-1, keepdim=True)
    weights = torch.softmax(torch.where(seen, wide(scores), -torch.inf), -1)
    return (weights * keep).to(scores.dtype)


@mistake(of="masked_softmax", caught_by=test_values)
def zero_times_infinity(scores, keep):
    """The mask is multiplied by -inf before it is added, and 0 * -inf is NaN.

    Choose with torch.where or masked_fill, without a multiplication.
    """
    hidden = ~everything_if_none(scores, keep)
    return torch.softmax(scores + hidden * -torch.inf, -1)


@mistake(of="masked_softmax", caught_by=test_hidden_scores)
def infinity_added(scores, keep):
    """-inf is added to hidden scores, and the sum is NaN where they hold NaN or inf.

    Replace hidden scores, do not add to them: torch.where(keep, scores, -torch.inf).
    """
    keep = everything_if_none(scores, keep)
    hidden = torch.zeros_like(keep, dtype=scores.dtype).masked_fill(~keep, -torch.inf)
    empty = ~keep.any(-1, keepdim=True)
    added = (wide(scores) + hidden).masked_fill(empty, 0.0)
    return torch.softmax(added, -1).masked_fill(empty, 0.0).to(scores.dtype)


@mistake(of="masked_softmax", caught_by=test_hidden_scores)
def maximum_of_hidden_scores(scores, keep):
    """The maximum is taken over hidden scores too, and a large one of them turns the row into 0/0.

    Hide the scores first, then take the maximum of what is kept.
    """
    keep = everything_if_none(scores, keep)
    powers = torch.exp(wide(scores) - wide(scores).amax(-1, keepdim=True)) * keep
    total = powers.sum(-1, keepdim=True)
    total = torch.where(keep.any(-1, keepdim=True), total, 1.0)
    return (powers / total).to(scores.dtype)


@mistake(of="masked_softmax", caught_by=test_hidden_scores)
def renormalised(scores, keep):
    """The softmax runs over all keys, and the kept weights are divided by their sum afterwards.

    On paper that is right, but a large hidden score leaves 0/0. Hide the scores first.
    """
    keep = everything_if_none(scores, keep)
    kept = torch.where(keep, torch.softmax(wide(scores), -1), 0.0)
    total = torch.where(keep.any(-1, keepdim=True), kept.sum(-1, keepdim=True), 1.0)
    return (kept / total).to(scores.dtype)


@mistake(of="masked_softmax", caught_by=test_large_scores)
def no_maximum_subtracted(scores, keep):
    """No maximum is subtracted before exp, so large scores overflow.

    Use torch.softmax, which does it, or subtract the maximum of the kept scores.
    """
    keep = everything_if_none(scores, keep)
    powers = torch.exp(torch.where(keep, wide(scores), -torch.inf))
    total = powers.sum(-1, keepdim=True)
    total = torch.where(keep.any(-1, keepdim=True), total, 1.0)
    return (powers / total).to(scores.dtype)


@mistake(of="masked_softmax", caught_by=test_values)
def epsilon_in_the_denominator(scores, keep):
    """A small number in the denominator saves empty rows, and makes all the others a bit too small.

    Divide by the sum itself, and treat rows that keep nothing apart.
    """
    keep = everything_if_none(scores, keep)
    hidden = torch.where(keep, wide(scores), -torch.inf)
    top = hidden.amax(-1, keepdim=True).nan_to_num(neginf=0.0)
    powers = torch.exp(hidden - top)
    return (powers / (powers.sum(-1, keepdim=True) + 1e-6)).to(scores.dtype)


@mistake(of="masked_softmax", caught_by=test_values)
def softmax_over_queries(scores, keep):
    """The softmax runs over the queries: the columns sum to one instead of the rows.

    Keys are the last axis: dim=-1.
    """
    keep = everything_if_none(scores, keep).expand_as(scores)
    return right(scores.mT, keep.mT).mT


@mistake(of="masked_softmax", caught_by=test_values)
def scaled_once_more(scores, keep):
    """The scores are divided by the square root of the number of keys.

    Take the scores as they come: they are scaled before they get here, and by the head width.
    """
    return right(wide(scores) / scores.shape[-1] ** 0.5, keep).to(scores.dtype)


@mistake(of="masked_softmax", caught_by=test_broadcasting)
def padding_hides_queries(scores, keep):
    """A padding mask (B, 1, 1, L) is turned to (B, 1, L, 1) and hides queries instead of keys.

    Use the mask as it comes: broadcasting fills the axis of size 1.
    """
    padding = keep is not None and keep.ndim == 4 and keep.shape[-2] == 1
    return right(scores, keep.mT if padding else keep)


@mistake(of="masked_softmax", caught_by=test_broadcasting)
def mask_squeezed(scores, keep):
    """The axes of size 1 are squeezed out of the mask, so that sentences line up with queries.

    Leave the mask (B, 1, 1, L): its axes of size 1 say what it holds for.
    """
    return right(
        scores, None if keep is None else keep.squeeze((-3, -2)) if keep.ndim > 3 else keep
    )


@mistake(of="masked_softmax", caught_by=test_broadcasting)
def mask_of_the_first_sentence(scores, keep):
    """The padding of the first sentence is used for every sentence of the batch.

    Let the whole mask broadcast; do not index into it.
    """
    shared = keep is not None and keep.ndim == 4 and keep.shape[-2] == 1
    return right(scores, keep[:1] if shared else keep)


@mistake(of="masked_softmax", caught_by=test_broadcasting)
def none_not_expected(scores, keep):
    """A mask that is None is used like any other.

    None hides nothing: then it is the plain softmax of the scores.
    """
    empty = ~keep.any(-1, keepdim=True)
    return right(scores, keep).masked_fill(empty, 0.0)


@mistake(of="masked_softmax", caught_by=test_precisions)
def half_precision_not_raised(scores, keep):
    """Half precision is summed in half precision, where 66,000 ones are infinity.

    Compute in float32 (scores.float()) and convert the weights back at the end.
    """
    keep = everything_if_none(scores, keep)
    hidden = torch.where(keep, scores, -torch.inf)
    top = hidden.amax(-1, keepdim=True).nan_to_num(neginf=0.0)
    powers = torch.exp(hidden - top)
    total = powers.sum(-1, keepdim=True)
    return powers / torch.where(keep.any(-1, keepdim=True), total, 1.0)


@mistake(of="masked_softmax", caught_by=test_precisions)
def dtype_promoted(scores, keep):
    """The weights come back in float32 although the scores were in half precision.

    Convert the result to the dtype of the scores: .to(scores.dtype).
    """
    return right(wide(scores), keep)


@mistake(of="masked_softmax", caught_by=test_precisions)
def float64_lowered(scores, keep):
    """float64 is computed in float32, and the digits are gone.

    Raise half precision only; leave float32 and float64 as they are.
    """
    return right(scores.float(), keep).to(scores.dtype)


@mistake(of="masked_softmax", caught_by=test_manners)
def scores_overwritten(scores, keep):
    """-inf is written into the caller's scores, by an operator with a trailing underscore.

    Use torch.where or masked_fill without the underscore: both make a new tensor.
    """
    weights = right(scores, keep)
    if keep is not None:
        scores.data.masked_fill_(~keep, -torch.inf)
    return weights


@mistake(of="masked_softmax", caught_by=test_manners)
def mask_overwritten(scores, keep):
    """The caller's mask is changed: rows that keep nothing are opened in place.

    Make a new mask: seen = keep | empty instead of keep |= empty.
    """
    if keep is None:
        return right(scores, keep)
    empty = ~keep.any(-1, keepdim=True)
    keep |= empty
    safe = torch.where(empty, 0.0, torch.where(keep, wide(scores), -torch.inf))
    return torch.softmax(safe, -1).masked_fill(empty, 0.0).to(scores.dtype)


@mistake(of="masked_softmax", caught_by=test_manners)
def view_of_strided_scores(scores, keep):
    """`view` joins axes of contiguous tensors only, and the scores may lie otherwise in memory.

    No reshaping is needed here; where it is, flatten and reshape take any tensor.
    """
    rows = scores.view(-1, scores.shape[-1])
    keep = everything_if_none(scores, keep).expand_as(scores).reshape(rows.shape)
    return right(rows, keep).view(scores.shape)


@mistake(of="masked_softmax", caught_by=test_gradient)
def graph_cut(scores, keep):
    """The gradient is cut: something in between is detached, or goes through NumPy.

    Use PyTorch operators only, from the scores to the weights.
    """
    return right(scores.detach(), keep)


@mistake(of="masked_softmax", caught_by=test_gradient)
def denominator_detached(scores, keep):
    """The weights are right, but the sum they are divided by is cut out of the graph.

    Only the maximum may be detached, because it cancels. The sum must stay.
    """
    keep = everything_if_none(scores, keep)
    hidden = torch.where(keep, wide(scores), -torch.inf)
    top = hidden.detach().amax(-1, keepdim=True).nan_to_num(neginf=0.0)
    powers = torch.exp(hidden - top)
    total = torch.where(keep.any(-1, keepdim=True), powers.sum(-1, keepdim=True), 1.0)
    return (powers / total.detach()).to(scores.dtype)


@mistake(of="masked_softmax", caught_by=test_large_scores)
def no_mask_by_hand(scores, keep):
    """Without a mask the softmax is exp over the sum of detached scores: it overflows.

    Use torch.softmax for keep=None, too, on the scores with their graph.
    """
    if keep is not None:
        return right(scores, keep)
    powers = torch.exp(wide(scores.detach()))
    return (powers / powers.sum(-1, keepdim=True)).to(scores.dtype)


@mistake(of="masked_softmax", caught_by=test_large_scores)
def no_maximum_behind_broadcast_masks(scores, keep):
    """Behind a mask that broadcasts no maximum is subtracted, so large scores overflow.

    Use torch.softmax, whatever the shape of the mask.
    """
    return (no_maximum_subtracted if broadcasts(scores, keep) else right)(scores, keep)


@mistake(of="masked_softmax", caught_by=test_gradient)
def no_maximum_beside_empty_rows(scores, keep):
    """Where the mask has empty rows, no maximum is subtracted, so large scores overflow.

    Mend the empty rows, and then take torch.softmax of all rows.
    """
    empty_rows = keep is not None and not keep.any(-1).all()
    return (no_maximum_subtracted if empty_rows else right)(scores, keep)


@mistake(of="masked_softmax", caught_by=test_gradient)
def graph_cut_without_a_mask(scores, keep):
    """The gradient is cut where there is no mask.

    Take torch.softmax of the scores themselves for keep=None, without detach.
    """
    return right(scores.detach() if keep is None else scores, keep)


@mistake(of="masked_softmax", caught_by=test_gradient)
def graph_cut_behind_broadcast_masks(scores, keep):
    """The gradient is cut where the mask broadcasts.

    Use PyTorch operators only, whatever the shape of the mask.
    """
    return right(scores.detach() if broadcasts(scores, keep) else scores, keep)


@mistake(of="masked_softmax", caught_by=test_precisions)
def graph_cut_in_half_precision(scores, keep):
    """The gradient is cut in half precision: the scores are rebuilt from a list of numbers.

    Raise them with scores.float(), which keeps the graph.
    """
    return right(scores.detach() if scores.dtype.itemsize == 2 else scores, keep)


@mistake(of="masked_softmax", caught_by=test_precisions)
def denominator_detached_in_half_precision(scores, keep):
    """In half precision the sum is cut out of the graph, and the gradient lacks its part.

    Only the maximum may be detached, because it cancels. The sum must stay.
    """
    half = scores.dtype.itemsize == 2 and keep is not None
    return (denominator_detached if half else right)(scores, keep)


@mistake(of="masked_softmax", caught_by=test_gradient)
def float32_empty_rows_unhidden(scores, keep):
    """In float32 empty rows keep all their scores, and the weights are multiplied by 0.

    NaN * 0 is NaN: put 0 into the scores of empty rows before the softmax, in every dtype.
    """
    return (empty_rows_unhidden if scores.dtype == torch.float32 else right)(scores, keep)


@mistake(of="masked_softmax", caught_by=test_precisions)
def half_precision_not_raised_without_a_mask(scores, keep):
    """Where there is no mask, half precision is summed in half precision.

    Compute in float32 (scores.float()) for keep=None, too.
    """
    return (half_precision_not_raised if keep is None else right)(scores, keep)


@mistake(of="masked_softmax", caught_by=test_precisions)
def half_precision_not_raised_behind_broadcast_masks(scores, keep):
    """Behind a mask that broadcasts, half precision is summed in half precision.

    Compute in float32 (scores.float()), whatever the shape of the mask.
    """
    return (half_precision_not_raised if broadcasts(scores, keep) else right)(scores, keep)


@mistake(of="masked_softmax", caught_by=test_precisions)
def dtype_promoted_without_a_mask(scores, keep):
    """Where there is no mask, the weights of half precision come back in float32.

    Convert them to the dtype of the scores for keep=None, too.
    """
    return right(wide(scores) if keep is None else scores, keep)


@mistake(of="masked_softmax", caught_by=test_precisions)
def first_sentence_in_half_precision(scores, keep):
    """In half precision the padding of the first sentence is used for every sentence.

    Let the whole mask broadcast, whatever the dtype.
    """
    first = scores.dtype.itemsize == 2 and keep is not None and keep.ndim == 4
    return right(scores, keep[:1] if first else keep)


@mistake(of="masked_softmax", caught_by=test_precisions)
def empty_rows_nan_in_half_precision(scores, keep):
    """In half precision a row with nothing to attend to is NaN.

    Mend such rows before the softmax, whatever the dtype.
    """
    return (empty_rows_nan if scores.dtype.itemsize == 2 else right)(scores, keep)


@mistake(of="masked_softmax", caught_by=test_precisions)
def infinity_added_in_half_precision(scores, keep):
    """In half precision -inf is added to hidden scores: the sum is NaN if they hold NaN or inf.

    Replace hidden scores in every dtype: torch.where(keep, scores, -torch.inf).
    """
    return (infinity_added if scores.dtype.itemsize == 2 else right)(scores, keep)


@mistake(of="masked_softmax", caught_by=test_hidden_scores)
def infinity_added_by_broadcast_masks(scores, keep):
    """A mask that broadcasts is added as -inf: the sum is NaN where scores hold NaN or inf.

    Replace hidden scores, whatever the shape of the mask.
    """
    return (infinity_added if broadcasts(scores, keep) else right)(scores, keep)


@mistake(of="masked_softmax", caught_by=test_manners)
def scores_overwritten_without_a_mask(scores, keep):
    """Where there is no mask, the weights are written over the caller's scores.

    Return the new tensor that torch.softmax makes.
    """
    weights = right(scores, keep)
    if keep is None and not scores.requires_grad:
        scores.copy_(weights)
    return weights


@mistake(of="masked_softmax", caught_by=test_manners)
def scores_overwritten_in_float64(scores, keep):
    """float64 scores are overwritten: they need no raising, so no copy of them was made.

    Use torch.where or masked_fill without the underscore: both make a new tensor.
    """
    return (scores_overwritten if scores.dtype == torch.float64 else right)(scores, keep)


@mistake(of="masked_softmax", caught_by=test_manners)
def broadcast_mask_overwritten(scores, keep):
    """A mask that broadcasts is changed: its rows that keep nothing are opened in place.

    Make a new mask: seen = keep | empty instead of keep |= empty.
    """
    return (mask_overwritten if broadcasts(scores, keep) else right)(scores, keep)


@mistake(of="masked_softmax", caught_by=test_values, null=True)
def zeros(scores, keep):
    """Zeros.

    Nothing is computed yet.
    """
    return torch.zeros_like(scores)


@mistake(of="masked_softmax", caught_by=test_values, null=True)
def mask_ignored(scores, keep):
    """The mask is ignored: this is the softmax over all keys.

    Hide the scores where keep is False before the softmax.
    """
    return right(scores, None)


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
    weights = right(scores, keep)
    return torch.zeros_like(weights).scatter(-1, weights.argmax(-1, keepdim=True), 1.0)


@mistake(of="masked_softmax", caught_by=test_values, null=True)
def scores_returned(scores, keep):
    """The scores are returned, with -inf where they are hidden, but without the softmax.

    Take the softmax of them over the keys: dim=-1.
    """
    return torch.where(everything_if_none(scores, keep), scores, -torch.inf)
