# Skeleton ex02_masking aa5d3841292db59b. The lesson: docs/lessons/ex02_masking.en.md
"""Masking: write the bodies, then run `make grade EX=ex02_masking`.

Not allowed: PyTorch's fused attention operator and its attention modules, torch.masked. Write it
with where, any and torch.softmax, which are allowed here.
"""

import torch


def additive_mask(keep: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Turn a boolean mask into one that is added to scores: 0 where kept, -inf where hidden.

    keep    bool tensor of any shape (a batch may be empty), True = may attend; it is not changed
    dtype   the floating dtype of the answer
    returns a tensor of `dtype`, of the shape and on the device of `keep`
    """
    raise NotImplementedError(
        "Turn a boolean mask into one that is added to scores: 0 where kept, -inf where hidden."
    )


def keep_from_blocked(blocked: torch.Tensor) -> torch.Tensor:
    """Turn a mask in which True means hidden into one in which True means may attend.

    blocked bool tensor of any shape, True = hidden; it is not changed
    returns a bool tensor of the same shape, on the same device, True = may attend
    """
    raise NotImplementedError(
        "Turn a mask in which True means hidden into one in which True means may attend."
    )


def padding_mask(lengths: torch.Tensor, max_len: int) -> torch.Tensor:
    """Build the mask that keeps the first `lengths[b]` of `max_len` keys in sentence `b`.

    lengths tensor (B,), int8 to int64 or uint8, each from 0 to `max_len`, B may be 0; it is not
            changed
    max_len L, the number of keys, at least 1
    returns a bool tensor (B, 1, 1, L), on the device of `lengths`, True = may attend
    """
    raise NotImplementedError(
        "Build the mask that keeps the first `lengths[b]` of `max_len` keys in sentence `b`."
    )


def combine_masks(*masks: torch.Tensor | None) -> torch.Tensor | None:
    """Combine any number of masks into one that keeps what all of them keep.

    masks   bool tensors, True = may attend, of shapes that broadcast; None is skipped;
            they are not changed
    returns a bool tensor of the broadcast shape, on their device, or None if there is no mask at
            all
    """
    raise NotImplementedError(
        "Combine any number of masks into one that keeps what all of them keep."
    )


def masked_softmax(scores: torch.Tensor, keep: torch.Tensor | None) -> torch.Tensor:
    """Turn scores into weights over the keys that `keep` lets through.

    scores  tensor (..., Lq, Lk), float16, bfloat16, float32 or float64; it is not changed
    keep    bool tensor that broadcasts to the shape of `scores`, True = may attend, or None for all
    returns a tensor of the shape and dtype of `scores`: each row sums to one, is
            exactly 0 where hidden, and all 0 if nothing is kept; hidden scores, even NaN, have no
            influence on it, and gradient 0

    Scores may be as large as 10,000, and a batch may be empty. Gradients flow to the kept scores.
    float64 is computed in float64, half precision in float32, the gradient too: a row of 70,000
    must not overflow.
    """
    raise NotImplementedError("Turn scores into weights over the keys that `keep` lets through.")
