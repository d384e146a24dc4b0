"""Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434, section 2.1).

The oracle expands the latents whichever way is asked; the yardstick goes the way that is asked.
"""

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor
from torch.func import functional_call

from reference.ex05_causal_mask import exact_causal_attention
from reference.expected import Array, Expected, f64, gradients, largest, nudged_module, projected
from reference.mla import EPS, PlainLatentCache, PlainMultiHeadLatentAttention


def exact_rms_norm(x: Array, weight: Array) -> Array:
    """`weight * x / sqrt(mean(x**2) + eps)` over the last axis, float64."""
    y: Array = weight * x / np.sqrt(np.mean(x**2, axis=-1, keepdims=True) + EPS)
    return y


def exact_rope(x: Array, start: int, base: float) -> Array:
    """x (..., t, d) from position `start` on: pairs as complex numbers, turned."""
    t, width = x.shape[-2:]
    angles = np.outer(np.arange(start, start + t), base ** (-np.arange(0, width, 2) / width))
    turned = (x[..., 0::2] + 1j * x[..., 1::2]) * np.exp(1j * angles)
    return np.stack([turned.real, turned.imag], -1).reshape(x.shape)


class LatentCache:
    """The oracle of the cache: float64 arrays that grow, and a yardstick that is fed alongside."""

    def __init__(
        self,
        batch: int,
        max_len: int,
        kv_rank: int,
        rope_dim: int,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str | None = None,
    ) -> None:
        self.plain = PlainLatentCache(batch, max_len, kv_rank, rope_dim, dtype, device)
        self.latents: Array = np.empty((batch, 0, kv_rank))
        self.k_ropes: Array = np.empty((batch, 0, rope_dim))
        self.nbytes = batch * max_len * (kv_rank + rope_dim) * dtype.itemsize

    @property
    def length(self) -> int:
        """How many tokens are in the cache."""
        return int(self.latents.shape[1])

    def append(self, latent: Tensor, k_rope: Tensor) -> tuple[Expected, Expected]:
        """All so far, (B, length, R) and (B, length, rope), after latent and k_rope."""
        self.plain.append(latent.detach(), k_rope.detach())
        self.append_exact(f64(latent), f64(k_rope))
        return self.so_far()

    def so_far(self) -> tuple[Expected, Expected]:
        """What lies in it, (B, length, R) and (B, length, rope)."""
        exact, plain = (self.latents, self.k_ropes), self.plain.so_far()
        # Clones, because an append after a reset writes over what the views show.
        latents, k_ropes = (
            Expected(e, p.clone(), largest(e)) for e, p in zip(exact, plain, strict=True)
        )
        return latents, k_ropes

    def multiply(self, factor: float) -> None:
        """Multiply all that lies in it."""
        self.latents, self.k_ropes = self.latents * factor, self.k_ropes * factor
        for buffer in (self.plain.latents, self.plain.k_ropes):
            buffer *= factor

    def append_exact(self, latent: Array, k_rope: Array) -> tuple[Array, Array]:
        """The oracle's half of `append`."""
        self.latents = np.concatenate([self.latents, latent], axis=1)
        self.k_ropes = np.concatenate([self.k_ropes, k_rope], axis=1)
        return self.latents, self.k_ropes

    def reset(self) -> None:
        """Forget everything."""
        self.plain.reset()
        self.latents, self.k_ropes = self.latents[:, :0], self.k_ropes[:, :0]


class MultiHeadLatentAttention:
    """The oracle of the layer, with the weights in the dtype of the input.

    The magnitude of the gradients is the largest of them: the projections mix all that goes in.
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
        self._plain = PlainMultiHeadLatentAttention(
            d_model, num_heads, nope_dim, rope_dim, value_dim, kv_rank, q_rank, rope_base
        )
        self._state: Mapping[str, Tensor] = self._plain.state_dict()

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Take the weights from `state`, named as in the student's module."""
        self._state = dict(state)

    def multiply(self, name: str, factor: float) -> None:
        """Multiply a weight."""
        self._state = {**self._state, name: self._state[name] * factor}

    def forward(
        self, x: Tensor, cache: LatentCache | None = None, absorbed: bool = False
    ) -> Expected:
        """The output (B, t, E) of x (B, t, E), whose latents and keys the cache takes in."""
        plain = self._in_dtype_of(x)
        start = 0 if cache is None else cache.length
        w = self._exact_weights()
        tokens = f64(x)
        if plain.q_rank is None:
            q = tokens @ w["q_proj"].T
        else:
            q = exact_rms_norm(tokens @ w["q_a_proj"].T, w["q_a_layernorm"]) @ w["q_b_proj"].T
        latents, k_ropes = self._compress(tokens, start)
        if cache is not None:
            latents, k_ropes = cache.append_exact(latents, k_ropes)
        heads, v = _attend(plain, q, latents, k_ropes, w["kv_b_proj"])
        merged = np.moveaxis(heads, 1, 2).reshape(*x.shape[:2], w["o_proj"].shape[1])
        exact = merged @ w["o_proj"].T
        given = x, None if cache is None else cache.plain, absorbed
        nudged = nudged_module(plain, *given, exact=exact)  # before the cache takes x in
        with torch.no_grad():
            output = plain(*given)
        return Expected(exact, output, projected(v, w["o_proj"]), nudged=nudged)

    __call__ = forward

    def remember(self, x: Tensor, cache: LatentCache) -> None:
        """Let the cache take in the latents and keys of x (B, t, E), and ask for no output."""
        exact = self._compress(f64(x), cache.length)
        plain = self._in_dtype_of(x)
        with torch.no_grad():
            latent, k_rope = plain.compress(x)
            cache.plain.append(latent, plain.rotate_key(k_rope, cache.length))
        cache.append_exact(*exact)

    def gradients(
        self, x: Tensor, absorbed: bool = False, *, upstream: Tensor
    ) -> tuple[Expected, ...]:
        """The gradients for `upstream` (B, t, E), that of the output without a cache.

        With respect to x, then to the parameters in the order of the state.
        """
        plain = self._in_dtype_of(x)

        def output(x: Tensor, *parameters: Tensor) -> Tensor:
            named = dict(zip(self._state, parameters, strict=True))
            y: Tensor = functional_call(plain, named, (x, None, absorbed))
            return y

        leaves = (x, *(p.to(x.dtype) for p in self._state.values()))
        answers = gradients(output, *leaves, upstream=upstream, magnitude=1.0)
        size = largest(*(answer.exact for answer in answers))
        return tuple(answer._replace(magnitude=size) for answer in answers)

    def _exact_weights(self) -> dict[str, Array]:
        return {name.removesuffix(".weight"): f64(p) for name, p in self._state.items()}

    def _compress(self, tokens: Array, start: int) -> tuple[Array, Array]:
        """What is cached of tokens (B, t, E): latents (B, t, R), rotated keys (B, t, rope)."""
        w, rank = self._exact_weights(), self._plain.kv_rank
        both = tokens @ w["kv_a_proj_with_mqa"].T
        latents = exact_rms_norm(both[..., :rank], w["kv_a_layernorm"])
        return latents, exact_rope(both[..., rank:], start, self._plain.base)

    def _in_dtype_of(self, x: Tensor) -> PlainMultiHeadLatentAttention:
        plain = self._plain.to(x.device, x.dtype)
        plain.load_state_dict(self._state)
        return plain


def _attend(
    sizes: PlainMultiHeadLatentAttention, q: Array, latents: Array, k_ropes: Array, kv_b: Array
) -> tuple[Array, Array]:
    """The heads and their values, (B, H, t, value) and (B, H, n, value)."""
    expanded = _heads(latents @ kv_b.T, sizes.heads)
    k_nope, v = expanded[..., : sizes.nope], expanded[..., sizes.nope :]
    shared = np.broadcast_to(k_ropes[:, None], (*k_nope.shape[:3], sizes.rope))
    q = _heads(q, sizes.heads)
    turned = exact_rope(q[..., sizes.nope :], latents.shape[1] - q.shape[2], sizes.base)
    q = np.concatenate([q[..., : sizes.nope], turned], axis=-1)
    return exact_causal_attention(q, np.concatenate([k_nope, shared], axis=-1), v), v


def _heads(x: Array, heads: int) -> Array:
    """(B, L, H * D) -> (B, H, L, D)."""
    batch, length, width = x.shape
    return np.moveaxis(x.reshape(batch, length, heads, width // heads), 2, 1)
