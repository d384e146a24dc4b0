"""Right backward passes, written otherwise."""

import math

import numpy as np

from grader.judging import variant


@variant(of="softmax_backward")
def with_the_matrix_of_derivatives(weights, grad_weights):
    """diag(w) - w w^T for each row, times the gradient."""
    wide = np.float32 if weights.dtype == np.float16 else weights.dtype
    w = weights.astype(wide)
    jacobian = np.eye(w.shape[-1], dtype=wide) * w[..., None] - w[..., :, None] * w[..., None, :]
    return np.matmul(jacobian, grad_weights.astype(wide)[..., None])[..., 0].astype(weights.dtype)


@variant(of="softmax_backward")
def multiplied_out(weights, grad_weights):
    """w g - w sum(w g), in float64."""
    product = weights.astype(np.float64) * grad_weights
    total = np.einsum("...i->...", product)[..., None]
    return (product - weights * total).astype(weights.dtype)


@variant(of="softmax_backward")
def row_after_row(weights, grad_weights):
    """A loop over all rows, with a dot product for each."""
    answer = np.empty_like(weights)
    for row in np.ndindex(weights.shape[:-1]):
        w, g = weights[row].astype(np.float64), grad_weights[row].astype(np.float64)
        answer[row] = w * (g - w.dot(g))
    return answer


@variant(of="attention_backward")
def with_the_output(q, k, v, grad_output, keep=None, scale=None):
    """As fast kernels do it: the row sum is the dot product of grad_output and output."""
    wide = np.promote_types(q.dtype, np.float32)
    dtype, factor = q.dtype, 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    q, k, v, grad_output = (x.astype(wide) for x in (q, k, v, grad_output))
    scores = np.matmul(q * factor, np.swapaxes(k, -2, -1))
    seen = np.ones(scores.shape, bool) if keep is None else np.broadcast_to(keep, scores.shape)
    top = np.max(scores, axis=-1, keepdims=True, where=seen, initial=np.finfo(wide).min)
    powers = np.where(seen, np.exp(np.where(seen, scores - top, 0)), 0)
    total = powers.sum(-1, keepdims=True)
    p = np.divide(powers, total, out=np.zeros_like(powers), where=total > 0)
    delta = (grad_output * (p @ v)).sum(-1, keepdims=True)
    ds = p * (grad_output @ np.swapaxes(v, -2, -1) - delta) * factor
    pt, dst = np.swapaxes(p, -2, -1), np.swapaxes(ds, -2, -1)
    return tuple(x.astype(dtype) for x in (ds @ k, dst @ q, pt @ grad_output))


@variant(of="attention_backward")
def one_query_at_a_time(q, k, v, grad_output, keep=None, scale=None):
    """A loop over queries, each of which adds its part to the gradients of the keys it sees."""
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    dq, dk, dv = (np.zeros(x.shape, np.float64) for x in (q, k, v))
    keep = np.broadcast_to(True if keep is None else keep, (*q.shape[:-1], k.shape[-2]))
    for row in np.ndindex(q.shape[:-1]):
        at, seen = row[:-1], keep[row]
        if not seen.any():
            continue
        keys, values = k[at][seen].astype(np.float64), v[at][seen].astype(np.float64)
        query, grad = q[row].astype(np.float64), grad_output[row].astype(np.float64)
        scores = keys @ query * scale
        p = np.exp(scores - scores.max())
        p /= p.sum()
        dp = values @ grad
        ds = p * (dp - p @ dp) * scale
        dq[row] = ds @ keys
        dk[at][seen] += np.outer(ds, query)
        dv[at][seen] += np.outer(p, grad)
    return dq.astype(q.dtype), dk.astype(k.dtype), dv.astype(v.dtype)


@variant(of="attention_backward")
def with_einsum(q, k, v, grad_output, keep=None, scale=None):
    """Sums by name; the mask is a factor of the powers."""
    half = q.dtype == np.float16
    wide_q, wide_k, wide_v, grad = (
        x.astype(np.float32) if half else x for x in (q, k, v, grad_output)
    )
    scale = 1 / np.sqrt(q.shape[-1]) if scale is None else scale
    scores = np.einsum("...id,...jd->...ij", wide_q, wide_k) * scale
    if keep is not None:
        scores = np.where(keep, scores, np.finfo(wide_q.dtype).min)
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    if keep is not None:
        powers = powers * keep
    total = powers.sum(-1, keepdims=True)
    weights = powers / (total + (total == 0))
    dp = np.einsum("...id,...jd->...ij", grad, wide_v)
    ds = softmax_backward(weights, dp)  # noqa: F821
    dq = scale * np.einsum("...ij,...jd->...id", ds, wide_k)
    dk = scale * np.einsum("...ij,...id->...jd", ds, wide_q)
    dv = np.einsum("...ij,...id->...jd", weights, grad)
    return dq.astype(q.dtype), dk.astype(k.dtype), dv.astype(v.dtype)


@variant(of="attention_backward")
def in_blocks_of_queries(q, k, v, grad_output, keep=None, scale=None):
    """Three queries at a time, in the widest type, the parts of dk and dv added up."""
    wide, factor = np.longdouble, q.shape[-1] ** -0.5 if scale is None else scale
    lead, q_len, k_len = q.shape[:-2], q.shape[-2], k.shape[-2]
    keep = np.broadcast_to(True if keep is None else keep, (*lead, q_len, k_len))
    keys, values = k.astype(wide), v.astype(wide)
    dq, dk, dv = (np.zeros(x.shape, wide) for x in (q, k, v))
    for start in range(0, q_len, 3):
        block = np.s_[..., start : start + 3, :]
        queries, grad, seen = q[block].astype(wide), grad_output[block].astype(wide), keep[block]
        scores = np.where(seen, queries @ np.moveaxis(keys, -1, -2) * factor, -np.inf)
        top = scores.max(-1, keepdims=True)
        powers = np.exp(scores - np.where(np.isneginf(top), 0, top))
        p = powers / np.maximum(powers.sum(-1, keepdims=True), np.finfo(wide).tiny)
        dp = grad @ np.moveaxis(values, -1, -2)
        ds = p * (dp - np.sum(p * dp, axis=-1, keepdims=True)) * factor
        dq[block] = ds @ keys
        dk += np.moveaxis(ds, -1, -2) @ queries
        dv += np.moveaxis(p, -1, -2) @ grad
    return dq.astype(q.dtype), dk.astype(k.dtype), dv.astype(v.dtype)
