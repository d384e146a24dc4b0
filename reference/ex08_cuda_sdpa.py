"""The production path: fused attention, and the module around it that timm's transformers use.

The oracle and the yardstick; the fast path itself is in `reference/fused.py`.

Hidden keys and values have no influence while their products stay finite: 1e30, not NaN. Compare
such an answer with what clean inputs give, whose size sets the tolerance.
"""

from collections.abc import Mapping

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
    nudged,
    nudged_module,
    projected,
    rounded_module,
)


def fast_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    keep: Tensor | None = None,
    causal: bool = False,
    scale: float | None = None,
    bias: Tensor | None = None,
) -> Expected:
    """The output (..., H, Lq, Dv) of q (..., H, Lq, D), k (..., Hk, Lk, D), v (..., Hk, Lk, Dv)."""
    exact = exact_fast_attention(
        f64(q), f64(k), f64(v), boolean(keep), causal, scale, None if bias is None else f64(bias)
    )
    plain = plain_fast_attention(q, k, v, keep, causal, scale, bias)
    [worst] = nudged(
        lambda q, k, v, *bias: [plain_fast_attention(q, k, v, keep, causal, scale, *bias)],
        *(x.detach() for x in (q, k, v, *(() if bias is None else (bias,)))),
        exact=[exact],
    )
    # A weight is off by the rounding of its score, and a bias makes scores larger.
    larger = 0.0 if bias is None else min(1.0, largest(bias) / 8)
    return Expected(exact, plain, attended(q, v) * (1 + larger), nudged=worst)


def fast_attention_gradients(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    keep: Tensor | None = None,
    causal: bool = False,
    scale: float | None = None,
    bias: Tensor | None = None,
    *,
    upstream: Tensor,
) -> tuple[Expected, ...]:
    """The gradients of the output for q, k, v and, if there is one, the bias."""
    magnitude = largest(upstream) * max(1.0, largest(v)) * max(1.0, largest(q, k))
    return gradients(
        lambda q, k, v, *bias: plain_fast_attention(q, k, v, keep, causal, scale, *bias),
        *(q, k, v, *(() if bias is None else (bias,))),
        upstream=upstream,
        magnitude=magnitude,
    )


def exact_fast_attention(
    q: Array,
    k: Array,
    v: Array,
    keep: Array | None = None,
    causal: bool = False,
    scale: float | None = None,
    bias: Array | None = None,
) -> Array:
    """The oracle, float64: query head `h` is given the key/value head `h // (H // Hk)`."""
    shared = np.arange(q.shape[-3]) // (q.shape[-3] // k.shape[-3])
    k, v = k[..., shared, :, :], v[..., shared, :, :]
    if causal:
        q_len, k_len = q.shape[-2], k.shape[-2]
        behind = np.arange(k_len) <= np.arange(q_len)[:, None] + k_len - q_len  # (Lq, Lk)
        keep = behind if keep is None else keep & behind
    return exact_attention(q, k, v, keep, scale, bias)[0]


def plain_fast_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    keep: Tensor | None = None,
    causal: bool = False,
    scale: float | None = None,
    bias: Tensor | None = None,
) -> Tensor:
    """The yardstick: K and V repeated, the mask built, the textbook formula."""
    if causal:
        q_len, k_len = q.shape[-2], k.shape[-2]
        behind = torch.ones(q_len, k_len, dtype=torch.bool, device=q.device).tril(k_len - q_len)
        keep = behind if keep is None else keep & behind
    k, v = (x.repeat_interleave(q.shape[-3] // x.shape[-3], dim=-3) for x in (k, v))
    return plain_attention(q, k, v, keep, scale, bias)[0]


class PlainFusedAttention(nn.Module):
    """The yardstick of the module; a mistake overrides one of its steps.

    `fused` is only remembered: both paths have the same right answer.
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        qkv_bias: bool = False,
        qk_norm: bool = False,
        fused: bool = True,
    ) -> None:
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{d_model} is not divisible by {num_heads}")
        self.num_heads, self.fused = num_heads, fused
        self.qkv = nn.Linear(d_model, 3 * d_model, bias=qkv_bias)
        self.q_norm, self.k_norm = (
            nn.LayerNorm(d_model // num_heads) if qk_norm else nn.Identity() for _ in range(2)
        )
        self.proj = nn.Linear(d_model, d_model)

    def forward(self, x: Tensor, keep: Tensor | None = None) -> Tensor:
        """The output (..., L, E) of x (..., L, E)."""
        q, k, v = self.split(self.qkv(x))
        q, k = self.normalise(q, k)
        return self.combine(self.attend(q, k, v, keep))

    def split(self, qkv: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(..., L, 3*E), laid out (3, H, D), as q, k and v (..., H, L, D)."""
        parts = torch.unflatten(qkv, -1, (3, self.num_heads, -1))  # (..., L, 3, H, D)
        q, k, v = (part.transpose(-3, -2) for part in parts.unbind(-3))
        return q, k, v

    def normalise(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        """Each head's queries and keys, over their D numbers."""
        return self.q_norm(q), self.k_norm(k)

    def attend(self, q: Tensor, k: Tensor, v: Tensor, keep: Tensor | None) -> Tensor:
        """(..., H, L, D)."""
        return plain_fast_attention(q, k, v, keep)

    def combine(self, heads: Tensor) -> Tensor:
        """The heads (..., H, L, D) side by side, then `proj`: (..., L, E)."""
        output: Tensor = self.proj(heads.transpose(-3, -2).flatten(-2))
        return output


class FusedAttention:
    """The oracle of the module. Weights are rounded to the dtype of the input, as the student's.

    The magnitude of the gradients is the largest of them: the projections mix all that goes in.
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        qkv_bias: bool = False,
        qk_norm: bool = False,
        fused: bool = True,
    ) -> None:
        self.fused = fused
        self.plain = PlainFusedAttention(d_model, num_heads, qkv_bias, qk_norm, fused)

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Take over the weights of a student's module, in their own dtype."""
        self.plain.load_state_dict(state, assign=True)

    def forward(self, x: Tensor, keep: Tensor | None = None) -> Expected:
        """The output (..., L, E) of x (..., L, E)."""
        plain = rounded_module(self.plain, x)
        q, k, v = np.split(_exact_linear(f64(x), plain.qkv), 3, axis=-1)  # (..., L, E) each
        q, k, v = (np.stack(np.split(y, plain.num_heads, -1), -3) for y in (q, k, v))
        q, k = _exact_norm(q, plain.q_norm), _exact_norm(k, plain.k_norm)  # (..., H, L, D)
        heads = exact_fast_attention(q, k, v, boolean(keep))
        together = np.concatenate([heads[..., h, :, :] for h in range(plain.num_heads)], -1)
        exact = _exact_linear(together, plain.proj)
        with torch.no_grad():
            output = plain(x, keep)
        size = projected(v, plain.proj.weight, plain.proj.bias)
        nudged = nudged_module(plain, x, keep, exact=exact)
        return Expected(exact, output, size, nudged=nudged)

    __call__ = forward

    def forward_gradients(
        self, x: Tensor, keep: Tensor | None = None, *, upstream: Tensor
    ) -> tuple[Expected, ...]:
        """The gradient of the output with respect to x, for the gradient `upstream` of it."""
        plain = rounded_module(self.plain, x)
        names, weights = zip(*plain.named_parameters(), strict=True)

        def forward(x: Tensor, *weights: Tensor) -> Tensor:
            named = dict(zip(names, weights, strict=True))
            output: Tensor = torch.func.functional_call(plain, named, (x, keep))
            return output

        # The weights as well: their roundings and the size of their gradients are in that of x.
        found = gradients(forward, x, *weights, upstream=upstream, magnitude=0.0)
        return (found[0]._replace(magnitude=largest(*(each.exact for each in found))),)

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
        size = max(
            largest(each.exact) for each in found
        )  # the norms' sums cancel, the others' less
        sized = (each._replace(magnitude=size) for each in found)
        return dict(zip(names, sized, strict=True))


def _exact_linear(x: Array, layer: nn.Linear) -> Array:
    y: Array = x @ f64(layer.weight).T
    return y if layer.bias is None else y + f64(layer.bias)


def _exact_norm(x: Array, norm: nn.Module) -> Array:
    """Layer normalisation over the last axis, as PyTorch defines it; the identity is left alone."""
    if not isinstance(norm, nn.LayerNorm):
        return x
    centred = x - x.mean(-1, keepdims=True)
    unit = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + norm.eps)
    y: Array = unit * f64(norm.weight) + f64(norm.bias)
    return y
