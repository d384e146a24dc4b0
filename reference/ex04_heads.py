"""Multi-head attention: `concat(head_1, ..., head_H) w_o` (Vaswani et al. 2017, section 3.2.2)."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call

from reference.ex03_sdpa import exact_attention, plain_attention
from reference.expected import (
    Array,
    Expected,
    boolean,
    f64,
    gradients,
    largest,
    projected,
    with_nudges,
)

State = Mapping[str, Array]  # parameters by their names in the module, float64


def split_heads(x: Tensor, num_heads: int) -> Expected:
    """The heads (B, H, L, D) of x (B, L, E)."""
    exact = exact_split_heads(f64(x), num_heads)
    return Expected(exact, plain_split_heads(x, num_heads), largest(x))


def merge_heads(x: Tensor) -> Expected:
    """The tokens (B, L, E) of the heads x (B, H, L, D)."""
    return Expected(exact_merge_heads(f64(x)), plain_merge_heads(x), largest(x))


def exact_split_heads(x: Array, num_heads: int) -> Array:
    """The oracle: one slice of the width after another, each a head."""
    return np.stack(np.split(x, num_heads, -1), -3)


def exact_merge_heads(x: Array) -> Array:
    """The oracle: one head after another, side by side."""
    return np.concatenate([x[..., head, :, :] for head in range(x.shape[-3])], -1)


def plain_split_heads(x: Tensor, num_heads: int) -> Tensor:
    """The yardstick: (B, L, E) -> (B, L, H, D) -> (B, H, L, D)."""
    *batch, length, width = x.shape
    return x.reshape(*batch, length, num_heads, width // num_heads).transpose(-3, -2)


def plain_merge_heads(x: Tensor) -> Tensor:
    """The yardstick: (B, H, L, D) -> (B, L, H, D) -> (B, L, E)."""
    return x.transpose(-3, -2).flatten(-2)


def exact_multi_head_attention(
    query: Array, key: Array, value: Array, state: State, num_heads: int, keep: Array | None
) -> tuple[Array, Array]:
    """The oracle, float64: `(output, weights)` with the parameters `state`."""
    q, k, v = (
        exact_split_heads(_exact_linear(x, state, name), num_heads)
        for x, name in ((query, "w_q"), (key, "w_k"), (value, "w_v"))
    )
    output, weights = exact_attention(q, k, v, keep)
    return _exact_linear(exact_merge_heads(output), state, "w_o"), weights


class PlainMultiHeadAttention(nn.Module):
    """The yardstick, in the dtype of its parameters; every step is a method of its own."""

    def __init__(self, d_model: int, num_heads: int, bias: bool = False) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.w_q = nn.Linear(d_model, d_model, bias=bias)
        self.w_k = nn.Linear(d_model, d_model, bias=bias)
        self.w_v = nn.Linear(d_model, d_model, bias=bias)
        self.w_o = nn.Linear(d_model, d_model, bias=bias)

    def forward(
        self, x: Tensor, context: Tensor | None = None, keep: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """`(output, weights)`: (B, Lq, E) and (B, H, Lq, Lk)."""
        source = self.source(x, context)
        return self.attend(x, source, source, keep)

    def attend(
        self, query: Tensor, key: Tensor, value: Tensor, keep: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """`(output, weights)` where keys and values may come from different tokens."""
        q, k, v = (self.split(x) for x in self.project(query, key, value))
        heads, weights = self.attention(q, k, v, keep)
        return self.project_out(self.merge(heads)), weights

    def source(self, x: Tensor, context: Tensor | None) -> Tensor:
        """What keys and values are made from."""
        return x if context is None else context

    def project(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries (B, Lq, E), keys and values (B, Lk, E), not split yet."""
        return self.w_q(query), self.w_k(key), self.w_v(value)

    def split(self, x: Tensor) -> Tensor:
        """(B, L, E) -> (B, H, L, D)."""
        return plain_split_heads(x, self.num_heads)

    def attention(
        self, q: Tensor, k: Tensor, v: Tensor, keep: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """The heads' outputs (B, H, Lq, D) and their weights (B, H, Lq, Lk)."""
        return plain_attention(q, k, v, keep, self.scale(q))

    def scale(self, q: Tensor) -> float:
        """The factor that every score is multiplied by, for q (B, H, Lq, D)."""
        return float(q.shape[-1] ** -0.5)

    def merge(self, x: Tensor) -> Tensor:
        """(B, H, L, D) -> (B, L, E)."""
        return plain_merge_heads(x)

    def project_out(self, x: Tensor) -> Tensor:
        """The last projection, which mixes the heads."""
        output: Tensor = self.w_o(x)
        return output


class MultiHeadAttention:
    """The oracle: built, loaded and called as the student's module, and answers with Expected."""

    def __init__(self, d_model: int, num_heads: int, bias: bool = False) -> None:
        self._plain = PlainMultiHeadAttention(d_model, num_heads, bias)
        self._state: Mapping[str, Tensor] = self._plain.state_dict()

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Take the weights from `state`, named as in the student's module, and in its dtype."""
        self._state = dict(state)

    def forward(
        self, x: Tensor, context: Tensor | None = None, keep: Tensor | None = None
    ) -> tuple[Expected, Expected]:
        """`(output, weights)` of x (B, Lq, E) and context (B, Lk, E)."""
        plain = self._in_dtype_of(x)
        state = {name: f64(parameter) for name, parameter in plain.state_dict().items()}
        source = f64(x if context is None else context)
        with torch.no_grad():
            answer = plain(x, context, keep)
        tokens = [x] if context is None else [x, context]

        def nudge(*leaves: Tensor) -> Sequence[Tensor]:
            named = dict(zip(plain.state_dict(), leaves[len(tokens) :], strict=True))
            given = leaves[: len(tokens)]
            with torch.no_grad():
                result: Sequence[Tensor] = functional_call(plain, named, given, {"keep": mask})
            return result

        mask = None if keep is None else keep.clone()
        expected = _expected(
            (f64(x), source, source), state, plain.num_heads, boolean(keep), answer
        )
        output, weights = with_nudges(expected, nudge, *tokens, *plain.state_dict().values())
        return output, weights

    __call__ = forward

    def forward_gradients(
        self,
        x: Tensor,
        context: Tensor | None = None,
        keep: Tensor | None = None,
        *,
        upstream: Tensor,
        upstream_weights: Tensor | None = None,
    ) -> tuple[Expected, ...]:
        """The gradients for `upstream` (B, Lq, E), that of the output, and perhaps the weights'.

        With respect to x, then to the context if there is one, then to the parameters in the
        order of `state_dict()`: w_q.weight (and w_q.bias), w_k, w_v, w_o.
        """
        plain = self._in_dtype_of(x)
        state = plain.state_dict()
        sources = (x,) if context is None else (x, context)

        def output(*leaves: Tensor) -> Tensor:
            parameters = dict(zip(state, leaves[len(sources) :], strict=True))
            given = leaves[: len(sources)]
            result: tuple[Tensor, Tensor] = functional_call(
                plain, parameters, given, {"keep": keep}
            )
            if upstream_weights is None:
                return result[0]
            return torch.cat([part.flatten() for part in result])

        if upstream_weights is not None:
            upstream = torch.cat([upstream.flatten(), upstream_weights.flatten()])
        answers = gradients(output, *sources, *state.values(), upstream=upstream, magnitude=1.0)
        # One size for all: with a single key the gradient of w_q is nothing but rounding error,
        # which its own size cannot measure.
        size = largest(*(answer.exact for answer in answers))
        return tuple(answer._replace(magnitude=size) for answer in answers)

    def _in_dtype_of(self, x: Tensor) -> PlainMultiHeadAttention:
        plain = self._plain.to(x.device, x.dtype)
        plain.load_state_dict(self._state)
        return plain


def multi_head_attention_numpy(
    query: Array,
    key: Array,
    value: Array,
    w_q: Array,
    w_k: Array,
    w_v: Array,
    w_o: Array,
    num_heads: int,
    keep: Array | None = None,
) -> tuple[Expected, Expected]:
    """`(output, weights)` of arrays (B, Lq, E), (B, Lk, E) and matrices (E, E), used as `x @ w`."""
    matrices = {"w_q": w_q, "w_k": w_k, "w_v": w_v, "w_o": w_o}
    state = {f"{name}.weight": f64(w).T for name, w in matrices.items()}
    plain = plain_multi_head_attention_numpy(query, key, value, w_q, w_k, w_v, w_o, num_heads, keep)
    expected = _expected((f64(query), f64(key), f64(value)), state, num_heads, keep, plain)
    mask = None if keep is None else keep.copy()

    formula: Callable[..., tuple[Array, Array]] = plain_multi_head_attention_numpy

    def nudge(*given: Tensor) -> Sequence[Tensor]:
        arrays = (x.numpy() for x in given)
        answers = formula(*arrays, num_heads, mask)
        return [torch.from_numpy(answer) for answer in answers]

    given = (query, key, value, w_q, w_k, w_v, w_o)
    output, weights = with_nudges(expected, nudge, *map(_tensor, given))
    return output, weights


def plain_multi_head_attention_numpy(
    query: Array,
    key: Array,
    value: Array,
    w_q: Array,
    w_k: Array,
    w_v: Array,
    w_o: Array,
    num_heads: int,
    keep: Array | None = None,
    module: type[PlainMultiHeadAttention] = PlainMultiHeadAttention,
) -> tuple[Array, Array]:
    """The yardstick: `module` with the given matrices as its weights, in their dtype."""
    plain = module(len(w_q), num_heads).to(_tensor(w_q).dtype)
    matrices = {"w_q": w_q, "w_k": w_k, "w_v": w_v, "w_o": w_o}
    plain.load_state_dict({f"{name}.weight": _tensor(w).mT for name, w in matrices.items()})
    mask = None if keep is None else _tensor(keep)
    with torch.no_grad():
        output, weights = plain.attend(_tensor(query), _tensor(key), _tensor(value), mask)
    return output.numpy(), weights.numpy()


def _expected(
    tokens: tuple[Array, Array, Array],
    state: State,
    num_heads: int,
    keep: Array | None,
    plain: tuple[Tensor | Array, Tensor | Array],
) -> tuple[Expected, Expected]:
    output, weights = exact_multi_head_attention(*tokens, state, num_heads, keep)
    values = _exact_linear(tokens[2], state, "w_v")
    magnitude = projected(values, state["w_o.weight"], state.get("w_o.bias"))
    return Expected(output, plain[0], magnitude), Expected(weights, plain[1], 1.0)


def _exact_linear(x: Array, state: State, name: str) -> Array:
    result: Array = x @ state[f"{name}.weight"].T + state.get(f"{name}.bias", 0.0)
    return result


def _tensor(x: Array) -> Tensor:
    return torch.from_numpy(x.copy())  # a tensor cannot have negative strides
