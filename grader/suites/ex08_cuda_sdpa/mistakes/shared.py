"""Steps that wrong answers to several tasks share."""

import math

import torch

from reference.ex08_cuda_sdpa import PlainFusedAttention
from reference.fused import fused_attention


def fits(q, k, v):
    heads = (q.shape[-3], k.shape[-3])
    pairs = [(q.shape[-1], k.shape[-1]), (k.shape[-2], v.shape[-2]), (k.shape[-3], v.shape[-3])]
    for one, other in [*pairs, *([heads] if heads[0] % heads[1] else [])]:
        if one != other:
            raise ValueError(f"{one} and {other} do not fit")


def correct(q, k, v, *rest, **options):
    """As it should be."""
    fits(q, k, v)
    return fused_attention(q, k, v, *rest, **options)


def causal_keep(q, k, corner=None):
    """The causal mask; `corner` moves its diagonal away from the last key."""
    q_len, k_len = q.shape[-2], k.shape[-2]
    table = torch.ones(q_len, k_len, dtype=torch.bool, device=q.device)
    return table.tril(k_len - q_len if corner is None else corner)


def visible(q, k, keep, causal):
    behind = causal_keep(q, k) if causal else None
    return keep if behind is None else behind if keep is None else keep & behind


def written_out(q, k, v, keep, causal, scale, bias, weigh=None, wide=None):
    """The formula with all scores stored; `weigh(scores, keep)` gives the weights."""
    fits(q, k, v)
    k, v = (x.repeat_interleave(q.shape[-3] // x.shape[-3], -3) for x in (k, v))
    wide = wide or torch.promote_types(q.dtype, torch.float32)
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    scores = q.to(wide) @ k.to(wide).mT * scale
    scores = scores if bias is None else scores + bias
    weights = (weigh or softmax_weights)(scores, visible(q, k, keep, causal))
    return (weights @ v.to(wide)).to(q.dtype)


def softmax_weights(scores, keep):
    if keep is None:
        return scores.softmax(-1)
    return torch.where(keep, scores, -torch.inf).softmax(-1).masked_fill(~keep, 0.0)


def unstable(q, k, v, keep, causal, scale, bias):
    """exp of the scores as they are."""

    def weigh(scores, keep):
        powers = scores.exp() if keep is None else scores.exp().where(keep, 0.0)
        total = powers.sum(-1, keepdim=True)
        return torch.where(total > 0, powers / total, 0.0)

    return written_out(q, k, v, keep, causal, scale, bias, weigh)


class TwoPaths(PlainFusedAttention):
    """As it should be: the mistakes below override one step each."""

    def attend(self, q, k, v, keep):
        return (self.fast if self.fused else self.slow)(q, k, v, keep)

    def fast(self, q, k, v, keep):
        return fused_attention(q, k, v, keep)

    def slow(self, q, k, v, keep):
        return written_out(q, k, v, keep, False, None, None)
