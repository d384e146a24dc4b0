"""Grouped-query attention: query head `h` reads key/value head `h // (H // Hk)`.

Multi-query attention (Shazeer 2019) is the case of one key/value head; the groups between one and
all are from Ainslie et al. 2023.
"""

import math

import numpy as np
import torch
from torch import Tensor, nn

from reference.ex03_sdpa import exact_attention, plain_attention
from reference.expected import (
    Array,
    Expected,
    attended,
    boolean,
    f64,
    gradients,
    largest,
    nudged_module,
    projected,
    rounded_module,
    with_nudges,
)


def repeat_kv(x: Tensor, n: int) -> Expected:
    """Every head of `x` (..., Hk, L, D) `n` times in a row: (..., Hk*n, L, D)."""
    return _own_size(np.repeat(f64(x), n, axis=-3), x.repeat_interleave(n, dim=-3))


def grouped_query_attention(
    q: Tensor, k: Tensor, v: Tensor, keep: Tensor | None = None
) -> Expected:
    """The output (..., H, Lq, Dv) of q (..., H, Lq, D), k (..., Hk, Lk, D), v (..., Hk, Lk, Dv)."""
    exact = exact_grouped_query_attention(f64(q), f64(k), f64(v), boolean(keep))
    expected = Expected(exact, plain_grouped_query_attention(q, k, v, keep), attended(q, v))
    return with_nudges(
        [expected], lambda *given: [plain_grouped_query_attention(*given)], q, k, v, keep
    )[0]


def grouped_query_attention_gradients(
    q: Tensor, k: Tensor, v: Tensor, keep: Tensor | None = None, *, upstream: Tensor
) -> tuple[Expected, ...]:
    """The gradients of the output with respect to q, k and v, for the gradient `upstream` of it."""
    magnitude = largest(upstream) * max(1.0, largest(v)) * max(1.0, largest(q, k))
    return gradients(
        lambda q, k, v: plain_grouped_query_attention(q, k, v, keep),
        *(q, k, v),
        upstream=upstream,
        magnitude=magnitude,
    )


def kv_cache_bytes(
    batch: int, num_kv_heads: int, length: int, head_dim: int, dtype: torch.dtype, layers: int
) -> Expected:
    """The bytes of keys and values together in all layers, as an integer."""
    exact = 2 * math.prod((layers, batch, num_kv_heads, length, head_dim)) * dtype.itemsize
    shape = (2, layers, batch, num_kv_heads, length, head_dim)
    plain = torch.empty(shape, dtype=dtype, device="meta").nbytes
    return Expected(np.asarray(exact), np.asarray(plain), 1.0)


def exact_grouped_query_attention(q: Array, k: Array, v: Array, keep: Array | None = None) -> Array:
    """The oracle, float64: groups on an axis of their own, along which K and V have one entry."""
    num_heads, num_kv_heads = q.shape[-3], k.shape[-3]
    groups = num_kv_heads, num_heads // num_kv_heads
    if keep is not None and keep.ndim > 2:
        keep = np.broadcast_to(keep, np.broadcast_shapes(keep.shape, (num_heads, 1, 1)))
        keep = keep.reshape(*keep.shape[:-3], *groups, *keep.shape[-2:])
    grouped = q.reshape(*q.shape[:-3], *groups, *q.shape[-2:])  # (..., Hk, H / Hk, Lq, D)
    output, _ = exact_attention(grouped, k[..., None, :, :], v[..., None, :, :], keep)
    return output.reshape(*q.shape[:-1], v.shape[-1])


def plain_grouped_query_attention(
    q: Tensor, k: Tensor, v: Tensor, keep: Tensor | None = None
) -> Tensor:
    """The yardstick: K and V repeated, then the textbook formula."""
    n = q.shape[-3] // k.shape[-3]
    k, v = (x.repeat_interleave(n, dim=-3) for x in (k, v))  # (..., H, Lk, D)
    return plain_attention(q, k, v, keep)[0]


class PlainGroupedQueryAttention(nn.Module):
    """The yardstick of the layer, a method for each step, so that a mistake can replace one."""

    def __init__(self, d_model: int, num_heads: int, num_kv_heads: int, bias: bool = False) -> None:
        super().__init__()
        self.num_heads, self.num_kv_heads = num_heads, num_kv_heads
        kv_width = d_model // num_heads * num_kv_heads
        self.w_q = nn.Linear(d_model, d_model, bias=bias)
        self.w_k = nn.Linear(d_model, kv_width, bias=bias)
        self.w_v = nn.Linear(d_model, kv_width, bias=bias)
        self.w_o = nn.Linear(d_model, d_model, bias=bias)

    def forward(self, x: Tensor, keep: Tensor | None = None) -> Tensor:
        """The output (..., L, E) of x (..., L, E)."""
        return self.combine(self.attend(*self.project(x), keep))

    def step(
        self, x: Tensor, past: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """The output (..., t, E) of the next tokens, and keys and values (..., Hk, n+t, D)."""
        q, k, v = self.project(x)
        k, v = self.extend(past, k, v)
        keep = self.causal(q.shape[-2], k.shape[-2]).to(x.device)
        return self.combine(self.attend(q, k, v, keep)), (k, v)

    def project(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries (..., H, L, D), keys and values (..., Hk, L, D)."""
        return (
            self.split(self.w_q(x), self.num_heads),
            self.split(self.w_k(x), self.num_kv_heads),
            self.split(self.w_v(x), self.num_kv_heads),
        )

    def split(self, x: Tensor, heads: int) -> Tensor:
        """(..., L, heads*D) -> (..., heads, L, D)."""
        return x.reshape(*x.shape[:-1], heads, x.shape[-1] // heads).transpose(-3, -2)

    def attend(self, q: Tensor, k: Tensor, v: Tensor, keep: Tensor | None) -> Tensor:
        """Attention of every query head to the key/value head of its group: (..., H, L, D)."""
        return plain_grouped_query_attention(q, k, v, keep)

    def extend(
        self, past: tuple[Tensor, Tensor] | None, k: Tensor, v: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The keys and values so far, the new ones last."""
        if past is None:
            return k, v
        return torch.cat([past[0], k], -2), torch.cat([past[1], v], -2)

    def causal(self, q_len: int, k_len: int) -> Tensor:
        """True where query `i`, at position `i + k_len - q_len`, may look: (q_len, k_len)."""
        return torch.ones(q_len, k_len, dtype=torch.bool).tril(k_len - q_len)

    def combine(self, x: Tensor) -> Tensor:
        """The heads (..., H, L, D) side by side, then the output projection: (..., L, E)."""
        output: Tensor = self.w_o(x.transpose(-3, -2).flatten(-2))
        return output


class GroupedQueryAttention:
    """The oracle of the layer. Weights are rounded to the dtype of the input, as the student's are.

    The magnitude of a gradient is its own largest value: the projections mix all that went in.
    """

    def __init__(self, d_model: int, num_heads: int, num_kv_heads: int, bias: bool = False) -> None:
        self.num_heads, self.num_kv_heads = num_heads, num_kv_heads
        self.plain = PlainGroupedQueryAttention(d_model, num_heads, num_kv_heads, bias)

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Take over the weights of a student's module, in their own dtype."""
        self.plain.load_state_dict(state, assign=True)

    def forward(self, x: Tensor, keep: Tensor | None = None) -> Expected:
        """The output (..., L, E) of x (..., L, E)."""
        plain = rounded_module(self.plain, x)
        q, k, v = self._project(f64(x), plain)
        exact = self._combine(exact_grouped_query_attention(q, k, v, boolean(keep)), plain)
        with torch.no_grad():
            size = projected(v, plain.w_o.weight, plain.w_o.bias)
            nudged = nudged_module(plain, x, keep, exact=exact)
            return Expected(exact, plain(x, keep), size, nudged=nudged)

    __call__ = forward

    def forward_gradients(
        self, x: Tensor, keep: Tensor | None = None, *, upstream: Tensor
    ) -> tuple[Expected, ...]:
        """The gradient of the output with respect to x, for the gradient `upstream` of it."""
        plain = rounded_module(self.plain, x)
        found = gradients(
            lambda x: rounded_module(plain, x).forward(x, keep),
            x,
            upstream=upstream,
            magnitude=0.0,
        )
        return tuple(each._replace(magnitude=largest(each.exact)) for each in found)

    def weight_gradients(
        self, x: Tensor, keep: Tensor | None = None, *, upstream: Tensor
    ) -> dict[str, Expected]:
        """The gradient of the output with respect to each weight and bias, by its name."""
        plain = rounded_module(self.plain, x)
        names, weights = zip(*plain.named_parameters(), strict=True)

        def forward(*weights: Tensor) -> Tensor:
            inputs = x.detach().to(weights[0].dtype), keep
            output: Tensor = torch.func.functional_call(
                plain, dict(zip(names, weights, strict=True)), inputs
            )
            return output

        found = gradients(forward, *weights, upstream=upstream, magnitude=0.0)
        # One size for all: the gradient of w_k.bias is 0 but for rounding.
        size = largest(*(each.exact for each in found))
        sized = (each._replace(magnitude=size) for each in found)
        return dict(zip(names, sized, strict=True))

    def step(
        self, x: Tensor, past: tuple[Tensor, Tensor] | tuple[Expected, Expected] | None = None
    ) -> tuple[Expected, tuple[Expected, Expected]]:
        """`(output, (keys, values))`; `past` is a student's, or one that this method returned."""
        plain = rounded_module(self.plain, x)
        q, k, v = self._project(f64(x), plain)
        plain_past = None
        if past is not None:
            k = np.concatenate([_exact(past[0]), k], axis=-2)  # (..., Hk, n+t, D)
            v = np.concatenate([_exact(past[1]), v], axis=-2)  # (..., Hk, n+t, D)
            plain_past = _plain(past[0]), _plain(past[1])
        q_len, k_len = q.shape[-2], k.shape[-2]
        keep = np.arange(k_len) <= np.arange(q_len)[:, None] + k_len - q_len  # (t, n+t)
        exact = self._combine(exact_grouped_query_attention(q, k, v, keep), plain)
        with torch.no_grad():
            output, (keys, values) = plain.step(x, plain_past)
        answer = Expected(exact, output, projected(v, plain.w_o.weight, plain.w_o.bias))
        [answer] = with_nudges([answer], lambda x: plain.step(x, plain_past)[:1], x)
        return answer, (_own_size(k, keys), _own_size(v, values))

    def _project(self, x: Array, weights: PlainGroupedQueryAttention) -> list[Array]:
        counts = (self.num_heads, self.num_kv_heads, self.num_kv_heads)
        layers = (weights.w_q, weights.w_k, weights.w_v)
        wide = [_linear(x, layer) for layer in layers]  # (..., L, heads*D)
        return [
            np.stack(np.split(y, heads, axis=-1), axis=-3)
            for y, heads in zip(wide, counts, strict=True)
        ]

    def _combine(self, heads: Array, weights: PlainGroupedQueryAttention) -> Array:
        side_by_side = [heads[..., head, :, :] for head in range(self.num_heads)]
        return _linear(np.concatenate(side_by_side, axis=-1), weights.w_o)


def _linear(x: Array, layer: nn.Linear) -> Array:
    y: Array = x @ f64(layer.weight).T
    return y if layer.bias is None else y + f64(layer.bias)


def _own_size(exact: Array, plain: Tensor) -> Expected:
    return Expected(exact, plain, largest(exact))


def _exact(x: Tensor | Expected) -> Array:
    return x.exact if isinstance(x, Expected) else f64(x)


def _plain(x: Tensor | Expected) -> Tensor:
    plain = x.plain if isinstance(x, Expected) else x
    assert isinstance(plain, Tensor)
    return plain
