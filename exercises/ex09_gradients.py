# Skeleton ex09_gradients 822ba17bc4bdcbf3. The lesson: docs/lessons/ex09_gradients.en.md
"""Gradients by hand: write the bodies, then run `make grade EX=ex09_gradients`.

Not allowed: torch, scipy, jax, autograd. Derive the formulas and write them with NumPy's matrix
products and sums.
"""

import numpy as np


def softmax_backward(weights: np.ndarray, grad_weights: np.ndarray) -> np.ndarray:
    """Turn the gradient of the weights into the gradient of the scores.

    weights       (..., n), what the softmax over the last axis gave
    grad_weights  (..., n), the gradient of the loss for these weights
    returns the gradient of the loss for the scores, (..., n), in the dtype of both; float16 is
            computed in float32, float64 in float64. A row of zero weights, which saw nothing, gets
            zeros. Inputs of any strides, and empty ones, are left as they are
    """
    raise NotImplementedError("Turn the gradient of the weights into the gradient of the scores.")


def attention_backward(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    grad_output: np.ndarray,
    keep: np.ndarray | None = None,
    scale: float | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Turn the gradient of the output into the gradients of queries, keys and values.

    q, k, v      (..., Lq, D), (..., Lk, D) and (..., Lk, Dv), all with the same leading dimensions
    grad_output  (..., Lq, Dv), the gradient of the loss for output = softmax(q k^T * scale) v
    keep         None, or bool, broadcasting to (..., Lq, Lk): True = may attend
    scale        1/sqrt(D) unless it is given
    returns (dq, dk, dv), each with the shape of what it belongs to, in the dtype of all inputs;
            float16 is computed in float32, so that nothing overflows, float64 in float64. Scores
            may be thousands. Hidden keys (1e30 in them or in their values), and queries that see
            nothing, have no influence and get zeros. Inputs of any strides, and empty ones (no
            batch, or no query), are left as they are; one array may be passed several times
    """
    raise NotImplementedError(
        "Turn the gradient of the output into the gradients of queries, keys and values."
    )
