"""The parts of a diffusion transformer's block, as in Wan 2.1 (Wan Team 2025): RMSNorm, attention.

The oracles are built, loaded and called as the student's modules, without dropout, and answer with
an `Expected`. Their weights are rounded to the dtype of the input, as the student's are. The
yardsticks are in `reference/blocks.py`.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call

from reference.blocks import (
    EPS,
    PlainCrossAttention,
    PlainFeedForward,
    PlainRMSNorm,
    PlainSelfAttention,
)
from reference.ex03_sdpa import exact_attention
from reference.ex04_heads import exact_merge_heads, exact_split_heads, plain_merge_heads
from reference.expected import (
    Array,
    Expected,
    boolean,
    f64,
    gradients,
    largest,
    nudged_module,
    projected,
)

State = Mapping[str, Array]  # parameters by their names in the module, float64


def exact_rms_norm(x: Array, weight: Array, eps: float = EPS) -> Array:
    """The oracle: every row over the root of its mean square."""
    y: Array = x / np.sqrt((x**2).mean(-1, keepdims=True) + eps) * weight
    return y


def exact_rotate(x: Array, base: float) -> Array:
    """The oracle: the places (2i, 2i+1) of x (..., L, D), a complex number, turned."""
    pairs = x[..., 0::2] + 1j * x[..., 1::2]  # (..., L, D/2)
    speeds = base ** (-np.arange(pairs.shape[-1]) / pairs.shape[-1])
    turned = pairs * np.exp(1j * np.arange(x.shape[-2])[:, None] * speeds)
    return np.stack([turned.real, turned.imag], -1).reshape(x.shape)


class _Oracle:
    """What the four have in common; `exact` says what is right and how large its parts are."""

    kind: type[nn.Module]

    def __init__(self, *args: Any, **options: Any) -> None:
        self.plain: Any = self.kind(*args, **options).eval()
        self._state: Mapping[str, Tensor] = self.plain.state_dict()
        self._ready: tuple[torch.device, torch.dtype] | None = None  # what `plain` has them in

    def state_dict(self) -> dict[str, Tensor]:
        """The parameters by their names, in their order."""
        return dict(self._state)

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Take the weights from `state`, named as in the student's module."""
        self._state, self._ready = dict(state), None

    def forward(self, x: Tensor, *more: Tensor | None) -> Expected:
        """The answer for x and whatever else the student's module takes, in the same order."""
        plain = self._in_dtype_of(x)
        state = {name: f64(parameter) for name, parameter in plain.state_dict().items()}
        exact, size = self.exact(state, *(_array(y) for y in (x, *more)))
        with torch.no_grad():
            output = plain(x, *more)
        nudged = nudged_module(plain, x, *more, exact=exact)
        return Expected(exact, output, size, nudged=nudged)

    __call__ = forward

    def exact(self, state: State, *inputs: Any) -> tuple[Array, float]:
        raise NotImplementedError

    def gradients(
        self, *inputs: Tensor, keep: Tensor | None = None, upstream: Tensor
    ) -> tuple[Expected, ...]:
        """For `upstream`, that of the output: of the inputs, then of the parameters in order."""
        plain = self._in_dtype_of(inputs[0])
        state, count = plain.state_dict(), len(inputs)

        def output(*leaves: Tensor) -> Tensor:
            named = dict(zip(state, leaves[count:], strict=True))
            given = leaves[:count] if keep is None else (*leaves[:count], keep)
            return functional_call(plain, named, given)  # type: ignore[no-any-return]

        answers = gradients(output, *inputs, *state.values(), upstream=upstream, magnitude=1.0)
        # One size for all: the bias of `k` has no gradient but rounding errors.
        size = largest(*(answer.exact for answer in answers))
        return tuple(answer._replace(magnitude=size) for answer in answers)

    def _in_dtype_of(self, x: Tensor) -> Any:
        plain = self.plain
        if self._ready != (x.device, x.dtype):
            plain.to(x.device, x.dtype).load_state_dict(self._state)
            self._ready = x.device, x.dtype
        return plain


class RMSNorm(_Oracle):
    """The oracle of the norm."""

    kind = PlainRMSNorm

    def exact(self, state: State, *inputs: Any) -> tuple[Array, float]:
        answer = exact_rms_norm(inputs[0], state["weight"], self.plain.eps)
        return answer, largest(answer)


class SelfAttention(_Oracle):
    """The oracle of self-attention."""

    kind = PlainSelfAttention

    def exact(self, state: State, *inputs: Any) -> tuple[Array, float]:
        x, keep = (*inputs, None)[:2]
        q, k, v = self._prepared(state, x)
        heads, _ = exact_attention(q, k, v, keep)
        return _linear(exact_merge_heads(heads), state, "o"), _projected(v, state, "o")

    def rows(self, x: Tensor, rows: list[int]) -> Expected:
        """What some tokens of a long x (B, L, E) get, (B, len(rows), E): no more is computed."""
        plain = self._in_dtype_of(x)
        state = {name: f64(parameter) for name, parameter in plain.state_dict().items()}
        q, k, v = self._prepared(state, f64(x))
        heads, _ = exact_attention(q[:, :, rows], k, v, None)
        exact = _linear(exact_merge_heads(heads), state, "o")
        some = _SomeRows(plain, rows)
        with torch.no_grad():
            output = some(x)
        nudged = nudged_module(some, x, exact=exact)
        return Expected(exact, output, _projected(v, state, "o"), nudged=nudged)

    def _prepared(self, state: State, x: Array) -> tuple[Array, Array, Array]:
        """Queries, keys and values of every head, normalised and turned, (B, H, L, D)."""
        q, k, v = (_linear(x, state, name) for name in "qkv")
        if self.plain.qk_norm:
            q, k = (exact_rms_norm(y, state[f"norm_{n}.weight"]) for y, n in ((q, "q"), (k, "k")))
        q, k, v = (exact_split_heads(y, self.plain.num_heads) for y in (q, k, v))
        if self.plain.rope_base is not None:
            q, k = (exact_rotate(y, self.plain.rope_base) for y in (q, k))
        return q, k, v


class _SomeRows(nn.Module):
    """The yardstick of self-attention at some tokens alone."""

    def __init__(self, plain: PlainSelfAttention, rows: list[int]) -> None:
        super().__init__()
        self.plain, self.rows = plain, rows

    def forward(self, x: Tensor) -> Tensor:
        """x (B, L, E) -> (B, len(rows), E)."""
        q, k, v = self.plain.prepare(*self.plain.project(x))
        attended = self.plain.attend(q[:, :, self.rows], k, v, None)
        output: Tensor = self.plain.o(plain_merge_heads(attended))
        return output


class CrossAttention(_Oracle):
    """The oracle of cross-attention."""

    kind = PlainCrossAttention

    def exact(self, state: State, *inputs: Any) -> tuple[Array, float]:
        x, context, keep = (*inputs, None)[:3]
        image, text = np.split(context, [self.plain.image_tokens], axis=1)
        q = exact_rms_norm(_linear(x, state, "q"), state["norm_q.weight"])
        heads, size = self._read(state, q, text, "", keep)
        if self.plain.image_tokens:
            of_image, of_its_size = self._read(state, q, image, "_img", None)
            heads, size = heads + of_image, size + of_its_size
        return _linear(exact_merge_heads(heads), state, "o"), size

    def _read(
        self, state: State, q: Array, source: Array, ending: str, keep: Array | None
    ) -> tuple[Array, float]:
        """The heads (B, H, L, D) that attend to `source`, through its own projections."""
        k = exact_rms_norm(_linear(source, state, f"k{ending}"), state[f"norm_k{ending}.weight"])
        v = _linear(source, state, f"v{ending}")
        q, k, v = (exact_split_heads(y, self.plain.num_heads) for y in (q, k, v))
        nothing = not source.shape[1]  # of which there is no maximum either
        heads = np.zeros(q.shape) if nothing else exact_attention(q, k, v, keep)[0]
        return heads, _projected(v, state, "o")


class FeedForward(_Oracle):
    """The oracle of the feed-forward."""

    kind = PlainFeedForward

    def exact(self, state: State, *inputs: Any) -> tuple[Array, float]:
        hidden = np.maximum(_linear(inputs[0], state, "w1"), 0.0)
        return _linear(hidden, state, "w2"), _projected(hidden, state, "w2")


def _linear(x: Array, state: State, name: str) -> Array:
    y: Array = x @ state[f"{name}.weight"].T + state[f"{name}.bias"]
    return y


def _projected(x: Array, state: State, name: str) -> float:
    return projected(x, state[f"{name}.weight"], state[f"{name}.bias"])


def _array(x: Tensor | None) -> Array | None:
    return boolean(x) if x is None or x.dtype == torch.bool else f64(x)
