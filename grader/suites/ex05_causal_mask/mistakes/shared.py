"""Steps that wrong answers to several tasks share."""

import torch

from ..steps import (
    raised,
    summed,
)


def first_to_first(queries, keys, device):
    return torch.arange(queries, device=device)


def the_other_way(queries, keys, device):
    return torch.arange(queries, device=device) + (queries - keys)


def never_moved_back(queries, keys, device):
    return torch.arange(queries, device=device) + max(keys - queries, 0)


def one_further(keys, queries):
    return keys <= queries + 1


def less_a_billion(scores, keep):
    return scores - 1e9 * ~keep


def scored_in_half(q, k, widen, scale):
    """The scores in the dtype of the queries."""
    return raised(q @ k.mT * scale)


def above_zero(powers, dim):
    return summed(powers, dim).clamp(min=1e-30)


def never_zero(powers, dim):
    """The sums, and 1 in the place of 0."""
    total = summed(powers, dim)
    return total.masked_fill(total == 0, 1.0)
