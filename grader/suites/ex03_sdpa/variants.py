"""Right attentions, written otherwise."""

import math

import numpy as np
import torch

from grader.judging import variant


@variant(of="attention_numpy")
def in_loops(q, k, v, keep=None, scale=None):
    """One query at a time, with a dot product for each key it may attend to."""
    if q.shape[-1] != k.shape[-1] or k.shape[-2] != v.shape[-2]:
        raise ValueError(f"shapes {q.shape}, {k.shape} and {v.shape} do not fit")
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    weights = np.zeros((*q.shape[:-1], k.shape[-2]), q.dtype)
    output = np.zeros((*q.shape[:-1], v.shape[-1]), q.dtype)
    keep = np.broadcast_to(True if keep is None else keep, weights.shape)
    for row in np.ndindex(*q.shape[:-1]):
        if seen := [int(j) for j in np.flatnonzero(keep[row])]:
            query = q[row].astype(np.float64)
            scores = [scale * query.dot(k[row[:-1]][j].astype(np.float64)) for j in seen]
            powers = [math.exp(s - max(scores)) for s in scores]
            shares = [p / sum(powers) for p in powers]
            weights[row][seen] = shares
            pairs = zip(shares, seen, strict=True)
            output[row] = sum(w * v[row[:-1]][j].astype(np.float64) for w, j in pairs)
    return output, weights


@variant(of="attention_numpy")
def with_einsum_in_longdouble(q, k, v, keep=None, scale=None):
    """Sums by name, in the widest type, rounded once; hidden powers are set to zero."""
    for what, one, other in (
        ("widths", q.shape[-1], k.shape[-1]),
        ("lengths", k.shape[-2], v.shape[-2]),
    ):
        if one != other:
            raise ValueError(f"the {what} {one} and {other} differ")
    wide_q, wide_k, wide_v = (x.astype(np.longdouble) for x in (q, k, v))
    scores = np.einsum("...id,...jd->...ij", wide_q, wide_k)
    scores = scores * (q.shape[-1] ** -0.5 if scale is None else scale)
    seen = np.ones_like(scores, dtype=bool) & (True if keep is None else keep)
    top = np.max(scores, axis=-1, keepdims=True, where=seen, initial=-1e300)
    powers = np.where(seen, np.exp(np.where(seen, scores - top, 0)), 0)
    total = np.sum(powers, axis=-1, keepdims=True)
    weights = np.divide(powers, total, out=np.zeros_like(powers), where=total > 0)
    output = np.einsum("...ij,...jd->...id", weights, wide_v)
    return output.astype(q.dtype), weights.astype(q.dtype)


@variant(of="attention_numpy")
def divided_last_numpy(q, k, v, keep=None, scale=None):
    """The powers are multiplied with the values first, and the division comes last."""
    if q.shape[-1] != k.shape[-1]:
        raise ValueError(f"q {q.shape} and k {k.shape} have other widths")
    if k.shape[-2] != v.shape[-2]:
        raise ValueError(f"k {k.shape} and v {v.shape} have other lengths")
    wide = np.promote_types(q.dtype, np.float32)
    q, k, v, dtype = q.astype(wide), k.astype(wide), v.astype(wide), q.dtype
    scores = np.matmul(q, k.swapaxes(-2, -1)) * (q.shape[-1] ** -0.5 if scale is None else scale)
    if keep is not None:
        scores[~np.broadcast_to(keep, scores.shape)] = np.finfo(wide).min
    powers = np.exp(scores - scores.max(-1, keepdims=True, initial=np.finfo(wide).min))
    if keep is not None:
        powers = powers * keep
    total = powers.sum(-1, keepdims=True)
    total[total == 0] = 1
    return (powers @ v / total).astype(dtype), (powers / total).astype(dtype)


@variant(of="scaled_dot_product_attention")
def textbook(q, k, v, keep=None, scale=None):
    """masked_fill with -inf, softmax, and NaN replaced before the product with the values."""
    if q.size(-1) != k.size(-1):
        raise ValueError(f"d_k is {q.size(-1)} in the query and {k.size(-1)} in the key")
    if k.size(-2) != v.size(-2):
        raise ValueError(f"{k.size(-2)} keys, {v.size(-2)} values")
    dtype = q.dtype
    if dtype in (torch.float16, torch.bfloat16):
        q, k, v = q.float(), k.float(), v.float()
    factor = scale if scale is not None else 1 / math.sqrt(q.size(-1))
    scores = torch.matmul(q, k.transpose(-2, -1)) * factor
    if keep is not None:
        scores = scores.masked_fill(~keep, float("-inf"))
    weights = torch.nn.functional.softmax(scores, dim=-1)
    if keep is not None:
        weights = weights.masked_fill(~keep, 0.0)
    return torch.matmul(weights, v).to(dtype), weights.to(dtype)


@variant(of="scaled_dot_product_attention")
def with_bmm_and_flattened_heads(q, k, v, keep=None, scale=None):
    """Batch and heads in one dimension, and one bmm for each of the two products."""
    if q.shape[-1] != k.shape[-1] or k.shape[-2] != v.shape[-2]:
        raise ValueError(f"cannot attend from {q.shape} to {k.shape} and {v.shape}")
    *leading, q_len, dim = q.shape
    k_len, value_dim = v.shape[-2:]
    count = math.prod(leading)
    wide = torch.promote_types(q.dtype, torch.float32)
    flat_q = q.reshape(count, q_len, dim).to(wide)
    flat_k = k.reshape(count, k_len, dim).to(wide)
    flat_v = v.reshape(count, k_len, value_dim).to(wide)
    scores = torch.bmm(flat_q, flat_k.transpose(1, 2)).reshape(*leading, q_len, k_len)
    scores = scores * (dim**-0.5 if scale is None else scale)
    if keep is not None:
        scores = torch.where(keep, scores, torch.finfo(wide).min)
    weights = torch.softmax(scores, -1)
    if keep is not None:
        weights = weights * keep
    output = torch.bmm(weights.reshape(count, q_len, k_len), flat_v)
    return output.reshape(*leading, q_len, value_dim).to(q.dtype), weights.to(q.dtype)


@variant(of="scaled_dot_product_attention")
def with_einsum_divided_last(q, k, v, keep=None, scale=None):
    """Sums by name, exponentials by hand, the mask as a factor, and the division last."""
    if q.shape[-1] != k.shape[-1]:
        raise ValueError(f"{q.shape[-1]} != {k.shape[-1]}")
    if k.shape[-2] != v.shape[-2]:
        raise ValueError(f"{k.shape[-2]} != {v.shape[-2]}")
    half = q.dtype.itemsize == 2
    wide_q, wide_k, wide_v = (x.float() if half else x for x in (q, k, v))
    scores = torch.einsum("...id,...jd->...ij", wide_q, wide_k)
    scores = scores * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    if keep is not None:
        scores = torch.where(keep, scores, -1e300 if scores.dtype == torch.float64 else -3e38)
    top = scores.detach().amax(-1, keepdim=True) if k.shape[-2] else 0.0
    powers = torch.exp(scores - top)
    if keep is not None:
        powers = torch.where(keep, powers, 0.0)
    total = powers.sum(-1, keepdim=True)
    total = torch.where(total == 0, 1.0, total)
    output = torch.einsum("...ij,...jd->...id", powers, wide_v) / total
    return output.to(q.dtype), (powers / total).to(q.dtype)


@variant(of="scaled_dot_product_attention")
def in_double_with_the_scale_shared(q, k, v, keep=None, scale=None):
    """Everything in float64, with a square root of the default scale on either side."""
    if q.shape[-1] != k.shape[-1] or k.shape[-2] != v.shape[-2]:
        raise ValueError(f"shapes {list(q.shape)}, {list(k.shape)}, {list(v.shape)} do not fit")
    if scale is None:
        scores = (q.double() * q.shape[-1] ** -0.25) @ (k.double() * k.shape[-1] ** -0.25).mT
    else:
        scores = q.double() @ k.double().mT * scale
    if keep is None:
        weights = scores.softmax(-1)
    else:
        ones = torch.ones_like(scores, dtype=torch.bool) & keep
        bias = torch.zeros_like(scores).masked_fill(~ones, -torch.inf)
        weights = (scores.masked_fill(~ones, 0.0) + bias).softmax(-1)
        weights = torch.where(ones.any(-1, keepdim=True), weights, 0.0)
    return (weights @ v.double()).to(q.dtype), weights.to(q.dtype)


@variant(of="scaled_dot_product_attention")
def one_query_at_a_time(q, k, v, keep=None, scale=None):
    """A loop over the queries, whose rows are put together at the end."""
    if q.shape[-1] != k.shape[-1]:
        raise ValueError(f"a query has {q.shape[-1]} numbers, a key {k.shape[-1]}")
    if k.shape[-2] != v.shape[-2]:
        raise ValueError(f"there are {k.shape[-2]} keys, but {v.shape[-2]} values")
    wide = torch.promote_types(q.dtype, torch.float32)
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    shape = (*q.shape[:-1], k.shape[-2])
    everything = torch.ones(shape, dtype=torch.bool, device=q.device)
    keep = everything if keep is None else keep.expand(shape)
    outputs = [v.new_zeros(*q.shape[:-2], 0, v.shape[-1], dtype=wide)]
    rows = [v.new_zeros(*q.shape[:-2], 0, k.shape[-2], dtype=wide)]
    for i in range(q.shape[-2]):
        scores = scale * (k.to(wide) * q[..., i, None, :].to(wide)).sum(-1)  # (..., Lk)
        seen = keep[..., i, :]
        scores = torch.where(seen, scores, -torch.inf)
        scores = torch.where(seen.any(-1, keepdim=True), scores, 0.0)
        row = torch.softmax(scores, -1) * seen
        rows.append(row.unsqueeze(-2))
        outputs.append((row.unsqueeze(-1) * v.to(wide)).sum(-2, keepdim=True))
    return torch.cat(outputs, -2).to(q.dtype), torch.cat(rows, -2).to(q.dtype)


@variant(of="scaled_dot_product_attention")
def in_blocks_of_keys(q, k, v, keep=None, scale=None):
    """Scores block by block, with a running maximum and sum as in flash attention."""
    if q.shape[-1] != k.shape[-1] or k.shape[-2] != v.shape[-2]:
        raise ValueError(f"sizes: q {tuple(q.shape)}, k {tuple(k.shape)}, v {tuple(v.shape)}")
    wide = torch.promote_types(q.dtype, torch.float32)
    factor = q.shape[-1] ** -0.5 if scale is None else scale
    lowest = torch.finfo(wide).min
    top = torch.full((*q.shape[:-1], 1), lowest, dtype=wide, device=q.device)
    total = torch.zeros_like(top)
    output = torch.zeros(*q.shape[:-1], v.shape[-1], dtype=wide, device=q.device)
    blocks = [top[..., :0]]
    if keep is not None:
        keep = keep.expand(*q.shape[:-1], k.shape[-2])
    for start in range(0, k.shape[-2], 4):
        block = slice(start, start + 4)
        scores = (q.to(wide) @ k[..., block, :].to(wide).mT) * factor
        if keep is not None:
            scores = torch.where(keep[..., block], scores, -torch.inf)
        blocks.append(scores)
        higher = torch.maximum(top, scores.detach().amax(-1, keepdim=True))
        powers, shrink = torch.exp(scores - higher), torch.exp(top - higher)
        total = total * shrink + powers.sum(-1, keepdim=True)
        output = output * shrink + powers @ v[..., block, :].to(wide)
        top = higher
    total = torch.where(total == 0, 1.0, total)
    weights = torch.exp(torch.cat(blocks, -1) - top) / total
    return (output / total).to(q.dtype), weights.to(q.dtype)


@variant(of="scaled_dot_product_attention")
def filled_where_keep_equals_0(q, k, v, keep=None, scale=None):
    """masked_fill(keep == 0) with the lowest number, softmax, and zeros where nothing is kept."""
    if q.size(-1) != k.size(-1):
        raise ValueError(f"query size {q.size(-1)} and key size {k.size(-1)}")
    if k.size(-2) != v.size(-2):
        raise ValueError(f"{k.size(-2)} keys and {v.size(-2)} values")
    dtype, d_k = q.dtype, q.size(-1)
    if dtype.itemsize < 4:
        q, k, v = (x.to(torch.float32) for x in (q, k, v))
    scores = torch.matmul(q, k.transpose(-1, -2))
    scores = scores / math.sqrt(d_k) if scale is None else scores * scale
    if keep is not None:
        scores = scores.masked_fill(keep == 0, torch.finfo(scores.dtype).min)
    weights = torch.nn.functional.softmax(scores, dim=-1)
    if keep is not None:
        weights = weights.masked_fill((keep == 0).all(-1, keepdim=True), 0.0)
    return torch.matmul(weights, v).to(dtype), weights.to(dtype)


@variant(of="attention_numpy")
def powers_of_two(q, k, v, keep=None, scale=None):
    """The queries take the scale and log2(e), as FlashAttention has it; then exp2."""
    if q.shape[-1] != k.shape[-1] or k.shape[-2] != v.shape[-2]:
        raise ValueError(f"shapes {q.shape}, {k.shape} and {v.shape} do not fit")
    wide = np.promote_types(q.dtype, np.float32)
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    scaled = q.astype(wide) * wide.type(scale * math.log2(math.e))
    scores = scaled @ np.swapaxes(k.astype(wide), -1, -2)
    seen = np.broadcast_to(True if keep is None else keep, scores.shape)
    top = np.max(scores, axis=-1, keepdims=True, where=seen, initial=np.finfo(wide).min)
    powers = np.where(seen, np.exp2(np.where(seen, scores - top, -np.inf)), 0)
    total = powers.sum(axis=-1, keepdims=True)
    weights = powers / np.where(total == 0, 1, total)
    return (weights @ v.astype(wide)).astype(q.dtype), weights.astype(q.dtype)


@variant(of="scaled_dot_product_attention")
def root_of_the_scale_on_both(q, k, v, keep=None, scale=None):
    """Queries and keys take the root of the scale each, as in PyTorch's kernel without fusion."""
    if q.shape[-1] != k.shape[-1] or k.shape[-2] != v.shape[-2]:
        raise ValueError(f"shapes {[*q.shape]}, {[*k.shape]} and {[*v.shape]} do not fit")
    wide = torch.promote_types(q.dtype, torch.float32)
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    root = math.sqrt(abs(scale))
    scores = (q.to(wide) * math.copysign(root, scale)) @ (k.to(wide) * root).mT
    keep = torch.ones_like(scores, dtype=torch.bool) if keep is None else keep
    hidden = torch.where(keep.any(-1, keepdim=True), -torch.inf, 0.0)
    weights = torch.where(keep, scores, hidden).softmax(-1).masked_fill(~keep, 0.0)
    return (weights @ v.to(wide)).to(q.dtype), weights.to(q.dtype)
