"""Wrong answers to `merge_heads`."""

import torch

from grader.judging import mistake
from reference.ex04_heads import (
    plain_merge_heads,
)

from ..test_heads import (
    test_empty,
    test_split_and_merge,
)


@mistake(of="merge_heads", caught_by=test_split_and_merge)
def no_swap_in_merge(x):
    """The heads are joined by a reshape straight to (B, L, E), without swapping them back.

    Swap the heads and the length first, and then join the last two axes.
    """
    batch, heads, length, dim = x.shape
    return x.reshape(batch, length, heads * dim)


@mistake(of="merge_heads", caught_by=test_split_and_merge)
def not_contiguous(x):
    """After the swap the tensor is not contiguous, and `view` refuses it.

    Use reshape, or contiguous() before view.
    """
    batch, heads, length, dim = x.shape
    return x.transpose(1, 2).view(batch, length, heads * dim)


@mistake(of="merge_heads", caught_by=test_split_and_merge)
def merged_by_width(x):
    """The numbers of a token alternate between the heads instead of lying head after head.

    Swap to (B, L, H, D), not to (B, L, D, H), before the last two axes are joined.
    """
    return x.permute(0, 2, 3, 1).flatten(-2)


@mistake(of="merge_heads", caught_by=test_empty)
def width_left_to_minus_one(x):
    """The last size is left to -1, which could be anything for an empty batch.

    Spell it out: H * D.
    """
    batch, _, length, _ = x.shape
    return x.swapaxes(1, 2).reshape(batch, length, -1)


@mistake(of="merge_heads", caught_by=test_split_and_merge)
def merge_detached(x):
    """The gradient is cut on the way.

    Use PyTorch operators only, without detach, .data or NumPy.
    """
    return plain_merge_heads(x.detach())


@mistake(of="merge_heads", caught_by=test_split_and_merge, null=True)
def zeros_for_tokens(x):
    """Zeros of the right shape.

    Nothing is joined yet.
    """
    return torch.zeros_like(plain_merge_heads(x))


@mistake(of="merge_heads", caught_by=test_split_and_merge)
def heads_averaged(x):
    """The heads are averaged instead of laid side by side: the shape is (B, L, D).

    Swap the heads and the length, and then join the last two axes.
    """
    return plain_merge_heads(x.mean(1, keepdim=True))


@mistake(of="merge_heads", caught_by=test_split_and_merge)
def heads_joined_along_the_length(x):
    """The heads follow one another along the length: the shape is (B, H * L, D).

    Lay them side by side: torch.cat(heads, dim=-1), or swap and join the last two axes.
    """
    return plain_merge_heads(x.flatten(1, 2)[:, None])


@mistake(of="merge_heads", caught_by=test_split_and_merge)
def last_head_left_out(x):
    """The last head is left out.

    Join all H heads: range(H) ends before H by itself.
    """
    return plain_merge_heads(x[:, :-1])


@mistake(of="merge_heads", caught_by=test_split_and_merge)
def merge_in_float32(x):
    """The tokens come back in float32, whatever the dtype of x.

    Nothing is computed here, so there is nothing to convert.
    """
    return plain_merge_heads(x).float()


@mistake(of="merge_heads", caught_by=test_split_and_merge)
def input_transposed_in_place(x):
    """x itself is transposed: the trailing underscore of transpose_ changes the caller's tensor.

    Write x.transpose(1, 2), which leaves x as it is.
    """
    return plain_merge_heads(x.transpose_(1, 2).transpose(1, 2))
