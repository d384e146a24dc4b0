"""Wrong answers to ex13_mla, written with nothing but the skeleton in sight."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import nn

from tests.diagnosis.written import wrong

if TYPE_CHECKING:  # the name that an answer finds in the rest of its file
    from exercises.ex13_mla import LatentCache


@wrong(of="LatentCache", mistakes=1)
class OverwritesFromTheFront:
    """Every append writes at position 0 and overwrites the tokens before."""

    def __init__(
        self,
        batch: int,
        max_len: int,
        kv_rank: int,
        rope_dim: int,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str | None = None,
    ) -> None:
        self.latents = torch.zeros(batch, max_len, kv_rank, dtype=dtype, device=device)
        self.k_ropes = torch.zeros(batch, max_len, rope_dim, dtype=dtype, device=device)
        self.length = 0
        self.nbytes = batch * max_len * (kv_rank + rope_dim) * dtype.itemsize

    def append(
        self, latent: torch.Tensor, k_rope: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        batch, max_len, rank = self.latents.shape
        t = latent.shape[1]
        for x, width in ((latent, rank), (k_rope, self.k_ropes.shape[2])):
            if tuple(x.shape) != (batch, t, width):
                raise ValueError(f"shape {tuple(x.shape)}, should be {(batch, t, width)}")
        if self.length + t > max_len:
            raise ValueError(f"{self.length + t} tokens, but max_len is {max_len}")
        self.latents[:, :t] = latent.detach()
        self.k_ropes[:, :t] = k_rope.detach()
        self.length += t
        return self.latents[:, : self.length], self.k_ropes[:, : self.length]

    def reset(self) -> None:
        self.length = 0


@wrong(of="LatentCache", mistakes=1)
class BytesOfTheFilledPart:
    """nbytes counts the tokens that are in the cache instead of the whole buffers."""

    def __init__(
        self,
        batch: int,
        max_len: int,
        kv_rank: int,
        rope_dim: int,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str | None = None,
    ) -> None:
        self.latents = torch.empty((batch, max_len, kv_rank), dtype=dtype, device=device)
        self.k_ropes = torch.empty((batch, max_len, rope_dim), dtype=dtype, device=device)
        self.length = 0

    @property
    def nbytes(self) -> int:
        filled = self.latents[:, : self.length], self.k_ropes[:, : self.length]
        return sum(x.numel() * x.element_size() for x in filled)

    def append(
        self, latent: torch.Tensor, k_rope: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        t = latent.shape[1]
        for new, memory in ((latent, self.latents), (k_rope, self.k_ropes)):
            right = (memory.shape[0], t, memory.shape[2])
            if tuple(new.shape) != right:
                raise ValueError(f"got {tuple(new.shape)}, expected {right}")
        end = self.length + t
        if end > self.latents.shape[1]:
            raise ValueError(f"{end} tokens do not fit into {self.latents.shape[1]}")
        with torch.no_grad():
            self.latents[:, self.length : end].copy_(latent)
            self.k_ropes[:, self.length : end].copy_(k_rope)
        self.length = end
        return self.latents[:, :end], self.k_ropes[:, :end]

    def reset(self) -> None:
        self.length = 0


@wrong(of="LatentCache", mistakes=2)
class NewMemoryAndOneTooMany:
    """reset takes new memory instead of using the old again.

    The cache is said to be full when one place is left: the comparison is >= instead of >.
    """

    def __init__(
        self,
        batch: int,
        max_len: int,
        kv_rank: int,
        rope_dim: int,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str | None = None,
    ) -> None:
        self.latents = torch.zeros(batch, max_len, kv_rank, dtype=dtype, device=device)
        self.k_ropes = torch.zeros(batch, max_len, rope_dim, dtype=dtype, device=device)
        self.length = 0
        self.nbytes = self.latents.nbytes + self.k_ropes.nbytes

    def append(
        self, latent: torch.Tensor, k_rope: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        b, max_len, rank = self.latents.shape
        t = latent.shape[1]
        if tuple(latent.shape) != (b, t, rank):
            raise ValueError(f"latent {tuple(latent.shape)}, should be {(b, t, rank)}")
        if tuple(k_rope.shape) != (b, t, self.k_ropes.shape[-1]):
            right = (b, t, self.k_ropes.shape[-1])
            raise ValueError(f"k_rope {tuple(k_rope.shape)}, should be {right}")
        if self.length + t >= max_len:
            raise ValueError(f"{self.length + t} tokens, max_len is {max_len}")
        new = slice(self.length, self.length + t)
        self.latents[:, new] = latent.detach()
        self.k_ropes[:, new] = k_rope.detach()
        self.length += t
        return self.latents[:, : self.length], self.k_ropes[:, : self.length]

    def reset(self) -> None:
        self.latents = torch.zeros_like(self.latents)
        self.k_ropes = torch.zeros_like(self.k_ropes)
        self.length = 0


@wrong(of="LatentCache", mistakes=2)
class NewTokensAloneAndFloat32:
    """append returns the new tokens only instead of all so far.

    The memory is float32 whatever dtype is asked for.
    """

    def __init__(
        self,
        batch: int,
        max_len: int,
        kv_rank: int,
        rope_dim: int,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str | None = None,
    ) -> None:
        self.latents = torch.zeros(batch, max_len, kv_rank, device=device)
        self.k_ropes = torch.zeros(batch, max_len, rope_dim, device=device)
        self.length = 0
        self.nbytes = self.latents.nbytes + self.k_ropes.nbytes

    def append(
        self, latent: torch.Tensor, k_rope: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        t = latent.shape[1]
        for new, memory in ((latent, self.latents), (k_rope, self.k_ropes)):
            right = (memory.shape[0], t, memory.shape[2])
            if tuple(new.shape) != right:
                raise ValueError(f"got {tuple(new.shape)}, expected {right}")
        start, self_end = self.length, self.length + t
        if self_end > self.latents.shape[1]:
            raise ValueError(f"{self_end} tokens do not fit into {self.latents.shape[1]}")
        self.latents[:, start:self_end] = latent.detach()
        self.k_ropes[:, start:self_end] = k_rope.detach()
        self.length = self_end
        return self.latents[:, start:self_end], self.k_ropes[:, start:self_end]

    def reset(self) -> None:
        self.length = 0


@wrong(of="MultiHeadLatentAttention", mistakes=1)
class ScaleOfTheNopePartAlone(nn.Module):
    """The scale is 1/sqrt(nope_dim); the rotary places are not counted."""

    class Norm(nn.Module):
        def __init__(self, dim: int) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(dim))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = x.to(torch.promote_types(x.dtype, torch.float32))
            y = y * torch.rsqrt(y.pow(2).mean(dim=-1, keepdim=True) + 1e-6)
            return (y * self.weight).to(x.dtype)

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
        super().__init__()
        if rope_dim % 2:
            raise ValueError(f"rope_dim is odd: {rope_dim}")
        self.h, self.nope, self.rope, self.value = num_heads, nope_dim, rope_dim, value_dim
        self.rank, self.q_rank, self.base = kv_rank, q_rank, rope_base
        width = num_heads * (nope_dim + rope_dim)
        if q_rank is None:
            self.q_proj = nn.Linear(d_model, width, bias=False)
        else:
            self.q_a_proj = nn.Linear(d_model, q_rank, bias=False)
            self.q_a_layernorm = self.Norm(q_rank)
            self.q_b_proj = nn.Linear(q_rank, width, bias=False)
        self.kv_a_proj_with_mqa = nn.Linear(d_model, kv_rank + rope_dim, bias=False)
        self.kv_a_layernorm = self.Norm(kv_rank)
        self.kv_b_proj = nn.Linear(kv_rank, num_heads * (nope_dim + value_dim), bias=False)
        self.o_proj = nn.Linear(num_heads * value_dim, d_model, bias=False)

    def turn(self, x: torch.Tensor, start: int) -> torch.Tensor:
        y = x.to(torch.promote_types(x.dtype, torch.float32))
        position = torch.arange(start, start + x.shape[-2], dtype=y.dtype, device=x.device)
        place = torch.arange(0, self.rope, 2, dtype=y.dtype, device=x.device)
        angle = torch.outer(position, self.base ** (-place / self.rope))
        a, b = y[..., 0::2], y[..., 1::2]
        cos, sin = angle.cos(), angle.sin()
        turned = [a * cos - b * sin, a * sin + b * cos]
        return torch.stack(turned, dim=-1).flatten(-2).to(x.dtype)

    def forward(
        self, x: torch.Tensor, cache: LatentCache | None = None, absorbed: bool = False
    ) -> torch.Tensor:
        batch, t, _ = x.shape
        wide = torch.promote_types(x.dtype, torch.float32)
        start = 0 if cache is None else cache.length
        if self.q_rank is None:
            q = self.q_proj(x)
        else:
            q = self.q_b_proj(self.q_a_layernorm(self.q_a_proj(x)))
        q = q.view(batch, t, self.h, self.nope + self.rope).transpose(1, 2)
        q_nope, q_rope = q.split([self.nope, self.rope], dim=-1)
        q_rope = self.turn(q_rope, start)
        latent, k_rope = self.kv_a_proj_with_mqa(x).split([self.rank, self.rope], dim=-1)
        latent = self.kv_a_layernorm(latent)
        k_rope = self.turn(k_rope, start)
        if cache is not None:
            latent, k_rope = cache.append(latent, k_rope)
        n = latent.shape[1]
        latent, k_rope = latent.to(wide), k_rope.to(wide)
        w = self.kv_b_proj.weight.to(wide).view(self.h, self.nope + self.value, self.rank)
        if absorbed:
            q_latent = torch.einsum("bhtd,hdr->bhtr", q_nope.to(wide), w[:, : self.nope])
            scores = torch.einsum("bhtr,bnr->bhtn", q_latent, latent)
        else:
            k_nope = torch.einsum("bnr,hdr->bhnd", latent, w[:, : self.nope])
            scores = q_nope.to(wide) @ k_nope.mT
        scores = scores + torch.einsum("bhtd,bnd->bhtn", q_rope.to(wide), k_rope)
        scores = scores * self.nope**-0.5
        keep = torch.ones(t, n, dtype=torch.bool, device=x.device).tril(n - t)
        weights = scores.masked_fill(~keep, -math.inf).softmax(dim=-1)
        if absorbed:
            mixed = torch.einsum("bhtn,bnr->bhtr", weights, latent)
            out = torch.einsum("bhtr,hdr->bthd", mixed, w[:, self.nope :])
        else:
            values = torch.einsum("bnr,hdr->bhnd", latent, w[:, self.nope :])
            out = torch.einsum("bhtn,bhnd->bthd", weights, values)
        return self.o_proj(out.flatten(2).to(x.dtype))


@wrong(of="MultiHeadLatentAttention", mistakes=1)
class PositionsFromZero(nn.Module):
    """New tokens are counted from position 0, although the cache holds tokens."""

    class Norm(nn.Module):
        def __init__(self, dim: int) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(dim))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = x.to(torch.promote_types(x.dtype, torch.float32))
            y = y * torch.rsqrt(y.pow(2).mean(dim=-1, keepdim=True) + 1e-6)
            return (y * self.weight).to(x.dtype)

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
        super().__init__()
        if rope_dim % 2:
            raise ValueError(f"rope_dim is odd: {rope_dim}")
        self.h, self.nope, self.rope, self.value = num_heads, nope_dim, rope_dim, value_dim
        self.rank, self.q_rank, self.base = kv_rank, q_rank, rope_base
        width = num_heads * (nope_dim + rope_dim)
        if q_rank is None:
            self.q_proj = nn.Linear(d_model, width, bias=False)
        else:
            self.q_a_proj = nn.Linear(d_model, q_rank, bias=False)
            self.q_a_layernorm = self.Norm(q_rank)
            self.q_b_proj = nn.Linear(q_rank, width, bias=False)
        self.kv_a_proj_with_mqa = nn.Linear(d_model, kv_rank + rope_dim, bias=False)
        self.kv_a_layernorm = self.Norm(kv_rank)
        self.kv_b_proj = nn.Linear(kv_rank, num_heads * (nope_dim + value_dim), bias=False)
        self.o_proj = nn.Linear(num_heads * value_dim, d_model, bias=False)

    def turn(self, x: torch.Tensor, start: int) -> torch.Tensor:
        y = x.to(torch.promote_types(x.dtype, torch.float32))
        position = torch.arange(start, start + x.shape[-2], dtype=y.dtype, device=x.device)
        place = torch.arange(0, self.rope, 2, dtype=y.dtype, device=x.device)
        angle = torch.outer(position, self.base ** (-place / self.rope))
        a, b = y[..., 0::2], y[..., 1::2]
        cos, sin = angle.cos(), angle.sin()
        turned = [a * cos - b * sin, a * sin + b * cos]
        return torch.stack(turned, dim=-1).flatten(-2).to(x.dtype)

    def forward(
        self, x: torch.Tensor, cache: LatentCache | None = None, absorbed: bool = False
    ) -> torch.Tensor:
        batch, t, _ = x.shape
        wide = torch.promote_types(x.dtype, torch.float32)
        start = 0
        if self.q_rank is None:
            q = self.q_proj(x)
        else:
            q = self.q_b_proj(self.q_a_layernorm(self.q_a_proj(x)))
        q = q.view(batch, t, self.h, self.nope + self.rope).transpose(1, 2)
        q_nope, q_rope = q.split([self.nope, self.rope], dim=-1)
        q_rope = self.turn(q_rope, start)
        latent, k_rope = self.kv_a_proj_with_mqa(x).split([self.rank, self.rope], dim=-1)
        latent = self.kv_a_layernorm(latent)
        k_rope = self.turn(k_rope, start)
        if cache is not None:
            latent, k_rope = cache.append(latent, k_rope)
        n = latent.shape[1]
        latent, k_rope = latent.to(wide), k_rope.to(wide)
        w = self.kv_b_proj.weight.to(wide).view(self.h, self.nope + self.value, self.rank)
        if absorbed:
            q_latent = torch.einsum("bhtd,hdr->bhtr", q_nope.to(wide), w[:, : self.nope])
            scores = torch.einsum("bhtr,bnr->bhtn", q_latent, latent)
        else:
            k_nope = torch.einsum("bnr,hdr->bhnd", latent, w[:, : self.nope])
            scores = q_nope.to(wide) @ k_nope.mT
        scores = scores + torch.einsum("bhtd,bnd->bhtn", q_rope.to(wide), k_rope)
        scores = scores / math.sqrt(self.nope + self.rope)
        keep = torch.ones(t, n, dtype=torch.bool, device=x.device).tril(n - t)
        weights = scores.masked_fill(~keep, -math.inf).softmax(dim=-1)
        if absorbed:
            mixed = torch.einsum("bhtn,bnr->bhtr", weights, latent)
            out = torch.einsum("bhtr,hdr->bthd", mixed, w[:, self.nope :])
        else:
            values = torch.einsum("bnr,hdr->bhnd", latent, w[:, self.nope :])
            out = torch.einsum("bhtn,bhnd->bthd", weights, values)
        return self.o_proj(out.flatten(2).to(x.dtype))


@wrong(of="MultiHeadLatentAttention", mistakes=1)
class MaskOfAFreshText(nn.Module):
    """The triangle is aligned to the first key of the cache instead of the last."""

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
        super().__init__()
        if rope_dim % 2 == 1:
            raise ValueError(f"rope_dim={rope_dim} must be even")
        self.num_heads = num_heads
        self.dims = (nope_dim, rope_dim, value_dim)
        self.kv_rank = kv_rank
        self.rope_base = rope_base
        q_width = num_heads * (nope_dim + rope_dim)
        if q_rank is not None:
            self.q_a_proj = nn.Linear(d_model, q_rank, bias=False)
            self.q_a_layernorm = nn.ParameterDict({"weight": nn.Parameter(torch.ones(q_rank))})
            self.q_b_proj = nn.Linear(q_rank, q_width, bias=False)
        else:
            self.q_proj = nn.Linear(d_model, q_width, bias=False)
        self.kv_a_proj_with_mqa = nn.Linear(d_model, kv_rank + rope_dim, bias=False)
        self.kv_a_layernorm = nn.ParameterDict({"weight": nn.Parameter(torch.ones(kv_rank))})
        self.kv_b_proj = nn.Linear(kv_rank, num_heads * (nope_dim + value_dim), bias=False)
        self.o_proj = nn.Linear(num_heads * value_dim, d_model, bias=False)

    @staticmethod
    def wide(x: torch.Tensor) -> torch.Tensor:
        return x if x.dtype == torch.float64 else x.float()

    def rms(self, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        y = self.wide(x)
        return (y / torch.sqrt((y * y).mean(-1, keepdim=True) + 1e-6) * weight).to(x.dtype)

    def rotate(self, x: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        # x (B, t, ..., rope_dim)
        y = self.wide(x)
        i = torch.arange(y.shape[-1] // 2, dtype=y.dtype, device=x.device)
        angle = positions.to(y.dtype)[:, None] * self.rope_base ** (-2 * i / y.shape[-1])
        angle = angle.view(len(positions), *([1] * (x.dim() - 3)), angle.shape[-1])
        turn = torch.polar(torch.ones_like(angle), angle)
        z = torch.complex(y[..., 0::2].contiguous(), y[..., 1::2].contiguous()) * turn
        return torch.view_as_real(z).flatten(-2).to(x.dtype)

    def queries(self, x: torch.Tensor) -> torch.Tensor:
        if hasattr(self, "q_proj"):
            q = self.q_proj(x)
        else:
            a = self.q_a_proj(x)
            a = self.rms(a, self.q_a_layernorm["weight"])
            q = self.q_b_proj(a)
        return q.unflatten(-1, (self.num_heads, -1))  # (B, t, H, nope + rope)

    def forward(
        self, x: torch.Tensor, cache: LatentCache | None = None, absorbed: bool = False
    ) -> torch.Tensor:
        nope, rope, value = self.dims
        t = x.shape[1]
        past = cache.length if cache is not None else 0
        positions = torch.arange(past, past + t, device=x.device)
        q = self.queries(x)
        q_n = self.wide(q[..., :nope])
        q_r = self.wide(self.rotate(q[..., nope:], positions))
        compressed = self.kv_a_proj_with_mqa(x)
        c = self.rms(compressed[..., : self.kv_rank], self.kv_a_layernorm["weight"])
        k_r = self.rotate(compressed[..., self.kv_rank :], positions)
        if cache is not None:
            c, k_r = cache.append(c, k_r)
        c, k_r = self.wide(c), self.wide(k_r)
        total = c.shape[1]
        w = self.wide(self.kv_b_proj.weight)
        w_k, w_v = w.unflatten(0, (self.num_heads, nope + value)).split([nope, value], dim=1)
        hidden = torch.ones(t, total, dtype=torch.bool, device=x.device).triu(1)
        outputs = []
        for h in range(self.num_heads):
            if absorbed:
                scores = (q_n[:, :, h] @ w_k[h]) @ c.transpose(1, 2)
            else:
                scores = q_n[:, :, h] @ (c @ w_k[h].T).transpose(1, 2)
            scores = scores + q_r[:, :, h] @ k_r.transpose(1, 2)
            scores = scores / math.sqrt(nope + rope)
            weights = torch.softmax(scores.masked_fill(hidden, -math.inf), dim=-1)
            if absorbed:
                outputs.append((weights @ c) @ w_v[h].T)
            else:
                outputs.append(weights @ (c @ w_v[h].T))
        return self.o_proj(torch.cat(outputs, dim=-1).to(x.dtype))


@wrong(of="MultiHeadLatentAttention", mistakes=1)
class RawLatents(nn.Module):
    """The latent is neither normalised before it is cached nor afterwards."""

    class Norm(nn.Module):
        def __init__(self, dim: int) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(dim))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = x.to(torch.promote_types(x.dtype, torch.float32))
            y = y * torch.rsqrt(y.pow(2).mean(dim=-1, keepdim=True) + 1e-6)
            return (y * self.weight).to(x.dtype)

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
        super().__init__()
        if rope_dim % 2:
            raise ValueError(f"rope_dim is odd: {rope_dim}")
        self.h, self.nope, self.rope, self.value = num_heads, nope_dim, rope_dim, value_dim
        self.rank, self.q_rank, self.base = kv_rank, q_rank, rope_base
        width = num_heads * (nope_dim + rope_dim)
        if q_rank is None:
            self.q_proj = nn.Linear(d_model, width, bias=False)
        else:
            self.q_a_proj = nn.Linear(d_model, q_rank, bias=False)
            self.q_a_layernorm = self.Norm(q_rank)
            self.q_b_proj = nn.Linear(q_rank, width, bias=False)
        self.kv_a_proj_with_mqa = nn.Linear(d_model, kv_rank + rope_dim, bias=False)
        self.kv_a_layernorm = self.Norm(kv_rank)
        self.kv_b_proj = nn.Linear(kv_rank, num_heads * (nope_dim + value_dim), bias=False)
        self.o_proj = nn.Linear(num_heads * value_dim, d_model, bias=False)

    def turn(self, x: torch.Tensor, start: int) -> torch.Tensor:
        y = x.to(torch.promote_types(x.dtype, torch.float32))
        position = torch.arange(start, start + x.shape[-2], dtype=y.dtype, device=x.device)
        place = torch.arange(0, self.rope, 2, dtype=y.dtype, device=x.device)
        angle = torch.outer(position, self.base ** (-place / self.rope))
        a, b = y[..., 0::2], y[..., 1::2]
        cos, sin = angle.cos(), angle.sin()
        turned = [a * cos - b * sin, a * sin + b * cos]
        return torch.stack(turned, dim=-1).flatten(-2).to(x.dtype)

    def forward(
        self, x: torch.Tensor, cache: LatentCache | None = None, absorbed: bool = False
    ) -> torch.Tensor:
        batch, t, _ = x.shape
        wide = torch.promote_types(x.dtype, torch.float32)
        start = 0 if cache is None else cache.length
        if self.q_rank is None:
            q = self.q_proj(x)
        else:
            q = self.q_b_proj(self.q_a_layernorm(self.q_a_proj(x)))
        q = q.view(batch, t, self.h, self.nope + self.rope).transpose(1, 2)
        q_nope, q_rope = q.split([self.nope, self.rope], dim=-1)
        q_rope = self.turn(q_rope, start)
        latent, k_rope = self.kv_a_proj_with_mqa(x).split([self.rank, self.rope], dim=-1)
        latent = latent.contiguous()
        k_rope = self.turn(k_rope, start)
        if cache is not None:
            latent, k_rope = cache.append(latent, k_rope)
        n = latent.shape[1]
        latent, k_rope = latent.to(wide), k_rope.to(wide)
        w = self.kv_b_proj.weight.to(wide).view(self.h, self.nope + self.value, self.rank)
        if absorbed:
            q_latent = torch.einsum("bhtd,hdr->bhtr", q_nope.to(wide), w[:, : self.nope])
            scores = torch.einsum("bhtr,bnr->bhtn", q_latent, latent)
        else:
            k_nope = torch.einsum("bnr,hdr->bhnd", latent, w[:, : self.nope])
            scores = q_nope.to(wide) @ k_nope.mT
        scores = scores + torch.einsum("bhtd,bnd->bhtn", q_rope.to(wide), k_rope)
        scores = scores / math.sqrt(self.nope + self.rope)
        keep = torch.ones(t, n, dtype=torch.bool, device=x.device).tril(n - t)
        weights = scores.masked_fill(~keep, -math.inf).softmax(dim=-1)
        if absorbed:
            mixed = torch.einsum("bhtn,bnr->bhtr", weights, latent)
            out = torch.einsum("bhtr,hdr->bthd", mixed, w[:, self.nope :])
        else:
            values = torch.einsum("bnr,hdr->bhnd", latent, w[:, self.nope :])
            out = torch.einsum("bhtn,bhnd->bthd", weights, values)
        return self.o_proj(out.flatten(2).to(x.dtype))


@wrong(of="MultiHeadLatentAttention", mistakes=1)
class PairsInHalves(nn.Module):
    """RoPE turns the pairs (i, i + rope_dim/2) instead of interleaved ones."""

    class Norm(nn.Module):
        def __init__(self, dim: int) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(dim))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = x.to(torch.promote_types(x.dtype, torch.float32))
            y = y * torch.rsqrt(y.pow(2).mean(dim=-1, keepdim=True) + 1e-6)
            return (y * self.weight).to(x.dtype)

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
        super().__init__()
        if rope_dim % 2:
            raise ValueError(f"rope_dim is odd: {rope_dim}")
        self.h, self.nope, self.rope, self.value = num_heads, nope_dim, rope_dim, value_dim
        self.rank, self.q_rank, self.base = kv_rank, q_rank, rope_base
        width = num_heads * (nope_dim + rope_dim)
        if q_rank is None:
            self.q_proj = nn.Linear(d_model, width, bias=False)
        else:
            self.q_a_proj = nn.Linear(d_model, q_rank, bias=False)
            self.q_a_layernorm = self.Norm(q_rank)
            self.q_b_proj = nn.Linear(q_rank, width, bias=False)
        self.kv_a_proj_with_mqa = nn.Linear(d_model, kv_rank + rope_dim, bias=False)
        self.kv_a_layernorm = self.Norm(kv_rank)
        self.kv_b_proj = nn.Linear(kv_rank, num_heads * (nope_dim + value_dim), bias=False)
        self.o_proj = nn.Linear(num_heads * value_dim, d_model, bias=False)

    def turn(self, x: torch.Tensor, start: int) -> torch.Tensor:
        y = x.to(torch.promote_types(x.dtype, torch.float32))
        position = torch.arange(start, start + x.shape[-2], dtype=y.dtype, device=x.device)
        place = torch.arange(0, self.rope, 2, dtype=y.dtype, device=x.device)
        angle = torch.outer(position, self.base ** (-place / self.rope))
        a, b = y.chunk(2, dim=-1)
        cos, sin = angle.cos(), angle.sin()
        turned = [a * cos - b * sin, a * sin + b * cos]
        return torch.cat(turned, dim=-1).to(x.dtype)

    def forward(
        self, x: torch.Tensor, cache: LatentCache | None = None, absorbed: bool = False
    ) -> torch.Tensor:
        batch, t, _ = x.shape
        wide = torch.promote_types(x.dtype, torch.float32)
        start = 0 if cache is None else cache.length
        if self.q_rank is None:
            q = self.q_proj(x)
        else:
            q = self.q_b_proj(self.q_a_layernorm(self.q_a_proj(x)))
        q = q.view(batch, t, self.h, self.nope + self.rope).transpose(1, 2)
        q_nope, q_rope = q.split([self.nope, self.rope], dim=-1)
        q_rope = self.turn(q_rope, start)
        latent, k_rope = self.kv_a_proj_with_mqa(x).split([self.rank, self.rope], dim=-1)
        latent = self.kv_a_layernorm(latent)
        k_rope = self.turn(k_rope, start)
        if cache is not None:
            latent, k_rope = cache.append(latent, k_rope)
        n = latent.shape[1]
        latent, k_rope = latent.to(wide), k_rope.to(wide)
        w = self.kv_b_proj.weight.to(wide).view(self.h, self.nope + self.value, self.rank)
        if absorbed:
            q_latent = torch.einsum("bhtd,hdr->bhtr", q_nope.to(wide), w[:, : self.nope])
            scores = torch.einsum("bhtr,bnr->bhtn", q_latent, latent)
        else:
            k_nope = torch.einsum("bnr,hdr->bhnd", latent, w[:, : self.nope])
            scores = q_nope.to(wide) @ k_nope.mT
        scores = scores + torch.einsum("bhtd,bnd->bhtn", q_rope.to(wide), k_rope)
        scores = scores / math.sqrt(self.nope + self.rope)
        keep = torch.ones(t, n, dtype=torch.bool, device=x.device).tril(n - t)
        weights = scores.masked_fill(~keep, -math.inf).softmax(dim=-1)
        if absorbed:
            mixed = torch.einsum("bhtn,bnr->bhtr", weights, latent)
            out = torch.einsum("bhtr,hdr->bthd", mixed, w[:, self.nope :])
        else:
            values = torch.einsum("bnr,hdr->bhnd", latent, w[:, self.nope :])
            out = torch.einsum("bhtn,bhnd->bthd", weights, values)
        return self.o_proj(out.flatten(2).to(x.dtype))


@wrong(of="MultiHeadLatentAttention", mistakes=2)
class SharedKeyNotTurnedAndValuesFirst(nn.Module):
    """The shared rotary key is not turned; the queries are.

    The output of kv_b_proj is read as value, then key, in each head.
    """

    class Norm(nn.Module):
        def __init__(self, dim: int) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(dim))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = x.to(torch.promote_types(x.dtype, torch.float32))
            y = y * torch.rsqrt(y.pow(2).mean(dim=-1, keepdim=True) + 1e-6)
            return (y * self.weight).to(x.dtype)

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
        super().__init__()
        if rope_dim % 2:
            raise ValueError(f"rope_dim is odd: {rope_dim}")
        self.h, self.nope, self.rope, self.value = num_heads, nope_dim, rope_dim, value_dim
        self.rank, self.q_rank, self.base = kv_rank, q_rank, rope_base
        width = num_heads * (nope_dim + rope_dim)
        if q_rank is None:
            self.q_proj = nn.Linear(d_model, width, bias=False)
        else:
            self.q_a_proj = nn.Linear(d_model, q_rank, bias=False)
            self.q_a_layernorm = self.Norm(q_rank)
            self.q_b_proj = nn.Linear(q_rank, width, bias=False)
        self.kv_a_proj_with_mqa = nn.Linear(d_model, kv_rank + rope_dim, bias=False)
        self.kv_a_layernorm = self.Norm(kv_rank)
        self.kv_b_proj = nn.Linear(kv_rank, num_heads * (nope_dim + value_dim), bias=False)
        self.o_proj = nn.Linear(num_heads * value_dim, d_model, bias=False)

    def turn(self, x: torch.Tensor, start: int) -> torch.Tensor:
        y = x.to(torch.promote_types(x.dtype, torch.float32))
        position = torch.arange(start, start + x.shape[-2], dtype=y.dtype, device=x.device)
        place = torch.arange(0, self.rope, 2, dtype=y.dtype, device=x.device)
        angle = torch.outer(position, self.base ** (-place / self.rope))
        a, b = y[..., 0::2], y[..., 1::2]
        cos, sin = angle.cos(), angle.sin()
        turned = [a * cos - b * sin, a * sin + b * cos]
        return torch.stack(turned, dim=-1).flatten(-2).to(x.dtype)

    def forward(
        self, x: torch.Tensor, cache: LatentCache | None = None, absorbed: bool = False
    ) -> torch.Tensor:
        batch, t, _ = x.shape
        wide = torch.promote_types(x.dtype, torch.float32)
        start = 0 if cache is None else cache.length
        if self.q_rank is None:
            q = self.q_proj(x)
        else:
            q = self.q_b_proj(self.q_a_layernorm(self.q_a_proj(x)))
        q = q.view(batch, t, self.h, self.nope + self.rope).transpose(1, 2)
        q_nope, q_rope = q.split([self.nope, self.rope], dim=-1)
        q_rope = self.turn(q_rope, start)
        latent, k_rope = self.kv_a_proj_with_mqa(x).split([self.rank, self.rope], dim=-1)
        latent = self.kv_a_layernorm(latent)
        k_rope = k_rope.contiguous()
        if cache is not None:
            latent, k_rope = cache.append(latent, k_rope)
        n = latent.shape[1]
        latent, k_rope = latent.to(wide), k_rope.to(wide)
        w = self.kv_b_proj.weight.to(wide).view(self.h, self.nope + self.value, self.rank)
        if absorbed:
            q_latent = torch.einsum("bhtd,hdr->bhtr", q_nope.to(wide), w[:, self.value :])
            scores = torch.einsum("bhtr,bnr->bhtn", q_latent, latent)
        else:
            k_nope = torch.einsum("bnr,hdr->bhnd", latent, w[:, self.value :])
            scores = q_nope.to(wide) @ k_nope.mT
        scores = scores + torch.einsum("bhtd,bnd->bhtn", q_rope.to(wide), k_rope)
        scores = scores / math.sqrt(self.nope + self.rope)
        keep = torch.ones(t, n, dtype=torch.bool, device=x.device).tril(n - t)
        weights = scores.masked_fill(~keep, -math.inf).softmax(dim=-1)
        if absorbed:
            mixed = torch.einsum("bhtn,bnr->bhtr", weights, latent)
            out = torch.einsum("bhtr,hdr->bthd", mixed, w[:, : self.value])
        else:
            values = torch.einsum("bnr,hdr->bhnd", latent, w[:, : self.value])
            out = torch.einsum("bhtn,bhnd->bthd", weights, values)
        return self.o_proj(out.flatten(2).to(x.dtype))


@wrong(of="MultiHeadLatentAttention", mistakes=2)
class AllKeysThenAllValues(nn.Module):
    """kv_b_proj is read as the keys of all heads, then their values.

    The query's latent is not normalised between q_a_proj and q_b_proj.
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
        super().__init__()
        if rope_dim % 2 == 1:
            raise ValueError(f"rope_dim={rope_dim} must be even")
        self.num_heads = num_heads
        self.dims = (nope_dim, rope_dim, value_dim)
        self.kv_rank = kv_rank
        self.rope_base = rope_base
        q_width = num_heads * (nope_dim + rope_dim)
        if q_rank is not None:
            self.q_a_proj = nn.Linear(d_model, q_rank, bias=False)
            self.q_a_layernorm = nn.ParameterDict({"weight": nn.Parameter(torch.ones(q_rank))})
            self.q_b_proj = nn.Linear(q_rank, q_width, bias=False)
        else:
            self.q_proj = nn.Linear(d_model, q_width, bias=False)
        self.kv_a_proj_with_mqa = nn.Linear(d_model, kv_rank + rope_dim, bias=False)
        self.kv_a_layernorm = nn.ParameterDict({"weight": nn.Parameter(torch.ones(kv_rank))})
        self.kv_b_proj = nn.Linear(kv_rank, num_heads * (nope_dim + value_dim), bias=False)
        self.o_proj = nn.Linear(num_heads * value_dim, d_model, bias=False)

    @staticmethod
    def wide(x: torch.Tensor) -> torch.Tensor:
        return x if x.dtype == torch.float64 else x.float()

    def rms(self, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        y = self.wide(x)
        return (y / torch.sqrt((y * y).mean(-1, keepdim=True) + 1e-6) * weight).to(x.dtype)

    def rotate(self, x: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        # x (B, t, ..., rope_dim)
        y = self.wide(x)
        i = torch.arange(y.shape[-1] // 2, dtype=y.dtype, device=x.device)
        angle = positions.to(y.dtype)[:, None] * self.rope_base ** (-2 * i / y.shape[-1])
        angle = angle.view(len(positions), *([1] * (x.dim() - 3)), angle.shape[-1])
        turn = torch.polar(torch.ones_like(angle), angle)
        z = torch.complex(y[..., 0::2].contiguous(), y[..., 1::2].contiguous()) * turn
        return torch.view_as_real(z).flatten(-2).to(x.dtype)

    def queries(self, x: torch.Tensor) -> torch.Tensor:
        if hasattr(self, "q_proj"):
            q = self.q_proj(x)
        else:
            a = self.q_a_proj(x)

            q = self.q_b_proj(a)
        return q.unflatten(-1, (self.num_heads, -1))  # (B, t, H, nope + rope)

    def forward(
        self, x: torch.Tensor, cache: LatentCache | None = None, absorbed: bool = False
    ) -> torch.Tensor:
        nope, rope, value = self.dims
        t = x.shape[1]
        past = cache.length if cache is not None else 0
        positions = torch.arange(past, past + t, device=x.device)
        q = self.queries(x)
        q_n = self.wide(q[..., :nope])
        q_r = self.wide(self.rotate(q[..., nope:], positions))
        compressed = self.kv_a_proj_with_mqa(x)
        c = self.rms(compressed[..., : self.kv_rank], self.kv_a_layernorm["weight"])
        k_r = self.rotate(compressed[..., self.kv_rank :], positions)
        if cache is not None:
            c, k_r = cache.append(c, k_r)
        c, k_r = self.wide(c), self.wide(k_r)
        total = c.shape[1]
        w = self.wide(self.kv_b_proj.weight)
        keys = self.num_heads * nope
        w_k = w[:keys].view(self.num_heads, nope, self.kv_rank)
        w_v = w[keys:].view(self.num_heads, value, self.kv_rank)
        hidden = torch.arange(total, device=x.device)[None, :] > positions[:, None]
        outputs = []
        for h in range(self.num_heads):
            if absorbed:
                scores = (q_n[:, :, h] @ w_k[h]) @ c.transpose(1, 2)
            else:
                scores = q_n[:, :, h] @ (c @ w_k[h].T).transpose(1, 2)
            scores = scores + q_r[:, :, h] @ k_r.transpose(1, 2)
            scores = scores / math.sqrt(nope + rope)
            weights = torch.softmax(scores.masked_fill(hidden, -math.inf), dim=-1)
            if absorbed:
                outputs.append((weights @ c) @ w_v[h].T)
            else:
                outputs.append(weights @ (c @ w_v[h].T))
        return self.o_proj(torch.cat(outputs, dim=-1).to(x.dtype))


@wrong(of="MultiHeadLatentAttention", mistakes=2)
class OneAheadAndRankScale(nn.Module):
    """Each token sees the token behind it: the diagonal is one too high.

    The scores are divided by the root of kv_rank instead of a head's width.
    """

    class Norm(nn.Module):
        def __init__(self, dim: int) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(dim))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = x.to(torch.promote_types(x.dtype, torch.float32))
            y = y * torch.rsqrt(y.pow(2).mean(dim=-1, keepdim=True) + 1e-6)
            return (y * self.weight).to(x.dtype)

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
        super().__init__()
        if rope_dim % 2:
            raise ValueError(f"rope_dim is odd: {rope_dim}")
        self.h, self.nope, self.rope, self.value = num_heads, nope_dim, rope_dim, value_dim
        self.rank, self.q_rank, self.base = kv_rank, q_rank, rope_base
        width = num_heads * (nope_dim + rope_dim)
        if q_rank is None:
            self.q_proj = nn.Linear(d_model, width, bias=False)
        else:
            self.q_a_proj = nn.Linear(d_model, q_rank, bias=False)
            self.q_a_layernorm = self.Norm(q_rank)
            self.q_b_proj = nn.Linear(q_rank, width, bias=False)
        self.kv_a_proj_with_mqa = nn.Linear(d_model, kv_rank + rope_dim, bias=False)
        self.kv_a_layernorm = self.Norm(kv_rank)
        self.kv_b_proj = nn.Linear(kv_rank, num_heads * (nope_dim + value_dim), bias=False)
        self.o_proj = nn.Linear(num_heads * value_dim, d_model, bias=False)

    def turn(self, x: torch.Tensor, start: int) -> torch.Tensor:
        y = x.to(torch.promote_types(x.dtype, torch.float32))
        position = torch.arange(start, start + x.shape[-2], dtype=y.dtype, device=x.device)
        place = torch.arange(0, self.rope, 2, dtype=y.dtype, device=x.device)
        angle = torch.outer(position, self.base ** (-place / self.rope))
        a, b = y[..., 0::2], y[..., 1::2]
        cos, sin = angle.cos(), angle.sin()
        turned = [a * cos - b * sin, a * sin + b * cos]
        return torch.stack(turned, dim=-1).flatten(-2).to(x.dtype)

    def forward(
        self, x: torch.Tensor, cache: LatentCache | None = None, absorbed: bool = False
    ) -> torch.Tensor:
        batch, t, _ = x.shape
        wide = torch.promote_types(x.dtype, torch.float32)
        start = 0 if cache is None else cache.length
        if self.q_rank is None:
            q = self.q_proj(x)
        else:
            q = self.q_b_proj(self.q_a_layernorm(self.q_a_proj(x)))
        q = q.view(batch, t, self.h, self.nope + self.rope).transpose(1, 2)
        q_nope, q_rope = q.split([self.nope, self.rope], dim=-1)
        q_rope = self.turn(q_rope, start)
        latent, k_rope = self.kv_a_proj_with_mqa(x).split([self.rank, self.rope], dim=-1)
        latent = self.kv_a_layernorm(latent)
        k_rope = self.turn(k_rope, start)
        if cache is not None:
            latent, k_rope = cache.append(latent, k_rope)
        n = latent.shape[1]
        latent, k_rope = latent.to(wide), k_rope.to(wide)
        w = self.kv_b_proj.weight.to(wide).view(self.h, self.nope + self.value, self.rank)
        if absorbed:
            q_latent = torch.einsum("bhtd,hdr->bhtr", q_nope.to(wide), w[:, : self.nope])
            scores = torch.einsum("bhtr,bnr->bhtn", q_latent, latent)
        else:
            k_nope = torch.einsum("bnr,hdr->bhnd", latent, w[:, : self.nope])
            scores = q_nope.to(wide) @ k_nope.mT
        scores = scores + torch.einsum("bhtd,bnd->bhtn", q_rope.to(wide), k_rope)
        scores = scores / math.sqrt(self.rank)
        keep = torch.ones(t, n, dtype=torch.bool, device=x.device).tril(n - t + 1)
        weights = scores.masked_fill(~keep, -math.inf).softmax(dim=-1)
        if absorbed:
            mixed = torch.einsum("bhtn,bnr->bhtr", weights, latent)
            out = torch.einsum("bhtr,hdr->bthd", mixed, w[:, self.nope :])
        else:
            values = torch.einsum("bnr,hdr->bhnd", latent, w[:, self.nope :])
            out = torch.einsum("bhtn,bhnd->bthd", weights, values)
        return self.o_proj(out.flatten(2).to(x.dtype))


@wrong(of="MultiHeadLatentAttention", mistakes=2)
class NoMaskWithACacheAndKeysFromOne(nn.Module):
    """With a cache nothing is masked, so new tokens see one another's future.

    The rotary key is turned by one position more than the query: it is counted from 1.
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
        super().__init__()
        if rope_dim % 2 == 1:
            raise ValueError(f"rope_dim={rope_dim} must be even")
        self.num_heads = num_heads
        self.dims = (nope_dim, rope_dim, value_dim)
        self.kv_rank = kv_rank
        self.rope_base = rope_base
        q_width = num_heads * (nope_dim + rope_dim)
        if q_rank is not None:
            self.q_a_proj = nn.Linear(d_model, q_rank, bias=False)
            self.q_a_layernorm = nn.ParameterDict({"weight": nn.Parameter(torch.ones(q_rank))})
            self.q_b_proj = nn.Linear(q_rank, q_width, bias=False)
        else:
            self.q_proj = nn.Linear(d_model, q_width, bias=False)
        self.kv_a_proj_with_mqa = nn.Linear(d_model, kv_rank + rope_dim, bias=False)
        self.kv_a_layernorm = nn.ParameterDict({"weight": nn.Parameter(torch.ones(kv_rank))})
        self.kv_b_proj = nn.Linear(kv_rank, num_heads * (nope_dim + value_dim), bias=False)
        self.o_proj = nn.Linear(num_heads * value_dim, d_model, bias=False)

    @staticmethod
    def wide(x: torch.Tensor) -> torch.Tensor:
        return x if x.dtype == torch.float64 else x.float()

    def rms(self, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        y = self.wide(x)
        return (y / torch.sqrt((y * y).mean(-1, keepdim=True) + 1e-6) * weight).to(x.dtype)

    def rotate(self, x: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        # x (B, t, ..., rope_dim)
        y = self.wide(x)
        i = torch.arange(y.shape[-1] // 2, dtype=y.dtype, device=x.device)
        angle = positions.to(y.dtype)[:, None] * self.rope_base ** (-2 * i / y.shape[-1])
        angle = angle.view(len(positions), *([1] * (x.dim() - 3)), angle.shape[-1])
        turn = torch.polar(torch.ones_like(angle), angle)
        z = torch.complex(y[..., 0::2].contiguous(), y[..., 1::2].contiguous()) * turn
        return torch.view_as_real(z).flatten(-2).to(x.dtype)

    def queries(self, x: torch.Tensor) -> torch.Tensor:
        if hasattr(self, "q_proj"):
            q = self.q_proj(x)
        else:
            a = self.q_a_proj(x)
            a = self.rms(a, self.q_a_layernorm["weight"])
            q = self.q_b_proj(a)
        return q.unflatten(-1, (self.num_heads, -1))  # (B, t, H, nope + rope)

    def forward(
        self, x: torch.Tensor, cache: LatentCache | None = None, absorbed: bool = False
    ) -> torch.Tensor:
        nope, rope, value = self.dims
        t = x.shape[1]
        past = cache.length if cache is not None else 0
        positions = torch.arange(past, past + t, device=x.device)
        q = self.queries(x)
        q_n = self.wide(q[..., :nope])
        q_r = self.wide(self.rotate(q[..., nope:], positions))
        compressed = self.kv_a_proj_with_mqa(x)
        c = self.rms(compressed[..., : self.kv_rank], self.kv_a_layernorm["weight"])
        k_r = self.rotate(compressed[..., self.kv_rank :], positions + 1)
        if cache is not None:
            c, k_r = cache.append(c, k_r)
        c, k_r = self.wide(c), self.wide(k_r)
        total = c.shape[1]
        w = self.wide(self.kv_b_proj.weight)
        w_k, w_v = w.unflatten(0, (self.num_heads, nope + value)).split([nope, value], dim=1)
        hidden = torch.zeros(t, total, dtype=torch.bool, device=x.device)
        if cache is None:
            hidden = torch.ones_like(hidden).triu(1)
        outputs = []
        for h in range(self.num_heads):
            if absorbed:
                scores = (q_n[:, :, h] @ w_k[h]) @ c.transpose(1, 2)
            else:
                scores = q_n[:, :, h] @ (c @ w_k[h].T).transpose(1, 2)
            scores = scores + q_r[:, :, h] @ k_r.transpose(1, 2)
            scores = scores / math.sqrt(nope + rope)
            weights = torch.softmax(scores.masked_fill(hidden, -math.inf), dim=-1)
            if absorbed:
                outputs.append((weights @ c) @ w_v[h].T)
            else:
                outputs.append(weights @ (c @ w_v[h].T))
        return self.o_proj(torch.cat(outputs, dim=-1).to(x.dtype))
