"""Wrong answers to `online_softmax`."""

import torch

from grader.judging import mistake
from grader.judging.one_place import written_over
from reference.ex10_online_softmax import (
    plain_online_softmax,
)

from ..test_online_softmax import (
    test_online,
    test_online_extremes,
    test_online_manners,
)
from .shared import finite, inverted, not_shrinking, one_pass, slices, wide


def _statistics(x, block_size, **steps):
    """The right answer to task 1, but for the steps that are given."""
    pieces = [wide(x[..., block]) for block in slices(x.shape[-1], block_size)]
    values = [torch.zeros(piece.shape[-1], 1).to(piece) for piece in pieces]
    return one_pass(pieces, values, **steps)[:2]


# Task 1: the two statistics


@mistake(of="online_softmax", caught_by=test_online)
def sum_not_rescaled(x, block_size):
    """The sum so far is not rescaled when the maximum grows.

    It was measured against the old maximum: multiply it by exp(old maximum - new maximum).
    """
    return _statistics(x, block_size, shrink=not_shrinking)


@mistake(of="online_softmax", caught_by=test_online)
def factor_inverted(x, block_size):
    """The sum so far is multiplied by exp(new maximum - old maximum): it grows.

    What is old is worth less beside a larger maximum: exp(old - new), which is at most 1.
    """
    return _statistics(x, block_size, shrink=inverted)


@mistake(of="online_softmax", caught_by=test_online)
def maximum_starts_at_zero(x, block_size):
    """The running maximum starts at 0, so it comes out as 0 where all scores are negative.

    Start at -inf, which is below every score.
    """
    return _statistics(x, block_size, start=0.0)


@mistake(of="online_softmax", caught_by=test_online)
def last_block_dropped(x, block_size):
    """The last block is left out where it is shorter than block_size.

    There are ceil(n / block_size) blocks: range(0, n, block_size) starts each of them.
    """
    short = x.shape[-1] % max(block_size, 1)
    columns = torch.arange(x.shape[-1], device=x.device)
    return _statistics(x.masked_fill(columns >= len(columns) - short, -torch.inf), block_size)


@mistake(of="online_softmax", caught_by=test_online)
def last_block_filled_with_zeros(x, block_size):
    """The last block is filled up with zeros, and these are counted as scores.

    Fill up with -inf, whose exponential is 0, or let the last block be shorter.
    """
    missing = -x.shape[-1] % max(block_size, 1)
    return _statistics(torch.nn.functional.pad(x, (0, missing)), block_size)


@mistake(of="online_softmax", caught_by=test_online_extremes)
def nan_from_hidden_blocks(x, block_size):
    """A block of -inf gives NaN: -inf - -inf, while nothing else has been seen.

    Subtract 0 instead of the maximum where that is still -inf.
    """
    return _statistics(x, block_size, base=lambda top: top)


@mistake(of="online_softmax", caught_by=test_online_manners)
def nan_replaced_afterwards(x, block_size):
    """The NaN of -inf - -inf is replaced after the exponential, and comes back in the gradient.

    Do not let it arise: replace the maximum by 0 where it is -inf, before it is subtracted.
    """
    x = wide(x)
    top = torch.full_like(x[..., 0], -torch.inf)
    total = torch.zeros_like(top)
    for block in slices(x.shape[-1], block_size):
        new_top = torch.maximum(top, x[..., block].amax(-1))
        shrink, powers = top - new_top, x[..., block] - new_top[..., None]
        total = total * shrink.exp().nan_to_num() + powers.exp().nan_to_num().sum(-1)
        top = new_top
    return top, total


@mistake(of="online_softmax", caught_by=test_online_extremes)
def converted_too_late(x, block_size):
    """In half precision the exponentials are taken before the conversion to float32.

    Convert first, x[..., block].float(), then subtract and take exponentials.
    """
    row_max, _ = plain_online_softmax(x, block_size)
    return row_max, wide(torch.exp(x - finite(row_max).to(x.dtype)[..., None])).sum(-1)


@mistake(of="online_softmax", caught_by=test_online_extremes)
def statistics_left_in_half_precision(x, block_size):
    """In half precision the statistics are half precision too, and the sum cannot grow.

    Return float32: convert each block with .float() before anything is computed.
    """
    row_max, row_sum = plain_online_softmax(x, block_size)
    return row_max.to(x.dtype), row_sum.to(x.dtype)


@mistake(of="online_softmax", caught_by=test_online_manners)
def scores_overwritten(x, block_size):
    """The maximum is subtracted from the caller's x in place.

    x = x - m makes a new tensor, x -= m does not.
    """
    answer = plain_online_softmax(x, block_size)
    x.data.sub_(finite(x.data.amax(-1, keepdim=True)))
    return answer


@mistake(of="online_softmax", caught_by=test_online_manners)
def block_size_not_checked(x, block_size):
    """A block_size below 1 is taken, and nothing is read.

    Raise ValueError, with the number, before the loop.
    """
    return plain_online_softmax(x, abs(block_size) + 1)


@mistake(of="online_softmax", caught_by=test_online, null=True)
def zeros_and_lengths(x, block_size):
    """The maximum is 0 and the sum is n: nothing is computed.

    Read the row block by block, with a running maximum and a running sum.
    """
    row_max = torch.zeros_like(wide(x[..., 0]))
    return row_max, row_max + x.shape[-1]


@mistake(of="online_softmax", caught_by=test_online_manners)
def statistics_in_one_place(x, block_size, places={}):  # noqa: B006 (that is the mistake)
    """Every answer of a form is written into the same memory, over the answer before it.

    Return new tensors in every call.
    """
    return written_over(places, plain_online_softmax(x, block_size))
