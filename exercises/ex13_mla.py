# Skeleton ex13_mla 1d00fe2e6ac20650. The lesson: docs/lessons/ex13_mla.en.md
"""Multi-head latent attention: write the bodies, then run `make grade EX=ex13_mla`.

Not allowed: PyTorch's fused attention operator and its attention modules, PyTorch's own RMSNorm.
Write it with matrix products, a softmax and a mean of squares; torch.softmax and nn.Linear are
allowed.
"""

import math

import torch
from torch import nn


class LatentCache:
    """The latents and rotary keys of the tokens so far, in memory that is taken once.

    All that is kept of a token lies in `latents` and `k_ropes`, and is read there at every call.

    latents  (batch, max_len, kv_rank), of which the first `length` places are filled
    k_ropes  (batch, max_len, rope_dim), likewise
    length   how many tokens are in the cache
    nbytes   the bytes of both buffers, filled or not
    """

    latents: torch.Tensor
    k_ropes: torch.Tensor
    length: int
    nbytes: int

    def __init__(
        self,
        batch: int,
        max_len: int,
        kv_rank: int,
        rope_dim: int,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str | None = None,
    ) -> None:
        """Take the memory for `max_len` latents (batch, kv_rank) and keys (batch, rope_dim).

        Both buffers are in `dtype` and on `device`.
        """
        raise NotImplementedError(
            "Take the memory for `max_len` latents (batch, kv_rank) and keys (batch, rope_dim)."
        )

    def append(
        self, latent: torch.Tensor, k_rope: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Copy the latents and rotary keys of t new tokens in, and return all so far.

        The caller may change `latent` and `k_rope` afterwards. They may be strided, in
        another dtype than the cache, or of no tokens.

        latent  (B, t, kv_rank), the sizes being those of the cache
        k_rope  (B, t, rope_dim), with the t of latent
        returns latents (B, length, kv_rank) and rotary keys (B, length, rope_dim), in the dtype of
                the cache
        raises  ValueError if either has another shape (with the number that differs and the right
                one), or if t tokens more do not fit (with the length that would be needed and
                max_len); either way the cache stays as it was
        """
        raise NotImplementedError(
            "Copy the latents and rotary keys of t new tokens in, and return all so far."
        )

    def reset(self) -> None:
        """Empty the cache, so that the next append begins at position 0, in the same memory."""
        raise NotImplementedError(
            "Empty the cache, so that the next append begins at position 0, in the same memory."
        )


class MultiHeadLatentAttention(nn.Module):
    """Causal self-attention whose keys and values are made from one latent per token.

    Scores, softmax, norms and angles are computed in float32 for half precision, and in float64 for
    float64. Results between these steps may be rounded to the dtype of x or not.

    q_proj              nn.Linear(d_model, H * (nope_dim + rope_dim)); only without `q_rank`
    q_a_proj            nn.Linear(d_model, q_rank); this and the next two only with `q_rank`
    q_a_layernorm       RMSNorm with `weight` (q_rank,)
    q_b_proj            nn.Linear(q_rank, H * (nope_dim + rope_dim))
    kv_a_proj_with_mqa  nn.Linear(d_model, kv_rank + rope_dim)
    kv_a_layernorm      RMSNorm with `weight` (kv_rank,)
    kv_b_proj           nn.Linear(kv_rank, H * (nope_dim + value_dim)): of each head key, then value
    o_proj              nn.Linear(H * value_dim, d_model)

    No bias anywhere, and nothing else in the state dict. The layer keeps nothing from one call to
    the next: the weights may change between two calls, in .train() and in .eval().
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        nope_dim: int,
        rope_dim: int,
        value_dim: int,
        kv_rank: int,
        q_rank: int | None = None,
        rope_base: float = 10000.0,
    ) -> None:
        """Create the projections and the norms.

        raises  ValueError naming `rope_dim` if it is odd
        """
        super().__init__()
        raise NotImplementedError("Create the projections and the norms.")

    def forward(
        self, x: torch.Tensor, cache: LatentCache | None = None, absorbed: bool = False
    ) -> torch.Tensor:
        """Attend from the new tokens to all tokens so far, themselves among them.

        Without a cache gradients reach x and every parameter, both ways; with one, the weights may
        need gradients as well, and the answer is the same. Later tokens have no influence on
        earlier ones, nor on their gradients, and scores may have any size.

        x         (B, t, E), the t new tokens; left as it is. B may be 0, and x strided
        cache     None: x is the whole text, its first token at position 0. Otherwise the first
                  token of x is at position `cache.length`, the latents and rotary keys of x are
                  appended, and x attends to everything that lies in the cache, which has its
                  dtype. If the cache refuses them, its
                  ValueError is raised, and nothing changes
        absorbed  never expand the latents to keys and values; the answer is the same
        returns   the output (B, t, E)
        """
        raise NotImplementedError(
            "Attend from the new tokens to all tokens so far, themselves among them."
        )
