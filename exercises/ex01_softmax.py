# Skeleton ex01_softmax a57cac902852dad2. The lesson: docs/lessons/ex01_softmax.en.md
"""Softmax: write the bodies, then run `make grade EX=ex01_softmax`.

Not allowed: PyTorch's own softmax in any form, PyTorch's fused attention operator and its
attention modules, scipy. Write it with exp, a sum and a division.
"""

import numpy as np
import torch


def softmax_numpy(x: np.ndarray, axis: int = -1) -> np.ndarray:
    """Turn the scores of an array into weights along `axis`, in NumPy.

    x       array of any shape, float16, float32 or float64; it is not changed
    axis    the axis along which the weights sum to one
    returns an array of the shape and dtype of `x`
    """
    raise NotImplementedError("Turn the scores of an array into weights along `axis`, in NumPy.")


def softmax(x: torch.Tensor, dim: int = -1) -> torch.Tensor:
    """Turn the scores of a tensor into weights along `dim`, in PyTorch.

    x       tensor of any shape, float16, bfloat16, float32 or float64; it is not changed
    dim     the dimension along which the weights sum to one
    returns a tensor of the shape, dtype and device of `x`, through which gradients flow
    """
    raise NotImplementedError("Turn the scores of a tensor into weights along `dim`, in PyTorch.")
