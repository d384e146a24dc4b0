"""Wrong answers to ex12_attention_block, written with nothing but the skeleton in sight."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import nn

from tests.diagnosis.written import wrong

if TYPE_CHECKING:  # the name that an answer finds in the rest of its file
    from exercises.ex12_attention_block import RMSNorm


@wrong(of="RMSNorm", mistakes=1)
class SubtractsTheMean(nn.Module):
    """The mean of each row is subtracted first, as in LayerNorm."""

    def __init__(self, dim: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.shape[-1] != self.weight.shape[0]:
            raise ValueError(f"width {x.shape[-1]}, should be {self.weight.shape[0]}")
        wide = torch.promote_types(x.dtype, torch.float32)
        y = x.to(wide)
        y = y - y.mean(dim=-1, keepdim=True)
        y = y / torch.sqrt((y * y).mean(dim=-1, keepdim=True) + self.eps)
        return (y * self.weight).to(x.dtype)


@wrong(of="RMSNorm", mistakes=1)
class EpsOutsideTheRoot(nn.Module):
    """eps is added to the root instead of under it."""

    def __init__(self, dim: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.dim, self.eps = dim, eps
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.size(-1) != self.dim:
            raise ValueError(f"x has width {x.size(-1)}, the norm {self.dim}")
        xf = x.to(torch.promote_types(x.dtype, torch.float32))
        rms = xf.pow(2).mean(-1, keepdim=True).sqrt()
        return (xf / (rms + self.eps) * self.weight).to(x.dtype)


@wrong(of="RMSNorm", mistakes=2)
class SumOfSquaresInHalf(nn.Module):
    """The squares are summed where they should be averaged.

    Half precision is computed in itself, where the squares overflow.
    """

    def __init__(self, dim: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.shape[-1] != len(self.weight):
            raise ValueError(f"width {x.shape[-1]}, should be {len(self.weight)}")
        return x * torch.rsqrt(x.square().sum(dim=-1, keepdim=True) + self.eps) * self.weight


@wrong(of="SelfAttention", mistakes=1)
class ScaleOfTheModelWidth(nn.Module):
    """The scores are divided by the root of d_model instead of a head's width."""

    fused: bool

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        qk_norm: bool = True,
        rope_base: float | None = None,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if d_model % num_heads or (rope_base is not None and d_model // num_heads % 2):
            raise ValueError(f"d_model {d_model} and num_heads {num_heads} do not fit")
        self.num_heads, self.d_model = num_heads, d_model
        self.rope_base, self.p = rope_base, dropout
        self.fused = True
        self.q = nn.Linear(d_model, d_model)
        self.k = nn.Linear(d_model, d_model)
        self.v = nn.Linear(d_model, d_model)
        self.o = nn.Linear(d_model, d_model)
        self.qk_norm = qk_norm
        if qk_norm:
            self.norm_q = RMSNorm(d_model)
            self.norm_k = RMSNorm(d_model)

    def rope(self, x: torch.Tensor) -> torch.Tensor:
        length, d = x.shape[-2:]
        i = torch.arange(d // 2, dtype=x.dtype, device=x.device)
        p = torch.arange(length, dtype=x.dtype, device=x.device)
        angle = torch.outer(p, self.rope_base ** (-2 * i / d))
        a, b = x[..., 0::2], x[..., 1::2]
        cos, sin = angle.cos(), angle.sin()
        return torch.stack([a * cos - b * sin, a * sin + b * cos], dim=-1).flatten(-2)

    def forward(self, x: torch.Tensor, keep: torch.Tensor | None = None) -> torch.Tensor:
        b, length, e = x.shape
        if self.fused:
            w = torch.cat([self.q.weight, self.k.weight, self.v.weight])
            bias = torch.cat([self.q.bias, self.k.bias, self.v.bias])
            q, k, v = F.linear(x, w, bias).chunk(3, dim=-1)
        else:
            q, k, v = self.q(x), self.k(x), self.v(x)
        if self.qk_norm:
            q, k = self.norm_q(q), self.norm_k(k)
        wide = torch.promote_types(x.dtype, torch.float32)
        size = (b, length, self.num_heads, e // self.num_heads)
        q, k, v = (t.reshape(size).transpose(1, 2).to(wide) for t in (q, k, v))
        if self.rope_base is not None:
            q, k = self.rope(q), self.rope(k)
        scores = q @ k.transpose(-2, -1) / math.sqrt(self.d_model)
        if keep is None:
            weights = scores.softmax(-1)
        else:
            empty = ~keep.any(-1, keepdim=True)
            scores = scores.masked_fill(~keep, -math.inf).masked_fill(empty, 0.0)
            weights = scores.softmax(-1).masked_fill(~keep, 0.0)
        weights = F.dropout(weights, self.p, self.training)
        out = (weights @ v).transpose(1, 2).reshape(b, length, e)
        return self.o(out.to(x.dtype))


@wrong(of="SelfAttention", mistakes=1)
class PositionsForTheValuesToo(nn.Module):
    """The values are turned by RoPE as well, not only queries and keys."""

    fused: bool

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        qk_norm: bool = True,
        rope_base: float | None = None,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if d_model % num_heads != 0:
            raise ValueError(f"d_model={d_model}, num_heads={num_heads}")
        self.head_dim = d_model // num_heads
        if rope_base is not None and self.head_dim % 2 != 0:
            raise ValueError(f"d_model={d_model}, num_heads={num_heads}: odd head width")
        self.num_heads = num_heads
        self.fused = True
        self.base = rope_base
        for name in "qkvo":
            setattr(self, name, nn.Linear(d_model, d_model))
        if qk_norm:
            self.norm_q, self.norm_k = RMSNorm(d_model), RMSNorm(d_model)
        self.drop = nn.Dropout(dropout)

    def turn(self, x: torch.Tensor) -> torch.Tensor:
        if self.base is None:
            return x
        position = torch.arange(x.shape[-2], dtype=x.dtype, device=x.device)[:, None]
        place = torch.arange(0, self.head_dim, 2, dtype=x.dtype, device=x.device)
        angle = position * self.base ** (-place / self.head_dim)
        pairs = x.unflatten(-1, (-1, 2))
        a, b = pairs[..., 0], pairs[..., 1]
        turned = (a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos())
        return torch.stack(turned, dim=-1).flatten(-2)

    def forward(self, x: torch.Tensor, keep: torch.Tensor | None = None) -> torch.Tensor:
        if self.fused:
            weight = torch.cat((self.q.weight, self.k.weight, self.v.weight), dim=0)
            bias = torch.cat((self.q.bias, self.k.bias, self.v.bias), dim=0)
            q, k, v = torch.chunk(x @ weight.T + bias, 3, dim=-1)
        else:
            q, k, v = self.q(x), self.k(x), self.v(x)
        if hasattr(self, "norm_q"):
            q, k = self.norm_q(q), self.norm_k(k)
        wide = torch.promote_types(x.dtype, torch.float32)
        q, k, v = (
            self.turn(t.to(wide).unflatten(-1, (self.num_heads, self.head_dim)).transpose(1, 2))
            for t in (q, k, v)
        )
        scores = q @ k.mT * self.head_dim**-0.5
        if keep is not None:
            some = keep.any(dim=-1, keepdim=True)
            scores = torch.where(keep, scores, -math.inf)
            weights = torch.softmax(torch.where(some, scores, 0.0), dim=-1) * (keep & some)
        else:
            weights = torch.softmax(scores, dim=-1)
        out = self.drop(weights) @ v
        return self.o(out.transpose(1, 2).flatten(2).to(x.dtype))


@wrong(of="SelfAttention", mistakes=2)
class NormsAfterTheHeadsAndNan(nn.Module):
    """The mean square is taken over each head by itself instead of the whole width.

    A token that may attend to nothing gets NaN.
    """

    fused: bool

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        qk_norm: bool = True,
        rope_base: float | None = None,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if d_model % num_heads or (rope_base is not None and d_model // num_heads % 2):
            raise ValueError(f"d_model {d_model}, num_heads {num_heads}")
        self.h, self.d = num_heads, d_model // num_heads
        self.qk_norm, self.rope_base, self.p = qk_norm, rope_base, dropout
        self.fused = True
        self.q, self.k = nn.Linear(d_model, d_model), nn.Linear(d_model, d_model)
        self.v, self.o = nn.Linear(d_model, d_model), nn.Linear(d_model, d_model)
        if qk_norm:
            self.norm_q, self.norm_k = RMSNorm(d_model), RMSNorm(d_model)

    def heads(self, x: torch.Tensor) -> torch.Tensor:
        wide = torch.promote_types(x.dtype, torch.float32)
        return x.to(wide).view(*x.shape[:2], self.h, self.d).permute(0, 2, 1, 3)

    def norm(self, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        x = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)
        return x * weight.view(self.h, 1, self.d)

    def rope(self, x: torch.Tensor) -> torch.Tensor:
        p = torch.arange(x.shape[-2], dtype=x.dtype, device=x.device)
        f = self.rope_base ** (-torch.arange(0, self.d, 2, dtype=x.dtype, device=x.device) / self.d)
        cos, sin = torch.outer(p, f).cos(), torch.outer(p, f).sin()
        out = torch.empty_like(x)
        out[..., 0::2] = x[..., 0::2] * cos - x[..., 1::2] * sin
        out[..., 1::2] = x[..., 0::2] * sin + x[..., 1::2] * cos
        return out

    def forward(self, x: torch.Tensor, keep: torch.Tensor | None = None) -> torch.Tensor:
        if self.fused:
            w = torch.cat([self.q.weight, self.k.weight, self.v.weight])
            q, k, v = F.linear(x, w, torch.cat([self.q.bias, self.k.bias, self.v.bias])).chunk(
                3, -1
            )
        else:
            q, k, v = self.q(x), self.k(x), self.v(x)
        q, k, v = self.heads(q), self.heads(k), self.heads(v)
        if self.qk_norm:
            q, k = self.norm(q, self.norm_q.weight), self.norm(k, self.norm_k.weight)
        if self.rope_base is not None:
            q, k = self.rope(q), self.rope(k)
        scores = torch.einsum("bhid,bhjd->bhij", q, k) / math.sqrt(self.d)
        if keep is not None:
            scores = scores.masked_fill(~keep, -math.inf)
        weights = F.dropout(scores.softmax(dim=-1), self.p, self.training)
        out = torch.einsum("bhij,bhjd->bihd", weights, v).flatten(2)
        return self.o(out.to(x.dtype))


@wrong(of="SelfAttention", mistakes=2)
class DropsInEvalAndNeverFuses(nn.Module):
    """Weights are dropped in .eval() too, as F.dropout is not told.

    `fused` makes no difference: there are always three products.
    """

    fused: bool

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        qk_norm: bool = True,
        rope_base: float | None = None,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if d_model % num_heads or (rope_base is not None and d_model // num_heads % 2):
            raise ValueError(f"d_model {d_model}, num_heads {num_heads}")
        self.num_heads = num_heads
        self.rope_base = rope_base
        self.dropout = dropout
        self.fused = True
        self.q = nn.Linear(d_model, d_model)
        self.k = nn.Linear(d_model, d_model)
        self.v = nn.Linear(d_model, d_model)
        self.o = nn.Linear(d_model, d_model)
        self.qk_norm = qk_norm
        if qk_norm:
            self.norm_q = RMSNorm(d_model)
            self.norm_k = RMSNorm(d_model)

    def forward(self, x: torch.Tensor, keep: torch.Tensor | None = None) -> torch.Tensor:
        b, n, e = x.shape
        d = e // self.num_heads
        q, k, v = self.q(x), self.k(x), self.v(x)
        if self.qk_norm:
            q, k = self.norm_q(q), self.norm_k(k)
        wide = torch.promote_types(x.dtype, torch.float32)
        q = q.to(wide).view(b, n, self.num_heads, d).transpose(1, 2)
        k = k.to(wide).view(b, n, self.num_heads, d).transpose(1, 2)
        v = v.to(wide).view(b, n, self.num_heads, d).transpose(1, 2)
        if self.rope_base is not None:
            freq = self.rope_base ** (-torch.arange(0, d, 2, dtype=wide, device=x.device) / d)
            angle = torch.arange(n, dtype=wide, device=x.device)[:, None] * freq
            cos = angle.cos().repeat_interleave(2, dim=-1)
            sin = angle.sin().repeat_interleave(2, dim=-1)
            q_turned = torch.stack([-q[..., 1::2], q[..., 0::2]], dim=-1).flatten(-2)
            k_turned = torch.stack([-k[..., 1::2], k[..., 0::2]], dim=-1).flatten(-2)
            q = q * cos + q_turned * sin
            k = k * cos + k_turned * sin
        scores = q @ k.transpose(-2, -1) / math.sqrt(d)
        if keep is not None:
            empty = ~keep.any(-1, keepdim=True)
            scores = scores.masked_fill(~keep, -math.inf).masked_fill(empty, 0.0)
        weights = torch.softmax(scores, dim=-1)
        if keep is not None:
            weights = weights.masked_fill(~keep, 0.0)
        weights = F.dropout(weights, p=self.dropout)
        return self.o((weights @ v).to(x.dtype).transpose(1, 2).reshape(b, n, e))


@wrong(of="CrossAttention", mistakes=1)
class OneSoftmaxForBoth(nn.Module):
    """Image and text share one softmax instead of having one each."""

    def __init__(self, d_model: int, num_heads: int, image_tokens: int = 0) -> None:
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{d_model} is not divisible by {num_heads}")
        self.h, self.n_img = num_heads, image_tokens
        self.q, self.k = nn.Linear(d_model, d_model), nn.Linear(d_model, d_model)
        self.v, self.o = nn.Linear(d_model, d_model), nn.Linear(d_model, d_model)
        self.norm_q, self.norm_k = RMSNorm(d_model), RMSNorm(d_model)
        if image_tokens:
            self.k_img, self.v_img = nn.Linear(d_model, d_model), nn.Linear(d_model, d_model)
            self.norm_k_img = RMSNorm(d_model)

    def forward(
        self, x: torch.Tensor, context: torch.Tensor, keep: torch.Tensor | None = None
    ) -> torch.Tensor:
        b, n, e = x.shape
        lc = context.shape[1]
        if lc < self.n_img:
            raise ValueError(f"the context has {lc} tokens, fewer than {self.n_img}")
        image, text = context[:, : self.n_img], context[:, self.n_img :]
        q = self.norm_q(self.q(x))
        k, v = self.norm_k(self.k(text)), self.v(text)
        if self.n_img:
            k = torch.cat([self.norm_k_img(self.k_img(image)), k], dim=1)
            v = torch.cat([self.v_img(image), v], dim=1)
        wide = torch.promote_types(x.dtype, torch.float32)
        q = q.to(wide).reshape(b, n, self.h, e // self.h).transpose(1, 2)
        k = k.to(wide).reshape(b, lc, self.h, e // self.h).transpose(1, 2)
        v = v.to(wide).reshape(b, lc, self.h, e // self.h).transpose(1, 2)
        scores = q @ k.transpose(-2, -1) / math.sqrt(e // self.h)
        seen = torch.ones_like(scores, dtype=torch.bool)
        if keep is not None:
            seen[..., self.n_img :] = keep
        empty = ~seen.any(-1, keepdim=True)
        scores = scores.masked_fill(~seen, -math.inf).masked_fill(empty, 0.0)
        out = scores.softmax(-1).masked_fill(~seen, 0.0) @ v
        return self.o(out.transpose(1, 2).reshape(b, n, e).to(x.dtype))


@wrong(of="CrossAttention", mistakes=1)
class ImageWithTheKeysOfText(nn.Module):
    """The image's keys are normalised by norm_k, that of the text, instead of norm_k_img."""

    def __init__(self, d_model: int, num_heads: int, image_tokens: int = 0) -> None:
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{d_model} is not divisible by {num_heads}")
        self.num_heads, self.image_tokens = num_heads, image_tokens
        self.q = nn.Linear(d_model, d_model)
        self.k = nn.Linear(d_model, d_model)
        self.v = nn.Linear(d_model, d_model)
        self.o = nn.Linear(d_model, d_model)
        self.norm_q, self.norm_k = RMSNorm(d_model), RMSNorm(d_model)
        if image_tokens > 0:
            self.k_img = nn.Linear(d_model, d_model)
            self.v_img = nn.Linear(d_model, d_model)
            self.norm_k_img = RMSNorm(d_model)

    def attend(self, q, k, v, keep=None):
        wide = torch.promote_types(q.dtype, torch.float32)
        size = (self.num_heads, q.shape[-1] // self.num_heads)
        qh, kh, vh = (t.to(wide).unflatten(-1, size).transpose(1, 2) for t in (q, k, v))
        scores = qh @ kh.mT / math.sqrt(size[1])
        if keep is not None:
            empty = ~keep.any(-1, keepdim=True)
            scores = scores.masked_fill(~keep, -math.inf).masked_fill(empty, 0.0)
        weights = scores.softmax(-1)
        if keep is not None:
            weights = weights.masked_fill(~keep, 0.0)
        return (weights @ vh).transpose(1, 2).flatten(2)

    def forward(
        self, x: torch.Tensor, context: torch.Tensor, keep: torch.Tensor | None = None
    ) -> torch.Tensor:
        n = self.image_tokens
        if context.shape[1] < n:
            raise ValueError(f"{context.shape[1]} tokens of context, {n} of them an image")
        image, text = context[:, :n], context[:, n:]
        q = self.norm_q(self.q(x))
        out = self.attend(q, self.norm_k(self.k(text)), self.v(text), keep)
        if n:
            out = out + self.attend(q, self.norm_k(self.k_img(image)), self.v_img(image))
        return self.o(out.to(x.dtype))


@wrong(of="CrossAttention", mistakes=2)
class ImageAtTheEndAndProjectedTwice(nn.Module):
    """The image is looked for at the end of the context instead of the front.

    Text and image go through `o` one by one, so its bias is added twice.
    """

    def __init__(self, d_model: int, num_heads: int, image_tokens: int = 0) -> None:
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{d_model} is not divisible by {num_heads}")
        self.num_heads, self.n = num_heads, image_tokens
        for name in ("q", "k", "v", "o"):
            self.add_module(name, nn.Linear(d_model, d_model))
        self.norm_q = RMSNorm(d_model)
        self.norm_k = RMSNorm(d_model)
        if image_tokens:
            self.k_img = nn.Linear(d_model, d_model)
            self.v_img = nn.Linear(d_model, d_model)
            self.norm_k_img = RMSNorm(d_model)

    def attention(self, q, k, v, keep):
        b, n, e = q.shape
        d = e // self.num_heads
        wide = torch.promote_types(q.dtype, torch.float32)
        q4 = q.to(wide).view(b, n, self.num_heads, d)
        k4 = k.to(wide).view(b, k.shape[1], self.num_heads, d)
        v4 = v.to(wide).view(b, v.shape[1], self.num_heads, d)
        scores = torch.einsum("bihd,bjhd->bhij", q4, k4) * d**-0.5
        if keep is None:
            keep = torch.ones((), dtype=torch.bool, device=q.device)
        keep = keep.expand(scores.shape)
        empty = ~keep.any(-1, keepdim=True)
        scores = scores.masked_fill(~keep, -math.inf).masked_fill(empty, 0.0)
        weights = torch.softmax(scores, dim=-1).masked_fill(~keep, 0.0)
        out = torch.einsum("bhij,bjhd->bihd", weights, v4)
        return out.reshape(b, n, e).to(q.dtype)

    def forward(
        self, x: torch.Tensor, context: torch.Tensor, keep: torch.Tensor | None = None
    ) -> torch.Tensor:
        if context.shape[1] < self.n:
            raise ValueError(f"context of {context.shape[1]} tokens, image of {self.n}")
        cut = context.shape[1] - self.n
        text, image = context[:, :cut], context[:, cut:]
        q = self.norm_q(self.q(x))
        out = self.o(self.attention(q, self.norm_k(self.k(text)), self.v(text), keep))
        if self.n:
            k_img = self.norm_k_img(self.k_img(image))
            out = out + self.o(self.attention(q, k_img, self.v_img(image), None))
        return out


@wrong(of="CrossAttention", mistakes=2)
class SwappedNormsAndBlindMean(nn.Module):
    """norm_q is put on the keys of the text and norm_k on the queries.

    A query without text to attend to gets the mean of the text's values instead of zeros.
    """

    def __init__(self, d_model: int, num_heads: int, image_tokens: int = 0) -> None:
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{d_model} is not divisible by {num_heads}")
        self.num_heads, self.image_tokens = num_heads, image_tokens
        self.q, self.k = nn.Linear(d_model, d_model), nn.Linear(d_model, d_model)
        self.v, self.o = nn.Linear(d_model, d_model), nn.Linear(d_model, d_model)
        self.norm_q, self.norm_k = RMSNorm(d_model), RMSNorm(d_model)
        if image_tokens:
            self.k_img, self.v_img = nn.Linear(d_model, d_model), nn.Linear(d_model, d_model)
            self.norm_k_img = RMSNorm(d_model)

    def split(self, x: torch.Tensor) -> torch.Tensor:
        wide = torch.promote_types(x.dtype, torch.float32)
        b, n, e = x.shape
        return x.to(wide).reshape(b, n, self.num_heads, e // self.num_heads).transpose(1, 2)

    def forward(
        self, x: torch.Tensor, context: torch.Tensor, keep: torch.Tensor | None = None
    ) -> torch.Tensor:
        n = self.image_tokens
        if context.shape[1] < n:
            raise ValueError(f"context of {context.shape[1]} tokens, image of {n}")
        image, text = context[:, :n], context[:, n:]
        q = self.split(self.norm_k(self.q(x)))
        k, v = self.split(self.norm_q(self.k(text))), self.split(self.v(text))
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        if keep is not None:
            scores = scores.masked_fill(~keep, torch.finfo(scores.dtype).min)
        out = torch.softmax(scores, dim=-1) @ v
        if n:
            k = self.split(self.norm_k_img(self.k_img(image)))
            scores = q @ k.mT / math.sqrt(q.shape[-1])
            out = out + torch.softmax(scores, dim=-1) @ self.split(self.v_img(image))
        return self.o(out.transpose(1, 2).reshape(x.shape).to(x.dtype))


@wrong(of="FeedForward", mistakes=1)
class GeluInside(nn.Module):
    """The activation is a GELU instead of a ReLU."""

    def __init__(self, d_model: int, hidden: int) -> None:
        super().__init__()
        self.w1 = nn.Linear(d_model, hidden)
        self.w2 = nn.Linear(hidden, d_model)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.w2(F.gelu(self.w1(x)))


@wrong(of="FeedForward", mistakes=2)
class ReluAtTheEndAndResidual(nn.Module):
    """The ReLU comes after w2 instead of between the layers.

    The input is added to the result, as the block around it does.
    """

    def __init__(self, d_model: int, hidden: int) -> None:
        super().__init__()
        self.w1 = nn.Linear(d_model, hidden)
        self.w2 = nn.Linear(hidden, d_model)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.relu(self.w2(self.w1(x)))
