"""Wrong answers to ex09_gradients, written with nothing but the skeleton in sight."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tests.diagnosis.written import wrong

if TYPE_CHECKING:  # the name that an answer finds in the rest of its file
    from exercises.ex09_gradients import softmax_backward


@wrong(of="softmax_backward", mistakes=1)
def sum_left_out(weights: np.ndarray, grad_weights: np.ndarray) -> np.ndarray:
    """The sum of weights times gradients is not subtracted; only the product is left."""
    w = weights.astype(np.float32) if weights.dtype == np.float16 else weights
    g = grad_weights.astype(w.dtype)
    return (w * g).astype(weights.dtype)


@wrong(of="softmax_backward", mistakes=1)
def diagonal_of_the_jacobian(weights: np.ndarray, grad_weights: np.ndarray) -> np.ndarray:
    """The derivative of a sigmoid, w * (1 - w), is used: the Jacobian without its other places."""
    wide = np.float64 if weights.dtype == np.float64 else np.float32
    w, g = weights.astype(wide), grad_weights.astype(wide)
    return (g * w * (1 - w)).astype(weights.dtype)


@wrong(of="softmax_backward", mistakes=1)
def one_sum_for_all_rows(weights: np.ndarray, grad_weights: np.ndarray) -> np.ndarray:
    """The sum is over the whole array instead of over each row."""
    wide = np.result_type(weights.dtype, np.float32)
    w, g = weights.astype(wide), grad_weights.astype(wide)
    return (w * (g - np.sum(w * g))).astype(weights.dtype)


@wrong(of="softmax_backward", mistakes=1)
def mean_for_sum(weights: np.ndarray, grad_weights: np.ndarray) -> np.ndarray:
    """The mean of weights times gradients is subtracted where it should be their sum."""
    wide = np.result_type(weights.dtype, np.float32)
    w, g = weights.astype(wide), grad_weights.astype(wide)
    inner = (w * g).sum(axis=-1, keepdims=True) / max(w.shape[-1], 1)
    return (w * (g - inner)).astype(weights.dtype)


@wrong(of="softmax_backward", mistakes=2)
def plain_sum_in_place(weights: np.ndarray, grad_weights: np.ndarray) -> np.ndarray:
    """The gradients are summed without their weights.

    The result is computed in the caller's gradient array, which is changed.
    """
    total = np.sum(grad_weights, axis=-1, keepdims=True)
    grad_weights -= total
    grad_weights *= weights
    return grad_weights


@wrong(of="softmax_backward", mistakes=2)
def jacobians_with_the_wrong_sign(weights: np.ndarray, grad_weights: np.ndarray) -> np.ndarray:
    """The sign is the wrong one: the outer product minus the diagonal.

    float16 is computed in itself instead of float32.
    """
    n = weights.shape[-1]
    outer = weights[..., :, None] * weights[..., None, :]
    jacobian = outer - np.eye(n, dtype=weights.dtype) * weights[..., None, :]
    return np.einsum("...ij,...j->...i", jacobian, grad_weights)


@wrong(of="attention_backward", mistakes=1)
def scale_missing_in_dk(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    grad_output: np.ndarray,
    keep: np.ndarray | None = None,
    scale: float | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The gradient of the keys is not multiplied by the scale, that of the queries is."""
    dtype = q.dtype
    wide = np.result_type(dtype, np.float32)
    q, k, v, grad_output = (a.astype(wide) for a in (q, k, v, grad_output))
    if scale is None:
        scale = 1 / np.sqrt(q.shape[-1])
    scores = q @ np.swapaxes(k, -1, -2) * scale
    seen = np.broadcast_to(True if keep is None else keep, scores.shape)
    top = np.max(np.where(seen, scores, -np.inf), axis=-1, keepdims=True)
    top = np.where(np.isfinite(top), top, 0)
    e = np.exp(np.where(seen, scores - top, -np.inf))
    total = e.sum(-1, keepdims=True)
    w = e / np.where(total == 0, 1, total)
    dv = np.swapaxes(w, -1, -2) @ grad_output
    dw = np.where(seen, grad_output @ np.swapaxes(v, -1, -2), 0)
    ds = w * (dw - (w * dw).sum(-1, keepdims=True))
    dq = ds @ k * scale
    dk = np.swapaxes(ds, -1, -2) @ q
    return dq.astype(dtype), dk.astype(dtype), dv.astype(dtype)


@wrong(of="attention_backward", mistakes=1)
def scale_of_zero_ignored(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    grad_output: np.ndarray,
    keep: np.ndarray | None = None,
    scale: float | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A scale of 0 is taken for no scale at all: `scale or ...` instead of `is None`."""
    out_dtype = q.dtype
    f = np.float64 if out_dtype == np.float64 else np.float32
    qf, kf, vf, go = q.astype(f), k.astype(f), v.astype(f), grad_output.astype(f)
    factor = f(scale or q.shape[-1] ** -0.5)
    scores = np.einsum("...id,...jd->...ij", qf, kf) * factor
    if keep is not None:
        scores = np.where(keep, scores, -np.inf)
    peak = scores.max(axis=-1, keepdims=True)
    weights = np.exp(scores - np.where(np.isneginf(peak), 0, peak))
    norm = weights.sum(axis=-1, keepdims=True)
    weights = np.divide(weights, norm, out=np.zeros_like(weights), where=norm > 0)
    dw = np.einsum("...id,...jd->...ij", go, vf)
    ds = softmax_backward(weights, dw) * factor
    dq = np.einsum("...ij,...jd->...id", ds, kf)
    dk = np.einsum("...ij,...id->...jd", ds, qf)
    dv = np.einsum("...ij,...id->...jd", weights, go)
    return dq.astype(out_dtype), dk.astype(out_dtype), dv.astype(out_dtype)


@wrong(of="attention_backward", mistakes=1)
def blind_queries_of_nan(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    grad_output: np.ndarray,
    keep: np.ndarray | None = None,
    scale: float | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A query that sees nothing makes the gradients NaN: its row is -inf minus -inf."""
    dtype = q.dtype
    if dtype == np.float16:
        q, k, v, grad_output = (a.astype(np.float32) for a in (q, k, v, grad_output))
    scale = q.dtype.type(1 / np.sqrt(q.shape[-1]) if scale is None else scale)
    scores = scale * (q @ k.swapaxes(-1, -2))
    if keep is not None:
        scores = np.where(keep, scores, -np.inf)
    scores = scores - scores.max(axis=-1, keepdims=True)
    weights = np.exp(scores) / np.exp(scores).sum(axis=-1, keepdims=True)
    grad_weights = grad_output @ v.swapaxes(-1, -2)
    inner = (weights * grad_weights).sum(axis=-1, keepdims=True)
    grad_scores = scale * weights * (grad_weights - inner)
    dv = weights.swapaxes(-1, -2) @ grad_output
    dq = grad_scores @ k
    dk = grad_scores.swapaxes(-1, -2) @ q
    return dq.astype(dtype), dk.astype(dtype), dv.astype(dtype)


@wrong(of="attention_backward", mistakes=1)
def weights_not_transposed(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    grad_output: np.ndarray,
    keep: np.ndarray | None = None,
    scale: float | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The weights are not transposed in dv, which only has a shape that fits if Lq equals Lk."""
    dtype = q.dtype
    wide = np.result_type(dtype, np.float32)
    q, k, v, do = (np.asarray(a, dtype=wide) for a in (q, k, v, grad_output))
    s = wide.type(q.shape[-1] ** -0.5 if scale is None else scale)
    scores = (q @ k.swapaxes(-2, -1)) * s
    mask = np.broadcast_to(np.True_ if keep is None else keep, scores.shape)
    scores = np.where(mask, scores, -np.inf)
    peak = scores.max(axis=-1, keepdims=True)
    p = np.exp(scores - np.where(np.isneginf(peak), 0, peak))
    z = p.sum(axis=-1, keepdims=True)
    p = p / np.where(z > 0, z, 1)
    dp = np.where(mask, do @ v.swapaxes(-2, -1), 0)
    ds = p * (dp - np.sum(p * dp, axis=-1, keepdims=True)) * s
    return (ds @ k).astype(dtype), (ds.swapaxes(-2, -1) @ q).astype(dtype), (p @ do).astype(dtype)


@wrong(of="attention_backward", mistakes=1)
def mask_forgotten_backwards(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    grad_output: np.ndarray,
    keep: np.ndarray | None = None,
    scale: float | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The mask is not used when the weights are computed anew: hidden keys get gradients too."""
    dtype = q.dtype
    wide = np.float64 if dtype == np.float64 else np.float32
    q, k, v, do = (a.astype(wide) for a in (q, k, v, grad_output))
    c = wide(1.0 / np.sqrt(q.shape[-1])) if scale is None else wide(scale)
    logits = c * np.matmul(q, np.swapaxes(k, -1, -2))
    logits = logits - np.max(logits, axis=-1, keepdims=True)
    p = np.exp(logits)
    p = p / np.sum(p, axis=-1, keepdims=True)
    dp = np.matmul(do, np.swapaxes(v, -1, -2))
    ds = c * softmax_backward(p, dp)
    dq = np.matmul(ds, k)
    dk = np.matmul(np.swapaxes(ds, -1, -2), q)
    dv = np.matmul(np.swapaxes(p, -1, -2), do)
    return dq.astype(dtype), dk.astype(dtype), dv.astype(dtype)


@wrong(of="attention_backward", mistakes=2)
def no_maximum_and_scale_twice(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    grad_output: np.ndarray,
    keep: np.ndarray | None = None,
    scale: float | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The exponentials are taken without subtracting the maximum, and overflow.

    The gradient of the queries is multiplied by the scale twice.
    """
    dtype = q.dtype
    wide = np.result_type(dtype, np.float32)
    q, k, v, do = (a.astype(wide) for a in (q, k, v, grad_output))
    s = wide.type(q.shape[-1] ** -0.5 if scale is None else scale)
    scores = (q * s) @ k.swapaxes(-1, -2)
    if keep is not None:
        scores = np.where(keep, scores, -np.inf)
    e = np.exp(scores)
    z = e.sum(axis=-1, keepdims=True)
    p = e / np.where(z == 0, 1, z)
    dp = do @ v.swapaxes(-1, -2)
    ds = p * (dp - (p * dp).sum(axis=-1, keepdims=True)) * s
    dq = ds @ k * s
    return (
        dq.astype(dtype),
        (ds.swapaxes(-1, -2) @ q).astype(dtype),
        (p.swapaxes(-1, -2) @ do).astype(dtype),
    )


@wrong(of="attention_backward", mistakes=2)
def large_negative_and_product_rule_alone(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    grad_output: np.ndarray,
    keep: np.ndarray | None = None,
    scale: float | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A query that sees nothing has even weights over all keys: hidden scores become -1e9.

    The softmax is passed backwards by a product with the weights alone.
    """
    dtype = q.dtype
    if dtype == np.float16:
        q, k, v, grad_output = (a.astype(np.float32) for a in (q, k, v, grad_output))
    if scale is None:
        scale = float(q.shape[-1]) ** -0.5
    scores = np.matmul(q, k.swapaxes(-1, -2)) * scale
    if keep is not None:
        scores = np.where(keep, scores, -1e9)
    scores = scores - scores.max(axis=-1, keepdims=True)
    weights = np.exp(scores)
    weights = weights / weights.sum(axis=-1, keepdims=True)
    grad_scores = weights * np.matmul(grad_output, v.swapaxes(-1, -2)) * scale
    dq = np.matmul(grad_scores, k)
    dk = np.matmul(grad_scores.swapaxes(-1, -2), q)
    dv = np.matmul(weights.swapaxes(-1, -2), grad_output)
    return dq.astype(dtype), dk.astype(dtype), dv.astype(dtype)


@wrong(of="attention_backward", mistakes=2)
def inverted_mask_and_scale_by_width(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    grad_output: np.ndarray,
    keep: np.ndarray | None = None,
    scale: float | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The mask is read the wrong way round: what is True is hidden.

    Without a scale the factor is 1/D instead of 1/sqrt(D).
    """
    dtype = q.dtype
    wide = np.result_type(dtype, np.float32)
    qw, kw, vw, gw = q.astype(wide), k.astype(wide), v.astype(wide), grad_output.astype(wide)
    s = wide.type(1.0 / q.shape[-1] if scale is None else scale)
    scores = qw @ kw.swapaxes(-1, -2) * s
    if keep is not None:
        scores = np.where(keep, -np.inf, scores)
    peak = scores.max(axis=-1, keepdims=True)
    e = np.exp(scores - np.where(np.isneginf(peak), 0, peak))
    z = e.sum(axis=-1, keepdims=True)
    p = np.where(z > 0, e / np.where(z > 0, z, 1), 0)
    dv = p.swapaxes(-1, -2) @ gw
    dp = gw @ vw.swapaxes(-1, -2)
    ds = p * (dp - (p * dp).sum(axis=-1, keepdims=True)) * s
    dq, dk = ds @ kw, ds.swapaxes(-1, -2) @ qw
    return dq.astype(dtype), dk.astype(dtype), dv.astype(dtype)
