# Skeleton ex10_online_softmax c1985b9a38527dd4. The lesson: docs/lessons/ex10_online_softmax.en.md
"""Online softmax and tiled attention: write the bodies, then run `make grade EX=ex10_online_softmax`.

Not allowed: PyTorch's fused attention operator and its attention modules. Write it with matrix
products, torch.exp and the running maximum and sum.
"""

import math

import torch


def online_softmax(x: torch.Tensor, block_size: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Find the maximum of each row and the sum of exp(x - maximum), block by block.

    x           (..., n), float16, bfloat16, float32 or float64; may hold -inf
    block_size  how many columns are read at once; the last block may be shorter
    returns     row_max and row_sum, (...) each: float32 if x is float16 or bfloat16 (convert each
                block first), otherwise in the dtype of x. A row of -inf gives -inf and 0
    raises      ValueError if block_size is less than 1; the message contains block_size
    """
    raise NotImplementedError(
        "Find the maximum of each row and the sum of exp(x - maximum), block by block."
    )


def merge_partials(
    a: tuple[torch.Tensor, torch.Tensor], b: tuple[torch.Tensor, torch.Tensor]
) -> tuple[torch.Tensor, torch.Tensor]:
    """Join the attention of the same queries over two sets of keys into that over both.

    a, b    (output, lse) each: output (..., L, Dv), and lse (..., L), float32 for outputs in half
            precision
    returns (output, lse) over both sets, each in the dtype it came in. A part whose lse is -inf has
            no influence, whatever its output holds, NaN included; if both parts are like this, the
            output is 0, lse is -inf, and gradients are 0
    """
    raise NotImplementedError(
        "Join the attention of the same queries over two sets of keys into that over both."
    )


def flash_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    causal: bool = False,
    scale: float | None = None,
    block_size: int = 64,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Attend tile by tile, and return the output and the log-sum-exp of the scores.

    q           (..., Lq, D), float16, bfloat16, float32 or float64; no input is changed
    k, v        (..., Lk, D) and (..., Lk, Dv)
    causal      query i sees key j if j <= i + Lk - Lq
    scale       factor of the scores; None means 1 / sqrt(D)
    block_size  how many keys a tile has at most
    returns     output (..., Lq, Dv) in the dtype of q, and lse (..., Lq), the natural logarithm of
                the sum of exp(scores): float32 if q is float16 or bfloat16 (convert before the
                first product), otherwise in the dtype of q. Gradients flow through both. A query
                that sees no key has output 0, lse -inf and gradient 0. Later keys and values have
                no influence, even 1e30, nor on gradients. Scores may be as low as -1e32
    raises      ValueError if block_size is less than 1; the message contains block_size
    """
    raise NotImplementedError(
        "Attend tile by tile, and return the output and the log-sum-exp of the scores."
    )
