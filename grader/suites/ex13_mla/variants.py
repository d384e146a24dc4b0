"""Right answers, written otherwise."""

import math

import torch

from grader.judging import variant


@variant(of="LatentCache")
class OneBuffer:
    """One buffer (B, max_len, R + rope), split when it is handed out."""

    def __init__(self, batch, max_len, kv_rank, rope_dim, dtype=torch.float32, device=None):
        self.widths = [kv_rank, rope_dim]
        self.room = torch.empty(batch, max_len, sum(self.widths), dtype=dtype, device=device)
        self.length = 0

    @property
    def nbytes(self):
        return self.room.numel() * self.room.element_size()

    @property
    def latents(self):
        return self.room[..., : self.widths[0]]

    @property
    def k_ropes(self):
        return self.room[..., self.widths[0] :]

    def append(self, latent, k_rope):
        batch, max_len, _ = self.room.shape
        t = latent.shape[1]
        for x, width in zip((latent, k_rope), self.widths, strict=True):
            for is_, should in zip(x.shape, (batch, t, width), strict=True):
                if is_ != should:
                    raise ValueError(f"{is_}, but should be {should}")
        if t > max_len - self.length:
            raise ValueError(f"{self.length} + {t} = {self.length + t} tokens, for {max_len}")
        new = torch.cat([latent.to(self.room.dtype), k_rope.to(self.room.dtype)], dim=-1)
        self.room.narrow(1, self.length, t).copy_(new)
        self.length += t
        return tuple(self.room[:, : self.length].split(self.widths, dim=-1))

    def reset(self):
        self.length = 0
        self.room.zero_()


@variant(of="LatentCache")
class LengthFirst:
    """Laid out (max_len, B, width) and written by index; what is handed out are copies."""

    def __init__(self, batch, max_len, kv_rank, rope_dim, dtype=torch.float32, device=None):
        self.parts = [
            torch.full((max_len, batch, width), torch.nan, dtype=dtype, device=device)
            for width in (kv_rank, rope_dim)
        ]
        self.nbytes = batch * max_len * (kv_rank + rope_dim) * torch.finfo(dtype).bits // 8
        self.latents, self.k_ropes = (part.transpose(0, 1) for part in self.parts)
        self.length = 0

    def append(self, latent, k_rope):
        t = latent.shape[1]
        for part, x in zip(self.parts, (latent, k_rope), strict=True):
            right = (part.shape[1], t, part.shape[2])
            if tuple(x.shape) != right:
                raise ValueError(f"expected {right}, got {tuple(x.shape)}")
        end = self.length + t
        if end > len(self.parts[0]):
            raise ValueError(f"no room for {end} tokens, only for {len(self.parts[0])}")
        places = torch.arange(self.length, end, device=self.parts[0].device)
        for part, x in zip(self.parts, (latent, k_rope), strict=True):
            part[places] = x.detach().transpose(0, 1).to(part.dtype)
        self.length = end
        return [part[:end].transpose(0, 1).contiguous() for part in self.parts]

    def reset(self):
        self.length = 0


@variant(of="MultiHeadLatentAttention")
class AsInTheReleasedCode(torch.nn.Module):
    """Complex numbers for RoPE and einsum for the rest, rounded to half precision at every step."""

    class Norm(torch.nn.Module):
        def __init__(self, width):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(width))

        def forward(self, x):
            wide = x.to(torch.promote_types(x.dtype, torch.float32))
            normed = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
            return self.weight * normed.to(x.dtype)

    def __init__(
        self, d_model, num_heads, nope_dim, rope_dim, value_dim, kv_rank, q_rank=None,
        rope_base=10000.0,
    ):  # fmt: skip
        super().__init__()
        if rope_dim % 2 != 0:
            raise ValueError(f"rope_dim must be even, not {rope_dim}")
        self.h, self.nope, self.rope, self.base = num_heads, nope_dim, rope_dim, rope_base
        self.rank, self.q_rank = kv_rank, q_rank
        width = num_heads * (nope_dim + rope_dim)
        if q_rank:
            self.q_a_proj = torch.nn.Linear(d_model, q_rank, bias=False)
            self.q_a_layernorm = self.Norm(q_rank)
            self.q_b_proj = torch.nn.Linear(q_rank, width, bias=False)
        else:
            self.q_proj = torch.nn.Linear(d_model, width, bias=False)
        self.kv_a_proj_with_mqa = torch.nn.Linear(d_model, kv_rank + rope_dim, bias=False)
        self.kv_a_layernorm = self.Norm(kv_rank)
        self.kv_b_proj = torch.nn.Linear(kv_rank, num_heads * (nope_dim + value_dim), bias=False)
        self.o_proj = torch.nn.Linear(num_heads * value_dim, d_model, bias=False)

    def turn(self, x, start):
        """x (B, t, H, rope)."""
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        rates = self.base ** (
            -torch.arange(0, self.rope, 2, dtype=torch.float64, device=x.device) / self.rope
        )
        positions = torch.arange(start, start + x.shape[1], device=x.device)
        angles = torch.outer(positions.double(), rates)
        turns = torch.polar(torch.ones_like(angles), angles)[:, None]
        pairs = torch.view_as_complex(wide.clone().reshape(*x.shape[:-1], self.rope // 2, 2))
        return torch.view_as_real(pairs * turns.to(pairs.dtype)).flatten(3).to(x.dtype)

    def forward(self, x, cache=None, absorbed=False):
        b, t, _ = x.shape
        start = cache.length if cache is not None else 0
        q = self.q_b_proj(self.q_a_layernorm(self.q_a_proj(x))) if self.q_rank else self.q_proj(x)
        q = q.view(b, t, self.h, self.nope + self.rope)
        q_nope, q_pe = torch.split(q, [self.nope, self.rope], dim=-1)
        q_pe = self.turn(q_pe, start)
        kv, k_pe = torch.split(self.kv_a_proj_with_mqa(x), [self.rank, self.rope], dim=-1)
        kv, k_pe = self.kv_a_layernorm(kv), self.turn(k_pe.unsqueeze(2), start).squeeze(2)
        if cache is not None:
            kv, k_pe = cache.append(kv, k_pe)
        wide = torch.promote_types(x.dtype, torch.float32)
        w = self.kv_b_proj.weight.view(self.h, -1, self.rank)
        if absorbed:
            q_nope = torch.einsum("bshd,hdc->bshc", q_nope, w[:, : self.nope])
            scores = torch.einsum("bshc,btc->bsht", q_nope.to(wide), kv.to(wide))
        else:
            made = self.kv_b_proj(kv).view(b, kv.shape[1], self.h, w.shape[1])
            k, v = made[..., : self.nope], made[..., self.nope :]
            scores = torch.einsum("bshd,bthd->bsht", q_nope.to(wide), k.to(wide))
        scores = scores + torch.einsum("bshr,btr->bsht", q_pe.to(wide), k_pe.to(wide))
        scores = scores * (self.nope + self.rope) ** -0.5
        n = kv.shape[1]
        mask = torch.full((t, n), float("-inf"), device=x.device, dtype=wide).triu(n - t + 1)
        weights = (scores + mask[:, None]).softmax(dim=-1).type_as(x)
        if absorbed:
            out = torch.einsum("bsht,btc->bshc", weights, kv)
            out = torch.einsum("bshc,hdc->bshd", out, w[:, self.nope :])
        else:
            out = torch.einsum("bsht,bthd->bshd", weights, v)
        return self.o_proj(out.flatten(2))


@variant(of="MultiHeadLatentAttention")
class LikeMultiQueryAttention(torch.nn.Module):
    """Always absorbed: every head attends to one key, latent and rotary key side by side.

    What is turned is kept in another order: first places of all pairs, then second places.
    """

    def __init__(
        self, d_model, num_heads, nope_dim, rope_dim, value_dim, kv_rank, q_rank=None,
        rope_base=10000.0,
    ):  # fmt: skip
        super().__init__()
        if rope_dim % 2:
            raise ValueError(f"{rope_dim} is odd")
        self.sizes, self.base = (num_heads, nope_dim, rope_dim, value_dim, kv_rank), rope_base
        shapes = {
            "q_proj": (d_model, num_heads * (nope_dim + rope_dim)),
            "kv_a_proj_with_mqa": (d_model, kv_rank + rope_dim),
            "kv_b_proj": (kv_rank, num_heads * (nope_dim + value_dim)),
            "o_proj": (num_heads * value_dim, d_model),
        }
        norms = {"kv_a_layernorm": kv_rank}
        if q_rank is not None:
            shapes["q_a_proj"] = (d_model, q_rank)
            shapes["q_b_proj"] = (q_rank, shapes.pop("q_proj")[1])
            norms["q_a_layernorm"] = q_rank
        for name, (width, out) in shapes.items():
            self.add_module(name, torch.nn.Linear(width, out, bias=False))
        for name, width in norms.items():
            norm = torch.nn.Module()
            norm.weight = torch.nn.Parameter(torch.ones(width))
            self.add_module(name, norm)

    @staticmethod
    def wide(x):
        return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x

    def normed(self, norm, x):
        wide = self.wide(x)
        length = torch.linalg.vector_norm(wide, dim=-1, keepdim=True)
        size = torch.sqrt(length**2 / x.shape[-1] + 1e-6)
        return (wide * self.wide(norm.weight) / size).to(x.dtype)

    def turned(self, x, start):
        wide = self.wide(x)
        half = x.shape[-1] // 2
        steps = torch.arange(half, dtype=wide.dtype, device=x.device)
        rates = torch.exp(-math.log(self.base) * steps / half)
        positions = start + torch.arange(x.shape[-2], dtype=wide.dtype, device=x.device)
        cos, sin = (f(positions.unsqueeze(1) * rates) for f in (torch.cos, torch.sin))
        a, b = wide[..., ::2], wide[..., 1::2]
        return torch.cat([a * cos - b * sin, a * sin + b * cos], -1).to(x.dtype)

    def forward(self, x, cache=None, absorbed=False):
        heads, nope, rope, _, rank = self.sizes
        t, start = x.shape[1], 0 if cache is None else cache.length
        if hasattr(self, "q_a_proj"):
            q = self.q_b_proj(self.normed(self.q_a_layernorm, self.q_a_proj(x)))
        else:
            q = self.q_proj(x)
        q = q.reshape(x.shape[0], t, heads, nope + rope).permute(0, 2, 1, 3)
        made = self.kv_a_proj_with_mqa(x)
        latents = self.normed(self.kv_a_layernorm, made[..., :rank])
        k_ropes = self.turned(made[..., rank:], start)
        if cache is not None:
            latents, k_ropes = cache.append(latents, k_ropes)
        w = self.wide(self.kv_b_proj.weight).reshape(heads, -1, rank)
        inner = torch.einsum("bhtd,hdr->bhtr", self.wide(q[..., :nope]), w[:, :nope])
        q = torch.cat([inner, self.wide(self.turned(q[..., nope:], start))], -1)
        keys = self.wide(torch.cat([latents, k_ropes], -1)).unsqueeze(1)
        scores = torch.matmul(q, keys.transpose(2, 3)) / math.sqrt(nope + rope)
        n = keys.shape[2]
        later = torch.arange(n, device=x.device)[None] > start + torch.arange(
            t, device=x.device
        ).unsqueeze(1)
        powers = torch.where(later, -torch.inf, scores)
        powers = torch.exp(powers - powers.amax(-1, keepdim=True))
        mixed = torch.matmul(powers, keys[..., :rank]) / powers.sum(-1, keepdim=True)
        out = torch.einsum("bhtr,hvr->bthv", mixed, w[:, nope:])
        return self.o_proj(out.to(x.dtype).flatten(2))


@variant(of="MultiHeadLatentAttention")
class HeadByHeadInDouble(torch.nn.Module):
    """Every head and every token by itself, in float64, without a mask."""

    class RMS(torch.nn.Module):
        def __init__(self, width):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(width))

        def forward(self, x):
            x64 = x.double()
            root = (x64.square().mean(-1, keepdim=True) + 1e-6) ** 0.5
            return (self.weight.double() * x64 / root).to(x.dtype)

    def __init__(
        self, d_model, num_heads, nope_dim, rope_dim, value_dim, kv_rank, q_rank=None,
        rope_base=10000.0,
    ):  # fmt: skip
        super().__init__()
        if rope_dim & 1:
            raise ValueError(f"no pairs in a rope_dim of {rope_dim}")
        linear = lambda n, m: torch.nn.Linear(n, m, bias=False)  # noqa: E731
        self.dims = num_heads, nope_dim, rope_dim, value_dim, kv_rank
        self.rope_base = rope_base
        self.o_proj = linear(num_heads * value_dim, d_model)
        self.kv_b_proj = linear(kv_rank, num_heads * (nope_dim + value_dim))
        self.kv_a_layernorm = self.RMS(kv_rank)
        self.kv_a_proj_with_mqa = linear(d_model, kv_rank + rope_dim)
        if q_rank is None:
            self.q_proj = linear(d_model, num_heads * (nope_dim + rope_dim))
            self.query = self.q_proj.forward
        else:
            self.q_a_proj = linear(d_model, q_rank)
            self.q_a_layernorm = self.RMS(q_rank)
            self.q_b_proj = linear(q_rank, num_heads * (nope_dim + rope_dim))
            self.query = lambda x: self.q_b_proj(self.q_a_layernorm(self.q_a_proj(x)))

    def at(self, x, position):
        """One token's rotary places (..., rope), turned pair by pair."""
        places = []
        for i in range(0, x.shape[-1], 2):
            angle = position / self.rope_base ** (i / x.shape[-1])
            cos, sin = math.cos(angle), math.sin(angle)
            places += [x[..., i] * cos - x[..., i + 1] * sin, x[..., i] * sin + x[..., i + 1] * cos]
        return torch.stack(places, -1)

    def forward(self, x, cache=None, absorbed=False):
        heads, nope, rope, value, rank = self.dims
        old = 0 if cache is None else cache.length
        t = x.shape[1]
        made = self.kv_a_proj_with_mqa(x)
        keys = [self.at(made[:, i, rank:].double(), old + i).to(x.dtype) for i in range(t)]
        latents, keys = self.kv_a_layernorm(made[..., :rank]), torch.stack(keys, 1)
        if cache is not None:
            latents, keys = cache.append(latents, keys)
        q, latents, keys = self.query(x).double(), latents.double(), keys.double()
        rows = []
        for i in range(t):
            seen, row = old + i + 1, []
            for h in range(heads):
                w = self.kv_b_proj.weight[h * (nope + value) : (h + 1) * (nope + value)].double()
                one = q[:, i, h * (nope + rope) : (h + 1) * (nope + rope)]
                inner = (one[:, :nope] @ w[:nope]).unsqueeze(-1)
                turned = self.at(one[:, nope:], old + i).unsqueeze(-1)
                scores = latents[:, :seen] @ inner + keys[:, :seen] @ turned  # (B, seen, 1)
                weights = torch.softmax(scores / math.sqrt(nope + rope), 1)
                row.append((weights * latents[:, :seen]).sum(1) @ w[nope:].T)
            rows.append(torch.cat(row, -1))
        return self.o_proj(torch.stack(rows, 1).to(x.dtype))


@variant(of="MultiHeadLatentAttention")
class AsInTheLibraries(torch.nn.Module):
    """As model libraries have it: halves are rotated, masks are numbers, weights are fused."""

    class Norm(torch.nn.Module):
        def __init__(self, width):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(width))

        def forward(self, x):
            wide = x if x.dtype == torch.float64 else x.to(torch.float32)
            variance = wide.pow(2).mean(-1, keepdim=True)
            wide = wide * torch.rsqrt(variance + 1e-6)
            return self.weight * wide.to(x.dtype)

    def __init__(
        self, d_model, num_heads, nope_dim, rope_dim, value_dim, kv_rank, q_rank=None,
        rope_base=10000.0,
    ):  # fmt: skip
        super().__init__()
        if rope_dim % 2:
            raise ValueError(f"rope_dim must be even, got {rope_dim}")
        self.heads, self.nope, self.rope, self.value = num_heads, nope_dim, rope_dim, value_dim
        self.rank, self.narrow, self.theta = kv_rank, q_rank is not None, rope_base
        self.scaling = 1 / (nope_dim + rope_dim) ** 0.5
        width = num_heads * (nope_dim + rope_dim)
        if self.narrow:
            self.q_a_proj = torch.nn.Linear(d_model, q_rank, bias=False)
            self.q_a_layernorm = self.Norm(q_rank)
            self.q_b_proj = torch.nn.Linear(q_rank, width, bias=False)
        else:
            self.q_proj = torch.nn.Linear(d_model, width, bias=False)
        self.kv_a_proj_with_mqa = torch.nn.Linear(d_model, kv_rank + rope_dim, bias=False)
        self.kv_a_layernorm = self.Norm(kv_rank)
        self.kv_b_proj = torch.nn.Linear(kv_rank, num_heads * (nope_dim + value_dim), bias=False)
        self.o_proj = torch.nn.Linear(num_heads * value_dim, d_model, bias=False)

    def cos_sin(self, start, t, wide, device):
        steps = torch.arange(0, self.rope, 2, dtype=torch.int64, device=device).to(wide)
        inverse = 1.0 / (self.theta ** (steps / self.rope))
        positions = torch.arange(start, start + t, device=device).to(wide)
        freqs = positions[:, None] @ inverse[None, :]
        twice = torch.cat((freqs, freqs), dim=-1)
        return twice.cos(), twice.sin()

    def rotate(self, x, cos, sin):
        """Places 0, 2, 4 ... first, then those between: so it is kept, in queries and keys."""
        x = x.unflatten(-1, (self.rope // 2, 2)).transpose(-1, -2).flatten(-2)
        left, right = x[..., : self.rope // 2], x[..., self.rope // 2 :]
        return x * cos + torch.cat((-right, left), dim=-1) * sin

    def forward(self, x, cache=None, absorbed=False):
        batch, t = x.shape[:2]
        wide = torch.promote_types(x.dtype, torch.float32)
        start = 0 if cache is None else cache.length
        down = self.kv_a_proj_with_mqa.weight
        first = self.q_a_proj.weight if self.narrow else self.q_proj.weight
        fused = torch.nn.functional.linear(x, torch.cat([first, down]))
        q, latent, k_pe = fused.split([len(first), self.rank, self.rope], dim=-1)
        if self.narrow:
            q = torch.nn.functional.linear(self.q_a_layernorm(q), self.q_b_proj.weight)
        latent = self.kv_a_layernorm(latent)
        cos, sin = self.cos_sin(start, t, wide, x.device)
        k_pe = self.rotate(k_pe.to(wide), cos, sin).to(x.dtype)
        if cache is not None:
            latent, k_pe = cache.append(latent, k_pe)
        n = latent.shape[1]
        q = q.reshape(batch, t, self.heads, self.nope + self.rope).transpose(1, 2).to(wide)
        q_nope, q_pe = q[..., : self.nope], self.rotate(q[..., self.nope :], cos, sin)
        latent, k_pe = latent.to(wide).unsqueeze(1), k_pe.to(wide).unsqueeze(1)
        w = self.kv_b_proj.weight.to(wide).reshape(1, self.heads, self.nope + self.value, self.rank)
        w_k, w_v = w[:, :, : self.nope], w[:, :, self.nope :]
        if absorbed:
            query, key, value = torch.cat([q_nope @ w_k, q_pe], -1), [latent, k_pe], latent
            key = torch.cat(key, -1)
        else:
            key, value = latent @ w_k.transpose(-1, -2), latent @ w_v.transpose(-1, -2)
            key = torch.cat([key, k_pe.repeat(1, self.heads, 1, 1)], -1)
            query = torch.cat([q_nope, q_pe], -1)
        scores = torch.matmul(query * self.scaling, key.transpose(2, 3))
        allowed = torch.tril(torch.ones(n, n, device=x.device))[n - t :]
        scores = scores.masked_fill(allowed == 0, torch.finfo(wide).min)
        weights = torch.nn.functional.softmax(scores, dim=-1, dtype=wide)
        out = torch.matmul(weights, value)
        out = out @ w_v.transpose(-1, -2) if absorbed else out
        out = out.transpose(1, 2).contiguous().to(x.dtype)
        return self.o_proj(out.reshape(batch, t, self.heads * self.value))
