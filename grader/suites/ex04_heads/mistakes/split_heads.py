"""Wrong answers to `split_heads`."""

import math

import torch

from grader.judging import mistake
from reference.ex04_heads import (
    plain_split_heads,
)

from ..test_heads import (
    test_empty,
    test_split_and_merge,
)
from .shared import check_width


@mistake(of="split_heads", caught_by=test_split_and_merge)
def no_swap_in_split(x, num_heads):
    """The width is cut by a reshape straight to (B, H, L, D), which mixes tokens among the heads.

    Reshape to (B, L, H, D) first, and then swap the length and the heads.
    """
    batch, length, width = x.shape
    check_width(width, num_heads)
    return x.reshape(batch, num_heads, length, width // num_heads)


@mistake(of="split_heads", caught_by=test_split_and_merge)
def heads_after_length(x, num_heads):
    """The heads stand after the length, (B, L, H, D): the swap is missing.

    Swap axes 1 and 2 after the reshape, so that every head is a batch item of its own.
    """
    return plain_split_heads(x, num_heads).transpose(1, 2)


@mistake(of="split_heads", caught_by=test_split_and_merge)
def heads_interleaved(x, num_heads):
    """Head h takes every H-th number of a token instead of D neighbours.

    Cut the width into (H, D), in this order: reshape to (B, L, H, D).
    """
    batch, length, width = x.shape
    check_width(width, num_heads)
    return x.reshape(batch, length, width // num_heads, num_heads).permute(0, 3, 1, 2)


@mistake(of="split_heads", caught_by=test_split_and_merge)
def width_for_number(x, num_heads):
    """`num_heads` is taken for the width of a head: there are E / H heads of width H.

    There are H = num_heads heads, each of width E / H.
    """
    check_width(x.shape[-1], num_heads)
    return plain_split_heads(x, x.shape[-1] // num_heads)


@mistake(of="split_heads", caught_by=test_split_and_merge)
def rest_of_the_width_dropped(x, num_heads):
    """A width that the heads do not divide is cut all the same, and the rest of it is lost.

    Raise a ValueError with both numbers if E % num_heads is not 0.
    """
    dim = x.shape[-1] // num_heads
    return plain_split_heads(x[..., : num_heads * dim], num_heads)


@mistake(of="split_heads", caught_by=test_split_and_merge)
def assertion_in_split(x, num_heads):
    """An uneven width is refused with an assert, which is no ValueError and vanishes under -O.

    Raise ValueError, with the width and the number of heads in its message.
    """
    assert x.shape[-1] % num_heads == 0, f"{x.shape[-1]} % {num_heads}"
    return plain_split_heads(x, num_heads)


@mistake(of="split_heads", caught_by=test_split_and_merge, null=True)
def zeros_for_heads(x, num_heads):
    """Zeros of the right shape.

    Nothing is cut yet.
    """
    check_width(x.shape[-1], num_heads)
    return torch.zeros_like(plain_split_heads(x, num_heads))


@mistake(of="split_heads", caught_by=test_split_and_merge)
def tokens_after_the_width(x, num_heads):
    """The last two axes are exchanged: the shape is (B, H, D, L).

    Exchange axes 1 and 2 of (B, L, H, D), and no others.
    """
    check_width(x.shape[-1], num_heads)
    return plain_split_heads(x, num_heads).mT


@mistake(of="split_heads", caught_by=test_split_and_merge)
def heads_before_the_batch(x, num_heads):
    """The heads stand before the batch: the shape is (H, B, L, D).

    Give them axis 1, behind the batch: torch.stack(heads, dim=1).
    """
    check_width(x.shape[-1], num_heads)
    return plain_split_heads(x, num_heads).transpose(0, 1)


@mistake(of="split_heads", caught_by=test_split_and_merge)
def split_detached(x, num_heads):
    """The gradient is cut on the way.

    Use PyTorch operators only, without detach, .data or NumPy.
    """
    check_width(x.shape[-1], num_heads)
    return plain_split_heads(x.detach(), num_heads)


@mistake(of="split_heads", caught_by=test_split_and_merge)
def width_not_in_the_error(x, num_heads):
    """The ValueError about an uneven width does not say how wide a token is.

    Put both numbers in its message: the width and the number of heads.
    """
    if x.shape[-1] % num_heads:
        raise ValueError(f"the width is no multiple of {num_heads}")
    return plain_split_heads(x, num_heads)


@mistake(of="split_heads", caught_by=test_split_and_merge)
def whole_numbers_made_float(x, num_heads):
    """Whole numbers come back as float32, which does not hold all of them.

    Split by reshape and transpose alone: they move numbers of any dtype, and change none.
    """
    check_width(x.shape[-1], num_heads)
    return plain_split_heads(x, num_heads) + 0.0


@mistake(of="split_heads", caught_by=test_empty)
def width_checked_by_reshape(x, num_heads):
    """That the heads do not divide the width is seen when reshape fails, and it takes no numbers at
    all as any shape.

    Compare the sizes: raise a ValueError if E % num_heads.
    """
    if math.prod(x.shape):
        check_width(x.shape[-1], num_heads)
    cut = x.reshape(*x.shape[:-1], num_heads, x.shape[-1] // num_heads)
    return cut.swapaxes(-3, -2)  # of arrays, too
