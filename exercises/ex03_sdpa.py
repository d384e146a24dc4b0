# Skeleton ex03_sdpa 67294c63b7f1e982. The lesson: docs/lessons/ex03_sdpa.en.md
"""Scaled dot-product attention: write the bodies, then run `make grade EX=ex03_sdpa`.

Not allowed: PyTorch's fused attention operator and its attention modules, scipy, PyTorch in
attention_numpy. Write it with two matrix products and a softmax.
"""

import math

import numpy as np
import torch


def attention_numpy(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    keep: np.ndarray | None = None,
    scale: float | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Mix the values by how well each key matches the query, in NumPy.

    q       array (..., Lq, D), float16, float32 or float64. Inputs may be non-contiguous in
            memory, and stay unchanged
    k       array (..., Lk, D); the batch, Lq or Lk may be 0, and each may be thousands
    v       array (..., Lk, Dv)
    keep    bool array that broadcasts to (..., Lq, Lk), True = may attend; None hides nothing.
            A hidden key may hold 1e30, NaN or infinity, and a hidden value 1e30
    scale   factor of the scores, 0 or negative too; None means 1 / sqrt(D)
    returns (output, weights), arrays (..., Lq, Dv) and (..., Lq, Lk) of the dtype of `q`; a query
            that may attend to nothing has output 0 and weights 0, and the weight of a hidden key
            is 0 exactly
    raises  ValueError, naming both numbers, if the widths of `q` and `k` or the lengths of `k` and
            `v` differ

    Scores may be hundreds apart, and as low as -1e32; no score is too large or too low for the
    digits of its weight, if `q k^T` fits the dtype that is computed in. float64 is computed in
    float64; float16 is computed in float32, from the first product on: 256 * 256 must not overflow.
    Nothing is remembered from call to call.
    """
    raise NotImplementedError("Mix the values by how well each key matches the query, in NumPy.")


def scaled_dot_product_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    keep: torch.Tensor | None = None,
    scale: float | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Mix the values by how well each key matches the query, in PyTorch.

    q       tensor (..., Lq, D), float16, bfloat16, float32 or float64. Inputs may be
            non-contiguous in memory, and stay unchanged
    k       tensor (..., Lk, D); the batch, Lq or Lk may be 0, and each may be thousands. Like v it
            has the dtype and the leading dimensions of `q`
    v       tensor (..., Lk, Dv)
    keep    bool tensor that broadcasts to (..., Lq, Lk), True = may attend; None hides nothing.
            A hidden key may hold 1e30, NaN or infinity, and a hidden value 1e30
    scale   factor of the scores, 0 or negative too; None means 1 / sqrt(D)
    returns (output, weights), tensors (..., Lq, Dv) and (..., Lq, Lk) of the dtype and device of
            `q`. Gradients flow to q, k and v through the output, and to q and k through the
            weights. A query that may attend to nothing has output 0, weights 0 and, of finite
            inputs, gradient 0, and the weight of a hidden key is 0 exactly
    raises  ValueError, naming both numbers, if the widths of `q` and `k` or the lengths of `k` and
            `v` differ

    q, k and v may be the same tensor. Scores may be hundreds apart, and as low as -1e32; no score
    is too large or too low for the digits of its weight, if `q k^T` fits the dtype that is computed
    in. float64 is computed in float64; half precision is computed in float32, from the first
    product on: 256 * 256 must not overflow. Nothing is remembered from call to call.
    """
    raise NotImplementedError("Mix the values by how well each key matches the query, in PyTorch.")
