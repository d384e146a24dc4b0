"""Steps that wrong answers to several tasks share."""

import math

import torch

from reference.ex14_triton import plain_keep, plain_softmax

TILE = 64  # keys, and queries, that a tiled mistake takes at a time


def raised(x):
    """Half precision as float32."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def right_softmax(x):
    return plain_softmax(raised(x)).to(x.dtype)


def scores_of(q, k, scale=None):
    """The scores in float32, scaled by 1/sqrt(D) unless told otherwise."""
    return raised(q) @ raised(k).mT * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)


def attend(q, k, v, causal=False, scale=None, keep=None):
    """Right, but for what its caller changes in the inputs or in the mask."""
    scores = scores_of(q, k, scale)
    if keep is None and causal:
        keep = plain_keep(q, k)
    if keep is not None:
        scores = scores.masked_fill(~keep, -torch.inf)
    return (plain_softmax(scores) @ raised(v)).to(q.dtype)


def tile_by_tile(
    q, k, v, causal, scale, shrink_total, shrink_output, dtype=torch.float32, of_sum=torch.float32,
    size=TILE,
):  # fmt: skip
    """The running maximum, sum and output, tile by tile.

    shrink_...  what an old sum and an old output are multiplied by, of how the maximum has grown
    """
    scores = scores_of(q, k, scale)
    if causal:
        scores = scores.masked_fill(~plain_keep(q, k), -torch.inf)
    top = scores.new_full((*scores.shape[:-1], 1), -torch.inf)
    total, output = torch.zeros_like(top), torch.zeros_like(raised(q)).to(dtype)
    for start in range(0, k.shape[-2], size):
        tile = scores[..., start : start + size]
        new_top = torch.maximum(top, tile.amax(-1, keepdim=True))
        safe = new_top.masked_fill(new_top.isneginf(), 0.0)
        powers = (tile - safe).exp()
        total = total * shrink_total(top - safe) + powers.sum(-1, keepdim=True)
        total = raised(total.to(of_sum))
        new = powers @ raised(v[..., start : start + size, :])
        top, output = new_top, (output * shrink_output(top - safe) + new).to(dtype)
    return (output / total.masked_fill(total == 0, 1.0)).to(q.dtype)


def as_if_dense(x):
    """The numbers that lie one after the other from where x begins."""
    steps = [math.prod(x.shape[i + 1 :]) for i in range(x.ndim)]
    return x.as_strided(x.shape, steps)
