# Skeleton ex06_kv_cache cffa0787e3700b07. The lesson: docs/lessons/ex06_kv_cache.en.md
"""The key/value cache: write the bodies, then run `make grade EX=ex06_kv_cache`.

Not allowed: PyTorch's fused attention operator and its attention modules. Write it with matrix
products and a softmax; torch.softmax and nn.Linear are allowed.
"""

import math

import torch
from torch import nn


def attend_with_past(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    past: tuple[torch.Tensor, torch.Tensor] | None = None,
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """Attend causally from the new tokens to the past and to each other, and return both.

    q       (..., t, D), the queries of the t new tokens
    k, v    (..., t, D) and (..., t, Dv), their keys and values
    past    None, or the keys (..., n - t, D) and values (..., n - t, Dv) of all tokens before
    returns the output (..., t, Dv), and the past of the next call: keys (..., n, D) and values
            (..., n, Dv). Nothing that came in is changed; gradients flow to all of it
    """
    raise NotImplementedError(
        "Attend causally from the new tokens to the past and to each other, and return both."
    )


class KVCache:
    """The keys and values of the tokens so far, in memory that is taken once.

    length  how many tokens are in the cache
    """

    length: int

    def __init__(
        self,
        batch: int,
        num_heads: int,
        max_len: int,
        head_dim: int,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str | None = None,
    ) -> None:
        """Take the memory for `max_len` keys and values of (batch, num_heads, head_dim) each."""
        raise NotImplementedError(
            "Take the memory for `max_len` keys and values of (batch, num_heads, head_dim) each."
        )

    def append(self, k: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Copy the keys and values of t new tokens in, and return all so far.

        k, v    (B, H, t, D), the sizes B, H and D being those of the cache
        returns keys and values, (B, H, length, D) each, in the dtype of the cache
        raises  ValueError if k or v has another shape (with that shape and the right one), or if t
                tokens more do not fit (with the length that would be needed and max_len); either
                way the cache stays as it was
        """
        raise NotImplementedError(
            "Copy the keys and values of t new tokens in, and return all so far."
        )

    def reset(self) -> None:
        """Empty the cache, so that the next append begins at position 0."""
        raise NotImplementedError("Empty the cache, so that the next append begins at position 0.")


class CachedAttention(nn.Module):
    """Causal multi-head self-attention whose keys and values may live in a `KVCache`.

    w_q, w_k, w_v, w_o   nn.Linear(d_model, d_model), with a bias if `bias`
    """

    def __init__(self, d_model: int, num_heads: int, bias: bool = False) -> None:
        """Create the four projections.

        raises  ValueError if `d_model` is not divisible by `num_heads`, with both numbers
        """
        super().__init__()
        raise NotImplementedError("Create the four projections.")

    def forward(self, x: torch.Tensor, cache: KVCache | None = None) -> torch.Tensor:
        """Attend from the new tokens to all tokens so far, themselves among them.

        x       (B, t, E), the t new tokens
        cache   None: x is the whole text. Otherwise the keys and values of x are appended to it,
                and x attends to everything in it
        returns the output (B, t, E)
        """
        raise NotImplementedError(
            "Attend from the new tokens to all tokens so far, themselves among them."
        )
