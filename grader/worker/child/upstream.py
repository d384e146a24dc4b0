"""Weighs an answer with the gradient that a backward pass is to hand to it."""

import torch


def sum_weighted_answer(answer: torch.Tensor, upstream: torch.Tensor) -> torch.Tensor:
    """Return a sum whose gradient for `answer` is `upstream`.

    Where `upstream` is one number, expanded, the gradient comes expanded too, as after
    `answer.sum()`. Handed over as such, an upstream makes torch import sympy first.
    """
    if upstream.numel() and not any(upstream.stride()):
        return answer.sum() * upstream.flatten()[0]
    return (answer * upstream).sum()
