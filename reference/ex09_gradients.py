"""The backward pass of softmax and of attention, in NumPy.

The oracle takes the derivative of the softmax as a matrix for each row, `diag(w) - w w^T`; the
yardstick is the textbook's formula in the dtype of the inputs. Hidden keys and values may hold
1e30: compare with what clean inputs give, whose size sets the tolerance.
"""

import numpy as np

from reference.ex03_sdpa import exact_attention
from reference.expected import Array, Expected, f64, largest


def softmax_backward(weights: Array, grad_weights: Array) -> Expected:
    """The gradient of the scores, (..., n), for weights and their gradient (..., n)."""
    exact = exact_softmax_backward(f64(weights), f64(grad_weights))
    plain = plain_softmax_backward(weights, grad_weights)
    return Expected(exact, plain, largest(grad_weights), gradient=True)


def attention_backward(
    q: Array,
    k: Array,
    v: Array,
    grad_output: Array,
    keep: Array | None = None,
    scale: float | None = None,
) -> tuple[Expected, ...]:
    """`(dq, dk, dv)` for q (..., Lq, D), k (..., Lk, D), v (..., Lk, Dv)."""
    exact = exact_attention_backward(f64(q), f64(k), f64(v), f64(grad_output), keep, scale)
    plain = plain_attention_backward(q, k, v, grad_output, keep, scale)
    size = largest(grad_output) * max(1.0, largest(v)) * max(1.0, largest(q, k))
    size *= max(1.0, abs(scale or 0.0))
    return tuple(
        Expected(one, other, size, gradient=True) for one, other in zip(exact, plain, strict=True)
    )


def exact_softmax_backward(weights: Array, grad_weights: Array) -> Array:
    """The oracle, float64: the gradient times the matrix of derivatives of each row."""
    rows = weights[..., :, None]  # (..., n, 1)
    jacobian = rows * np.eye(weights.shape[-1]) - rows * weights[..., None, :]  # (..., n, n)
    return np.einsum("...ij,...j->...i", jacobian, grad_weights)  # type: ignore[no-any-return]


def exact_attention_backward(
    q: Array,
    k: Array,
    v: Array,
    grad_output: Array,
    keep: Array | None = None,
    scale: float | None = None,
) -> tuple[Array, Array, Array]:
    """The oracle, float64: `(dq, dk, dv)`."""
    _, weights = exact_attention(q, k, v, keep, scale)
    grad_weights = np.einsum("...id,...jd->...ij", grad_output, v)
    grad_scores = exact_softmax_backward(weights, grad_weights)
    grad_scores = grad_scores * (1 / np.sqrt(q.shape[-1]) if scale is None else scale)
    dq = np.einsum("...ij,...jd->...id", grad_scores, k)
    dk = np.einsum("...ij,...id->...jd", grad_scores, q)
    return dq, dk, np.einsum("...ij,...id->...jd", weights, grad_output)


def plain_softmax_backward(weights: Array, grad_weights: Array) -> Array:
    """The yardstick: w (g - sum(w g)), every operator in the dtype of the inputs."""
    total = (weights * grad_weights).sum(-1, keepdims=True)
    return weights * (grad_weights - total)  # type: ignore[no-any-return]


def plain_weights(
    q: Array, k: Array, keep: Array | None = None, scale: float | None = None
) -> Array:
    """The weights of the forward pass, in the dtype of the inputs."""
    scores = q @ k.swapaxes(-1, -2) * _number(q, scale)
    if keep is not None:
        scores = np.where(keep, scores, q.dtype.type(-np.inf))
    top = scores.max(-1, keepdims=True)
    powers = np.exp(scores - np.where(np.isinf(top), q.dtype.type(0), top))
    total = powers.sum(-1, keepdims=True)
    return powers / np.where(total == 0, q.dtype.type(1), total)  # type: ignore[no-any-return]


def plain_attention_backward(
    q: Array,
    k: Array,
    v: Array,
    grad_output: Array,
    keep: Array | None = None,
    scale: float | None = None,
) -> tuple[Array, Array, Array]:
    """The yardstick: the textbook's five products, every operator in the dtype of the inputs."""
    weights = plain_weights(q, k, keep, scale)
    grad_scores = plain_softmax_backward(weights, grad_output @ v.swapaxes(-1, -2))
    grad_scores = grad_scores * _number(q, scale)
    dq, dk = grad_scores @ k, grad_scores.swapaxes(-1, -2) @ q
    return dq, dk, weights.swapaxes(-1, -2) @ grad_output


def _number(q: Array, scale: float | None) -> Array:
    """The scale, in the dtype of the queries."""
    return q.dtype.type(q.shape[-1] ** -0.5 if scale is None else scale)  # type: ignore[no-any-return]
