# Skeleton ex07_mqa_gqa 6b585b776a698173. The lesson: docs/lessons/ex07_mqa_gqa.en.md
"""Multi-query and grouped-query attention: write the bodies, then run `make grade EX=ex07_mqa_gqa`.

Not allowed: PyTorch's fused attention operator and its attention modules. Write it with matrix
products, a mask and torch.softmax.
"""

import math

import torch
from torch import nn


def repeat_kv(x: torch.Tensor, n: int) -> torch.Tensor:
    """Repeat every key/value head `n` times, the copies next to each other.

    x       keys or values (..., Hk, L, D), of any dtype; not changed
    n       how many query heads read each key/value head, at least 1
    returns (..., Hk*n, L, D); head h of the result is head h // n of `x`

    Any size may be 1 or large; all but n may be 0. Gradients flow to `x`.
    """
    raise NotImplementedError(
        "Repeat every key/value head `n` times, the copies next to each other."
    )


def grouped_query_attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, keep: torch.Tensor | None = None
) -> torch.Tensor:
    """Attend with H query heads to Hk key/value heads, without copies of the keys and values.

    q       (..., H, Lq, D)
    k, v    (..., Hk, Lk, D) and (..., Hk, Lk, Dv); query head h reads key/value head h // (H // Hk)
    keep    None, or bool that broadcasts to (..., H, Lq, Lk); True = may attend
    returns (..., H, Lq, Dv) in the dtype of `q`; zeros for a query that may attend to nothing
    raises  ValueError naming both numbers if H is not divisible by Hk

    The scale is 1/sqrt(D). float16 and bfloat16 are computed in float32 and converted back at the
    end; float64 is computed in float64. Scores may be very large or very low: if all products of
    queries and keys, before the scale and the mask, fit the dtype that is computed in, nothing
    overflows, and weights lose no digits. Hidden keys and values have no influence, even at 1e30,
    nor has NaN in a key on the output of a query from which it is hidden. Gradients flow to q, k
    and v in every dtype and, of finite inputs, are never NaN. There may be any number of leading
    dimensions, batch and Lq may be 0, tensors may be strided or expanded, and everything is
    computed on their device. The function changes neither its inputs nor tensors that it returned
    earlier.
    """
    raise NotImplementedError(
        "Attend with H query heads to Hk key/value heads, without copies of the keys and values."
    )


class GroupedQueryAttention(nn.Module):
    """Self-attention in which groups of query heads share a key/value head.

    Parameters: `w_q` Linear(E, E), `w_k` and `w_v` Linear(E, Hk*D), `w_o` Linear(E, E). Attention
    in it keeps all that `grouped_query_attention` promises of half precision, of very large and
    very low scores, of hidden keys and of queries that may attend to nothing. The layer does the
    same in .train() and in .eval(), its answers do not depend on earlier calls (the past is an
    argument), and it works in the dtype and on the device of its parameters.
    """

    def __init__(self, d_model: int, num_heads: int, num_kv_heads: int, bias: bool = False) -> None:
        """Create the projections w_q, w_k, w_v and w_o, those of keys and values narrower.

        d_model       the width E of the tokens
        num_heads     H; d_model must be divisible by it, else ValueError naming both numbers
        num_kv_heads  Hk; num_heads must be divisible by it, else ValueError naming both numbers
        bias          whether the four projections have a bias
        """
        super().__init__()
        raise NotImplementedError(
            "Create the projections w_q, w_k, w_v and w_o, those of keys and values narrower."
        )

    def forward(self, x: torch.Tensor, keep: torch.Tensor | None = None) -> torch.Tensor:
        """Attend from every token of x to the tokens of x that keep allows.

        x       (B, L, E); B may be 0
        keep    None, or bool that broadcasts to (B, H, L, L); True = may attend
        returns (B, L, E), in the dtype of x; gradients flow to x and to every weight and bias
        """
        raise NotImplementedError(
            "Attend from every token of x to the tokens of x that keep allows."
        )

    def step(
        self, x: torch.Tensor, past: tuple[torch.Tensor, torch.Tensor] | None = None
    ) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
        """Attend from the next tokens to the past and, causally, to each other; return both.

        x       the next tokens (B, t, E)
        past    None, or (keys, values) as an earlier step returned them, (B, Hk, n, D) each; it
                stays as it was, and may be continued more than once
        returns (output, past): output (B, t, E); keys and values (B, Hk, n+t, D), not repeated,
                in the dtype of x; gradients flow through both
        """
        raise NotImplementedError(
            "Attend from the next tokens to the past and, causally, to each other; return both."
        )


def kv_cache_bytes(
    batch: int, num_kv_heads: int, length: int, head_dim: int, dtype: torch.dtype, layers: int
) -> int:
    """Count the bytes that the keys and values of all layers take up together.

    dtype   any torch dtype, such as torch.bfloat16 or torch.int8
    returns an int; 0 where a size is 0
    """
    raise NotImplementedError(
        "Count the bytes that the keys and values of all layers take up together."
    )
