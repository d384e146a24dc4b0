"""Causal attention with a key/value cache (Shazeer 2019, "Fast Transformer Decoding").

The oracle's cache grows by concatenation, the yardstick's is preallocated.
"""

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call

from reference.ex04_heads import (
    exact_merge_heads,
    exact_split_heads,
    plain_merge_heads,
    plain_split_heads,
)
from reference.ex05_causal_mask import exact_causal_attention, plain_causal_attention
from reference.expected import (
    Array,
    Expected,
    attended,
    f64,
    gradients,
    largest,
    nudged_module,
    projected,
    with_nudges,
)

Past = tuple[Tensor, Tensor]


def attend_with_past(
    q: Tensor, k: Tensor, v: Tensor, past: Past | None = None
) -> tuple[Expected, tuple[Expected, Expected]]:
    """`(output, past)` of q, k (..., t, D), v (..., t, Dv) after a past of n - t tokens."""
    old = (k[..., :0, :], v[..., :0, :]) if past is None else past
    keys = np.concatenate([f64(old[0]), f64(k)], axis=-2)  # (..., n, D)
    values = np.concatenate([f64(old[1]), f64(v)], axis=-2)  # (..., n, Dv)
    output = exact_causal_attention(f64(q), keys, values)
    plain_output, (plain_keys, plain_values) = plain_attend_with_past(q, k, v, past)
    expected = Expected(output, plain_output, attended(q, values))
    [expected] = with_nudges(
        [expected], lambda *qkv: [plain_causal_attention(*qkv)], q, plain_keys, plain_values
    )
    return expected, (
        Expected(keys, plain_keys, largest(keys)),
        Expected(values, plain_values, largest(values)),
    )


def attend_with_past_gradients(
    q: Tensor, k: Tensor, v: Tensor, past: Past | None = None, *, upstream: Tensor
) -> tuple[Expected, ...]:
    """The gradients of the output for q, k, v and, if there is a past, its keys and its values."""
    old = past or ()
    keys, values = [k, *old[:1]], [v, *old[1:]]
    return gradients(
        lambda q, k, v, *old: plain_attend_with_past(q, k, v, old or None)[0],
        *(q, k, v, *old),
        upstream=upstream,
        magnitude=largest(upstream) * max(1.0, largest(*values)) * max(1.0, largest(q, *keys)),
    )


def plain_attend_with_past(
    q: Tensor, k: Tensor, v: Tensor, past: Past | None = None
) -> tuple[Tensor, Past]:
    """The yardstick of `attend_with_past`."""
    if past is not None:
        k, v = torch.cat([past[0], k], -2), torch.cat([past[1], v], -2)
    return plain_causal_attention(q, k, v), (k, v)


class PlainKVCache:
    """The yardstick of `KVCache`; a mistake overrides one of its steps."""

    def __init__(
        self,
        batch: int,
        num_heads: int,
        max_len: int,
        head_dim: int,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str | None = None,
    ) -> None:
        room = batch, num_heads, max_len, head_dim
        self.keys = torch.zeros(room, dtype=dtype, device=device)
        self.values = torch.zeros(room, dtype=dtype, device=device)
        self.length = 0

    def append(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Copy k and v (B, H, t, D) in; all so far, (B, H, length, D), as views of the buffers."""
        self.check(k, v)
        self.write(self.length, k, v)
        self.advance(k.shape[-2])
        return self.so_far()

    def reset(self) -> None:
        """Forget everything."""
        self.length = 0

    def check(self, k: Tensor, v: Tensor) -> None:
        """ValueError unless k and v have the cache's shape and there is room for them."""
        batch, num_heads, max_len, head_dim = self.keys.shape
        right = (batch, num_heads, k.shape[-2], head_dim)
        if k.shape != right or v.shape != right:
            raise ValueError(f"{tuple(k.shape)} and {tuple(v.shape)} should both be {right}")
        if self.length + k.shape[-2] > max_len:
            raise ValueError(f"{self.length + k.shape[-2]} tokens are more than {max_len}")

    def write(self, start: int, k: Tensor, v: Tensor) -> None:
        """Store k and v from position `start` on."""
        self.keys[:, :, start : start + k.shape[-2]] = k
        self.values[:, :, start : start + v.shape[-2]] = v

    def advance(self, t: int) -> None:
        """Count t tokens more."""
        self.length += t

    def so_far(self) -> tuple[Tensor, Tensor]:
        """The filled part of both buffers."""
        return self.keys[:, :, : self.length], self.values[:, :, : self.length]


class KVCache:
    """The oracle of the cache: float64 arrays that grow, and a yardstick that is fed alongside."""

    def __init__(
        self,
        batch: int,
        num_heads: int,
        max_len: int,
        head_dim: int,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str | None = None,
    ) -> None:
        self.plain = PlainKVCache(batch, num_heads, max_len, head_dim, dtype, device)
        self._keys: Array = np.empty((batch, num_heads, 0, head_dim))
        self._values: Array = self._keys

    @property
    def length(self) -> int:
        """How many tokens are in the cache."""
        return int(self._keys.shape[-2])

    def append(self, k: Tensor, v: Tensor) -> tuple[Expected, Expected]:
        """The keys and values so far, (B, H, length, D), after k and v (B, H, t, D)."""
        self.plain.append(k.detach(), v.detach())
        self.append_exact(f64(k), f64(v))
        return self.so_far()

    def so_far(self) -> tuple[Expected, Expected]:
        """All keys and values that are in the cache."""
        plain_keys, plain_values = self.plain.so_far()
        # Clones, because an append after a reset writes over what the views show.
        return (
            Expected(self._keys, plain_keys.clone(), largest(self._keys)),
            Expected(self._values, plain_values.clone(), largest(self._values)),
        )

    def append_exact(self, k: Array, v: Array) -> tuple[Array, Array]:
        """The oracle's half of `append`."""
        self._keys = np.concatenate([self._keys, k], axis=-2)
        self._values = np.concatenate([self._values, v], axis=-2)
        return self._keys, self._values

    def negate(self) -> None:
        """Change the sign of all that is there."""
        self.plain.keys.neg_()
        self.plain.values.neg_()
        self._keys, self._values = -self._keys, -self._values

    def reset(self) -> None:
        """Forget everything."""
        self.plain.reset()
        self._keys = self._values = self._keys[:, :, :0]


class PlainCachedAttention(nn.Module):
    """The yardstick of `CachedAttention`; a mistake overrides one of its steps."""

    def __init__(self, d_model: int, num_heads: int, bias: bool = False) -> None:
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{d_model} is not divisible by {num_heads}")
        self.num_heads = num_heads
        self.w_q = nn.Linear(d_model, d_model, bias=bias)
        self.w_k = nn.Linear(d_model, d_model, bias=bias)
        self.w_v = nn.Linear(d_model, d_model, bias=bias)
        self.w_o = nn.Linear(d_model, d_model, bias=bias)

    def forward(self, x: Tensor, cache: PlainKVCache | None = None) -> Tensor:
        """x (B, t, E) -> (B, t, E)."""
        q, k, v = self.project(x)
        k, v = self.remember(k, v, cache)
        output: Tensor = self.w_o(self.merge(self.attend(q, k, v)))
        return output

    def project(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values of x (B, t, E), (B, H, t, D) each."""
        return self.split(self.w_q(x)), self.split(self.w_k(x)), self.split(self.w_v(x))

    def split(self, x: Tensor) -> Tensor:
        """(B, t, E) -> (B, H, t, D)."""
        return plain_split_heads(x, self.num_heads)

    def remember(self, k: Tensor, v: Tensor, cache: PlainKVCache | None) -> tuple[Tensor, Tensor]:
        """The keys and values to attend to, (B, H, n, D), once those of x are in the cache."""
        if cache is None:
            return k, v
        keys, values = cache.append(k, v)
        return keys.to(k.dtype), values.to(v.dtype)

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """(B, H, t, D) from the last t of n positions."""
        return plain_causal_attention(q, k, v)

    def merge(self, x: Tensor) -> Tensor:
        """(B, H, t, D) -> (B, t, E)."""
        return plain_merge_heads(x)


class CachedAttention:
    """The oracle of the layer, with the weights in the dtype of the input. Its cache is `KVCache`.

    The magnitude of the gradients is the largest of them: the projections mix all that goes in.
    """

    def __init__(self, d_model: int, num_heads: int, bias: bool = False) -> None:
        self._plain = PlainCachedAttention(d_model, num_heads, bias)
        self._state: Mapping[str, Tensor] = self._plain.state_dict()

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Take the weights from `state`, named as in the student's module."""
        self._state = dict(state)

    def forward(self, x: Tensor, cache: KVCache | None = None) -> Expected:
        """The output (B, t, E) of x (B, t, E), whose keys and values the cache takes in."""
        plain = self._in_dtype_of(x)
        q, k, v = (
            exact_split_heads(_exact_linear(f64(x), w), plain.num_heads)
            for w in (plain.w_q, plain.w_k, plain.w_v)
        )
        if cache is not None:
            k, v = cache.append_exact(k, v)
        heads = exact_causal_attention(q, k, v)  # (B, H, t, D)
        exact = _exact_linear(exact_merge_heads(heads), plain.w_o)
        given = x, None if cache is None else cache.plain
        nudged = nudged_module(plain, *given, exact=exact)  # before the cache takes x in
        with torch.no_grad():
            output = plain(*given)
        size = projected(v, plain.w_o.weight, plain.w_o.bias)
        return Expected(exact, output, size, nudged=nudged)

    __call__ = forward

    def gradients(self, x: Tensor, *, upstream: Tensor) -> tuple[Expected, ...]:
        """The gradients for `upstream` (B, t, E), that of the output without a cache.

        With respect to x, then to the parameters in the order of `state_dict()`.
        """
        plain = self._in_dtype_of(x)
        state = plain.state_dict()

        def output(x: Tensor, *parameters: Tensor) -> Tensor:
            named = dict(zip(state, parameters, strict=True))
            return functional_call(plain, named, (x,))  # type: ignore[no-any-return]

        answers = gradients(output, x, *state.values(), upstream=upstream, magnitude=1.0)
        # One size for all: a single token leaves w_q and w_k a gradient that is only rounding.
        size = largest(*(answer.exact for answer in answers))
        return tuple(answer._replace(magnitude=size) for answer in answers)

    def _in_dtype_of(self, x: Tensor) -> PlainCachedAttention:
        plain = self._plain.to(x.device, x.dtype)
        plain.load_state_dict(self._state)
        return plain


def _exact_linear(x: Array, layer: nn.Linear) -> Array:
    y: Array = x @ f64(layer.weight).T
    return y if layer.bias is None else y + f64(layer.bias)
