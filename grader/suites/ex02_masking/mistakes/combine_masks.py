"""Wrong answers to `combine_masks`."""

import operator
from functools import reduce
from itertools import takewhile

import torch

from grader.judging import mistake
from grader.judging.one_place import written_over

from ..steps import (
    combined,
    given,
    kept_by_all,
)
from ..test_masking import (
    test_combine_masks,
)


@mistake(of="combine_masks", caught_by=test_combine_masks)
def masks_counted_in_a_byte(*masks):
    """The masks that keep a key are counted in uint8, which begins again at 256.

    A logical and needs no count: combined & mask.
    """

    def join(masks):
        return sum(mask.to(torch.uint8) for mask in masks) == len(masks) % 256

    return combined(*masks, join=join)


@mistake(of="combine_masks", caught_by=test_combine_masks)
def either_mask(*masks):
    """A key is kept if any of the masks keeps it.

    A key is seen only if every mask keeps it: `and`, not `or`.
    """
    return combined(*masks, join=lambda masks: reduce(operator.or_, masks))


@mistake(of="combine_masks", caught_by=test_combine_masks)
def second_mask_dropped(*masks):
    """The first mask is returned, and the others have no effect.

    Join every further mask with &.
    """
    return combined(*masks, choose=lambda masks: given(masks)[:1])


@mistake(of="combine_masks", caught_by=test_combine_masks)
def third_mask_dropped(*masks):
    """Only the first two masks are combined.

    Any number may come: go through all of them in a loop.
    """
    return combined(*masks, choose=lambda masks: given(masks)[:2])


@mistake(of="combine_masks", caught_by=test_combine_masks)
def none_not_skipped(*masks):
    """A mask that is None is used like the others.

    Leave it out before you combine: `if mask is not None`.
    """
    return combined(*masks, choose=list)


@mistake(of="combine_masks", caught_by=test_combine_masks)
def truth_of_a_mask(*masks):
    """`if mask` asks whether a whole tensor is true, which has no answer.

    Ask `if mask is not None`.
    """
    return combined(*masks, choose=lambda masks: [mask for mask in masks if mask])


@mistake(of="combine_masks", caught_by=test_combine_masks)
def combined_in_place(*masks):
    """`&=` writes the result into the first mask of the caller.

    Write combined = combined & mask: it makes a new mask.
    """

    def join(masks):
        first, *others = masks
        for mask in others:
            first &= mask
        return first

    return combined(*masks, join=join)


@mistake(of="combine_masks", caught_by=test_combine_masks)
def ones_for_no_mask(*masks):
    """Without any mask the answer is a mask that keeps everything, instead of None.

    Return None: a mask of ones costs memory and time, and its size cannot be known here.
    """
    return combined(*masks, nothing=lambda: torch.ones((), dtype=torch.bool))


@mistake(of="combine_masks", caught_by=test_combine_masks)
def third_mask_dropped_beside_none(*masks):
    """Where one of the masks is None, only the first two of the others are combined.

    Skip None inside the loop over all the masks.
    """

    def choose(masks):
        chosen = given(masks)
        return chosen[:2] if len(chosen) < len(masks) else chosen

    return combined(*masks, choose=choose)


@mistake(of="combine_masks", caught_by=test_combine_masks)
def third_mask_combined_in_place(*masks):
    """From the third mask on, `&=` writes the result into the first mask of the caller.

    Write combined = combined & mask: it makes a new mask.
    """

    def join(masks):
        keep = kept_by_all(masks)
        if len(masks) > 2 and masks[0].shape == keep.shape:
            masks[0].copy_(keep)
        return keep

    return combined(*masks, join=join)


@mistake(of="combine_masks", caught_by=test_combine_masks)
def last_mask_dropped(*masks):
    """The last mask has no effect: the loop ends one mask too early.

    Go through all masks, the last one too.
    """
    return combined(*masks, choose=lambda masks: given(masks)[:1] + given(masks)[1:-1])


@mistake(of="combine_masks", caught_by=test_combine_masks)
def last_mask_alone(*masks):
    """Each mask takes the place of the one before, so that the last one alone remains.

    Join them: combined = combined & mask.
    """
    return combined(*masks, choose=lambda masks: given(masks)[-1:])


@mistake(of="combine_masks", caught_by=test_combine_masks)
def none_ends_the_loop(*masks):
    """The first None ends the loop, and the masks after it are dropped.

    Skip None and go on: continue, not break or return.
    """
    return combined(
        *masks, choose=lambda masks: list(takewhile(lambda mask: mask is not None, masks))
    )


@mistake(of="combine_masks", caught_by=test_combine_masks)
def none_wins(*masks):
    """If one of the masks is None the answer is None.

    None hides nothing: skip it, and combine the others.
    """
    return combined(
        *masks, choose=lambda masks: given(masks) if len(given(masks)) == len(masks) else []
    )


@mistake(of="combine_masks", caught_by=test_combine_masks)
def one_of_both_masks(*masks):
    """The masks are joined by exclusive or: a key that two masks keep is hidden.

    Join them by `and`: combined & mask.
    """
    return combined(*masks, join=lambda masks: reduce(operator.xor, masks))


@mistake(of="combine_masks", caught_by=test_combine_masks)
def combined_the_wrong_way_round(*masks):
    """The answer is True where a key is hidden.

    True means may attend: return what the masks keep, without ~.
    """
    return combined(*masks, join=lambda masks: ~kept_by_all(masks))


@mistake(of="combine_masks", caught_by=test_combine_masks)
def stacked_without_broadcasting(*masks):
    """The masks are stacked, which takes masks of one shape alone.

    Join them one by one with &, which broadcasts.
    """
    return combined(*masks, join=lambda masks: torch.stack(masks).all(0))


@mistake(of="combine_masks", caught_by=test_combine_masks)
def counts_of_masks(*masks):
    """The masks are added up: the answer holds how many of them keep each key.

    Join booleans by `and`: combined & mask.
    """
    return combined(*masks, join=lambda masks: sum(mask.long() for mask in masks))


@mistake(of="combine_masks", caught_by=test_combine_masks)
def combined_to_numbers(*masks):
    """The answer is a mask of the numbers 0 and 1, not of booleans.

    Join the masks with &, which stays boolean, instead of a product or a minimum.
    """
    keep = combined(*masks)
    return keep if keep is None else keep.int()


@mistake(of="combine_masks", caught_by=test_combine_masks)
def nothing_kept_for_no_mask(*masks):
    """Without any mask the answer is a mask that keeps nothing, instead of None.

    Return None: what no mask hides is seen.
    """
    return combined(*masks, nothing=lambda: torch.zeros((), dtype=torch.bool))


@mistake(of="combine_masks", caught_by=test_combine_masks)
def empty_tensor_for_no_mask(*masks):
    """Without any mask the answer is an empty tensor, instead of None.

    Return None where no mask is left.
    """
    return combined(*masks, nothing=lambda: torch.empty(0))


@mistake(of="combine_masks", caught_by=test_combine_masks)
def true_for_no_mask(*masks):
    """Without any mask the answer is the Python value True, instead of None.

    Return None where no mask is left.
    """
    return combined(*masks, nothing=lambda: True)


@mistake(of="combine_masks", caught_by=test_combine_masks)
def first_of_no_masks(*masks):
    """Without any mask the first of none is asked for, which raises an IndexError.

    Ask first whether a mask is left, and return None if not.
    """
    return combined(*masks, nothing=lambda: [][0])


@mistake(of="combine_masks", caught_by=test_combine_masks)
def error_for_no_mask(*masks):
    """Without any mask there is an error: torch.stack, or a reduction, of nothing.

    Ask first whether a mask is left, and return None if not.
    """
    return combined(*masks, nothing=lambda: torch.stack([]))


@mistake(of="combine_masks", caught_by=test_combine_masks)
def first_mask_overwritten(*masks):
    """The result is written into the first mask of the caller where it has the right shape.

    Write combined = combined & mask: it makes a new mask.
    """
    keep = combined(*masks)
    if keep is not None and given(masks)[0].shape == keep.shape and keep.dtype == torch.bool:
        given(masks)[0].copy_(keep)
    return keep


@mistake(of="combine_masks", caught_by=test_combine_masks, null=True)
def always_no_mask(*masks):
    """The answer is None although there are masks.

    Join the masks that are not None with &.
    """
    return None  # noqa: RET501 (it is the answer)


@mistake(of="combine_masks", caught_by=test_combine_masks)
def mask_of_nothing_skipped(*masks):
    """A mask that keeps nothing is skipped as if it were None.

    Leave out what `is None`, and nothing else.
    """
    chosen = [mask for mask in masks if mask is not None and (mask.any() or not mask.numel())]
    return combined(*(chosen or masks))


@mistake(of="combine_masks", caught_by=test_combine_masks)
def odd_one_of_pairs_dropped(*masks):
    """More than three masks are joined in pairs, and the last of an odd number is lost.

    Go through all masks, one after the other, or join the odd one at the end.
    """
    chosen = given(masks)
    return combined(*chosen[: len(chosen) // 2 * 2] if len(chosen) > 3 else chosen)


@mistake(of="combine_masks", caught_by=test_combine_masks)
def combined_in_one_place(*masks, places={}):  # noqa: B006 (that is the mistake)
    """Every combined mask of a form is written over the one before it.

    Return a new tensor in every call: mask & other makes one.
    """
    joined = combined(*masks)
    return joined if len(given(masks)) < 2 else written_over(places, joined)


@mistake(of="combine_masks", caught_by=test_combine_masks)
def single_number_skipped(*masks):
    """A mask of one number that keeps everything is skipped like None, and None may come back.

    Skip None only: a mask without dimensions is a mask.
    """

    def choose(masks):
        return [mask for mask in given(masks) if mask.dim() or mask.is_meta or not mask]

    return combined(*masks, choose=choose)
