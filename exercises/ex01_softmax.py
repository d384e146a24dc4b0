# Skeleton ex01_softmax 2da26514d054608d. The lesson: docs/lessons/ex01_softmax.en.md
"""Softmax: write the bodies, then run `make grade EX=ex01_softmax`.

Not allowed: PyTorch's own softmax in any form, PyTorch's fused attention operator and its
attention modules, scipy, PyTorch in softmax_numpy. Write it with exp, a sum and a division.
"""

import numpy as np
import torch


def softmax_numpy(x: np.ndarray, axis: int = -1) -> np.ndarray:
    """Turn the scores of an array into weights along `axis`, in NumPy.

    x       array of one axis or more, float16, float32 or float64, in any layout; it is not changed
    axis    the axis along which the weights sum to one, from either end; it has a score at least,
            and may have thousands. Other axes may be empty
    returns an array of the shape and dtype of `x`

    Scores may be as large as 10,000, of either sign, and rows far apart; the weights have the
    digits of the dtype all the same (an error counts against 1, the sum of the weights). float64 is
    computed in float64, float16 in float32: a row of 70,000 must not overflow.
    """
    raise NotImplementedError("Turn the scores of an array into weights along `axis`, in NumPy.")


def softmax(x: torch.Tensor, dim: int = -1) -> torch.Tensor:
    """Turn the scores of a tensor into weights along `dim`, in PyTorch.

    x       tensor of one dimension or more, float16, bfloat16, float32 or float64, in any layout;
            it is not changed
    dim     the dimension along which the weights sum to one, from either end; it has a score at
            least, and may have thousands. Other dimensions may be empty
    returns a tensor of the shape, dtype and device of `x`, through which gradients flow

    Scores may be as large as 10,000, of either sign, and rows far apart; the weights have the
    digits of the dtype all the same (an error counts against 1, the sum of the weights). float64 is
    computed in float64, half precision in float32, the gradient too: a row of 70,000 must not
    overflow.
    """
    raise NotImplementedError("Turn the scores of a tensor into weights along `dim`, in PyTorch.")
