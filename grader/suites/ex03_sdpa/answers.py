"""Compares answers of ex03 by their values, in whatever dtype they come."""

import numpy as np
import torch

import reference
from grader.judging import Hard, agree

from .inputs import (
    HARD,
    MASKED,
    for_function,
    hard_inputs,
    inputs,
    some_mask,
    with_empty_rows,
)

BOTH = "output", "weights"


def right_in_value(answer, expected, of=""):
    """Two arrays or tensors are right after a cast to the dtype expected.

    of  which part of the answer they are, in words
    """
    for what, got, right in zip(BOTH, answer, expected, strict=True):
        if got.dtype == right.plain.dtype:
            agree(got, right, says=f"{what}{of}" if of else None)
        else:
            cast = got.to if isinstance(got, torch.Tensor) else got.astype
            agree(cast(right.plain.dtype), right, says=f"{what}{of}")


def spoilt_key_stays_hidden(student, draw, name, dtype, part, garbage):
    """A key that the last queries see, and the first ones do not, changes nothing for the first."""
    tensors, keep = inputs(draw, MASKED, dtype), draw.keep(9, 17)
    keep[:4, -1], keep[4:, -1], keep[:4, 0] = False, True, True
    clean = dict(zip("qkv", tensors, strict=True))
    last = torch.arange(17, device=keep.device)[:, None] == 16
    bad = clean | {part: clean[part].masked_fill(last, garbage)}
    answer = getattr(student, name)(*for_function(name, *bad.values(), keep))
    few = for_function(name, tensors[0][..., :4, :], *tensors[1:], keep[:4])
    seen, of = [x[..., :4, :] for x in answer], " of queries from which the last key is hidden"
    if dtype == torch.float32:
        right_in_value(seen, getattr(reference, name)(*few), of)
    else:  # as exact as it is without the garbage
        for what, got, right in zip(BOTH, seen, getattr(student, name)(*few), strict=True):
            agree(got, right, says=f"{what}{of}")


def values_agree(student, name, *tensors, scale=None):
    """What a function gives for q, k, v and perhaps a mask is right, in whatever dtype."""
    given = for_function(name, *tensors)
    answer = getattr(student, name)(*given, scale=scale)
    right_in_value(answer, getattr(reference, name)(*given, scale=scale))


def agrees_in_dtype(student, name, *tensors, scale=None):
    """What a function gives is right, and has the dtype of q."""
    given = for_function(name, *tensors)
    answer = getattr(student, name)(*given, scale=scale)
    agree(answer, getattr(reference, name)(*given, scale=scale))


def raised_values_agree(student, name, *tensors, scores, scale=None):
    """What a function gives in half precision is right, where the plain formula in it is not.

    scores  what is hard about them, in words
    """
    given = for_function(name, *tensors)
    answer = getattr(student, name)(*given, scale=scale)
    expected = reference.raised(getattr(reference, name), *given, scale=scale)
    for what, got, right in zip(BOTH, answer, expected, strict=True):
        agree(got, right, says=f"{what} for {scores}")


def hidden_weight_is_zero(name, keep, weights):
    """The weight of hidden keys is 0, not only nearly."""
    [keep] = for_function(name, keep)
    hidden = np.where(keep, 0.0, weights) if name == "attention_numpy" else weights * ~keep
    agree(hidden, 0 * hidden, says="weight of hidden keys", within=0.0)


def masks_of_hard_sizes(student, draw, name):
    for kind in HARD:
        for q, k, v in hard_inputs(draw, kind):
            values_agree(student, name, q, k, v, some_mask(draw, q, k))
            if q.shape[-2] > 256:
                values_agree(student, name, q, k, v, draw.keep(1, k.shape[-2]))
            if kind is Hard.SQUARE:  # where a mask turned around, or one of queries, fits as well
                n = k.shape[-2]
                causal = torch.ones(n, n, dtype=torch.bool, device=q.device).tril()
                for keep in causal, causal.mT, draw.keep(n):
                    values_agree(student, name, q, k, v, keep)


def zeros_beside_a_spoilt_key(student, draw, name, dtype):
    """Queries that see nothing have zeros, too, where one of the hidden keys is NaN."""
    (q, k, v), keep = inputs(draw, MASKED, dtype), with_empty_rows(draw)
    k[..., -1, :], keep[..., -1] = torch.nan, False
    answer = getattr(student, name)(*for_function(name, q, k, v, keep))
    zeros_in_empty_rows(keep, *map(torch.as_tensor, answer), besides=" beside a key of NaN")


def zeros_in_empty_rows(keep, output, weights, besides=""):
    """Where nothing is kept, output and weights are zeros exactly, whatever their dtype."""
    empty = ~keep.to(output.device).any(-1, keepdim=True)
    for what, answer in ("output", output), ("weights", weights):
        idle = torch.where(empty, answer, 0.0)
        agree(idle, torch.zeros_like(idle), says=f"{what} of empty rows{besides}", within=0.0)
