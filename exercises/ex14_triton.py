# Skeleton ex14_triton 3b1a183b9f48c631. The lesson: docs/lessons/ex14_triton.en.md
"""Kernels in Triton: write the bodies, then run `make grade EX=ex14_triton`.

Not allowed: every module but math and torch and triton and typing, PyTorch's fused attention
operator and its attention modules, PyTorch's arithmetic on tensors and on their single numbers,
triton.language.softmax, triton.language.tensor.handle, triton.runtime, torch.Tensor.numpy,
torch.Tensor.data_ptr, torch.Tensor.untyped_storage. Compute in the kernel; the function that
launches it allocates the result and no more.
"""

import math

import torch
import triton
import triton.language as tl


@triton.jit
def softmax_kernel(x_ptr, y_ptr, x_row, x_col, y_row, n_cols, BLOCK: tl.constexpr):
    """Write the softmax of one row of x, that of this program's number, into the same row of y.

    x_row, x_col   elements from one row of x to the next, and from one column to the next
    y_row          elements from one row of y to the next; its columns lie side by side
    """
    raise NotImplementedError(
        "Write the softmax of one row of x, that of this program's number, into the same row of y."
    )


def softmax(x: torch.Tensor) -> torch.Tensor:
    """Launch softmax_kernel for every row of x, and return the result.

    x        (M, N), float32 or half precision, M and N from 0, N up to 4096; any strides. Numbers
             may be as far from 0 as 3e4, all negative, or -inf; a row of -inf gives zeros
    returns  (M, N), in the dtype of x; the statistics are float32, rounded at the end. x stays as
             it was
    """
    raise NotImplementedError("Launch softmax_kernel for every row of x, and return the result.")


@triton.jit
def flash_attention_kernel(
    q_ptr, k_ptr, v_ptr, o_ptr,
    q_b, q_h, q_l, q_d, k_b, k_h, k_l, k_d, v_b, v_h, v_l, v_d, o_b, o_h, o_l, o_d,
    H, Lq, Lk, scale,
    CAUSAL: tl.constexpr, D: tl.constexpr, BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Attend from one tile of BLOCK_Q queries of one head to all the keys that it may see.

    Program (i, n) has the i-th tile of queries in head n % H of batch n // H. The strides are those
    of q, k, v and of the output, along batch, head, length and width.
    """
    raise NotImplementedError(
        "Attend from one tile of BLOCK_Q queries of one head to all the keys that it may see."
    )


def flash_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    causal: bool = False,
    scale: float | None = None,
) -> torch.Tensor:
    """Launch flash_attention_kernel for every tile of queries and every head; return the output.

    q        (B, H, Lq, D), float32 or half precision, D one of 16, 32, 64 and 128; any strides
    k, v     (B, H, Lk, D), in the dtype of q, each with strides of its own. B, H, Lq and Lk are any
             numbers, 0 too
    causal   query i sees the keys up to i + Lk - Lq; one that sees none has the output 0, and keys
             that it does not see count for nothing, nor do their values, whatever finite numbers
             they hold
    scale    of the scores, 1/sqrt(D) if it is None; any number, 0 and negative ones too. Scores of
             keys that a query sees may be as far from 0 as 3e4
    returns  (B, H, Lq, D), in the dtype of q; scores, maximum, sum and output are float32, rounded
             at the end. The inputs stay as they were
    """
    raise NotImplementedError(
        "Launch flash_attention_kernel for every tile of queries and every head; return the output."
    )
