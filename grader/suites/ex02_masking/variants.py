"""Right masks and masked softmaxes, written otherwise."""

import math

import torch

from grader.judging import variant


@variant(of="additive_mask")
def logarithm(keep, dtype):
    """The logarithm of one and of zero."""
    return keep.to(dtype).log()


@variant(of="additive_mask")
def chosen(keep, dtype):
    """A choice between two numbers, place by place."""
    nothing = torch.zeros((), dtype=dtype, device=keep.device)
    return torch.where(keep, nothing, torch.full_like(nothing, -math.inf))


@variant(of="additive_mask")
def written_into_zeros(keep, dtype):
    """-inf written into new zeros by a boolean index."""
    mask = torch.zeros_like(keep, dtype=dtype)
    mask[torch.logical_not(keep)] = float("-inf")
    return mask


@variant(of="keep_from_blocked")
def equal_to_false(blocked):
    """A comparison with False."""
    return blocked == False  # noqa: E712


@variant(of="keep_from_blocked")
def exclusive_or(blocked):
    """An exclusive or with True."""
    return torch.logical_xor(blocked, torch.ones_like(blocked))


@variant(of="padding_mask")
def sentence_by_sentence(lengths, max_len):
    """A loop over the sentences."""
    keep = torch.zeros(len(lengths), 1, 1, max_len, dtype=torch.bool, device=lengths.device)
    for b, length in enumerate(lengths.tolist()):
        keep[b, 0, 0, :length] = True
    return keep


@variant(of="padding_mask")
def counted(lengths, max_len):
    """The position of each key, counted from one, against its length."""
    ones = torch.ones(lengths.shape[0], max_len, device=lengths.device)
    return (ones.cumsum(1) <= lengths.unsqueeze(1)).reshape(-1, 1, 1, max_len)


@variant(of="padding_mask")
def padding_turned_round(lengths, max_len):
    """The padding found first, and turned round."""
    blocked = torch.arange(max_len, device=lengths.device)[None, :] >= lengths[:, None]
    return ~blocked.unsqueeze(1).unsqueeze(1)


@variant(of="combine_masks")
def stacked(*masks):
    """The masks broadcast, stacked, and joined along the new axis."""
    given = [mask for mask in masks if mask is not None]
    if not given:
        return None
    return torch.stack(torch.broadcast_tensors(*given)).all(dim=0)


@variant(of="combine_masks")
def nothing_blocked(*masks):
    """De Morgan: a key is seen if it is not hidden by any mask."""
    blocked = [torch.logical_not(mask) for mask in masks if mask is not None]
    return ~sum(blocked[1:], blocked[0]) if blocked else None


@variant(of="combine_masks")
def one_after_the_other(*masks):
    """The first mask and, by recursion, the rest."""
    if not masks:
        return None
    first, rest = masks[0], combine_masks(*masks[1:])  # noqa: F821
    if first is None or rest is None:
        return rest if first is None else first
    return torch.logical_and(first, rest)


@variant(of="masked_softmax")
def nan_to_zero(scores, keep):
    """-inf in the hidden places, and the NaN of empty rows turned to 0 after the softmax."""
    if keep is not None:
        scores = scores.masked_fill(~keep, float("-inf"))
    return torch.nan_to_num(torch.softmax(scores, dim=-1), nan=0.0)


@variant(of="masked_softmax")
def by_hand_with_a_floor_under_the_sum(scores, keep):
    """exp and a sum of at least a half: it is 1 or more in every row that is not empty."""
    keep = torch.ones_like(scores, dtype=torch.bool) if keep is None else keep
    wide = scores.float() if scores.dtype in (torch.float16, torch.bfloat16) else scores
    wide = torch.where(keep, wide, torch.finfo(wide.dtype).min)
    powers = torch.exp(wide - wide.detach().amax(-1, keepdim=True)) * keep
    return (powers / powers.sum(-1, keepdim=True).clamp(min=0.5)).to(scores.dtype)


@variant(of="masked_softmax")
def in_double_with_the_logarithm(scores, keep):
    """Everything in float64: hidden scores cleared, a mask of 0 and -inf added, log-softmax."""
    wide = scores.double()
    if keep is None:
        return torch.log_softmax(wide, -1).exp().to(scores.dtype)
    seen = keep | ~keep.any(-1, keepdim=True)
    added = torch.where(keep, wide, 0.0) + seen.double().log()
    return (torch.log_softmax(added, -1).exp() * keep).to(scores.dtype)


@variant(of="masked_softmax")
def row_by_row(scores, keep):
    """A loop over the rows: the softmax of the kept scores alone, written to their places."""
    if keep is None:
        return torch.softmax(scores, -1)
    if scores.shape[-1] > 1000:  # the loop below is for rows of words
        return torch.softmax(scores.masked_fill(~keep, -torch.inf), -1)
    rows, kept = scores.flatten(0, -2), keep.expand_as(scores).flatten(0, -2)
    weights = torch.zeros_like(rows)
    for i in range(len(rows)):
        if kept[i].any():
            weights[i, kept[i]] = torch.softmax(rows[i][kept[i]], 0)
    return weights.reshape(scores.shape)


@variant(of="masked_softmax")
def with_a_sink(scores, keep):
    """One more key that takes the weight of empty rows, and is cut off again."""
    keep = torch.ones_like(scores, dtype=torch.bool) if keep is None else keep
    wide = scores.float() if scores.dtype.itemsize == 2 else scores
    hidden = wide.masked_fill(~keep, -math.inf)  # (..., Lq, Lk)
    sink = torch.where(keep.expand_as(scores).any(-1, keepdim=True), -math.inf, 0.0)
    weights = torch.softmax(torch.cat([hidden, sink.to(wide.dtype)], -1), -1)
    return weights[..., :-1].to(scores.dtype)


@variant(of="masked_softmax")
def sum_by_einsum(scores, keep):
    """The sum over the kept keys as an einsum with the mask."""
    keep = torch.ones_like(scores, dtype=torch.bool) if keep is None else keep
    keep = keep.expand(scores.shape)
    wide = torch.where(keep, scores.to(torch.promote_types(scores.dtype, torch.float32)), 0.0)
    top = torch.where(keep, wide, -torch.inf).max(-1, keepdim=True).values
    powers = torch.exp(torch.where(keep, wide - top, -torch.inf))
    total = torch.einsum("...k,...k->...", powers, keep.to(powers.dtype))
    return torch.where(keep, powers / total[..., None], 0.0).to(scores.dtype)
