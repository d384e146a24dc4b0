# Skeleton ex04_heads eb204d554ec76591. The lesson: docs/lessons/ex04_heads.en.md
"""Multi-head attention: write the bodies, then run `make grade EX=ex04_heads`.

Not allowed: PyTorch's fused attention operator and its attention modules, PyTorch in
multi_head_attention_numpy. Write it with four projections, two matrix products and a softmax.
"""

import math

import numpy as np
import torch
from torch import nn


def split_heads(x: torch.Tensor, num_heads: int) -> torch.Tensor:
    """Cut the width of every token into heads: (B, L, E) -> (B, H, L, D).

    x          tensor (B, L, E), whose width E is H * D; any dtype and layout, B may be 0
    num_heads  H, the number of heads
    returns    tensor (B, H, L, D); head h holds the numbers h*D to (h+1)*D of each token
    raises     ValueError, naming both numbers, if `num_heads` does not divide E

    `x` is left as it is, its dtype and device are kept, and gradients flow.
    """
    raise NotImplementedError("Cut the width of every token into heads: (B, L, E) -> (B, H, L, D).")


def merge_heads(x: torch.Tensor) -> torch.Tensor:
    """Lay the heads of every token side by side again: (B, H, L, D) -> (B, L, E).

    x        tensor (B, H, L, D); any dtype and layout, B may be 0
    returns  tensor (B, L, H * D), the inverse of `split_heads`

    `x` is left as it is, its dtype and device are kept, and gradients flow.
    """
    raise NotImplementedError(
        "Lay the heads of every token side by side again: (B, H, L, D) -> (B, L, E)."
    )


def multi_head_attention_numpy(
    query: np.ndarray,
    key: np.ndarray,
    value: np.ndarray,
    w_q: np.ndarray,
    w_k: np.ndarray,
    w_v: np.ndarray,
    w_o: np.ndarray,
    num_heads: int,
    keep: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Attend with several heads at once, in NumPy, and return (output, weights).

    query               array (B, Lq, E), float16, float32 or float64; B may be 0
    key, value          arrays (B, Lk, E)
    w_q, w_k, w_v, w_o  matrices (E, E); a projection is `x @ w`
    num_heads           H, a divisor of E
    keep                bool array that broadcasts to (B, H, Lq, Lk), True = may attend
    returns             output (B, Lq, E) and weights (B, H, Lq, Lk), in the dtype of `query`;
                        both are 0 in a row that may attend to nothing
    raises              ValueError, naming both numbers, if `num_heads` does not divide E

    Each head divides its scores by sqrt(D). Hidden keys get weight 0, even if they and their values
    hold 1e30. Scores may be hundreds apart, and as low as -1e32. float16 is computed in float32
    (products of 256 by 256 do not overflow, and scores are not rounded to float16), and float64 is
    computed in float64. Arrays may have any layout and stay as they were; nothing is remembered
    from one call to the next.
    """
    raise NotImplementedError(
        "Attend with several heads at once, in NumPy, and return (output, weights)."
    )


class MultiHeadAttention(nn.Module):
    """Multi-head attention: four projections, with the heads between them.

    Parameters are those of `w_q`, `w_k`, `w_v` and `w_o`, each an `nn.Linear` from E to E. A layer
    does the same in .train() and in .eval(), shares nothing with other layers, remembers nothing,
    and works in the dtype and on the device of its parameters.
    """

    def __init__(self, d_model: int, num_heads: int, bias: bool = False) -> None:
        """Create the four projections `w_q`, `w_k`, `w_v` and `w_o`.

        d_model    E, the width of tokens
        num_heads  H, a divisor of E
        bias       whether each of the four projections adds a bias
        raises     ValueError, naming both numbers, if `num_heads` does not divide `d_model`
        """
        super().__init__()
        raise NotImplementedError("Create the four projections `w_q`, `w_k`, `w_v` and `w_o`.")

    def forward(
        self,
        x: torch.Tensor,
        context: torch.Tensor | None = None,
        keep: torch.Tensor | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Attend from `x` to `context`, or to `x` itself, and return (output, weights).

        x        tensor (B, Lq, E), in the dtype of the parameters; B may be 0
        context  tensor (B, Lk, E) that keys and values come from; None means `x`
        keep     bool tensor that broadcasts to (B, H, Lq, Lk), True = may attend
        returns  output (B, Lq, E) and weights (B, H, Lq, Lk), in the dtype of `x`; the weights are
                 0 in a row that may attend to nothing

        Each head divides its scores by sqrt(D). Hidden tokens get weight 0, even if they hold 1e30.
        Scores may be hundreds apart, and as low as -1e32. float16 and bfloat16 are computed in
        float32 between the projections (products of 256 by 256 do not overflow, and scores are not
        rounded), and float64 is computed in float64. Gradients reach `x`, the context and every
        parameter, through output and weights, and are never NaN. Tensors may have any layout and
        stay as they were.
        """
        raise NotImplementedError(
            "Attend from `x` to `context`, or to `x` itself, and return (output, weights)."
        )
