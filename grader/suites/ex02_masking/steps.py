"""Right masks, and a right masked softmax, in steps that mistakes replace one at a time."""

import operator
from functools import reduce

import torch


def unchanged(numbers, *_):
    """In the place of a step that is left out."""
    return numbers


def additive(keep, dtype, kept=0.0, hidden=-torch.inf, made_in=None):
    """Right, but for the two numbers, and for the dtype in which they are written down."""
    mask = torch.full(keep.shape, kept, dtype=made_in or dtype, device=keep.device)
    return mask.masked_fill(~keep, hidden).to(dtype)


def turned(blocked, turn=torch.logical_not):
    return turn(blocked)


def counted(lengths, max_len):
    """The positions of the keys."""
    return torch.arange(max_len, device=lengths.device)


def over_heads_and_queries(keep):
    """(B, L) as (B, 1, 1, L)."""
    return keep[:, None, None, :]


def padding(lengths, max_len, count=counted, seen=torch.lt, spread=over_heads_and_queries):
    return spread(seen(count(lengths, max_len), lengths[:, None]))


def given(masks):
    return [mask for mask in masks if mask is not None]


def kept_by_all(masks):
    return reduce(operator.and_, masks)


def no_mask():
    return None


def combined(*masks, choose=given, join=kept_by_all, nothing=no_mask):
    chosen = choose(masks)
    return join(chosen) if chosen else nothing()


# The steps of the softmax.


def everything_if_none(scores, keep):
    """The mask, or one that keeps everything."""
    return torch.ones_like(scores, dtype=torch.bool) if keep is None else keep


def wide(scores):
    """Half precision raised to float32; the other two as they are."""
    return scores.float() if scores.dtype.itemsize == 2 else scores


def filled(number):
    """A step that puts a number in the place of hidden scores."""
    return lambda scores, keep: scores.masked_fill(~keep, number)


def replaced(scores, keep):
    return torch.where(keep, scores, -torch.inf)


def rows_without_keys(keep):
    return ~keep.any(-1, keepdim=True)


def zero_in_empty_rows(numbers, keep, *_):
    return numbers.masked_fill(rows_without_keys(keep), 0.0)


def shifted(hidden, scores, dim):
    """The distances from the largest score that is kept."""
    return hidden - hidden.detach().amax(dim, keepdim=True)


def exponentials(distances, keep):
    return distances.exp()


def summed(powers, keep, dim):
    return powers.sum(dim, keepdim=True)


def converted_back(weights, scores):
    return weights.to(scores.dtype)


def masked(
    scores, keep, visible=everything_if_none, widen=wide, hide=replaced, mend=zero_in_empty_rows,
    shift=shifted, power=exponentials, total=summed, close=zero_in_empty_rows,
    narrow=converted_back, dim=-1,
):  # fmt: skip
    """Right, but for the step that a mistake replaces."""
    keep, raised = visible(scores, keep), widen(scores)
    hidden = mend(hide(raised, keep), keep, raised)
    powers = power(shift(hidden, raised, dim), keep)
    weights = powers / total(powers, keep, dim)
    return narrow(close(weights, keep), scores)
