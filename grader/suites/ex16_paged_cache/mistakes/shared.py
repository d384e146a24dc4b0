"""Steps that wrong answers to several tasks share."""

import torch


def plain_attention(q, k, v, hidden, scale=None):
    """Attention of q (H, t, D) to k and v (H, n, ...), half precision in float32."""
    wide = torch.promote_types(q.dtype, torch.float32)
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    scores = (q.to(wide) @ k.to(wide).mT * scale).masked_fill(hidden, -torch.inf)
    weights = torch.softmax(scores, -1).masked_fill(hidden, 0.0)
    return (weights @ v.to(wide)).to(q.dtype)


def ahead(q, k, corner=None):
    """Hidden (t, n): the keys behind i + corner; the right corner is n - t."""
    t, n = q.shape[1], k.shape[1]
    seen = torch.ones(t, n, dtype=torch.bool, device=q.device)
    return ~seen.tril(n - t if corner is None else corner)


def causally(q, k, v, scale=None):
    """The right attention of one sequence, but for the scale if one is given."""
    return plain_attention(q, k, v, ahead(q, k), scale)


def unmasked(q, k, v):
    return plain_attention(q, k, v, ahead(q, k, k.shape[1]))


def top_left_of_one(q, k, v):
    return plain_attention(q, k, v, ahead(q, k, 0))


def mean_of_one(q, k, v):
    return causally(0 * q, k, v)
