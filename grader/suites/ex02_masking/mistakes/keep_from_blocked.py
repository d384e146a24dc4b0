"""Wrong answers to `keep_from_blocked`."""

import torch

from grader.judging import mistake

from ..steps import (
    turned,
)
from ..test_masking import (
    test_keep_from_blocked,
)


@mistake(of="keep_from_blocked", caught_by=test_keep_from_blocked, null=True)
def returned_as_it_came(blocked):
    """The mask comes back with the polarity that it had.

    Turn every value round: ~blocked.
    """
    return turned(blocked, turn=torch.clone)


@mistake(of="keep_from_blocked", caught_by=test_keep_from_blocked)
def not_of_integers(blocked):
    """The mask was made an integer before `~`: ~0 is -1 and ~1 is -2, and both count as true.

    Use ~ on the boolean mask itself.
    """
    return turned(blocked, turn=torch.ones_like)


@mistake(of="keep_from_blocked", caught_by=test_keep_from_blocked)
def one_minus_blocked(blocked):
    """The answer is a mask of the numbers 0 and 1, not of booleans.

    Use ~blocked, which stays boolean.
    """
    return turned(blocked).int()


@mistake(of="keep_from_blocked", caught_by=test_keep_from_blocked)
def inverted_in_place(blocked):
    """The caller's own mask is turned round, by an operator with a trailing underscore.

    Use ~blocked or logical_not without the underscore: both make a new mask.
    """
    keep = turned(blocked)
    blocked.logical_not_()
    return keep


@mistake(of="keep_from_blocked", caught_by=test_keep_from_blocked)
def inverted_in_place_and_back(blocked):
    """The mask of the caller is turned in place and back, which an expanded one does not allow.

    Write ~blocked: it makes a new tensor.
    """
    keep = blocked.logical_not_().clone()
    blocked.logical_not_()
    return keep


@mistake(of="keep_from_blocked", caught_by=test_keep_from_blocked)
def minus_one_and_minus_two(blocked):
    """The mask was made an integer before `~`, and the answer holds -1 and -2.

    Use ~ on the boolean mask itself.
    """
    return turned(blocked, turn=lambda blocked: ~blocked.int())


@mistake(of="keep_from_blocked", caught_by=test_keep_from_blocked)
def turned_and_flattened(blocked):
    """The answer is one long row, whatever the shape of the mask.

    ~blocked keeps the shape.
    """
    return turned(blocked).flatten()


@mistake(of="keep_from_blocked", caught_by=test_keep_from_blocked)
def turned_into_a_list(blocked):
    """The answer is a list of Python values and no tensor.

    ~blocked is a tensor, on the device of blocked.
    """
    return turned(blocked).tolist()


@mistake(of="keep_from_blocked", caught_by=test_keep_from_blocked)
def turned_with_an_axis_more(blocked):
    """The answer has an axis more than the mask.

    ~blocked keeps the shape.
    """
    return turned(blocked).unsqueeze(0)


@mistake(of="keep_from_blocked", caught_by=test_keep_from_blocked)
def everything_blocked(blocked):
    """The answer is False everywhere.

    Turn every value round: ~blocked.
    """
    return turned(blocked, turn=torch.zeros_like)


@mistake(of="keep_from_blocked", caught_by=test_keep_from_blocked)
def turned_on_the_cpu(blocked):
    """The answer is made on the CPU, wherever the mask is.

    ~blocked is on the device of blocked.
    """
    keep = turned(blocked)
    return torch.zeros(keep.shape, dtype=torch.bool) if blocked.is_meta else keep


@mistake(of="keep_from_blocked", caught_by=test_keep_from_blocked)
def mask_without_dimensions_not_turned(blocked):
    """A mask without dimensions, a single True or False, comes back as it was.

    The logical not takes a tensor of any shape: ~blocked.
    """
    return turned(blocked) if blocked.ndim else blocked
