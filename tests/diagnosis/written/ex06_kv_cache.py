"""Wrong answers to ex06_kv_cache, written with nothing but the skeleton in sight."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import nn

from tests.diagnosis.written import wrong

if TYPE_CHECKING:  # the names that an answer finds in the rest of its file
    from exercises.ex06_kv_cache import KVCache, attend_with_past


@wrong(of="attend_with_past", mistakes=1)
def triangle_over_the_first_keys(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    past: tuple[torch.Tensor, torch.Tensor] | None = None,
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """The triangle is aligned to the first key of the past, as if the text began anew."""
    if past is not None:
        k = torch.cat([past[0], k], dim=-2)
        v = torch.cat([past[1], v], dim=-2)
    wide = torch.promote_types(q.dtype, torch.float32)
    scores = q.to(wide) @ k.to(wide).transpose(-2, -1) / math.sqrt(q.shape[-1])
    t, n = scores.shape[-2:]
    keep = torch.ones(t, n, dtype=torch.bool, device=q.device).tril()
    weights = scores.masked_fill(~keep, float("-inf")).softmax(dim=-1)
    return (weights @ v.to(wide)).to(q.dtype), (k, v)


@wrong(of="attend_with_past", mistakes=1)
def mask_for_the_prompt_alone(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    past: tuple[torch.Tensor, torch.Tensor] | None = None,
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """With a past there is no mask at all, which is right for one new token only."""
    wide = torch.promote_types(q.dtype, torch.float32)
    first_call = past is None
    if past is not None:
        old_k, old_v = past
        k, v = torch.cat((old_k, k), -2), torch.cat((old_v, v), -2)
    scores = torch.einsum("...td,...nd->...tn", q.to(wide), k.to(wide)) * q.size(-1) ** -0.5
    if first_call:
        t = q.size(-2)
        future = torch.triu(torch.ones(t, t, device=q.device), diagonal=1).bool()
        scores = scores.masked_fill(future, -math.inf)
    out = torch.einsum("...tn,...nd->...td", torch.softmax(scores, -1), v.to(wide))
    return out.to(q.dtype), (k, v)


@wrong(of="attend_with_past", mistakes=1)
def past_of_the_new_tokens_alone(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    past: tuple[torch.Tensor, torch.Tensor] | None = None,
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """The past that is returned holds the new tokens only; those before are forgotten."""
    keys, values = k, v
    if past is not None:
        keys = torch.cat([past[0], k], dim=-2)
        values = torch.cat([past[1], v], dim=-2)
    wide = torch.promote_types(q.dtype, torch.float32)
    t, n = q.shape[-2], keys.shape[-2]
    scores = q.to(wide) @ keys.to(wide).mT / math.sqrt(q.shape[-1])
    hidden = torch.arange(n, device=q.device) > torch.arange(n - t, n, device=q.device)[:, None]
    weights = scores.masked_fill(hidden, -math.inf).softmax(-1)
    return (weights @ values.to(wide)).to(q.dtype), (k, v)


@wrong(of="attend_with_past", mistakes=1)
def new_tokens_in_front(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    past: tuple[torch.Tensor, torch.Tensor] | None = None,
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """The new keys and values are put before the past instead of behind it."""
    if past is not None:
        k = torch.cat([k, past[0]], dim=-2)
        v = torch.cat([v, past[1]], dim=-2)
    wide = torch.promote_types(q.dtype, torch.float32)
    t, n = q.shape[-2], k.shape[-2]
    keep = torch.ones((t, n), dtype=torch.bool, device=q.device).tril(n - t)
    scores = (q.to(wide) @ k.to(wide).transpose(-1, -2)) / q.shape[-1] ** 0.5
    weights = torch.softmax(torch.where(keep, scores, -math.inf), dim=-1)
    return torch.matmul(weights, v.to(wide)).to(q.dtype), (k, v)


@wrong(of="attend_with_past", mistakes=1)
def minus_ten_thousand(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    past: tuple[torch.Tensor, torch.Tensor] | None = None,
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """Later tokens get -10,000 added to their scores instead of the score -inf."""
    if past is not None:
        k = torch.cat([past[0], k], dim=-2)
        v = torch.cat([past[1], v], dim=-2)
    wide = torch.promote_types(q.dtype, torch.float32)
    t, n = q.shape[-2], k.shape[-2]
    bias = torch.full((t, n), -10000.0, dtype=wide, device=q.device).triu(n - t + 1)
    scores = q.to(wide) @ k.to(wide).transpose(-2, -1) / math.sqrt(q.shape[-1]) + bias
    return (scores.softmax(-1) @ v.to(wide)).to(q.dtype), (k, v)


@wrong(of="attend_with_past", mistakes=1)
def scaled_keys_in_the_past(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    past: tuple[torch.Tensor, torch.Tensor] | None = None,
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """Keys are scaled before they go into the past, so old keys are scaled again at each call."""
    if past is not None:
        k = torch.cat([past[0], k], dim=-2)
        v = torch.cat([past[1], v], dim=-2)
    k = k / math.sqrt(k.shape[-1])
    wide = torch.promote_types(q.dtype, torch.float32)
    t, n = q.shape[-2], k.shape[-2]
    scores = q.to(wide) @ k.to(wide).mT
    keep = torch.arange(n, device=q.device) <= torch.arange(t, device=q.device)[:, None] + n - t
    weights = scores.masked_fill(~keep, -math.inf).softmax(-1)
    return (weights @ v.to(wide)).to(q.dtype), (k, v)


@wrong(of="attend_with_past", mistakes=1)
def past_cut_from_the_graph(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    past: tuple[torch.Tensor, torch.Tensor] | None = None,
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """The past is detached, so no gradients flow to the tokens before."""
    if past is not None:
        pk, pv = (p.detach() for p in past)
        k = torch.cat([pk, k], dim=-2)
        v = torch.cat([pv, v], dim=-2)
    wide = torch.promote_types(q.dtype, torch.float32)
    t, n = q.shape[-2], k.shape[-2]
    mask = torch.ones(t, n, device=q.device).triu(diagonal=1 + n - t) > 0
    scores = (q.to(wide) / math.sqrt(q.shape[-1])) @ k.to(wide).mT
    return (scores.masked_fill(mask, -math.inf).softmax(-1) @ v.to(wide)).to(q.dtype), (k, v)


@wrong(of="attend_with_past", mistakes=1)
def joined_along_the_second_axis(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    past: tuple[torch.Tensor, torch.Tensor] | None = None,
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """The past is joined along axis 1, which are the tokens of (B, t, D), but not with heads."""
    if past is not None:
        k = torch.cat([past[0], k], dim=1)
        v = torch.cat([past[1], v], dim=1)
    wide = torch.promote_types(q.dtype, torch.float32)
    t, n = q.shape[-2], k.shape[-2]
    scores = q.to(wide) @ k.to(wide).transpose(-2, -1) / math.sqrt(q.shape[-1])
    keep = torch.ones(t, n, device=q.device).tril(diagonal=n - t).bool()
    weights = scores.masked_fill(~keep, float("-inf")).softmax(dim=-1)
    return (weights @ v.to(wide)).to(q.dtype), (k, v)


@wrong(of="attend_with_past", mistakes=1)
def half_stays_half(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    past: tuple[torch.Tensor, torch.Tensor] | None = None,
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """Half precision is computed in itself: products of 256 by 256 overflow in float16."""
    keys = k if past is None else torch.cat([past[0], k], dim=-2)
    values = v if past is None else torch.cat([past[1], v], dim=-2)
    t, n = q.size(-2), keys.size(-2)
    scores = torch.matmul(q, keys.transpose(-2, -1)) / math.sqrt(q.size(-1))
    hidden = torch.ones(t, n, dtype=torch.bool, device=q.device).triu(n - t + 1)
    weights = torch.softmax(scores.masked_fill(hidden, -math.inf), dim=-1)
    return torch.matmul(weights, values), (keys, values)


@wrong(of="attend_with_past", mistakes=1)
def past_in_float32(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    past: tuple[torch.Tensor, torch.Tensor] | None = None,
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """The past comes back in float32 where the inputs are in half precision."""
    dtype = q.dtype
    if dtype in (torch.float16, torch.bfloat16):
        q, k, v = q.float(), k.float(), v.float()
    if past is not None:
        k = torch.cat([past[0].to(k.dtype), k], dim=-2)
        v = torch.cat([past[1].to(v.dtype), v], dim=-2)
    t, n = q.shape[-2], k.shape[-2]
    keep = torch.arange(n, device=q.device) <= torch.arange(n - t, n, device=q.device)[:, None]
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    output = scores.masked_fill(~keep, -math.inf).softmax(-1) @ v
    return output.to(dtype), (k, v)


@wrong(of="attend_with_past", mistakes=1)
def one_token_ahead(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    past: tuple[torch.Tensor, torch.Tensor] | None = None,
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """Every new token also sees the token behind it: the diagonal is one too high."""
    if past is not None:
        k = torch.cat([past[0], k], dim=-2)
        v = torch.cat([past[1], v], dim=-2)
    wide = torch.promote_types(q.dtype, torch.float32)
    n, t = k.shape[-2], q.shape[-2]
    start = n - t
    scores = q.to(wide) @ k.to(wide).transpose(-2, -1) / math.sqrt(q.shape[-1])
    for i in range(t):
        blocked = torch.arange(n, device=q.device) > start + i + 1
        row = scores[..., i, :].masked_fill(blocked, -math.inf)
        scores = torch.cat([scores[..., :i, :], row[..., None, :], scores[..., i + 1 :, :]], -2)
    return (torch.softmax(scores, dim=-1) @ v.to(wide)).to(q.dtype), (k, v)


@wrong(of="attend_with_past", mistakes=2)
def no_scale_and_no_mask_later(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    past: tuple[torch.Tensor, torch.Tensor] | None = None,
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """The scores are not divided by sqrt(D).

    With a past there is no mask, so new tokens see those behind them.
    """
    wide = torch.promote_types(q.dtype, torch.float32)
    if past is None:
        t = k.shape[-2]
        bias = torch.full((t, t), -math.inf, dtype=wide, device=q.device).triu(1)
    else:
        bias = 0.0
        k = torch.cat([past[0], k], dim=-2)
        v = torch.cat([past[1], v], dim=-2)
    weights = torch.softmax(q.to(wide) @ k.to(wide).mT + bias, dim=-1)
    return (weights @ v.to(wide)).to(q.dtype), (k, v)


@wrong(of="attend_with_past", mistakes=2)
def in_front_and_half(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    past: tuple[torch.Tensor, torch.Tensor] | None = None,
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """The new values are put before the old ones, while the keys are joined the right way.

    Half precision is computed in itself instead of float32.
    """
    if past is not None:
        past_k, past_v = past
        k = torch.cat((past_k, k), dim=-2)
        v = torch.cat((v, past_v), dim=-2)
    t, n = q.shape[-2], k.shape[-2]
    keep = torch.ones(t, n, dtype=torch.bool, device=q.device).tril(n - t)
    scores = q @ k.transpose(-2, -1) * (q.shape[-1] ** -0.5)
    weights = scores.masked_fill(~keep, float("-inf")).softmax(-1)
    return weights @ v, (k, v)


@wrong(of="attend_with_past", mistakes=2)
def detached_and_large_negative(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    past: tuple[torch.Tensor, torch.Tensor] | None = None,
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """The past that is returned is detached: no gradients flow through it.

    The scores of later tokens are lowered by 1e9 instead of set to -inf.
    """
    if past is not None:
        k = torch.cat([past[0], k], dim=-2)
        v = torch.cat([past[1], v], dim=-2)
    wide = torch.promote_types(q.dtype, torch.float32)
    n, t = k.shape[-2], q.shape[-2]
    later = torch.arange(n, device=q.device) > torch.arange(n - t, n, device=q.device)[:, None]
    scores = q.to(wide) @ k.to(wide).mT / math.sqrt(q.shape[-1]) - 1e9 * later.to(wide)
    out = (scores.softmax(dim=-1) @ v.to(wide)).to(q.dtype)
    return out, (k.detach(), v.detach())


@wrong(of="attend_with_past", mistakes=2)
def first_corner_and_own_width(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    past: tuple[torch.Tensor, torch.Tensor] | None = None,
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """The triangle is aligned to the first key of the past.

    The scores are divided by the root of the number of keys instead of the width.
    """
    if past is not None:
        k = torch.cat([past[0], k], dim=-2)
        v = torch.cat([past[1], v], dim=-2)
    wide = torch.promote_types(q.dtype, torch.float32)
    scores = q.to(wide) @ k.to(wide).transpose(-2, -1)
    scores = scores / math.sqrt(max(k.shape[-2], 1))
    future = torch.ones_like(scores, dtype=torch.bool).triu(1)
    weights = torch.softmax(scores.masked_fill(future, -math.inf), dim=-1)
    return (weights @ v.to(wide)).to(q.dtype), (k, v)


@wrong(of="KVCache", mistakes=1)
class WritesAtTheFront:
    """Every append writes at position 0 and overwrites what was there; only the length grows."""

    def __init__(
        self,
        batch: int,
        num_heads: int,
        max_len: int,
        head_dim: int,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str | None = None,
    ) -> None:
        self.keys = torch.zeros(batch, num_heads, max_len, head_dim, dtype=dtype, device=device)
        self.values = torch.zeros_like(self.keys)
        self.length = 0

    def append(self, k: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        batch, heads, max_len, width = self.keys.shape
        t = k.shape[-2]
        expected = (batch, heads, t, width)
        for x in (k, v):
            if tuple(x.shape) != expected:
                raise ValueError(f"shape {tuple(x.shape)} instead of {expected}")
        if self.length + t > max_len:
            raise ValueError(f"{self.length + t} tokens do not fit into {max_len}")
        self.keys[:, :, :t] = k.detach()
        self.values[:, :, :t] = v.detach()
        self.length += t
        return self.keys[:, :, : self.length], self.values[:, :, : self.length]

    def reset(self) -> None:
        self.length = 0


@wrong(of="KVCache", mistakes=1)
class CountsCalls:
    """The length grows by 1 at each append, however many tokens came."""

    def __init__(
        self,
        batch: int,
        num_heads: int,
        max_len: int,
        head_dim: int,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str | None = None,
    ) -> None:
        shape = (batch, num_heads, max_len, head_dim)
        self.keys = torch.empty(shape, dtype=dtype, device=device)
        self.values = torch.empty(shape, dtype=dtype, device=device)
        self.length = 0

    def append(self, k: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        b, h, max_len, d = self.keys.shape
        t = k.shape[-2]
        for x in (k, v):
            if x.shape != (b, h, t, d):
                raise ValueError(f"got {tuple(x.shape)}, expected {(b, h, t, d)}")
        end = self.length + t
        if end > max_len:
            raise ValueError(f"length {end} is more than max_len {max_len}")
        with torch.no_grad():
            self.keys[:, :, self.length : end].copy_(k)
            self.values[:, :, self.length : end].copy_(v)
        self.length += 1
        return self.keys[:, :, : self.length], self.values[:, :, : self.length]

    def reset(self) -> None:
        self.length = 0


@wrong(of="KVCache", mistakes=1)
class ReturnsTheWholeMemory:
    """append returns all max_len places, also those that nothing was written to."""

    def __init__(
        self,
        batch: int,
        num_heads: int,
        max_len: int,
        head_dim: int,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str | None = None,
    ) -> None:
        self.max_len = max_len
        self.keys = torch.zeros((batch, num_heads, max_len, head_dim), dtype=dtype, device=device)
        self.values = torch.zeros((batch, num_heads, max_len, head_dim), dtype=dtype, device=device)
        self.length = 0

    def append(self, k: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        b, h, _, d = self.keys.shape
        right = (b, h, k.shape[-2], d)
        if tuple(k.shape) != right or tuple(v.shape) != right:
            bad = k if tuple(k.shape) != right else v
            raise ValueError(f"shape {tuple(bad.shape)} should be {right}")
        stop = self.length + k.shape[2]
        if stop > self.max_len:
            raise ValueError(f"{stop} > {self.max_len}")
        self.keys[:, :, self.length : stop] = k.detach()
        self.values[:, :, self.length : stop] = v.detach()
        self.length = stop
        return self.keys, self.values

    def reset(self) -> None:
        self.length = 0


@wrong(of="KVCache", mistakes=1)
class ZeroesWithoutRewinding:
    """reset fills the memory with zeros but leaves the length as it is."""

    def __init__(
        self,
        batch: int,
        num_heads: int,
        max_len: int,
        head_dim: int,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str | None = None,
    ) -> None:
        self.keys = torch.zeros(batch, num_heads, max_len, head_dim, dtype=dtype, device=device)
        self.values = self.keys.clone()
        self.length = 0

    def append(self, k: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        b, h, max_len, d = self.keys.shape
        t = k.size(-2)
        for name, x in (("k", k), ("v", v)):
            if tuple(x.shape) != (b, h, t, d):
                raise ValueError(f"{name} is {tuple(x.shape)}, not {(b, h, t, d)}")
        if self.length + t > max_len:
            raise ValueError(f"{self.length + t} tokens, but max_len is {max_len}")
        new = slice(self.length, self.length + t)
        self.keys[:, :, new] = k.detach()
        self.values[:, :, new] = v.detach()
        self.length += t
        return self.keys[:, :, : self.length], self.values[:, :, : self.length]

    def reset(self) -> None:
        self.keys.zero_()
        self.values.zero_()


@wrong(of="KVCache", mistakes=1)
class LastPlaceUnused:
    """The cache is said to be full when one place is left: the comparison is >= instead of >."""

    def __init__(
        self,
        batch: int,
        num_heads: int,
        max_len: int,
        head_dim: int,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str | None = None,
    ) -> None:
        self.keys = torch.zeros(batch, num_heads, max_len, head_dim, dtype=dtype, device=device)
        self.values = torch.zeros_like(self.keys)
        self.length = 0

    def append(self, k: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        b, h, max_len, d = self.keys.shape
        t = k.shape[-2]
        for x in (k, v):
            if tuple(x.shape) != (b, h, t, d):
                raise ValueError(f"got {tuple(x.shape)}, want {(b, h, t, d)}")
        end = self.length + t
        if end >= max_len:
            raise ValueError(f"{end} tokens do not fit in max_len {max_len}")
        self.keys[:, :, self.length : end] = k.detach()
        self.values[:, :, self.length : end] = v.detach()
        self.length = end
        return self.keys[:, :, :end], self.values[:, :, :end]

    def reset(self) -> None:
        self.length = 0


@wrong(of="KVCache", mistakes=1)
class GrowsBeforeItChecks:
    """The length grows before the check, so a refused append leaves the cache longer than it is."""

    def __init__(
        self,
        batch: int,
        num_heads: int,
        max_len: int,
        head_dim: int,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str | None = None,
    ) -> None:
        self.keys = torch.zeros(batch, num_heads, max_len, head_dim, dtype=dtype, device=device)
        self.values = torch.zeros_like(self.keys)
        self.length = 0

    def append(self, k: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        b, h, max_len, d = self.keys.shape
        start = self.length
        t = k.shape[-2]
        for x in (k, v):
            if tuple(x.shape) != (b, h, t, d):
                raise ValueError(f"got {tuple(x.shape)}, want {(b, h, t, d)}")
        self.length += t
        if self.length > max_len:
            raise ValueError(f"length {self.length} exceeds {max_len}")
        self.keys[:, :, start : self.length] = k.detach()
        self.values[:, :, start : self.length] = v.detach()
        return self.keys[:, :, : self.length], self.values[:, :, : self.length]

    def reset(self) -> None:
        self.length = 0


@wrong(of="KVCache", mistakes=1)
class JoinsNewMemory:
    """append joins tensors into new memory each time; the memory taken at first is not used."""

    def __init__(
        self,
        batch: int,
        num_heads: int,
        max_len: int,
        head_dim: int,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str | None = None,
    ) -> None:
        self.max_len = max_len
        self.keys = torch.zeros(batch, num_heads, 0, head_dim, dtype=dtype, device=device)
        self.values = torch.zeros(batch, num_heads, 0, head_dim, dtype=dtype, device=device)
        self.length = 0

    def append(self, k: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        b, h, _, d = self.keys.shape
        t = k.shape[-2]
        for x in (k, v):
            if tuple(x.shape) != (b, h, t, d):
                raise ValueError(f"got {tuple(x.shape)}, want {(b, h, t, d)}")
        if self.length + t > self.max_len:
            raise ValueError(f"{self.length + t} tokens, max_len is {self.max_len}")
        self.keys = torch.cat([self.keys, k.detach().to(self.keys)], dim=2)
        self.values = torch.cat([self.values, v.detach().to(self.values)], dim=2)
        self.length = self.keys.shape[2]
        return self.keys, self.values

    def reset(self) -> None:
        self.keys = self.keys[:, :, :0]
        self.values = self.values[:, :, :0]
        self.length = 0


@wrong(of="KVCache", mistakes=2)
class OneMemoryForBoth:
    """Keys and values share one memory, so the values overwrite the keys.

    One token too many is let through: the check compares the length before the append.
    """

    def __init__(
        self,
        batch: int,
        num_heads: int,
        max_len: int,
        head_dim: int,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str | None = None,
    ) -> None:
        self.max_len = max_len
        self.keys = self.values = torch.zeros(
            batch, num_heads, max_len, head_dim, dtype=dtype, device=device
        )
        self.length = 0

    def append(self, k: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        b, h, _, d = self.keys.shape
        t = k.shape[-2]
        for x in (k, v):
            if tuple(x.shape) != (b, h, t, d):
                raise ValueError(f"got {tuple(x.shape)}, want {(b, h, t, d)}")
        if self.length > self.max_len:
            raise ValueError(f"{self.length + t} tokens, max_len is {self.max_len}")
        end = self.length + t
        self.keys[:, :, self.length : end] = k.detach()
        self.values[:, :, self.length : end] = v.detach()
        self.length = end
        return self.keys[:, :, :end], self.values[:, :, :end]

    def reset(self) -> None:
        self.length = 0


@wrong(of="KVCache", mistakes=2)
class FirstSequenceAndFloat32:
    """Only the first sequence of the batch is written.

    The memory is always float32, whatever dtype is asked for.
    """

    def __init__(
        self,
        batch: int,
        num_heads: int,
        max_len: int,
        head_dim: int,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str | None = None,
    ) -> None:
        self.keys = torch.zeros(batch, num_heads, max_len, head_dim, device=device)
        self.values = torch.zeros(batch, num_heads, max_len, head_dim, device=device)
        self.length = 0

    def append(self, k: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        b, h, max_len, d = self.keys.shape
        t = k.shape[-2]
        for x in (k, v):
            if tuple(x.shape) != (b, h, t, d):
                raise ValueError(f"got {tuple(x.shape)}, want {(b, h, t, d)}")
        if self.length + t > max_len:
            raise ValueError(f"{self.length + t} tokens, max_len is {max_len}")
        for i in range(t if b else 0):
            self.keys[0, :, self.length + i] = k[0, :, i].detach()
            self.values[0, :, self.length + i] = v[0, :, i].detach()
        self.length += t
        return self.keys[:, :, : self.length], self.values[:, :, : self.length]

    def reset(self) -> None:
        self.length = 0


@wrong(of="KVCache", mistakes=2)
class CopiesAndNewMemory:
    """append returns copies instead of what lies in the memory.

    reset takes new memory instead of using the old again.
    """

    def __init__(
        self,
        batch: int,
        num_heads: int,
        max_len: int,
        head_dim: int,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str | None = None,
    ) -> None:
        self.keys = torch.zeros(batch, num_heads, max_len, head_dim, dtype=dtype, device=device)
        self.values = torch.zeros_like(self.keys)
        self.length = 0

    def append(self, k: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        b, h, max_len, d = self.keys.shape
        t = k.shape[-2]
        for x in (k, v):
            if tuple(x.shape) != (b, h, t, d):
                raise ValueError(f"got {tuple(x.shape)}, want {(b, h, t, d)}")
        end = self.length + t
        if end > max_len:
            raise ValueError(f"{end} tokens, max_len is {max_len}")
        self.keys[:, :, self.length : end] = k.detach()
        self.values[:, :, self.length : end] = v.detach()
        self.length = end
        return self.keys[:, :, :end].clone(), self.values[:, :, :end].clone()

    def reset(self) -> None:
        self.keys = torch.zeros_like(self.keys)
        self.values = torch.zeros_like(self.values)
        self.length = 0


@wrong(of="KVCache", mistakes=2)
class NewTokensAndUncheckedValues:
    """append returns the new tokens only instead of all so far.

    The shape of the values is not checked, so (B, 1, t, D) is broadcast into the memory.
    """

    def __init__(
        self,
        batch: int,
        num_heads: int,
        max_len: int,
        head_dim: int,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str | None = None,
    ) -> None:
        self.keys = torch.zeros(batch, num_heads, max_len, head_dim, dtype=dtype, device=device)
        self.values = torch.zeros_like(self.keys)
        self.length = 0

    def append(self, k: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        b, h, max_len, d = self.keys.shape
        t = k.shape[-2]
        if tuple(k.shape) != (b, h, t, d):
            raise ValueError(f"got {tuple(k.shape)}, want {(b, h, t, d)}")
        if self.length + t > max_len:
            raise ValueError(f"{self.length + t} tokens, max_len is {max_len}")
        new = slice(self.length, self.length + t)
        self.keys[:, :, new] = k.detach()
        self.values[:, :, new] = v.detach()
        self.length += t
        return self.keys[:, :, new], self.values[:, :, new]

    def reset(self) -> None:
        self.length = 0


@wrong(of="CachedAttention", mistakes=1)
class MaskOfAFreshText(nn.Module):
    """With a cache the triangle is aligned to the first key, as if the text began anew."""

    def __init__(self, d_model: int, num_heads: int, bias: bool = False) -> None:
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"d_model {d_model} is not divisible by num_heads {num_heads}")
        self.h = num_heads
        self.w_q = nn.Linear(d_model, d_model, bias=bias)
        self.w_k = nn.Linear(d_model, d_model, bias=bias)
        self.w_v = nn.Linear(d_model, d_model, bias=bias)
        self.w_o = nn.Linear(d_model, d_model, bias=bias)

    def forward(self, x: torch.Tensor, cache: KVCache | None = None) -> torch.Tensor:
        b, t, e = x.shape
        q, k, v = (
            w(x).view(b, t, self.h, e // self.h).transpose(1, 2)
            for w in (self.w_q, self.w_k, self.w_v)
        )
        if cache is not None:
            k, v = cache.append(k, v)
        wide = torch.promote_types(x.dtype, torch.float32)
        scores = q.to(wide) @ k.to(wide).mT / math.sqrt(e // self.h)
        future = torch.ones(t, k.shape[2], dtype=torch.bool, device=x.device).triu(1)
        out = scores.masked_fill(future, -math.inf).softmax(-1) @ v.to(wide)
        return self.w_o(out.to(x.dtype).transpose(1, 2).reshape(b, t, e))


@wrong(of="CachedAttention", mistakes=1)
class NoMaskWithACache(nn.Module):
    """With a cache nothing is masked, so several new tokens see one another's future."""

    def __init__(self, d_model: int, num_heads: int, bias: bool = False) -> None:
        super().__init__()
        if d_model % num_heads != 0:
            raise ValueError(f"{d_model} % {num_heads} != 0")
        self.num_heads = num_heads
        self.head_dim = d_model // num_heads
        self.w_q = nn.Linear(d_model, d_model, bias)
        self.w_k = nn.Linear(d_model, d_model, bias)
        self.w_v = nn.Linear(d_model, d_model, bias)
        self.w_o = nn.Linear(d_model, d_model, bias)

    def split(self, x: torch.Tensor) -> torch.Tensor:
        return x.unflatten(-1, (self.num_heads, self.head_dim)).transpose(1, 2)

    def forward(self, x: torch.Tensor, cache: KVCache | None = None) -> torch.Tensor:
        q, k, v = self.split(self.w_q(x)), self.split(self.w_k(x)), self.split(self.w_v(x))
        if cache is None:
            out, _ = attend_with_past(q, k, v)
        else:
            k, v = cache.append(k, v)
            wide = torch.promote_types(x.dtype, torch.float32)
            scores = q.to(wide) @ k.to(wide).transpose(-2, -1) / math.sqrt(self.head_dim)
            out = (torch.softmax(scores, dim=-1) @ v.to(wide)).to(x.dtype)
        return self.w_o(out.transpose(1, 2).flatten(2))


@wrong(of="CachedAttention", mistakes=1)
class HeadsCutAcrossTokens(nn.Module):
    """The heads are made by a view to (B, H, t, D) without a transpose, which mixes tokens."""

    def __init__(self, d_model: int, num_heads: int, bias: bool = False) -> None:
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"num_heads {num_heads} does not divide d_model {d_model}")
        self.num_heads = num_heads
        self.w_q = nn.Linear(d_model, d_model, bias=bias)
        self.w_k = nn.Linear(d_model, d_model, bias=bias)
        self.w_v = nn.Linear(d_model, d_model, bias=bias)
        self.w_o = nn.Linear(d_model, d_model, bias=bias)

    def forward(self, x: torch.Tensor, cache: KVCache | None = None) -> torch.Tensor:
        b, t, e = x.shape
        shape = (b, self.num_heads, t, e // self.num_heads)
        q = self.w_q(x).reshape(shape)
        k = self.w_k(x).reshape(shape)
        v = self.w_v(x).reshape(shape)
        past = None
        if cache is not None:
            n = cache.length
            keys, values = cache.append(k, v)
            past = (keys[:, :, :n].to(x.dtype), values[:, :, :n].to(x.dtype))
        out, _ = attend_with_past(q, k, v, past)
        return self.w_o(out.reshape(b, t, e))


@wrong(of="CachedAttention", mistakes=1)
class ScaledByTheModelWidth(nn.Module):
    """The scores are divided by sqrt(d_model) instead of the root of a head's width."""

    def __init__(self, d_model: int, num_heads: int, bias: bool = False) -> None:
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"num_heads {num_heads} does not divide d_model {d_model}")
        self.d_model, self.num_heads = d_model, num_heads
        self.w_q = nn.Linear(d_model, d_model, bias=bias)
        self.w_k = nn.Linear(d_model, d_model, bias=bias)
        self.w_v = nn.Linear(d_model, d_model, bias=bias)
        self.w_o = nn.Linear(d_model, d_model, bias=bias)

    def forward(self, x: torch.Tensor, cache: KVCache | None = None) -> torch.Tensor:
        b, t, _ = x.shape
        heads = []
        for w in (self.w_q, self.w_k, self.w_v):
            size = (b, t, self.num_heads, self.d_model // self.num_heads)
            heads.append(w(x).view(size).permute(0, 2, 1, 3))
        q, k, v = heads
        if cache is not None:
            k, v = cache.append(k, v)
        wide = torch.promote_types(x.dtype, torch.float32)
        n = k.shape[2]
        scores = torch.einsum("bhqd,bhkd->bhqk", q.to(wide), k.to(wide)) / math.sqrt(self.d_model)
        keep = torch.ones(t, n, device=x.device, dtype=torch.bool).tril(n - t)
        attn = scores.masked_fill(~keep, -math.inf).softmax(-1)
        out = torch.einsum("bhqk,bhkd->bqhd", attn, v.to(wide)).to(x.dtype)
        return self.w_o(out.reshape(b, t, self.d_model))


@wrong(of="CachedAttention", mistakes=1)
class AttendsToTheNewAlone(nn.Module):
    """New tokens are appended to the cache, but the layer attends to the new ones alone."""

    def __init__(self, d_model: int, num_heads: int, bias: bool = False) -> None:
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"num_heads {num_heads} does not divide d_model {d_model}")
        self.num_heads = num_heads
        for name in ("w_q", "w_k", "w_v", "w_o"):
            setattr(self, name, nn.Linear(d_model, d_model, bias=bias))

    def forward(self, x: torch.Tensor, cache: KVCache | None = None) -> torch.Tensor:
        def heads(y: torch.Tensor) -> torch.Tensor:
            b, t, e = y.shape
            return y.view(b, t, self.num_heads, e // self.num_heads).transpose(1, 2)

        q, k, v = heads(self.w_q(x)), heads(self.w_k(x)), heads(self.w_v(x))
        if cache is not None:
            cache.append(k, v)
        out, _ = attend_with_past(q, k, v)
        return self.w_o(out.transpose(1, 2).reshape(x.shape))


@wrong(of="CachedAttention", mistakes=1)
class KeepsItsFirstCache(nn.Module):
    """The layer keeps the cache of an earlier call and goes on with it when none is given."""

    def __init__(self, d_model: int, num_heads: int, bias: bool = False) -> None:
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"num_heads {num_heads} does not divide d_model {d_model}")
        self.num_heads = num_heads
        self.cache = None
        self.w_q = nn.Linear(d_model, d_model, bias=bias)
        self.w_k = nn.Linear(d_model, d_model, bias=bias)
        self.w_v = nn.Linear(d_model, d_model, bias=bias)
        self.w_o = nn.Linear(d_model, d_model, bias=bias)

    def forward(self, x: torch.Tensor, cache: KVCache | None = None) -> torch.Tensor:
        if cache is not None:
            self.cache = cache
        b, t, e = x.shape
        q, k, v = (
            w(x).view(b, t, self.num_heads, e // self.num_heads).transpose(1, 2)
            for w in (self.w_q, self.w_k, self.w_v)
        )
        past = None
        if self.cache is not None:
            n = self.cache.length
            keys, values = self.cache.append(k, v)
            past = keys[:, :, :n].to(x.dtype), values[:, :, :n].to(x.dtype)
            k = keys[:, :, n:].to(x.dtype)
            v = values[:, :, n:].to(x.dtype)
        out, _ = attend_with_past(q, k, v, past)
        return self.w_o(out.transpose(1, 2).reshape(b, t, e))


@wrong(of="CachedAttention", mistakes=2)
class NoBiasAndMergedAcrossHeads(nn.Module):
    """The projections never have a bias.

    The heads are merged by a reshape without the transpose, which mixes tokens.
    """

    def __init__(self, d_model: int, num_heads: int, bias: bool = False) -> None:
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"num_heads {num_heads} does not divide d_model {d_model}")
        self.num_heads = num_heads
        self.w_q, self.w_k, self.w_v, self.w_o = (
            nn.Linear(d_model, d_model, bias=False) for _ in range(4)
        )

    def forward(self, x: torch.Tensor, cache: KVCache | None = None) -> torch.Tensor:
        b, t, e = x.shape
        q, k, v = (
            w(x).view(b, t, self.num_heads, e // self.num_heads).transpose(1, 2)
            for w in (self.w_q, self.w_k, self.w_v)
        )
        past = None
        if cache is not None:
            n = cache.length
            keys, values = cache.append(k, v)
            past = keys[:, :, :n].to(x.dtype), values[:, :, :n].to(x.dtype)
        out, _ = attend_with_past(q, k, v, past)
        return self.w_o(out.reshape(b, t, e))


@wrong(of="CachedAttention", mistakes=2)
class NoOutputProjectionAndFirstCorner(nn.Module):
    """w_o is created but never used.

    With a cache the triangle is aligned to the first key instead of the last.
    """

    def __init__(self, d_model: int, num_heads: int, bias: bool = False) -> None:
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"num_heads {num_heads} does not divide d_model {d_model}")
        self.num_heads = num_heads
        self.w_q = nn.Linear(d_model, d_model, bias=bias)
        self.w_k = nn.Linear(d_model, d_model, bias=bias)
        self.w_v = nn.Linear(d_model, d_model, bias=bias)
        self.w_o = nn.Linear(d_model, d_model, bias=bias)

    def forward(self, x: torch.Tensor, cache: KVCache | None = None) -> torch.Tensor:
        b, t, e = x.shape
        d = e // self.num_heads
        q = self.w_q(x).view(b, t, self.num_heads, d).transpose(1, 2)
        k = self.w_k(x).view(b, t, self.num_heads, d).transpose(1, 2)
        v = self.w_v(x).view(b, t, self.num_heads, d).transpose(1, 2)
        if cache is not None:
            k, v = cache.append(k, v)
        wide = torch.promote_types(x.dtype, torch.float32)
        scores = (q.to(wide) / math.sqrt(d)) @ k.to(wide).transpose(2, 3)
        i = torch.arange(t, device=x.device)[:, None]
        j = torch.arange(k.shape[2], device=x.device)[None, :]
        weights = scores.masked_fill(j > i, -math.inf).softmax(dim=-1)
        return (weights @ v.to(wide)).to(x.dtype).transpose(1, 2).reshape(b, t, e)


@wrong(of="CachedAttention", mistakes=2)
class UnscaledAndKeysForValues(nn.Module):
    """The scores are not divided by the root of a head's width.

    The values are made with w_k instead of w_v.
    """

    def __init__(self, d_model: int, num_heads: int, bias: bool = False) -> None:
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"num_heads {num_heads} does not divide d_model {d_model}")
        self.num_heads = num_heads
        self.w_q = nn.Linear(d_model, d_model, bias=bias)
        self.w_k = nn.Linear(d_model, d_model, bias=bias)
        self.w_v = nn.Linear(d_model, d_model, bias=bias)
        self.w_o = nn.Linear(d_model, d_model, bias=bias)

    def forward(self, x: torch.Tensor, cache: KVCache | None = None) -> torch.Tensor:
        b, t, e = x.shape
        size = (b, t, self.num_heads, e // self.num_heads)
        q = self.w_q(x).view(size).transpose(1, 2)
        k = self.w_k(x).view(size).transpose(1, 2)
        v = self.w_k(x).view(size).transpose(1, 2)
        if cache is not None:
            k, v = cache.append(k, v)
        n = k.shape[-2]
        wide = torch.promote_types(x.dtype, torch.float32)
        scores = torch.matmul(q.to(wide), k.to(wide).transpose(-1, -2))
        later = torch.ones(t, n, dtype=torch.bool, device=x.device).triu(n - t + 1)
        weights = torch.softmax(scores.masked_fill(later, -math.inf), dim=-1)
        out = torch.matmul(weights, v.to(wide)).to(x.dtype)
        return self.w_o(out.transpose(1, 2).reshape(b, t, e))
