# Skeleton ex08_cuda_sdpa 46b8d93d9acb043c. The lesson: docs/lessons/ex08_cuda_sdpa.en.md
"""The fast path: write the bodies, then run `make grade EX=ex08_cuda_sdpa`.

Not allowed: flash_attn, xformers. PyTorch's own operator is allowed in this exercise, and reaches
the same kernels.
"""

import math
import warnings
from contextlib import nullcontext

import torch
import torch.nn.functional as F
from torch import nn
from torch.backends.cuda import (
    SDPAParams,
    can_use_cudnn_attention,
    can_use_efficient_attention,
    can_use_flash_attention,
)
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.bias import CausalBias, causal_lower_right


def fast_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    keep: torch.Tensor | None = None,
    causal: bool = False,
    scale: float | None = None,
    bias: torch.Tensor | None = None,
) -> torch.Tensor:
    """Attend on a fused kernel, without an Lq x Lk matrix wherever one can be avoided.

    q       (..., H, Lq, D), float16, bfloat16, float32 or float64, of any size and in any layout;
            no batch is needed, and its size, Lq and Lk may be 0; no input is changed
    k       (..., Hk, Lk, D); query head h reads key/value head h // (H // Hk)
    v       (..., Hk, Lk, Dv)
    keep    bool tensor that broadcasts to (..., H, Lq, Lk), True = may attend; None hides nothing;
            keys and values hidden from a query have no influence on its output, even 1e30
    causal  whether query i, at position i + Lk - Lq, sees no key ahead of itself
    scale   factor of the scores, which may be 0 or negative; None means 1 / sqrt(D)
    bias    finite numbers of the dtype of `q`, added to the scaled scores; broadcasts as `keep`
    returns output (..., H, Lq, Dv) of the dtype and device of `q`, a new one at each call, through
            which gradients flow to `q`, `k`, `v` and `bias`; a query that may attend to nothing has
            output 0 and gradient 0; float64 is computed in float64, half precision is scaled and
            added up in float32 (neither scale * q nor products of 256 overflow), and scores may be
            thousands apart, and as low as -1e32
    raises  ValueError, naming both numbers, if the widths of `q` and `k`, the lengths of `k` and
            `v` or their heads differ, or if Hk does not divide H
    """
    raise NotImplementedError(
        "Attend on a fused kernel, without an Lq x Lk matrix wherever one can be avoided."
    )


def best_backend(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    keep: torch.Tensor | None = None,
    causal: bool = False,
) -> str:
    """Name the kernel that attention on these tensors will run on, and why no faster one will.

    q, k, v, keep, causal   as for `fast_attention`
    returns "flash: ...", "efficient: ...", "cudnn: ..." or "math: ...", where ... says for each
            fused kernel that cannot take the call what it dislikes; on the CPU flash, and
            math wherever there are no queries or no keys
    """
    raise NotImplementedError(
        "Name the kernel that attention on these tensors will run on, and why no faster one will."
    )


class FusedAttention(nn.Module):
    """Self-attention with one projection for queries, keys and values, fused or written out."""

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        qkv_bias: bool = False,
        qk_norm: bool = False,
        fused: bool = True,
    ) -> None:
        """Create `qkv`, `q_norm`, `k_norm` and `proj`, and remember `fused`.

        d_model     E, the width of the input and the output
        num_heads   H; D = E / H
        qkv_bias    whether `qkv`, nn.Linear(E, 3 * E), has a bias; `proj`, nn.Linear(E, E), has one
        qk_norm     whether `q_norm` and `k_norm` are nn.LayerNorm(D); else nn.Identity()
        fused       which path `forward` takes; may be set at any time, by the caller alone
        raises      ValueError, naming both numbers, if num_heads does not divide d_model
        """
        super().__init__()
        raise NotImplementedError(
            "Create `qkv`, `q_norm`, `k_norm` and `proj`, and remember `fused`."
        )

    def forward(self, x: torch.Tensor, keep: torch.Tensor | None = None) -> torch.Tensor:
        """Attend within x, on the fused path or on the one written out.

        x       (..., L, E), of any size and in any layout, on the device of the weights and of
                their dtype, which is one of the four; a batch of 0 too; it is not changed
        keep    bool tensor that broadcasts to (..., H, L, L), True = may attend; None hides nothing
        returns (..., L, E), the same in .train() and .eval(), through which gradients flow to x and
                to every weight and bias; a token that may attend to nothing gets the bias of
                `proj`; half precision, digits and large scores are as in `fast_attention` on both
                paths, whose last digits may differ; hidden keys and values have no influence, even
                1e30, nor on gradients
        """
        raise NotImplementedError("Attend within x, on the fused path or on the one written out.")
