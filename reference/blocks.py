"""The yardsticks of ex12: the modules of a diffusion transformer's block, step by step.

Every operator in the dtype of its inputs, never raised; a mistake overrides one of the steps.
"""

import math

import torch
from torch import Tensor, nn

from reference.ex02_masking import plain_masked_softmax
from reference.ex04_heads import plain_merge_heads, plain_split_heads

EPS = 1e-6


def plain_angles(x: Tensor, base: float) -> Tensor:
    """By how much each pair of x (..., L, D) turns, (L, D/2), in float32 or better."""
    wide, half = torch.promote_types(x.dtype, torch.float32), x.shape[-1] // 2
    steps = torch.arange(half, dtype=wide, device=x.device) / half
    positions = torch.arange(x.shape[-2], dtype=wide, device=x.device)
    return positions[:, None] * torch.exp(-math.log(base) * steps)


def plain_turn(x: Tensor, angles: Tensor) -> Tensor:
    """The places (2i, 2i+1) of x (..., L, D), turned by angles (L, D/2), in the dtype of x."""
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.stack([a * cos - b * sin, a * sin + b * cos], -1).flatten(-2)


class PlainRMSNorm(nn.Module):
    """The yardstick of `RMSNorm`; a mistake overrides one of its steps."""

    def __init__(self, dim: int, eps: float = EPS) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x: Tensor) -> Tensor:
        """(..., E) -> (..., E)."""
        if x.shape[-1] != len(self.weight):
            raise ValueError(f"a width of {x.shape[-1]}, not {len(self.weight)}")
        return self.scaled(self.unit(x))

    def scaled(self, x: Tensor) -> Tensor:
        """Each column by its weight."""
        return x * self.weight

    def unit(self, x: Tensor) -> Tensor:
        """Rows whose mean square is 1."""
        return x / torch.sqrt((x * x).mean(-1, keepdim=True) + self.eps)


class PlainSelfAttention(nn.Module):
    """The yardstick of `SelfAttention`; `fused` is only remembered: the right answer is one."""

    norm = PlainRMSNorm

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        qk_norm: bool = True,
        rope_base: float | None = None,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        odd = rope_base is not None and d_model // num_heads % 2
        if d_model % num_heads or odd:
            raise ValueError(f"a width of {d_model} does not fit {num_heads} heads")
        self.num_heads, self.rope_base, self.dropout = num_heads, rope_base, dropout
        self.qk_norm, self.fused = qk_norm, True
        self.q, self.k, self.v, self.o = (nn.Linear(d_model, d_model) for _ in range(4))
        if qk_norm:
            self.norm_q, self.norm_k = self.norm(d_model), self.norm(d_model)

    def forward(self, x: Tensor, keep: Tensor | None = None) -> Tensor:
        """x (B, L, E) -> (B, L, E)."""
        q, k, v = self.prepare(*self.project(x))
        output: Tensor = self.o(plain_merge_heads(self.attend(q, k, v, keep)))
        return output

    def project(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values (B, L, E)."""
        return self.q(x), self.k(x), self.v(x)

    def prepare(self, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Normalised, split into heads (B, H, L, D), and turned."""
        if self.qk_norm:
            q, k, v = self.normalise(q, k, v)
        q, k, v = (plain_split_heads(y, self.num_heads) for y in (q, k, v))
        return (q, k, v) if self.rope_base is None else self.rotate(q, k, v)

    def normalise(self, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries and keys (B, L, E) over the whole width."""
        return self.norm_q(q), self.norm_k(k), v

    def rotate(self, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """RoPE on queries and keys (B, H, L, D)."""
        return self.turn(q), self.turn(k), v

    def turn(self, x: Tensor) -> Tensor:
        """RoPE on one of them."""
        assert self.rope_base is not None
        return plain_turn(x, plain_angles(x, self.rope_base))

    def attend(self, q: Tensor, k: Tensor, v: Tensor, keep: Tensor | None) -> Tensor:
        """(B, H, L, D)."""
        return self.drop(plain_weights(q, k, keep)) @ v

    def drop(self, weights: Tensor) -> Tensor:
        """Dropout of attention weights."""
        return nn.functional.dropout(weights, self.dropout, self.training)


def plain_weights(q: Tensor, k: Tensor, keep: Tensor | None) -> Tensor:
    """The attention weights of q (..., Lq, D) and k (..., Lk, D)."""
    return plain_masked_softmax(q @ k.mT / math.sqrt(q.shape[-1]), keep)


class PlainCrossAttention(nn.Module):
    """The yardstick of `CrossAttention`; a mistake overrides one of its steps."""

    norm = PlainRMSNorm

    def __init__(self, d_model: int, num_heads: int, image_tokens: int = 0) -> None:
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"a width of {d_model} does not fit {num_heads} heads")
        self.num_heads, self.image_tokens = num_heads, image_tokens
        self.q, self.k, self.v, self.o = (nn.Linear(d_model, d_model) for _ in range(4))
        self.norm_q, self.norm_k = self.norm(d_model), self.norm(d_model)
        if image_tokens:
            self.k_img, self.v_img = (nn.Linear(d_model, d_model) for _ in range(2))
            self.norm_k_img = self.norm(d_model)

    def forward(self, x: Tensor, context: Tensor, keep: Tensor | None = None) -> Tensor:
        """x (B, L, E) and context (B, Lc, E) -> (B, L, E)."""
        if context.shape[1] < self.image_tokens:
            raise ValueError(f"{context.shape[1]} tokens, of which {self.image_tokens} are images")
        q = self.split(self.norm_q(self.q(x)))
        image, text = self.divide(context)
        heads = self.read_text(q, text, keep)
        if self.image_tokens:
            heads = heads + self.read_image(q, image, keep)
        output: Tensor = self.o(plain_merge_heads(heads))
        return output

    def divide(self, context: Tensor) -> tuple[Tensor, Tensor]:
        """The image's tokens and the text's."""
        return context[:, : self.image_tokens], context[:, self.image_tokens :]

    def read_text(self, q: Tensor, text: Tensor, keep: Tensor | None) -> Tensor:
        """(B, H, L, D) from q (B, H, L, D) and the text."""
        return self.attend(q, self.norm_k(self.k(text)), self.v(text), keep)

    def read_image(self, q: Tensor, image: Tensor, keep: Tensor | None) -> Tensor:
        """The same from the image, of which the mask says nothing."""
        return self.attend(q, self.norm_k_img(self.k_img(image)), self.v_img(image), None)

    def split(self, x: Tensor) -> Tensor:
        """(B, L, E) -> (B, H, L, D)."""
        return plain_split_heads(x, self.num_heads)

    def attend(self, q: Tensor, k: Tensor, v: Tensor, keep: Tensor | None) -> Tensor:
        """(B, H, L, D) from keys and values (B, Lk, E)."""
        return plain_weights(q, self.split(k), keep) @ self.split(v)


class PlainFeedForward(nn.Module):
    """The yardstick of `FeedForward`."""

    def __init__(self, d_model: int, hidden: int) -> None:
        super().__init__()
        self.w1, self.w2 = nn.Linear(d_model, hidden), nn.Linear(hidden, d_model)

    def forward(self, x: Tensor) -> Tensor:
        """(..., E) -> (..., E); a product and its bias round each, as where nobody fuses them."""
        hidden = torch.relu(x @ self.w1.weight.mT + self.w1.bias)
        return hidden @ self.w2.weight.mT + self.w2.bias
