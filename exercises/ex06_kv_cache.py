# Skeleton ex06_kv_cache ecce961f91050cee. The lesson: docs/lessons/ex06_kv_cache.en.md
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
    """Attend causally to the past and the new tokens; return the output and the longer past.

    q       (..., t, D), the queries of the t new tokens; t, and any leading dimension, may be 0
    k, v    (..., t, D) and (..., t, Dv), their keys and values
    past    None, or the keys (..., n - t, D) and values (..., n - t, Dv) of all tokens before;
            one past may have several continuations
    returns the output (..., t, Dv), and the past of the next call: keys (..., n, D) and values
            (..., n, Dv), all in the dtype and on the device of the inputs. Inputs stay
            unchanged; they may be non-contiguous, or made by `expand`; gradients flow to all

    New token i sees the tokens up to position n - t + i. Later ones have no influence: their
    scores are -inf. If you only add -10,000 or -1e9, a key of 1e30 is still seen. Half precision is
    computed in float32, where 256 * 256 does not overflow; float64 is computed in float64. Scores
    may be very large or very low: if all products of queries and keys, before the scale and the
    mask, fit the dtype that is computed in, nothing overflows, and weights lose no digits.
    """
    raise NotImplementedError(
        "Attend causally to the past and the new tokens; return the output and the longer past."
    )


class KVCache:
    """The keys and values of the tokens so far, in memory that is taken once.

    keys    the memory of the keys, (B, H, max_len, D), in the dtype and on the device of the cache.
            append writes into it and returns what lies there; it stays where it is, whatever is
            called. Every cache has memory of its own
    values  the same for the values
    length  how many tokens are in the cache, an int
    """

    keys: torch.Tensor
    values: torch.Tensor
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
        """Take the memory for `max_len` keys and values of (batch, num_heads, head_dim) each.

        dtype   of the memory; `append` converts what it gets to this dtype
        device  where the memory is; None means PyTorch's default device
        """
        raise NotImplementedError(
            "Take the memory for `max_len` keys and values of (batch, num_heads, head_dim) each."
        )

    def append(self, k: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Copy the keys and values of t new tokens in, and return all so far.

        k, v    (B, H, t, D), the sizes B, H and D being those of the cache; t or B may be 0. They
                are copied: to change them later changes nothing in the cache
        returns keys and values, (B, H, length, D) each: what now lies in the filled part of the
                memory, if t is 0 too; views of it, or copies
        raises  ValueError if k or v has a wrong shape (the message names this shape and the right
                one; v needs the t of k), or if t more tokens do not fit (it names length + t and
                max_len); either way the cache stays as it was
        """
        raise NotImplementedError(
            "Copy the keys and values of t new tokens in, and return all so far."
        )

    def reset(self) -> None:
        """Empty the cache, so that the next append begins at position 0 of the same memory."""
        raise NotImplementedError(
            "Empty the cache, so that the next append begins at position 0 of the same memory."
        )


class CachedAttention(nn.Module):
    """Causal multi-head self-attention whose keys and values may live in a `KVCache`.

    w_q, w_k, w_v, w_o   nn.Linear(d_model, d_model), each with a bias if `bias`, else without

    What `attend_with_past` says of later tokens and of dtypes is true here as well. The layer does
    the same in training and in evaluation, and keeps no reference to a cache.
    """

    def __init__(self, d_model: int, num_heads: int, bias: bool = False) -> None:
        """Create the four projections.

        raises  ValueError if `d_model` is not divisible by `num_heads`, naming both numbers
        """
        super().__init__()
        raise NotImplementedError("Create the four projections.")

    def forward(self, x: torch.Tensor, cache: KVCache | None = None) -> torch.Tensor:
        """Attend from the new tokens to all tokens so far, themselves among them.

        x       (B, t, E), the t new tokens, E = d_model; x may be non-contiguous and stays as it
                is; B or t may be 0
        cache   None: x is the whole text. Otherwise the keys and values of x are appended to it,
                and x attends to everything in it. If they do not fit, the ValueError of
                `append` is raised, and the cache stays as it was
        returns the output (B, t, E) in the dtype of x; a cache in another dtype rounds keys and
                values, and nothing else. Without a cache, gradients flow to x and to the
                parameters
        """
        raise NotImplementedError(
            "Attend from the new tokens to all tokens so far, themselves among them."
        )
