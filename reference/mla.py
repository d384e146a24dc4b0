"""The yardsticks of multi-head latent attention: plain PyTorch in the dtype of the inputs."""

import math

import torch
from torch import Tensor, nn

from reference.ex04_heads import plain_merge_heads, plain_split_heads
from reference.ex05_causal_mask import plain_causal_mask

EPS = 1e-6


def plain_rope(x: Tensor, positions: Tensor, base: float) -> Tensor:
    """The yardstick: angles in float32 at least, the rest in the dtype of x (..., t, d)."""
    wide = torch.promote_types(x.dtype, torch.float32)
    places = torch.arange(0, x.shape[-1], 2, dtype=wide, device=x.device)
    angles = positions.to(wide)[:, None] * base ** (-places / x.shape[-1])  # (t, d/2)
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.stack([a * cos - b * sin, a * sin + b * cos], -1).flatten(-2)


class PlainLatentCache:
    """The yardstick of `LatentCache`; a mistake overrides one of its steps."""

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

    @property
    def nbytes(self) -> int:
        """The bytes of all places."""
        return self.latents.nbytes + self.k_ropes.nbytes

    def append(self, latent: Tensor, k_rope: Tensor) -> tuple[Tensor, Tensor]:
        """Copy latent (B, t, R) and k_rope (B, t, rope) in; all so far, as views."""
        self.check(latent, k_rope)
        self.write(self.length, latent, k_rope)
        self.advance(latent.shape[1])
        return self.so_far()

    def reset(self) -> None:
        """Forget everything."""
        self.length = 0

    def check(self, latent: Tensor, k_rope: Tensor) -> None:
        """ValueError unless both have the cache's shape and there is room for them."""
        t, max_len = latent.shape[1], self.latents.shape[1]
        for new, buffer in ((latent, self.latents), (k_rope, self.k_ropes)):
            right = (buffer.shape[0], t, buffer.shape[2])
            if new.shape != right:
                raise ValueError(f"{tuple(new.shape)} should be {right}")
        if self.length + t > max_len:
            raise ValueError(f"{self.length + t} tokens are more than {max_len}")

    def write(self, start: int, latent: Tensor, k_rope: Tensor) -> None:
        """Store both from position `start` on."""
        self.latents[:, start : start + latent.shape[1]] = latent
        self.k_ropes[:, start : start + k_rope.shape[1]] = k_rope

    def advance(self, t: int) -> None:
        """Count t tokens more."""
        self.length += t

    def so_far(self) -> tuple[Tensor, Tensor]:
        """The filled part of both buffers."""
        return self.latents[:, : self.length], self.k_ropes[:, : self.length]


class PlainRMSNorm(nn.Module):
    """The yardstick's norm, every operator in the dtype of its input."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        """x (..., width)."""
        return self.weight * (x * torch.rsqrt(x.square().mean(-1, keepdim=True) + EPS))


class PlainMultiHeadLatentAttention(nn.Module):
    """The yardstick of `MultiHeadLatentAttention`; a mistake overrides one of its steps."""

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
            raise ValueError(f"rope_dim {rope_dim} is odd")
        self.heads, self.nope, self.rope, self.value = num_heads, nope_dim, rope_dim, value_dim
        self.kv_rank, self.q_rank, self.base = kv_rank, q_rank, rope_base
        q_width = num_heads * (nope_dim + rope_dim)
        if q_rank is None:
            self.q_proj = nn.Linear(d_model, q_width, bias=False)
        else:
            self.q_a_proj = nn.Linear(d_model, q_rank, bias=False)
            self.q_a_layernorm = PlainRMSNorm(q_rank)
            self.q_b_proj = nn.Linear(q_rank, q_width, bias=False)
        self.kv_a_proj_with_mqa = nn.Linear(d_model, kv_rank + rope_dim, bias=False)
        self.kv_a_layernorm = PlainRMSNorm(kv_rank)
        self.kv_b_proj = nn.Linear(kv_rank, num_heads * (nope_dim + value_dim), bias=False)
        self.o_proj = nn.Linear(num_heads * value_dim, d_model, bias=False)

    def forward(
        self, x: Tensor, cache: PlainLatentCache | None = None, absorbed: bool = False
    ) -> Tensor:
        """x (B, t, E) -> (B, t, E)."""
        start = self.start(cache)
        q_nope, q_rope = self.parts_of_queries(self.queries(x))
        latent, k_rope = self.compress(x)
        q_rope, k_rope = self.rotate(q_rope, start), self.rotate_key(k_rope, start)
        latents, k_ropes = self.remember(latent, k_rope, cache)
        attend = self.absorbed if absorbed else self.naive
        heads = attend(q_nope, q_rope, self.up(latents), self.up(k_ropes))  # (B, H, t, value)
        return self.project(heads.to(x.dtype))

    def up(self, x: Tensor) -> Tensor:
        """In what precision to go on; the yardstick goes on in its own."""
        return x

    def start(self, cache: PlainLatentCache | None) -> int:
        """The position of the first token."""
        return 0 if cache is None else cache.length

    def queries(self, x: Tensor) -> Tensor:
        """(B, t, E) -> (B, t, H * (nope + rope))."""
        if self.q_rank is None:
            q: Tensor = self.q_proj(x)
        else:
            q = self.q_b_proj(self.norm(self.q_a_layernorm, self.q_a_proj(x)))
        return q

    def norm(self, layer: nn.Module, x: Tensor) -> Tensor:
        """One of the two norms, of x (..., width)."""
        y: Tensor = layer(self.up(x)).to(x.dtype)
        return y

    def parts_of_queries(self, q: Tensor) -> tuple[Tensor, Tensor]:
        """(B, H, t, nope) and (B, H, t, rope)."""
        split = plain_split_heads(q, self.heads)
        return split[..., : self.nope], split[..., self.nope :]

    def compress(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The normalised latent (B, t, R), and the shared key (B, t, rope), not yet rotated."""
        both = self.kv_a_proj_with_mqa(x)
        latent = self.norm(self.kv_a_layernorm, both[..., : self.kv_rank])
        return latent, both[..., self.kv_rank :]

    def rotate(self, x: Tensor, start: int) -> Tensor:
        """x (..., t, rope) at the positions from `start` on."""
        positions = torch.arange(start, start + x.shape[-2], device=x.device)
        return plain_rope(self.up(x), positions, self.base).to(x.dtype)

    def rotate_key(self, x: Tensor, start: int) -> Tensor:
        """The same for the key."""
        return self.rotate(x, start)

    def remember(
        self, latent: Tensor, k_rope: Tensor, cache: PlainLatentCache | None
    ) -> tuple[Tensor, Tensor]:
        """What to attend to, (B, n, R) and (B, n, rope), once the new ones are in the cache."""
        return (latent, k_rope) if cache is None else cache.append(latent, k_rope)

    def expansion(self) -> tuple[Tensor, Tensor]:
        """The key matrix (H, nope, R) and the value matrix (H, value, R) of every head."""
        sizes = (self.heads, self.nope + self.value, self.kv_rank)
        weight = self.up(self.kv_b_proj.weight).reshape(sizes)
        return weight[:, : self.nope], weight[:, self.nope :]

    def naive(self, q_nope: Tensor, q_rope: Tensor, latents: Tensor, k_ropes: Tensor) -> Tensor:
        """Keys and values of every head, then attention: (B, H, t, value)."""
        w_k, w_v = self.expansion()
        k = torch.einsum("bnr,hdr->bhnd", latents, w_k)
        v = torch.einsum("bnr,hdr->bhnd", latents, w_v)
        scores = self.up(q_nope) @ k.mT + self.up(q_rope) @ k_ropes[:, None].mT
        return self.weights(scores) @ v

    def absorbed(self, q_nope: Tensor, q_rope: Tensor, latents: Tensor, k_ropes: Tensor) -> Tensor:
        """The key matrix in the query, the value matrix in the output: (B, H, t, value)."""
        w_k, w_v = self.expansion()
        q_latent = self.up(q_nope) @ w_k  # (B, H, t, R)
        scores = q_latent @ latents[:, None].mT + self.up(q_rope) @ k_ropes[:, None].mT
        return self.weights(scores) @ latents[:, None] @ w_v.mT

    def weights(self, scores: Tensor) -> Tensor:
        """The causal softmax of scores (B, H, t, n) that are not scaled yet."""
        keep = self.keep(*scores.shape[-2:]).to(scores.device)
        return torch.softmax((scores * self.scale()).masked_fill(~keep, -torch.inf), -1)

    def keep(self, t: int, n: int) -> Tensor:
        """What the last t of n positions may see."""
        return plain_causal_mask(t, n)

    def scale(self) -> float:
        """What the scores are multiplied by."""
        return 1 / math.sqrt(self.nope + self.rope)

    def project(self, heads: Tensor) -> Tensor:
        """(B, H, t, value) -> (B, t, E)."""
        y: Tensor = self.o_proj(plain_merge_heads(heads))
        return y
