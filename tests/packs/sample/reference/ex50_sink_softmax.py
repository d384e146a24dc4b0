"""A softmax with a sink: one more score in the sum, and no weight for it."""

import numpy as np
import torch
from torch import Tensor

from reference.expected import Array, Expected, f64


def sink_softmax(scores: Tensor, sink: float) -> Expected:
    """The weights (..., Lk) of `scores` (..., Lk), when a score `sink` takes its share as well."""
    return Expected(exact_sink_softmax(f64(scores), sink), plain_sink_softmax(scores, sink), 1.0)


def exact_sink_softmax(scores: Array, sink: float) -> Array:
    top = np.maximum(scores.max(-1, keepdims=True), sink)
    powers = np.exp(scores - top)
    weights: Array = powers / (powers.sum(-1, keepdims=True) + np.exp(sink - top))
    return weights


def plain_sink_softmax(scores: Tensor, sink: float) -> Tensor:
    column = torch.full_like(scores[..., :1], sink)
    return torch.softmax(torch.cat([scores, column], -1), -1)[..., :-1]
