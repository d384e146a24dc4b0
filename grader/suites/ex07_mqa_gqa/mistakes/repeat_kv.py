"""Wrong answers to `repeat_kv`."""

import torch

from grader.judging import mistake

from ..steps import (
    copied,
)
from ..test_mqa_gqa import (
    test_manners,
    test_repeat_kv,
)
from .shared import along_the_length, in_a_row


@mistake(of="repeat_kv", caught_by=test_repeat_kv)
def heads_tiled(x, n):
    """The heads are laid out k0 k1 k0 k1: the whole row of heads is repeated.

    Copies of one head stand next to each other, k0 k0 k1 k1: repeat_interleave, not repeat. Where
    a new axis holds the copies, it stands after the heads, (B, Hk, n, L, D).
    """
    return copied(x, n, repeat=in_a_row)


@mistake(of="repeat_kv", caught_by=test_repeat_kv)
def positions_repeated(x, n):
    """The repetition runs along the length: every key is there n times, and no head is.

    Repeat along dimension -3, the heads.
    """
    return copied(x, n, repeat=lambda x, n: x.repeat_interleave(n, -2))


@mistake(of="repeat_kv", caught_by=test_repeat_kv)
def positions_repeated_and_reshaped(x, n):
    """The repetition runs along the length, and a reshape hides it: heads are made of wrong rows.

    Repeat along dimension -3, the heads. No reshape is needed then.
    """
    return copied(x, n, repeat=along_the_length)


@mistake(of="repeat_kv", caught_by=test_repeat_kv)
def second_axis_repeated(x, n):
    """Axis 1 is repeated, which are the heads of (B, Hk, L, D) and of no other shape.

    Count the dimensions from the end: the heads are -3.
    """
    return copied(x, n, repeat=lambda x, n: x.repeat_interleave(n, 1))


@mistake(of="repeat_kv", caught_by=test_repeat_kv)
def copies_in_float32(x, n):
    """The copies are written into a new tensor of float32, whatever the dtype of x.

    Give torch.empty the dtype and the device of x, or use repeat_interleave.
    """
    return copied(x, n, close=lambda copies, x: copies.float())


@mistake(of="repeat_kv", caught_by=test_repeat_kv)
def copies_detached(x, n):
    """The copies have lost their graph, so that keys and values can never be trained.

    Use PyTorch operators only, without detach, .data or NumPy on the way.
    """
    return copied(x, n, see=torch.Tensor.detach)


@mistake(of="repeat_kv", caught_by=test_repeat_kv, null=True)
def no_copies(x, n):
    """The heads come back as they are, or as zeros.

    Each head has to be there n times.
    """
    return copied(x, n, see=torch.zeros_like)


@mistake(of="repeat_kv", caught_by=test_repeat_kv)
def one_batch_dimension_only(x, n):
    """Only inputs with exactly four dimensions are accepted.

    Count the dimensions from the end: the heads are -3.
    """
    _, _, _, _ = x.shape
    return copied(x, n)


@mistake(of="repeat_kv", caught_by=test_manners)
def no_tokens_refused(x, n):
    """Keys of no token crash: -1 in a reshape cannot be worked out for an empty tensor.

    Write the sizes out instead of -1, or use repeat_interleave or flatten.
    """
    copies = copied(x, n)
    return copies.reshape(*copies.shape[:-1], -1)
