"""Wrong answers to ex03_sdpa, written with nothing but the skeleton in sight."""

import math

import numpy as np
import torch

from tests.diagnosis.written import wrong


@wrong(of="attention_numpy", mistakes=1)
def loops_without_scale(q, k, v, keep=None, scale=None):
    """The scores are divided by nothing where no scale is given: 1 / sqrt(D) is forgotten."""
    if q.shape[-1] != k.shape[-1]:
        raise ValueError(f"q has width {q.shape[-1]}, k has {k.shape[-1]}")
    if k.shape[-2] != v.shape[-2]:
        raise ValueError(f"k has length {k.shape[-2]}, v has {v.shape[-2]}")
    dtype = np.promote_types(q.dtype, np.float32)
    shape = (*q.shape[:-1], k.shape[-2])
    visible = np.broadcast_to(True if keep is None else keep, shape)
    weights = np.zeros(shape, dtype)
    output = np.zeros((*q.shape[:-1], v.shape[-1]), dtype)
    for b in np.ndindex(q.shape[:-2]):
        keys, values = k[b].astype(dtype), v[b].astype(dtype)
        for i, query in enumerate(q[b].astype(dtype)):
            kept = visible[b][i]
            if not kept.any():
                continue
            scores = keys @ query
            if scale is not None:
                scores = scores * dtype.type(scale)
            e = np.where(kept, np.exp(scores - scores[kept].max()), 0)
            weights[b][i] = e / e.sum()
            output[b][i] = weights[b][i] @ values
    return output.astype(q.dtype), weights.astype(q.dtype)


@wrong(of="attention_numpy", mistakes=1)
def einsum_softmax_over_queries(q, k, v, keep=None, scale=None):
    """The softmax is over the queries and not over the keys."""
    if q.shape[-1] != k.shape[-1]:
        raise ValueError(f"widths differ: {q.shape[-1]} and {k.shape[-1]}")
    if k.shape[-2] != v.shape[-2]:
        raise ValueError(f"lengths differ: {k.shape[-2]} and {v.shape[-2]}")
    if scale is None:
        scale = 1 / math.sqrt(q.shape[-1])
    wide = np.float64 if q.dtype == np.float64 else np.float32
    scores = np.einsum("...qd,...kd->...qk", q.astype(wide), k.astype(wide)) * scale
    if keep is not None:
        scores = np.where(keep, scores, -np.inf)
    top = scores.max(axis=-2, keepdims=True, initial=-np.inf)
    e = np.exp(scores - np.where(top == -np.inf, 0, top))
    total = e.sum(axis=-2, keepdims=True)
    weights = e / np.where(total == 0, 1, total)
    output = np.einsum("...qk,...kd->...qd", weights, v.astype(wide))
    return output.astype(q.dtype), weights.astype(q.dtype)


@wrong(of="attention_numpy", mistakes=1)
def numpy_mask_of_blocked_keys(q, k, v, keep=None, scale=None):
    """The mask is inverted: what it keeps is hidden."""
    if q.shape[-1] != k.shape[-1]:
        raise ValueError(f"queries are {q.shape[-1]} wide, keys {k.shape[-1]}")
    if k.shape[-2] != v.shape[-2]:
        raise ValueError(f"there are {k.shape[-2]} keys and {v.shape[-2]} values")
    q32, k32, v32 = (a.astype(np.promote_types(q.dtype, np.float32)) for a in (q, k, v))
    scores = np.matmul(q32, np.swapaxes(k32, -1, -2))
    scores *= q.shape[-1] ** -0.5 if scale is None else scale
    if keep is not None:
        scores[np.broadcast_to(keep, scores.shape)] = -np.inf
    top = np.max(scores, axis=-1, keepdims=True, initial=-np.inf)
    e = np.exp(scores - np.nan_to_num(top, neginf=0.0))
    total = np.sum(e, axis=-1, keepdims=True)
    weights = np.divide(e, total, out=np.zeros_like(e), where=total > 0)
    return (weights @ v32).astype(q.dtype), weights.astype(q.dtype)


@wrong(of="attention_numpy", mistakes=1)
def numpy_scale_or_default(q, k, v, keep=None, scale=None):
    """A scale of 0 is taken for no scale at all, since 0 is false."""
    if q.shape[-1] != k.shape[-1]:
        raise ValueError(f"widths differ: {q.shape[-1]} and {k.shape[-1]}")
    if k.shape[-2] != v.shape[-2]:
        raise ValueError(f"lengths differ: {k.shape[-2]} and {v.shape[-2]}")
    wide = np.promote_types(q.dtype, np.float32)
    factor = scale or 1.0 / np.sqrt(q.shape[-1])
    scores = (q.astype(wide) @ k.astype(wide).swapaxes(-2, -1) * factor).astype(wide)
    if keep is not None:
        scores = np.where(keep, scores, -np.inf)
    top = scores.max(-1, keepdims=True, initial=-np.inf)
    e = np.exp(scores - np.where(np.isneginf(top), 0, top))
    weights = e / np.maximum(e.sum(-1, keepdims=True), np.finfo(wide).tiny)
    return (weights @ v.astype(wide)).astype(q.dtype), weights.astype(q.dtype)


@wrong(of="attention_numpy", mistakes=1)
def numpy_large_negative_number(q, k, v, keep=None, scale=None):
    """Hidden scores become -1e9: a query that may attend to nothing attends to all alike."""
    if q.shape[-1] != k.shape[-1]:
        raise ValueError(f"q is {q.shape[-1]} wide and k {k.shape[-1]}")
    if k.shape[-2] != v.shape[-2]:
        raise ValueError(f"k is {k.shape[-2]} long and v {v.shape[-2]}")
    dtype, wide = q.dtype, np.float32 if q.dtype == np.float16 else q.dtype
    q, k, v = q.astype(wide), k.astype(wide), v.astype(wide)
    scores = q @ np.moveaxis(k, -1, -2) * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    if keep is not None:
        scores = np.where(keep, scores, -1e9)
    scores = scores - scores.max(axis=-1, keepdims=True, initial=-1e9)
    weights = np.exp(scores)
    weights /= weights.sum(axis=-1, keepdims=True)
    return (weights @ v).astype(dtype), weights.astype(dtype)


@wrong(of="attention_numpy", mistakes=1)
def numpy_keys_reshaped(q, k, v, keep=None, scale=None):
    """The keys are reshaped to (..., D, Lk) and not transposed, which mixes their numbers."""
    if q.shape[-1] != k.shape[-1]:
        raise ValueError(f"q is {q.shape[-1]} wide and k {k.shape[-1]}")
    if k.shape[-2] != v.shape[-2]:
        raise ValueError(f"k is {k.shape[-2]} long and v {v.shape[-2]}")
    wide = np.promote_types(q.dtype, np.float32)
    turned = k.astype(wide).reshape(*k.shape[:-2], k.shape[-1], k.shape[-2])
    scores = q.astype(wide) @ turned
    scores = scores * wide.type(1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    if keep is not None:
        scores = np.where(keep, scores, -np.inf)
    top = scores.max(axis=-1, keepdims=True, initial=-np.inf)
    e = np.exp(scores - np.where(np.isfinite(top), top, 0))
    total = e.sum(axis=-1, keepdims=True)
    weights = e / np.where(total > 0, total, 1)
    return (weights @ v.astype(wide)).astype(q.dtype), weights.astype(q.dtype)


@wrong(of="attention_numpy", mistakes=1)
def numpy_products_in_float16(q, k, v, keep=None, scale=None):
    """The first product is computed in float16, where 256 * 256 overflows."""
    if q.shape[-1] != k.shape[-1]:
        raise ValueError(f"widths differ: {q.shape[-1]} and {k.shape[-1]}")
    if k.shape[-2] != v.shape[-2]:
        raise ValueError(f"lengths differ: {k.shape[-2]} and {v.shape[-2]}")
    wide = np.float32 if q.dtype == np.float16 else q.dtype
    scores = (q @ k.swapaxes(-1, -2)).astype(wide)
    scores = scores * (q.shape[-1] ** -0.5 if scale is None else scale)
    if keep is not None:
        scores[~np.broadcast_to(keep, scores.shape)] = -np.inf
    top = scores.max(axis=-1, keepdims=True, initial=-np.inf)
    top[top == -np.inf] = 0
    e = np.exp(scores - top)
    total = e.sum(axis=-1, keepdims=True)
    total[total == 0] = 1
    weights = e / total
    return (weights @ v.astype(wide)).astype(q.dtype), weights.astype(q.dtype)


@wrong(of="attention_numpy", mistakes=2)
def numpy_softmax_without_maximum(q, k, v, keep=None, scale=None):
    """No maximum is subtracted: scores that are hundreds apart overflow.

    The results of float16 come back in float32.
    """
    if q.shape[-1] != k.shape[-1]:
        raise ValueError(f"widths differ: {q.shape[-1]} and {k.shape[-1]}")
    if k.shape[-2] != v.shape[-2]:
        raise ValueError(f"lengths differ: {k.shape[-2]} and {v.shape[-2]}")
    q, k, v = (a.astype(np.float64 if a.dtype == np.float64 else np.float32) for a in (q, k, v))
    if scale is None:
        scale = 1 / math.sqrt(q.shape[-1])
    e = np.exp(np.einsum("...id,...jd->...ij", q, k) * scale)
    if keep is not None:
        e = np.where(keep, e, 0)
    total = e.sum(axis=-1, keepdims=True)
    weights = e / np.where(total == 0, 1, total)
    return np.einsum("...ij,...jd->...id", weights, v), weights


@wrong(of="attention_numpy", mistakes=2)
def numpy_width_itself_and_empty_rows(q, k, v, keep=None, scale=None):
    """The scores are divided by D and not by its root.

    A query that may attend to nothing gets NaN: the row is -inf minus -inf.
    """
    d = q.shape[-1]
    if d != k.shape[-1]:
        raise ValueError(f"width {d} of q is not width {k.shape[-1]} of k")
    if k.shape[-2] != v.shape[-2]:
        raise ValueError(f"length {k.shape[-2]} of k is not length {v.shape[-2]} of v")
    wide = np.promote_types(q.dtype, np.float32)
    scores = q.astype(wide) @ k.astype(wide).swapaxes(-1, -2)
    scores = scores / d if scale is None else scores * scale
    if keep is not None:
        scores = np.where(keep, scores, -np.inf)
    e = np.exp(scores - scores.max(-1, keepdims=True, initial=-np.inf))
    weights = e / e.sum(-1, keepdims=True)
    return (weights @ v.astype(wide)).astype(q.dtype), weights.astype(q.dtype)


@wrong(of="attention_numpy", mistakes=2)
def numpy_keys_for_values(q, k, v, keep=None, scale=None):
    """The weights mix the keys and not the values.

    Everything is computed in float32, float64 too.
    """
    if q.shape[-1] != k.shape[-1]:
        raise ValueError(f"widths differ: {q.shape[-1]} and {k.shape[-1]}")
    if k.shape[-2] != v.shape[-2]:
        raise ValueError(f"lengths differ: {k.shape[-2]} and {v.shape[-2]}")
    query, key = q.astype(np.float32), k.astype(np.float32)
    scores = query @ key.swapaxes(-1, -2)
    scores *= np.float32(1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    if keep is not None:
        scores = np.where(keep, scores, np.float32(-np.inf))
    top = scores.max(axis=-1, keepdims=True, initial=-np.inf)
    e = np.exp(scores - np.where(np.isfinite(top), top, 0))
    weights = e / np.maximum(e.sum(axis=-1, keepdims=True), np.float32(1e-30))
    return (weights @ key).astype(q.dtype), weights.astype(q.dtype)


@wrong(of="attention_numpy", mistakes=2)
def numpy_scores_for_weights(q, k, v, keep=None, scale=None):
    """The masked scores come back and not the weights.

    The caller's queries are multiplied by the scale in place.
    """
    if q.shape[-1] != k.shape[-1]:
        raise ValueError(f"q is {q.shape[-1]} wide and k {k.shape[-1]}")
    if k.shape[-2] != v.shape[-2]:
        raise ValueError(f"k is {k.shape[-2]} long and v {v.shape[-2]}")
    dtype = q.dtype
    wide = np.float64 if dtype == np.float64 else np.float32
    q = q.astype(wide, copy=False)
    q *= q.shape[-1] ** -0.5 if scale is None else scale
    scores = q @ k.astype(wide).swapaxes(-1, -2)
    if keep is not None:
        scores = np.where(keep, scores, -np.inf)
    top = scores.max(-1, keepdims=True, initial=-np.inf)
    e = np.exp(scores - np.where(top == -np.inf, 0, top))
    total = e.sum(-1, keepdims=True)
    output = (e / np.where(total == 0, 1, total)) @ v.astype(wide)
    return output.astype(dtype), scores.astype(dtype)


@wrong(of="attention_numpy", mistakes=2)
def numpy_whole_sum_and_no_numbers(q, k, v, keep=None, scale=None):
    """The sum runs over queries and keys together: the whole matrix sums to one, not each row.

    The ValueErrors do not name the numbers that differ.
    """
    if q.shape[-1] != k.shape[-1]:
        raise ValueError("q and k do not have the same width")
    if k.shape[-2] != v.shape[-2]:
        raise ValueError("k and v do not have the same length")
    wide = np.promote_types(q.dtype, np.float32)
    scores = np.einsum("...qd,...kd->...qk", q.astype(wide), k.astype(wide))
    scores = scores * (1 / np.sqrt(q.shape[-1]) if scale is None else scale)
    scores = scores.astype(wide)
    hidden = np.zeros(scores.shape, bool) if keep is None else ~keep
    scores = np.where(hidden, -np.inf, scores)
    top = scores.max(-1, keepdims=True, initial=-np.inf)
    e = np.exp(scores - np.where(top == -np.inf, 0, top))
    total = e.sum(axis=(-1, -2), keepdims=True)
    weights = e / np.where(total == 0, 1, total)
    return (weights @ v.astype(wide)).astype(q.dtype), weights.astype(q.dtype)


@wrong(of="scaled_dot_product_attention", mistakes=1)
def torch_nan_in_empty_rows(q, k, v, keep=None, scale=None):
    """A query that may attend to nothing gets NaN: its row is -inf throughout."""
    if q.size(-1) != k.size(-1):
        raise ValueError(f"widths differ: {q.size(-1)} and {k.size(-1)}")
    if k.size(-2) != v.size(-2):
        raise ValueError(f"lengths differ: {k.size(-2)} and {v.size(-2)}")
    wide = torch.promote_types(q.dtype, torch.float32)
    scale = 1 / math.sqrt(q.size(-1)) if scale is None else scale
    scores = torch.matmul(q.to(wide), k.to(wide).transpose(-2, -1)) * scale
    if keep is not None:
        scores = scores.masked_fill(~keep, float("-inf"))
    weights = torch.softmax(scores, dim=-1)
    return torch.matmul(weights, v.to(wide)).to(q.dtype), weights.to(q.dtype)


@wrong(of="scaled_dot_product_attention", mistakes=1)
def torch_mask_added_to_scores(q, k, v, keep=None, scale=None):
    """-inf is added to the scores, so that the NaN or infinity of a hidden key stays NaN."""
    if q.shape[-1] != k.shape[-1]:
        raise ValueError(f"widths differ: {q.shape[-1]} and {k.shape[-1]}")
    if k.shape[-2] != v.shape[-2]:
        raise ValueError(f"lengths differ: {k.shape[-2]} and {v.shape[-2]}")
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    wide = torch.float64 if q.dtype == torch.float64 else torch.float32
    scores = torch.einsum("...qd,...kd->...qk", q.to(wide), k.to(wide)) * scale
    if keep is None:
        weights = scores.softmax(-1)
    else:
        nothing = ~keep.any(dim=-1, keepdim=True)
        mask = torch.zeros(keep.shape, dtype=wide, device=keep.device)
        mask = mask.masked_fill(~(keep | nothing), float("-inf"))
        weights = (scores + mask).softmax(-1).masked_fill(nothing, 0)
    output = torch.einsum("...qk,...kd->...qd", weights, v.to(wide))
    return output.to(q.dtype), weights.to(q.dtype)


@wrong(of="scaled_dot_product_attention", mistakes=1)
def torch_checks_left_to_matmul(q, k, v, keep=None, scale=None):
    """Nothing is checked: shapes that do not fit are the RuntimeError of matmul, no ValueError."""
    wide = torch.promote_types(q.dtype, torch.float32)
    scores = q.to(wide) @ k.to(wide).mT
    scores = scores * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    if keep is None:
        keep = torch.ones((), dtype=torch.bool, device=q.device)
    keep = keep.expand(scores.shape)
    nothing = ~keep.any(-1, keepdim=True)
    scores = scores.masked_fill(~keep, -math.inf).masked_fill(nothing, 0.0)
    weights = torch.softmax(scores, -1).masked_fill(nothing, 0.0)
    return (weights @ v.to(wide)).to(q.dtype), weights.to(q.dtype)


@wrong(of="scaled_dot_product_attention", mistakes=1)
def torch_multiplied_by_the_root(q, k, v, keep=None, scale=None):
    """The scores are multiplied by sqrt(D) where they should be divided by it."""
    if q.shape[-1] != k.shape[-1]:
        raise ValueError(f"widths differ: {q.shape[-1]} and {k.shape[-1]}")
    if k.shape[-2] != v.shape[-2]:
        raise ValueError(f"lengths differ: {k.shape[-2]} and {v.shape[-2]}")
    if scale is None:
        scale = math.sqrt(q.shape[-1])
    wide = torch.promote_types(q.dtype, torch.float32)
    scores = (q.to(wide) @ k.to(wide).transpose(-1, -2)) * scale
    if keep is not None:
        scores = torch.where(keep, scores, torch.finfo(wide).min)
    weights = torch.softmax(scores, dim=-1)
    if keep is not None:
        weights = torch.where(keep, weights, 0.0)
    return (weights @ v.to(wide)).to(q.dtype), weights.to(q.dtype)


@wrong(of="scaled_dot_product_attention", mistakes=1)
def torch_weights_to_look_at(q, k, v, keep=None, scale=None):
    """The weights come back detached: no gradient flows through them."""
    if q.shape[-1] != k.shape[-1]:
        raise ValueError(f"q has width {q.shape[-1]}, k has {k.shape[-1]}")
    if k.shape[-2] != v.shape[-2]:
        raise ValueError(f"k has length {k.shape[-2]}, v has {v.shape[-2]}")
    wide = q.dtype if q.dtype == torch.float64 else torch.float32
    scores = q.to(wide) @ k.to(wide).transpose(-1, -2)
    scores = scores * (q.shape[-1] ** -0.5 if scale is None else scale)
    if keep is not None:
        empty = keep.logical_not().all(-1, keepdim=True)
        scores = scores.masked_fill(~keep, float("-inf")).masked_fill(empty, 0)
    weights = scores.softmax(dim=-1)
    if keep is not None:
        weights = weights.masked_fill(~keep, 0)
    return (weights @ v.to(wide)).to(q.dtype), weights.detach().to(q.dtype)


@wrong(of="scaled_dot_product_attention", mistakes=1)
def torch_three_letters(q, k, v, keep=None, scale=None):
    """The letters of einsum ask for exactly one batch dimension; none, or two, is an error."""
    if q.shape[-1] != k.shape[-1]:
        raise ValueError(f"q has width {q.shape[-1]}, k has {k.shape[-1]}")
    if k.shape[-2] != v.shape[-2]:
        raise ValueError(f"k has length {k.shape[-2]}, v has {v.shape[-2]}")
    wide = torch.promote_types(q.dtype, torch.float32)
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    scores = torch.einsum("bqd,bkd->bqk", q.to(wide), k.to(wide)) * scale
    if keep is not None:
        empty = ~keep.any(-1, keepdim=True)
        scores = scores.masked_fill(~keep, float("-inf")).masked_fill(empty, 0)
    weights = torch.softmax(scores, dim=2)
    if keep is not None:
        weights = weights.masked_fill(~keep, 0)
    output = torch.einsum("bqk,bkd->bqd", weights, v.to(wide))
    return output.to(q.dtype), weights.to(q.dtype)


@wrong(of="scaled_dot_product_attention", mistakes=1)
def torch_always_causal(q, k, v, keep=None, scale=None):
    """Later keys are hidden, though nobody asked for a causal mask."""
    if q.shape[-1] != k.shape[-1]:
        raise ValueError(f"q has width {q.shape[-1]}, k has {k.shape[-1]}")
    if k.shape[-2] != v.shape[-2]:
        raise ValueError(f"k has length {k.shape[-2]}, v has {v.shape[-2]}")
    wide = torch.promote_types(q.dtype, torch.float32)
    scores = torch.matmul(q.to(wide), k.to(wide).mT)
    scores = scores * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    visible = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).tril()
    visible = visible if keep is None else visible & keep
    empty = ~visible.any(-1, keepdim=True)
    scores = scores.masked_fill(~visible, float("-inf")).masked_fill(empty, 0)
    weights = scores.softmax(-1).masked_fill(~visible, 0)
    return torch.matmul(weights, v.to(wide)).to(q.dtype), weights.to(q.dtype)


@wrong(of="scaled_dot_product_attention", mistakes=2)
def torch_blocked_in_half(q, k, v, keep=None, scale=None):
    """The mask is inverted: True is taken for hidden.

    Half precision is multiplied in half precision, where 256 * 256 overflows.
    """
    if q.shape[-1] != k.shape[-1]:
        raise ValueError(f"widths differ: {q.shape[-1]} and {k.shape[-1]}")
    if k.shape[-2] != v.shape[-2]:
        raise ValueError(f"lengths differ: {k.shape[-2]} and {v.shape[-2]}")
    if scale is None:
        scale = 1 / math.sqrt(q.shape[-1])
    scores = q @ k.transpose(-2, -1) * scale
    if keep is not None:
        scores = scores.masked_fill(keep, float("-inf"))
        scores = scores.masked_fill(keep.all(-1, keepdim=True), 0)
    weights = torch.softmax(scores, dim=-1)
    if keep is not None:
        weights = weights.masked_fill(keep, 0)
    return weights @ v, weights


@wrong(of="scaled_dot_product_attention", mistakes=2)
def torch_masked_at_the_end(q, k, v, keep=None, scale=None):
    """The mask comes after the softmax, so that hidden keys take their share of the sum.

    The `scale` that is given is ignored: it is always 1 / sqrt(D).
    """
    if q.shape[-1] != k.shape[-1]:
        raise ValueError(f"widths differ: {q.shape[-1]} and {k.shape[-1]}")
    if k.shape[-2] != v.shape[-2]:
        raise ValueError(f"lengths differ: {k.shape[-2]} and {v.shape[-2]}")
    wide = torch.promote_types(q.dtype, torch.float32)
    scores = q.to(wide) @ k.to(wide).transpose(-2, -1) / q.shape[-1] ** 0.5
    weights = scores.softmax(dim=-1)
    if keep is not None:
        weights = torch.where(keep, weights, torch.zeros_like(weights))
    return (weights @ v.to(wide)).to(q.dtype), weights.to(q.dtype)


@wrong(of="scaled_dot_product_attention", mistakes=2)
def torch_constant_weights_over_queries(q, k, v, keep=None, scale=None):
    """The softmax is over the queries: dim=-2.

    The output is mixed with detached weights, so that no gradient reaches q and k through it.
    """
    if q.shape[-1] != k.shape[-1]:
        raise ValueError(f"widths differ: {q.shape[-1]} and {k.shape[-1]}")
    if k.shape[-2] != v.shape[-2]:
        raise ValueError(f"lengths differ: {k.shape[-2]} and {v.shape[-2]}")
    wide = torch.promote_types(q.dtype, torch.float32)
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    scores = q.to(wide) @ k.to(wide).mT * scale
    if keep is not None:
        scores = scores.masked_fill(~keep, torch.finfo(wide).min)
    weights = torch.softmax(scores, dim=-2)
    if keep is not None:
        weights = weights.masked_fill(~keep, 0)
    return (weights.detach() @ v.to(wide)).to(q.dtype), weights.to(q.dtype)


@wrong(of="scaled_dot_product_attention", mistakes=2)
def torch_mask_times_scores(q, k, v, keep=None, scale=None):
    """Hidden scores become 0 and not -inf: the mask is multiplied with them.

    float64 is computed in float32.
    """
    if q.shape[-1] != k.shape[-1]:
        raise ValueError(f"q is {q.shape[-1]} wide, k is {k.shape[-1]} wide")
    if k.shape[-2] != v.shape[-2]:
        raise ValueError(f"k is {k.shape[-2]} long, v is {v.shape[-2]} long")
    scores = torch.einsum("...id,...jd->...ij", q.float(), k.float())
    scores = scores * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    if keep is not None:
        scores = scores * keep.float()
    weights = torch.softmax(scores, dim=-1)
    output = torch.einsum("...ij,...jd->...id", weights, v.float())
    return output.to(q.dtype), weights.to(q.dtype)


@wrong(of="scaled_dot_product_attention", mistakes=2)
def torch_scaled_twice_with_dropout(q, k, v, keep=None, scale=None):
    """A scale that is given is divided by sqrt(D) as well.

    A tenth of the weights is dropped at random before they mix the values.
    """
    if q.shape[-1] != k.shape[-1]:
        raise ValueError(f"widths differ: {q.shape[-1]} and {k.shape[-1]}")
    if k.shape[-2] != v.shape[-2]:
        raise ValueError(f"lengths differ: {k.shape[-2]} and {v.shape[-2]}")
    wide = torch.promote_types(q.dtype, torch.float32)
    scores = q.to(wide) @ k.to(wide).transpose(-2, -1) / math.sqrt(q.shape[-1])
    if scale is not None:
        scores = scores * scale
    if keep is not None:
        empty = ~keep.any(-1, keepdim=True)
        scores = scores.masked_fill(~keep, float("-inf")).masked_fill(empty, 0)
    weights = torch.softmax(scores, dim=-1)
    if keep is not None:
        weights = weights.masked_fill(~keep, 0)
    mixed = torch.dropout(weights, 0.1, True)
    return (mixed @ v.to(wide)).to(q.dtype), weights.to(q.dtype)
