"""Masks: booleans with True = may attend, and a softmax that gives hidden keys exactly nothing."""

import numpy as np
import torch
from torch import Tensor

from reference.ex01_softmax import exact_softmax
from reference.expected import Array, Expected, boolean, f64, gradients, largest

# Nothing is rounded on the way to a boolean mask or an additive one: no size, no tolerance.
_NO_ROUNDING = 0.0


def additive_mask(keep: Tensor, dtype: torch.dtype) -> Expected:
    """0 where `keep` (any shape) is True and -inf where it is False, in `dtype`."""
    exact = exact_additive_mask(_array(keep))
    return Expected(exact, plain_additive_mask(keep, dtype), _NO_ROUNDING)


def keep_from_blocked(blocked: Tensor) -> Expected:
    """The mask of any shape with True = may attend, from one with True = hidden."""
    exact = exact_keep_from_blocked(_array(blocked))
    return Expected(exact, plain_keep_from_blocked(blocked), _NO_ROUNDING)


def padding_mask(lengths: Tensor, max_len: int) -> Expected:
    """The mask (B, 1, 1, L) of the first `lengths` (B,) of L = `max_len` keys."""
    exact = exact_padding_mask(_array(lengths), max_len)
    return Expected(exact, plain_padding_mask(lengths, max_len), _NO_ROUNDING)


def combine_masks(*masks: Tensor | None) -> Expected | None:
    """What all `masks` (broadcasting, None skipped) keep; None, for no mask, if there is none."""
    given = [mask for mask in masks if mask is not None]
    if not given:
        return None
    exact = exact_combine_masks(*(_array(mask) for mask in given))
    return Expected(exact, plain_combine_masks(*given), _NO_ROUNDING)


def masked_softmax(scores: Tensor, keep: Tensor | None) -> Expected:
    """The softmax of `scores` (..., Lq, Lk) over the keys that `keep` lets through."""
    exact = exact_masked_softmax(f64(scores), boolean(keep))
    return Expected(exact, plain_masked_softmax(scores, keep), 1.0)


def masked_softmax_gradients(
    scores: Tensor, keep: Tensor | None, *, upstream: Tensor
) -> tuple[Expected, ...]:
    """The gradient of the weights with respect to `scores`, for the gradient `upstream` of them.

    It is `w * (g - sum(w * g))` with weights of at most 1, so `upstream` alone sets its size.
    """
    return gradients(
        lambda scores: plain_masked_softmax(scores, keep),
        scores,
        upstream=upstream,
        magnitude=largest(upstream),
    )


def exact_additive_mask(keep: Array) -> Array:
    """The oracle, float64: 0 or -inf."""
    return np.where(keep, 0.0, -np.inf)


def plain_additive_mask(keep: Tensor, dtype: torch.dtype) -> Tensor:
    """The yardstick: zeros, and -inf written over what is hidden."""
    return torch.zeros_like(keep, dtype=dtype).masked_fill(~keep, -torch.inf)


def exact_keep_from_blocked(blocked: Array) -> Array:
    """The oracle, bool."""
    return np.logical_not(blocked)


def plain_keep_from_blocked(blocked: Tensor) -> Tensor:
    """The yardstick: logical not."""
    return ~blocked


def exact_padding_mask(lengths: Array, max_len: int) -> Array:
    """The oracle, bool (B, 1, 1, L), one sentence after the other."""
    keep = np.zeros((len(lengths), 1, 1, max_len), dtype=bool)
    for sentence, length in zip(keep, lengths, strict=True):
        sentence[..., :length] = True
    return keep


def plain_padding_mask(lengths: Tensor, max_len: int) -> Tensor:
    """The yardstick: the position of each key against the length."""
    positions = torch.arange(max_len, device=lengths.device)  # (L,)
    return positions < lengths[:, None, None, None]  # (B, 1, 1, L)


def exact_combine_masks(*masks: Array) -> Array:
    """The oracle, bool: True where every mask is."""
    return np.logical_and.reduce(np.broadcast_arrays(*masks))  # type: ignore[no-any-return]


def plain_combine_masks(*masks: Tensor) -> Tensor:
    """The yardstick: logical and, mask by mask."""
    combined, *others = masks
    for mask in others:
        combined = combined & mask
    return combined


def exact_masked_softmax(scores: Array, keep: Array | None) -> Array:
    """The oracle: softmax over the kept scores, 0 elsewhere, and a row of zeros if none is kept."""
    if keep is None:
        return exact_softmax(scores)
    keep = np.broadcast_to(keep, np.broadcast_shapes(scores.shape, keep.shape))
    kept = np.where(keep, scores, -np.inf)
    top = kept.max(-1, keepdims=True, initial=-np.inf)
    powers = np.where(keep, np.exp(kept - np.where(np.isfinite(top), top, 0.0)), 0.0)
    total = powers.sum(-1, keepdims=True)
    return powers / np.where(total > 0, total, 1.0)


def plain_masked_softmax(scores: Tensor, keep: Tensor | None) -> Tensor:
    """The yardstick: hidden scores to -inf, softmax, and rows of nothing to zero."""
    if keep is None:
        return torch.softmax(scores, -1)
    hidden = torch.where(keep, scores, -torch.inf)  # (..., Lq, Lk)
    empty = ~keep.any(-1, keepdim=True)  # (..., Lq, 1)
    return torch.softmax(hidden.masked_fill(empty, 0.0), -1).masked_fill(empty, 0.0)


def _array(x: Tensor) -> Array:
    return x.detach().cpu().numpy()
