"""Wrong answers to `additive_mask`."""

import torch

from grader.judging import mistake

from ..steps import (
    additive,
)
from ..test_masking import (
    test_additive_mask,
)


@mistake(of="additive_mask", caught_by=test_additive_mask)
def additive_row_by_row(keep, dtype):
    """The mask is taken apart along its last axis, which a mask of no axes does not have.

    torch.zeros(keep.shape, ...).masked_fill(~keep, -torch.inf) takes a mask of any shape.
    """
    keep[..., 0]
    return additive(keep, dtype)


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
    return additive(keep, dtype, hidden=-1e9, made_in=torch.float32)


@mistake(of="additive_mask", caught_by=test_additive_mask)
def additive_lowest_number(keep, dtype):
    """The lowest finite number of the dtype stands where -inf should.

    Use -torch.inf: a sum with finfo(dtype).min is finite, and two of them overflow.
    """
    return additive(keep, dtype, hidden=torch.finfo(dtype).min)


@mistake(of="additive_mask", caught_by=test_additive_mask)
def additive_inverted(keep, dtype):
    """What is kept gets -inf, and what is hidden gets 0.

    True means may attend, so the -inf belongs where keep is False: fill at ~keep.
    """
    return additive(~keep, dtype)


@mistake(of="additive_mask", caught_by=test_additive_mask)
def additive_zero_times_infinity(keep, dtype):
    """The hidden places are multiplied by -inf, and 0 * -inf is NaN.

    Choose between 0 and -inf with masked_fill or torch.where, without a multiplication.
    """
    return additive(keep, dtype, kept=torch.nan)


@mistake(of="additive_mask", caught_by=test_additive_mask)
def additive_dtype_ignored(keep, dtype):
    """The mask is float32 whatever dtype was asked for.

    Hand dtype to the function that makes the zeros.
    """
    return additive(keep, torch.float32)


@mistake(of="additive_mask", caught_by=test_additive_mask)
def additive_large_number_overflows(keep, dtype):
    """-1e9 stands where -inf should; half precision ends at 65,504, and there it raises an error.

    Use -torch.inf, which every floating-point dtype has.
    """
    return additive(keep, dtype, hidden=-1e9)


@mistake(of="additive_mask", caught_by=test_additive_mask)
def additive_minus_ten_thousand(keep, dtype):
    """-10,000 stands where -inf should.

    Use -torch.inf: only then is the weight of a hidden key exactly 0, whatever its score.
    """
    return additive(keep, dtype, hidden=-1e4)


@mistake(of="additive_mask", caught_by=test_additive_mask)
def additive_plus_infinity(keep, dtype):
    """+inf stands where -inf should: the sign is lost.

    Hidden scores should become as low as possible: -torch.inf.
    """
    return additive(keep, dtype, hidden=torch.inf)


@mistake(of="additive_mask", caught_by=test_additive_mask)
def additive_one_for_kept(keep, dtype):
    """1 stands where the key is kept: the booleans have become numbers.

    Put 0 there: it is what leaves a score as it is.
    """
    return additive(keep, dtype, kept=1.0)


@mistake(of="additive_mask", caught_by=test_additive_mask)
def additive_zero_for_hidden(keep, dtype):
    """0 stands where the key is hidden, which hides nothing.

    Put -torch.inf where keep is False.
    """
    return additive(keep, dtype, kept=1.0, hidden=0.0)


@mistake(of="additive_mask", caught_by=test_additive_mask)
def additive_one_for_hidden(keep, dtype):
    """1 stands where the key is hidden, and not -inf.

    Put -torch.inf there: adding 1 makes a hidden score larger.
    """
    return additive(keep, dtype, hidden=1.0)


@mistake(of="additive_mask", caught_by=test_additive_mask)
def additive_turned_in_place(keep, dtype):
    """The caller's own mask is turned round, by an operator with a trailing underscore.

    Write ~keep: it makes a new mask.
    """
    mask = additive(keep, dtype)
    keep.logical_not_()
    return mask


@mistake(of="additive_mask", caught_by=test_additive_mask)
def additive_with_an_axis_more(keep, dtype):
    """The answer has an axis more than the mask.

    Give it the shape of keep: whoever adds it lets it broadcast.
    """
    return additive(keep, dtype).unsqueeze(0)


@mistake(of="additive_mask", caught_by=test_additive_mask)
def additive_with_two_axes_more(keep, dtype):
    """The answer has axes for sentences and heads that the mask does not have.

    Give it the shape of keep: whoever adds it lets it broadcast.
    """
    return additive(keep, dtype)[None, None]


@mistake(of="additive_mask", caught_by=test_additive_mask)
def additive_flattened(keep, dtype):
    """The answer is one long row, whatever the shape of the mask.

    Keep the shape: torch.zeros(keep.shape, ...), or torch.where.
    """
    return additive(keep, dtype).flatten()


@mistake(of="additive_mask", caught_by=test_additive_mask)
def additive_half_precision_raised(keep, dtype):
    """For half precision the mask is float32.

    Make it in the dtype that is asked for: both 0 and -inf exist in half precision.
    """
    return additive(keep, torch.promote_types(dtype, torch.float32))


@mistake(of="additive_mask", caught_by=test_additive_mask)
def additive_made_on_the_cpu(keep, dtype):
    """The mask is made on the CPU, wherever keep is.

    Hand device=keep.device to the function that makes the zeros.
    """
    mask = additive(keep, dtype)
    return torch.zeros(keep.shape, dtype=dtype) if keep.is_meta else mask


@mistake(of="additive_mask", caught_by=test_additive_mask)
def additive_kept(keep, dtype, kept={}):  # noqa: B006 (that is the mistake)
    """The mask is kept and returned again, so that whoever changes it changes those of all others.

    Return a new mask at every call, or a clone of the one that is kept.
    """
    if keep.is_meta:
        return additive(keep, dtype)
    return kept.setdefault((str(keep.tolist()), keep.shape, dtype), additive(keep, dtype))


@mistake(of="additive_mask", caught_by=test_additive_mask, null=True)
def additive_zeros(keep, dtype):
    """The mask is all zeros, so it hides nothing.

    Put -torch.inf where keep is False.
    """
    return additive(keep, dtype, hidden=0.0)
