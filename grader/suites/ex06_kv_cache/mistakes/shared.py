"""Steps that wrong answers to several tasks share."""

import torch

from ..steps import (
    triangle,
)


def everywhere(q, k):
    return triangle(q, k, k.shape[-2])


def from_the_first_key(q, k):
    return triangle(q, k, 0)


def moved(q, k, places):
    """The triangle with its diagonal some places too far to the right."""
    return triangle(q, k, k.shape[-2] - q.shape[-2] + places)


def added(low):
    """A step that adds a low number to hidden scores."""
    return lambda scores, keep: scores + torch.zeros_like(scores).masked_fill(~keep, low)


def without_maximum(hidden, keep):
    powers = hidden.exp()
    return powers / powers.sum(-1, keepdim=True)
