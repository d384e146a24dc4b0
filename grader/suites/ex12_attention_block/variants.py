"""Right answers, written otherwise."""

import math

import numpy as np
import torch

from grader.judging import variant

# A variant's text stands after the solution's, where these are the submission's own.
from reference.blocks import PlainRMSNorm as RMSNorm
from reference.blocks import PlainSelfAttention as SelfAttention


@variant(of="RMSNorm")
class InDouble(torch.nn.Module):
    """The mean square by einsum, in float64, and the weight before the answer is rounded."""

    def __init__(self, dim, eps=1e-6):
        super().__init__()
        self.dim, self.eps = dim, eps
        self.weight = torch.nn.Parameter(torch.ones(dim))

    def forward(self, x):
        if x.size(-1) != self.dim:
            raise ValueError(f"expected {self.dim} columns, got {x.size(-1)}")
        square = torch.einsum("...i,...i->...", x.double(), x.double())[..., None] / self.dim
        return (self.weight.double() * x.double() / (square + self.eps) ** 0.5).to(x.dtype)


@variant(of="RMSNorm")
class AsInLlama(torch.nn.Module):
    """rsqrt in float32 (float64 stays), rounded before the weight."""

    def __init__(self, dim, eps=1e-6):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones((dim,)))
        self.variance_epsilon = eps

    def _norm(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.variance_epsilon)

    def forward(self, x):
        (dim,) = self.weight.shape
        if x.shape[-1] != dim:
            raise ValueError(f"{x.shape[-1]} != {dim}")
        wide = x if x.dtype == torch.float64 else x.float()
        return self.weight * self._norm(wide).type_as(x)


@variant(of="SelfAttention")
class ComplexRotation(torch.nn.Module):
    """RoPE by complex numbers in float64, as in Wan; q and k normalised in one loop; bool fill."""

    def __init__(self, d_model, num_heads, qk_norm=True, rope_base=None, dropout=0.0):
        super().__init__()
        self.heads, self.width = num_heads, d_model // num_heads
        if self.width * num_heads != d_model or (rope_base is not None and self.width % 2 == 1):
            raise ValueError(f"d_model={d_model}, num_heads={num_heads}")
        self.rope_base, self.fused = rope_base, True
        for name in ("q", "k", "v", "o"):
            self.add_module(name, torch.nn.Linear(d_model, d_model))
        for name in ("norm_q", "norm_k"):
            self.add_module(name, RMSNorm(d_model) if qk_norm else torch.nn.Identity())
        self.drop = torch.nn.Dropout(dropout)

    def turned(self, x):
        pairs = torch.view_as_complex(x.double().unflatten(-1, (-1, 2)).contiguous())
        steps = torch.arange(0, self.width, 2, dtype=torch.float64, device=x.device)
        places = torch.arange(x.shape[1], dtype=torch.float64, device=x.device)
        angles = torch.outer(places, 1.0 / self.rope_base ** (steps / self.width))
        turns = torch.polar(torch.ones_like(angles), angles)[:, None]  # (L, 1, D/2)
        return torch.view_as_real(pairs * turns).flatten(-2).type_as(x)

    def forward(self, x, keep=None):
        shape = (*x.shape[:2], self.heads, self.width)  # (B, L, H, D)
        if self.fused:
            weight = torch.cat([self.q.weight, self.k.weight, self.v.weight])
            bias = torch.cat([self.q.bias, self.k.bias, self.v.bias])
            q, k, v = torch.tensor_split(torch.nn.functional.linear(x, weight, bias), 3, -1)
        else:
            q, k, v = self.q(x), self.k(x), self.v(x)
        q, k, v = (y.reshape(shape) for y in (self.norm_q(q), self.norm_k(k), v))
        if self.rope_base is not None:
            q, k = self.turned(q), self.turned(k)
        wide = torch.float64 if x.dtype == torch.float64 else torch.float32
        scores = torch.einsum("blhd,bmhd->bhlm", q.to(wide), k.to(wide)) * self.width**-0.5
        if keep is not None:
            scores = torch.where(keep, scores, torch.finfo(wide).min)
        weights = torch.softmax(scores, -1)
        if keep is not None:
            weights = weights * keep
        heads = torch.einsum("bhlm,bmhd->blhd", self.drop(weights), v.to(wide))
        return self.o(heads.flatten(2).to(x.dtype))


@variant(of="SelfAttention")
class HeadByHead(torch.nn.Module):
    """A loop over the heads, RoPE by a matrix that turns, a softmax and a dropout by hand."""

    def __init__(self, d_model, num_heads, qk_norm=True, rope_base=None, dropout=0.0):
        super().__init__()
        if d_model % num_heads != 0:
            raise ValueError(f"{num_heads} heads do not divide {d_model}")
        if rope_base and (d_model // num_heads) % 2:
            raise ValueError(f"odd heads: {d_model} / {num_heads}")
        self.num_heads, self.base, self.p = num_heads, rope_base, dropout
        self.fused = True
        self.o = torch.nn.Linear(d_model, d_model)
        self.v = torch.nn.Linear(d_model, d_model)
        self.k = torch.nn.Linear(d_model, d_model)
        self.q = torch.nn.Linear(d_model, d_model)
        self.norm_k = RMSNorm(d_model) if qk_norm else None
        self.norm_q = RMSNorm(d_model) if qk_norm else None

    def projected(self, x):
        three = [self.q, self.k, self.v]
        if not self.fused:
            return [layer(x) for layer in three]
        weight = torch.stack([layer.weight for layer in three])
        bias = torch.stack([layer.bias for layer in three])
        return list(torch.einsum("ble,wfe->wblf", x, weight) + bias[:, None, None])

    def turn(self, x):
        x = x.double()
        places = torch.arange(x.shape[-2], device=x.device).double()
        i = torch.arange(x.shape[-1], device=x.device)
        angles = places[:, None] * torch.exp(
            -math.log(self.base) * 2.0 * (i // 2).double() / x.shape[-1]
        )
        swapped = torch.stack([-x[..., 1::2], x[..., ::2]], -1).reshape(x.shape)
        return x * angles.cos() + swapped * angles.sin()

    def forward(self, x, keep=None):
        q, k, v = self.projected(x)
        if self.norm_q is not None:
            q, k = self.norm_q(q), self.norm_k(k)
        if keep is not None:
            keep = keep.expand(len(x), self.num_heads, x.shape[1], x.shape[1])
        out = []
        parts = zip(*(y.chunk(self.num_heads, -1) for y in (q, k, v)), strict=True)
        for h, (q, k, v) in enumerate(parts):
            if self.base:
                q, k = self.turn(q), self.turn(k)
            scores = q.double() @ k.double().mT / math.sqrt(v.shape[-1])
            if keep is not None:
                scores = scores.masked_fill(~keep[:, h], -1e300)
            powers = torch.exp(scores - scores.amax(-1, keepdim=True).detach())
            if keep is not None:
                powers = powers.masked_fill(~keep[:, h], 0.0)
            weights = powers / powers.sum(-1, keepdim=True).clamp(min=1e-300)
            if self.training and self.p:
                weights = weights * (torch.rand_like(weights) >= self.p) / (1 - self.p)
            out.append((weights @ v.double()).to(x.dtype))
        return self.o(torch.cat(out, -1))


@variant(of="SelfAttention")
class WithATable(torch.nn.Module):
    """A table of angles in float64 that `to` does not convert, longer when needed; baddbmm."""

    def __init__(self, d_model, num_heads, qk_norm=True, rope_base=None, dropout=0.0):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{d_model} is no multiple of {num_heads}")
        if rope_base is not None and (d_model // num_heads) % 2:
            raise ValueError(f"{d_model} over {num_heads} is odd")
        self.fused, self.num_heads, self.base, self.p = True, num_heads, rope_base, dropout
        self.q, self.k, self.v, self.o = (torch.nn.Linear(d_model, d_model) for _ in range(4))
        if qk_norm:
            self.norm_q, self.norm_k = RMSNorm(d_model), RMSNorm(d_model)
        self.qk_norm, self.table = qk_norm, None
        self.register_buffer("unused", torch.zeros(3))  # as some have one

    def angles(self, length, width, device):
        if self.table is None or len(self.table) < length:
            speeds = self.base ** (-2.0 * torch.arange(width // 2).double() / width)
            self.table = torch.arange(2 * length).double()[:, None] * speeds
        return self.table[:length].to(device)

    def turn(self, x):
        angles = self.angles(*x.shape[-2:], x.device)
        wide = torch.promote_types(x.dtype, torch.float32)
        cos, sin = angles.cos().to(wide), angles.sin().to(wide)
        out = torch.empty_like(x, dtype=wide)
        out[..., 0::2] = x[..., 0::2] * cos - x[..., 1::2] * sin
        out[..., 1::2] = x[..., 0::2] * sin + x[..., 1::2] * cos
        return out.to(x.dtype)

    def forward(self, x, keep=None):
        b, length, e = x.shape
        if self.fused:
            weight = torch.cat([self.q.weight, self.k.weight, self.v.weight]).mT
            bias = torch.cat([self.q.bias, self.k.bias, self.v.bias])
            q, k, v = (x @ weight + bias).split(e, -1)
        else:
            q, k, v = (layer(x) for layer in (self.q, self.k, self.v))
        if self.qk_norm:
            q, k = self.norm_q(q), self.norm_k(k)
        q, k, v = (
            y.view(b, length, self.num_heads, e // self.num_heads).permute(0, 2, 1, 3)
            for y in (q.contiguous(), k.contiguous(), v.contiguous())
        )
        if self.base is not None:
            q, k = self.turn(q), self.turn(k)
        wide = torch.promote_types(x.dtype, torch.float32)
        scores = torch.matmul(q.to(wide) / math.sqrt(q.shape[-1]), k.to(wide).transpose(2, 3))
        if keep is not None:
            bias = torch.zeros(keep.shape, dtype=wide, device=x.device)
            empty = keep.logical_not().all(-1, keepdim=True)
            scores = scores + bias.masked_fill(keep.logical_not() & ~empty, -torch.inf)
        weights = torch.softmax(scores, -1)
        if keep is not None:
            weights = torch.where(empty, 0.0, weights)
        weights = torch.nn.functional.dropout(weights, p=self.p, training=self.training)
        return self.o(torch.matmul(weights.to(x.dtype), v).transpose(1, 2).reshape(b, length, e))


@variant(of="CrossAttention")
class TwoSources(torch.nn.Module):
    """A loop over the two sources, masks as where, heads by chunk and stack."""

    def __init__(self, d_model, num_heads, image_tokens=0):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{d_model} / {num_heads}")
        self.num_heads, self.image_tokens = num_heads, image_tokens
        names = ["q", "k", "v", "o"] + (["k_img", "v_img"] if image_tokens else [])
        for name in names:
            self.add_module(name, torch.nn.Linear(d_model, d_model))
        for name in ["norm_q", "norm_k"] + (["norm_k_img"] if image_tokens else []):
            self.add_module(name, RMSNorm(d_model))

    def heads(self, x):
        return torch.stack(x.chunk(self.num_heads, -1), 1).to(
            torch.float64 if x.dtype == torch.float64 else torch.float32
        )

    def forward(self, x, context, keep=None):
        n = self.image_tokens
        if n > context.size(1):
            raise ValueError(f"the context has {context.size(1)} tokens, the image {n}")
        q = self.heads(self.norm_q(self.q(x)))
        sources = [(context[:, n:], self.k, self.norm_k, self.v, keep)]
        if n:
            sources.append((context[:, :n], self.k_img, self.norm_k_img, self.v_img, None))
        total = torch.zeros_like(q)
        for tokens, to_k, norm, to_v, mask in sources:
            if tokens.size(1) == 0:
                continue
            scores = q @ self.heads(norm(to_k(tokens))).mT / math.sqrt(q.size(-1))
            if mask is not None:
                scores = torch.where(mask, scores, torch.finfo(scores.dtype).min)
            weights = torch.softmax(scores, -1)
            if mask is not None:
                weights = torch.where(mask, weights, 0.0)
            total = total + weights @ self.heads(to_v(tokens))
        return self.o(torch.cat(total.to(x.dtype).unbind(1), -1))


@variant(of="CrossAttention")
class OnWan(SelfAttention):
    """A subclass of self-attention, as in Wan; its softmax in blocks of one matrix of scores."""

    def __init__(self, d_model, num_heads, image_tokens=0):
        super().__init__(d_model, num_heads)
        self.image_tokens = image_tokens
        if image_tokens > 0:
            self.k_img = torch.nn.Linear(d_model, d_model)
            self.v_img = torch.nn.Linear(d_model, d_model)
            self.norm_k_img = RMSNorm(d_model)

    def forward(self, x, context, keep=None):
        n, h = self.image_tokens, self.num_heads
        if context.shape[1] < n:
            raise ValueError(f"{context.shape[1]} < {n}")
        k, v = self.norm_k(self.k(context[:, n:])), self.v(context[:, n:])
        if n:
            k = torch.cat([self.norm_k_img(self.k_img(context[:, :n])), k], 1)
            v = torch.cat([self.v_img(context[:, :n]), v], 1)
        wide = torch.promote_types(x.dtype, torch.float32)
        q, k, v = (
            y.to(wide).unflatten(2, (h, -1)).transpose(1, 2) for y in (self.norm_q(self.q(x)), k, v)
        )
        scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
        text = scores[..., n:]
        if keep is not None:
            empty = ~keep.any(-1, keepdim=True)
            text = text.masked_fill(~keep & ~empty, -torch.inf).softmax(-1) * ~empty
        else:
            text = text.softmax(-1)
        weights = torch.cat([scores[..., :n].softmax(-1), text], -1)
        return self.o((weights @ v).to(x.dtype).transpose(1, 2).flatten(2))


@variant(of="FeedForward")
class Clamped(torch.nn.Module):
    """Plain matrix products, and a clamp for the ReLU."""

    def __init__(self, d_model, hidden):
        super().__init__()
        self.w1 = torch.nn.Linear(d_model, hidden)
        self.w2 = torch.nn.Linear(hidden, d_model)

    def forward(self, x):
        inside = (torch.einsum("...e,he->...h", x, self.w1.weight) + self.w1.bias).clamp(min=0)
        return inside @ self.w2.weight.mT + self.w2.bias


@variant(of="FeedForward")
class AModuleForTheRelu(torch.nn.Module):
    """ReLU as a module, in place on what is the module's own."""

    def __init__(self, d_model, hidden):
        super().__init__()
        self.w2 = torch.nn.Linear(hidden, d_model)
        self.act = torch.nn.ReLU(inplace=True)
        self.w1 = torch.nn.Linear(d_model, hidden)

    def forward(self, x):
        return self.w2(self.act(self.w1(x)))


@variant(of="RMSNorm")
class InMethods(torch.nn.Module):
    """A power of -0.5 of the mean square, in methods one after another; the weight last."""

    def __init__(self, dim, eps=1e-6):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(dim))
        self.dim, self.eps = dim, eps

    def forward(self, x):
        if x.shape[-1] != self.dim:
            raise ValueError(f"last axis {x.shape[-1]}, dim {self.dim}")
        wide = x.double() if x.dtype == torch.float64 else x.float()
        mean = wide.pow(2).sum(dim=-1, keepdim=True).div(self.dim)
        return wide.mul((mean + self.eps).pow(-0.5)).to(x.dtype).mul(self.weight)


@variant(of="SelfAttention")
class FlattenedHeads(torch.nn.Module):
    """Heads and batch in one axis for bmm, 1/np.sqrt(d), keep == 0, finfo.min, softmax(dtype=)."""

    def __init__(self, d_model, num_heads, qk_norm=True, rope_base=None, dropout=0.0):
        super().__init__()
        self.d, rest = divmod(d_model, num_heads)
        if rest or (rope_base is not None and self.d % 2):
            raise ValueError(f"embed_dim {d_model} and num_heads {num_heads}")
        self.n, self.base, self.p, self.fused = num_heads, rope_base, dropout, True
        self.q, self.k = torch.nn.Linear(d_model, d_model), torch.nn.Linear(d_model, d_model)
        self.v, self.o = torch.nn.Linear(d_model, d_model), torch.nn.Linear(d_model, d_model)
        if qk_norm:
            self.norm_q, self.norm_k = RMSNorm(d_model), RMSNorm(d_model)
        self.qk_norm = qk_norm

    def turned(self, x):
        pairs = x.reshape(*x.shape[:-1], self.d // 2, 2)
        inv = 1.0 / self.base ** (torch.arange(0, self.d, 2, device=x.device).double() / self.d)
        t = torch.arange(x.shape[1], device=x.device).double()
        freqs = torch.einsum("i,j->ij", t, inv).to(x.dtype)
        sin, cos = freqs.sin(), freqs.cos()
        first = pairs[..., 0] * cos - pairs[..., 1] * sin
        second = pairs[..., 1] * cos + pairs[..., 0] * sin
        return torch.stack((first, second), dim=-1).reshape(x.shape)

    def forward(self, x, keep=None):
        b, t, e = x.shape
        if self.fused:
            w = torch.cat((self.q.weight, self.k.weight, self.v.weight), dim=0)
            bias = torch.cat((self.q.bias, self.k.bias, self.v.bias), dim=0)
            q, k, v = torch.nn.functional.linear(x, w, bias).split(e, dim=2)
        else:
            q, k, v = self.q(x), self.k(x), self.v(x)
        if self.qk_norm:
            q, k = self.norm_q(q), self.norm_k(k)
        wide = torch.promote_types(x.dtype, torch.float32)
        q, k, v = (
            y.reshape(b, t, self.n, self.d).transpose(1, 2).reshape(b * self.n, t, self.d).to(wide)
            for y in (q, k, v)
        )
        if self.base is not None:
            q, k = self.turned(q).to(x.dtype).to(wide), self.turned(k).to(x.dtype).to(wide)
        scores = torch.bmm(q, k.transpose(1, 2)) * (1 / np.sqrt(self.d))
        if keep is not None:
            keep = keep.expand(b, self.n, t, t).reshape(b * self.n, t, t)
            scores = scores.masked_fill(keep == 0, torch.finfo(scores.dtype).min)
        weights = torch.nn.functional.softmax(scores, dim=-1, dtype=wide)
        if keep is not None:
            weights = weights.masked_fill(keep == 0, 0)
        weights = torch.nn.functional.dropout(weights, self.p, self.training)
        out = torch.bmm(weights, v).to(x.dtype).view(b, self.n, t, self.d)
        return self.o(out.permute(0, 2, 1, 3).reshape(b, t, e))


@variant(of="CrossAttention")
class Eager(torch.nn.Module):
    """A function for both sources, with masked_fill(keep == 0, -inf) and einsum."""

    def __init__(self, d_model, num_heads, image_tokens=0):
        super().__init__()
        if d_model % num_heads != 0:
            raise ValueError(f"d_model={d_model} num_heads={num_heads}")
        self.h, self.n = num_heads, image_tokens
        linear = torch.nn.Linear
        self.q, self.k = linear(d_model, d_model), linear(d_model, d_model)
        self.v, self.o = linear(d_model, d_model), linear(d_model, d_model)
        self.norm_q, self.norm_k = RMSNorm(d_model), RMSNorm(d_model)
        if image_tokens:
            self.k_img, self.v_img = linear(d_model, d_model), linear(d_model, d_model)
            self.norm_k_img = RMSNorm(d_model)

    def attend(self, q, k, v, keep=None):
        wide = torch.promote_types(q.dtype, torch.float32)
        q, k, v = (y.to(wide).unflatten(-1, (self.h, -1)) for y in (q, k, v))
        scores = torch.einsum("bqhd,bkhd->bhqk", q / math.sqrt(q.shape[-1]), k)
        if keep is not None:
            none = (keep == 0).all(-1, keepdim=True)
            scores = scores.masked_fill((keep == 0) & ~none, float("-inf"))
            weights = torch.softmax(scores, -1, dtype=wide) * ~none
        else:
            weights = torch.softmax(scores, -1, dtype=wide)
        return torch.einsum("bhqk,bkhd->bqhd", weights, v).flatten(2)

    def forward(self, x, context, keep=None):
        if context.shape[1] < self.n:
            raise ValueError(f"{self.n} tokens of an image in a context of {context.shape[1]}")
        image, text = context.tensor_split([self.n], dim=1)
        q = self.norm_q(self.q(x))
        heads = self.attend(q, self.norm_k(self.k(text)), self.v(text), keep)
        if self.n:
            keys = self.norm_k_img(self.k_img(image))
            heads = heads + self.attend(q, keys, self.v_img(image))
        return self.o(heads.to(x.dtype))


@variant(of="FeedForward")
class Functional(torch.nn.Module):
    """F.linear and F.relu with the weights of the layers."""

    def __init__(self, d_model, hidden):
        super().__init__()
        self.w1 = torch.nn.Linear(in_features=d_model, out_features=hidden)
        self.w2 = torch.nn.Linear(in_features=hidden, out_features=d_model)

    def forward(self, x):
        inner = torch.nn.functional.linear(x, self.w1.weight, self.w1.bias)
        inner = torch.nn.functional.relu(inner)
        return torch.nn.functional.linear(inner, self.w2.weight, self.w2.bias)


@variant(of="SelfAttention")
class Convolved(torch.nn.Module):
    """The three weights as one convolution, and the output projected head by head."""

    def __init__(self, d_model, num_heads, qk_norm=True, rope_base=None, dropout=0.0):
        super().__init__()
        if d_model % num_heads or (rope_base is not None and d_model // num_heads % 2):
            raise ValueError(f"{d_model} and {num_heads} do not fit")
        self.n, self.base, self.p, self.fused = num_heads, rope_base, dropout, True
        self.q, self.k, self.v, self.o = (torch.nn.Linear(d_model, d_model) for _ in range(4))
        if qk_norm:
            self.norm_q, self.norm_k = RMSNorm(d_model), RMSNorm(d_model)
        self.qk_norm = qk_norm

    def turn(self, x):
        wide = torch.promote_types(x.dtype, torch.float32)
        i = torch.arange(0, x.shape[-1], 2, device=x.device, dtype=torch.float64)
        places = torch.arange(x.shape[-2], device=x.device, dtype=torch.float64)
        angles = places[:, None] / self.base ** (i / x.shape[-1])
        cos, sin = angles.cos().to(wide), angles.sin().to(wide)
        a, b = x[..., ::2].to(wide), x[..., 1::2].to(wide)
        return torch.stack([a * cos - b * sin, a * sin + b * cos], -1).flatten(-2).to(x.dtype)

    def forward(self, x, keep=None):
        layers = (self.q, self.k, self.v)
        if self.fused:
            weight = torch.cat([y.weight for y in layers])[..., None]
            bias = torch.cat([y.bias for y in layers])
            q, k, v = torch.nn.functional.conv1d(x.mT, weight, bias).mT.chunk(3, -1)
        else:
            q, k, v = (y(x) for y in layers)
        if self.qk_norm:
            q, k = self.norm_q(q), self.norm_k(k)
        q, k, v = (y.unflatten(-1, (self.n, -1)).transpose(1, 2) for y in (q, k, v))
        if self.base is not None:
            q, k = self.turn(q), self.turn(k)
        wide = torch.promote_types(x.dtype, torch.float32)
        scores = q.to(wide) @ k.to(wide).mT * q.shape[-1] ** -0.5
        if keep is not None:
            scores = torch.where(keep, scores, torch.finfo(wide).min)
        weights = torch.softmax(scores, -1)
        if keep is not None:
            weights = weights * keep
        weights = torch.nn.functional.dropout(weights, self.p, self.training)
        heads = (weights @ v.to(wide)).to(x.dtype).to(wide)
        blocks = self.o.weight.to(wide).unflatten(1, (self.n, -1)).permute(1, 2, 0)  # (H, D, E)
        return ((heads @ blocks).sum(1) + self.o.bias.to(wide)).to(x.dtype)
