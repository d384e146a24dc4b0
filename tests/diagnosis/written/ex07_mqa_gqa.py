"""Wrong answers to ex07_mqa_gqa, written with nothing but the skeleton in sight."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import nn

from tests.diagnosis.written import wrong

if TYPE_CHECKING:  # the names that an answer finds in the rest of its file
    from exercises.ex07_mqa_gqa import grouped_query_attention, repeat_kv


@wrong(of="repeat_kv", mistakes=1)
def tiles_the_heads(x: torch.Tensor, n: int) -> torch.Tensor:
    """All heads are repeated as a row, 0 1 0 1, instead of each one by itself, 0 0 1 1."""
    return x.repeat(*([1] * (x.dim() - 3)), n, 1, 1)


@wrong(of="repeat_kv", mistakes=1)
def second_axis_always(x: torch.Tensor, n: int) -> torch.Tensor:
    """Axis 1 is repeated, which are the heads of (B, Hk, L, D) but of no other rank."""
    return torch.repeat_interleave(x, n, dim=1)


@wrong(of="repeat_kv", mistakes=1)
def expanded_in_front_of_the_heads(x: torch.Tensor, n: int) -> torch.Tensor:
    """The new axis is put in front of the heads instead of behind them: 0 1 0 1, not 0 0 1 1."""
    *lead, heads, length, width = x.shape
    copies = x.unsqueeze(-4).expand(*lead, n, heads, length, width)
    return copies.reshape(*lead, n * heads, length, width)


@wrong(of="repeat_kv", mistakes=1)
def repeats_the_tokens(x: torch.Tensor, n: int) -> torch.Tensor:
    """The tokens are repeated instead of the heads, so the length grows."""
    return x.repeat_interleave(n, dim=-2)


@wrong(of="repeat_kv", mistakes=1)
def filled_in_float32(x: torch.Tensor, n: int) -> torch.Tensor:
    """The result is made with the default dtype, float32, whatever the dtype of x."""
    *lead, heads, length, width = x.shape
    result = torch.zeros(*lead, heads * n, length, width, device=x.device)
    for h in range(heads * n):
        result[..., h, :, :] = x[..., h // n, :, :]
    return result


@wrong(of="repeat_kv", mistakes=2)
def modulo_and_cut_from_the_graph(x: torch.Tensor, n: int) -> torch.Tensor:
    """Head h is head h % Hk of x instead of h // n.

    No gradients flow, as x is detached.
    """
    heads = x.shape[-3]
    order = torch.tensor([h % heads for h in range(heads * n)], dtype=torch.long, device=x.device)
    return x.detach().index_select(-3, order)


@wrong(of="grouped_query_attention", mistakes=1)
def groups_and_members_swapped(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, keep: torch.Tensor | None = None
) -> torch.Tensor:
    """The query heads are seen as (group, Hk) instead of (Hk, group), so head h reads h % Hk."""
    h, hk = q.shape[-3], k.shape[-3]
    if h % hk:
        raise ValueError(f"{h} query heads are no multiple of {hk} key/value heads")
    g = h // hk
    wide = torch.promote_types(q.dtype, torch.float32)
    kw, vw = k.to(wide).unsqueeze(-4), v.to(wide).unsqueeze(-4)
    scores = q.to(wide).unflatten(-3, (g, hk)) @ kw.transpose(-2, -1) / math.sqrt(q.shape[-1])
    if keep is not None:
        keep = keep.expand(*q.shape[:-1], k.shape[-2]).unflatten(-3, (g, hk))
        empty = ~keep.any(-1, keepdim=True)
        scores = scores.masked_fill(~keep, -math.inf).masked_fill(empty, 0.0)
        weights = scores.softmax(-1).masked_fill(~keep, 0.0)
    else:
        weights = scores.softmax(-1)
    return (weights @ vw).flatten(-4, -3).to(q.dtype)


@wrong(of="grouped_query_attention", mistakes=1)
def head_modulo(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, keep: torch.Tensor | None = None
) -> torch.Tensor:
    """Query head h reads key/value head h % Hk instead of h // (H // Hk)."""
    num_heads, num_kv = q.shape[-3], k.shape[-3]
    if num_heads % num_kv != 0:
        raise ValueError(f"H={num_heads} is not divisible by Hk={num_kv}")
    wide = torch.promote_types(q.dtype, torch.float32)
    if keep is None:
        keep = torch.ones((), dtype=torch.bool, device=q.device)
    keep = keep.expand(*q.shape[:-1], k.shape[-2])
    outputs = []
    for h in range(num_heads):
        kh, vh = k[..., h % num_kv, :, :].to(wide), v[..., h % num_kv, :, :].to(wide)
        mask = keep[..., h, :, :]
        none = ~mask.any(dim=-1, keepdim=True)
        scores = q[..., h, :, :].to(wide) @ kh.transpose(-2, -1) / math.sqrt(q.shape[-1])
        scores = scores.masked_fill(~mask, -math.inf).masked_fill(none, 0.0)
        weights = torch.softmax(scores, dim=-1).masked_fill(~mask, 0.0)
        outputs.append(weights @ vh)
    return torch.stack(outputs, dim=-3).to(q.dtype)


@wrong(of="grouped_query_attention", mistakes=1)
def values_tiled_keys_interleaved(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, keep: torch.Tensor | None = None
) -> torch.Tensor:
    """The keys are repeated one by one, but the values as a row, so a head's values are others'."""
    n, rest = divmod(q.shape[-3], k.shape[-3])
    if rest:
        raise ValueError(f"{q.shape[-3]} heads do not divide into {k.shape[-3]} groups")
    wide = torch.promote_types(q.dtype, torch.float32)
    k = k.to(wide).repeat_interleave(n, dim=-3)
    v = torch.cat([v.to(wide)] * n, dim=-3)
    scores = torch.einsum("...qd,...kd->...qk", q.to(wide), k) / q.shape[-1] ** 0.5
    if keep is None:
        weights = torch.softmax(scores, dim=-1)
    else:
        some = keep.any(dim=-1, keepdim=True)
        scores = torch.where(keep, scores, -math.inf)
        weights = torch.softmax(torch.where(some, scores, 0.0), dim=-1) * (keep & some)
    return torch.einsum("...qk,...kd->...qd", weights, v).to(q.dtype)


@wrong(of="grouped_query_attention", mistakes=1)
def scale_of_all_heads(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, keep: torch.Tensor | None = None
) -> torch.Tensor:
    """The scores are divided by the root of the model width H*D instead of D."""
    h, hk, d = q.shape[-3], k.shape[-3], q.shape[-1]
    if h % hk:
        raise ValueError(f"{h} query heads are no multiple of {hk} key/value heads")
    wide = torch.promote_types(q.dtype, torch.float32)
    k, v = repeat_kv(k, h // hk).to(wide), repeat_kv(v, h // hk).to(wide)
    scores = q.to(wide) @ k.mT / math.sqrt(h * d)
    if keep is None:
        return (scores.softmax(-1) @ v).to(q.dtype)
    empty = ~keep.any(-1, keepdim=True)
    weights = scores.masked_fill(~keep, -math.inf).masked_fill(empty, 0.0).softmax(-1)
    return (weights.masked_fill(~keep, 0.0) @ v).to(q.dtype)


@wrong(of="grouped_query_attention", mistakes=1)
def blind_rows_of_nan(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, keep: torch.Tensor | None = None
) -> torch.Tensor:
    """A query that may attend to nothing gets NaN instead of zeros."""
    h, hk = q.shape[-3], k.shape[-3]
    if h % hk:
        raise ValueError(f"H is {h}, Hk is {hk}: not divisible")
    wide = torch.promote_types(q.dtype, torch.float32)
    k, v = (t.to(wide).repeat_interleave(h // hk, -3) for t in (k, v))
    scores = q.to(wide) @ k.transpose(-2, -1) * q.shape[-1] ** -0.5
    if keep is not None:
        scores = scores.masked_fill(keep.logical_not(), float("-inf"))
    return torch.matmul(torch.softmax(scores, dim=-1), v).to(q.dtype)


@wrong(of="grouped_query_attention", mistakes=1)
def blind_rows_see_everything(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, keep: torch.Tensor | None = None
) -> torch.Tensor:
    """A query that may attend to nothing gets the mean of all values: its scores are all alike."""
    h, hk = q.shape[-3], k.shape[-3]
    if h % hk:
        raise ValueError(f"H is {h}, Hk is {hk}: not divisible")
    wide = torch.promote_types(q.dtype, torch.float32)
    k = repeat_kv(k.to(wide), h // hk)
    v = repeat_kv(v.to(wide), h // hk)
    scores = q.to(wide) @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    if keep is not None:
        scores = scores.masked_fill(~keep, torch.finfo(wide).min)
    return (torch.softmax(scores, dim=-1) @ v).to(q.dtype)


@wrong(of="grouped_query_attention", mistakes=1)
def true_is_hidden(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, keep: torch.Tensor | None = None
) -> torch.Tensor:
    """The mask is read the wrong way round: what is True is hidden."""
    h, hk = q.shape[-3], k.shape[-3]
    if h % hk:
        raise ValueError(f"H is {h}, Hk is {hk}: not divisible")
    wide = torch.promote_types(q.dtype, torch.float32)
    qg = q.to(wide).unflatten(-3, (hk, h // hk))
    scores = torch.einsum("...hgqd,...hkd->...hgqk", qg, k.to(wide)).flatten(-4, -3)
    scores = scores / math.sqrt(q.shape[-1])
    if keep is not None:
        all_hidden = keep.all(dim=-1, keepdim=True)
        scores = scores.masked_fill(keep, -math.inf).masked_fill(all_hidden, 0.0)
        weights = torch.softmax(scores, -1).masked_fill(keep, 0.0)
    else:
        weights = torch.softmax(scores, -1)
    grouped = weights.unflatten(-3, (hk, h // hk))
    out = torch.einsum("...hgqk,...hkd->...hgqd", grouped, v.to(wide))
    return out.flatten(-4, -3).to(q.dtype)


@wrong(of="grouped_query_attention", mistakes=1)
def in_the_dtype_of_the_inputs(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, keep: torch.Tensor | None = None
) -> torch.Tensor:
    """Half precision is computed in itself, where large products overflow."""
    h, hk = q.shape[-3], k.shape[-3]
    if h % hk:
        raise ValueError(f"H is {h}, Hk is {hk}: not divisible")
    k = repeat_kv(k, h // hk)
    v = repeat_kv(v, h // hk)
    scores = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(q.size(-1))
    if keep is None:
        return torch.matmul(torch.softmax(scores, dim=-1), v)
    blind = keep.logical_not().all(dim=-1, keepdim=True)
    scores = scores.masked_fill(~keep, -math.inf).masked_fill(blind, 0.0)
    return torch.matmul(torch.softmax(scores, dim=-1).masked_fill(~keep, 0.0), v)


@wrong(of="grouped_query_attention", mistakes=1)
def logarithm_of_the_mask_added(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, keep: torch.Tensor | None = None
) -> torch.Tensor:
    """-inf is added to hidden scores, not put in their place: blind rows' gradient is NaN."""
    h, hk = q.shape[-3], k.shape[-3]
    if h % hk:
        raise ValueError(f"H is {h}, Hk is {hk}: not divisible")
    wide = torch.promote_types(q.dtype, torch.float32)
    k, v = repeat_kv(k, h // hk), repeat_kv(v, h // hk)
    scores = (q.to(wide) @ k.to(wide).mT) / math.sqrt(q.shape[-1])
    if keep is not None:
        scores = scores + torch.log(keep.to(wide))
    weights = torch.softmax(scores, dim=-1)
    weights = torch.where(torch.isnan(weights), torch.zeros_like(weights), weights)
    return (weights @ v.to(wide)).to(q.dtype)


@wrong(of="grouped_query_attention", mistakes=1)
def mask_in_the_wrong_groups(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, keep: torch.Tensor | None = None
) -> torch.Tensor:
    """A mask of its own for each head is split into (group, Hk) and lands at the wrong heads."""
    h, hk = q.shape[-3], k.shape[-3]
    if h % hk:
        raise ValueError(f"H is {h}, Hk is {hk}: not divisible")
    g = h // hk
    wide = torch.promote_types(q.dtype, torch.float32)
    scores = q.to(wide).unflatten(-3, (hk, g)) @ k.to(wide).unsqueeze(-3).mT
    scores = scores / math.sqrt(q.shape[-1])
    if keep is None:
        weights = torch.softmax(scores, dim=-1)
    else:
        keep = keep.expand(*q.shape[:-1], k.shape[-2])
        keep = keep.unflatten(-3, (g, hk)).transpose(-4, -3)
        empty = ~keep.any(-1, keepdim=True)
        scores = scores.masked_fill(~keep, -math.inf).masked_fill(empty, 0.0)
        weights = torch.softmax(scores, dim=-1).masked_fill(~keep, 0.0)
    return (weights @ v.to(wide).unsqueeze(-3)).flatten(-4, -3).to(q.dtype)


@wrong(of="grouped_query_attention", mistakes=2)
def unscaled_and_nan(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, keep: torch.Tensor | None = None
) -> torch.Tensor:
    """The scores are not divided by sqrt(D).

    A query that may attend to nothing gets NaN.
    """
    h, hk = q.shape[-3], k.shape[-3]
    if h % hk:
        raise ValueError(f"H is {h}, Hk is {hk}: not divisible")
    wide = torch.promote_types(q.dtype, torch.float32)
    scores = q.to(wide) @ repeat_kv(k, h // hk).to(wide).transpose(-2, -1)
    if keep is not None:
        scores = scores.masked_fill(~keep, -torch.inf)
    return (scores.softmax(dim=-1) @ repeat_kv(v, h // hk).to(wide)).to(q.dtype)


@wrong(of="grouped_query_attention", mistakes=2)
def modulo_and_minus_a_billion(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, keep: torch.Tensor | None = None
) -> torch.Tensor:
    """The heads are tiled, so query head h reads key/value head h % Hk.

    Hidden scores get -1e9 added instead of being -inf.
    """
    h, hk = q.shape[-3], k.shape[-3]
    if h % hk:
        raise ValueError(f"H is {h}, Hk is {hk}: not divisible")
    wide = torch.promote_types(q.dtype, torch.float32)
    k = torch.cat([k] * (h // hk), dim=-3).to(wide)
    v = torch.cat([v] * (h // hk), dim=-3).to(wide)
    scores = q.to(wide) @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    if keep is None:
        return (scores.softmax(-1) @ v).to(q.dtype)
    scores = scores + (1.0 - keep.to(wide)) * -1e9
    weights = scores.softmax(-1) * keep.any(-1, keepdim=True)
    return (weights @ v).to(q.dtype)


@wrong(of="grouped_query_attention", mistakes=2)
def heads_unchecked_and_half(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, keep: torch.Tensor | None = None
) -> torch.Tensor:
    """Heads that do not divide are not refused: the last query heads read the last head.

    Half precision is computed in itself instead of float32.
    """
    h, hk = q.shape[-3], k.shape[-3]
    group = max(h // hk, 1)
    pick = (torch.arange(h, device=q.device) // group).clamp(max=hk - 1)
    k, v = k[..., pick, :, :], v[..., pick, :, :]
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    if keep is None:
        return torch.softmax(scores, dim=-1) @ v
    some = keep.any(dim=-1, keepdim=True)
    scores = scores.masked_fill(~keep & some, -math.inf)
    scores = torch.where(some, scores, 0.0)
    return (torch.softmax(scores, dim=-1) * (keep & some)) @ v


@wrong(of="grouped_query_attention", mistakes=2)
def mask_after_softmax_and_value_width(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, keep: torch.Tensor | None = None
) -> torch.Tensor:
    """The mask multiplies the weights after the softmax, and they no longer sum to 1.

    The scores are divided by the root of the values' width.
    """
    h, hk = q.shape[-3], k.shape[-3]
    if h % hk:
        raise ValueError(f"H is {h}, Hk is {hk}: not divisible")
    wide = torch.promote_types(q.dtype, torch.float32)
    n = h // hk
    k, v = repeat_kv(k.to(wide), n), repeat_kv(v.to(wide), n)
    weights = torch.softmax(q.to(wide) @ k.mT / math.sqrt(v.shape[-1]), dim=-1)
    if keep is not None:
        weights = weights * keep.to(wide)
    return (weights @ v).to(q.dtype)


@wrong(of="kv_cache_bytes", mistakes=1)
def keys_alone(
    batch: int, num_kv_heads: int, length: int, head_dim: int, dtype: torch.dtype, layers: int
) -> int:
    """The values are not counted: a factor of 2 is missing."""
    return batch * num_kv_heads * length * head_dim * dtype.itemsize * layers


@wrong(of="kv_cache_bytes", mistakes=1)
def four_bytes_each(
    batch: int, num_kv_heads: int, length: int, head_dim: int, dtype: torch.dtype, layers: int
) -> int:
    """Every number is taken to have four bytes; the dtype is ignored."""
    per_token = 2 * num_kv_heads * head_dim * 4
    return per_token * length * batch * layers


@wrong(of="kv_cache_bytes", mistakes=1)
def floats_only(
    batch: int, num_kv_heads: int, length: int, head_dim: int, dtype: torch.dtype, layers: int
) -> int:
    """torch.finfo gives the size, which raises an error for integers and booleans."""
    size = torch.finfo(dtype).bits // 8
    return 2 * batch * num_kv_heads * length * head_dim * size * layers


@wrong(of="kv_cache_bytes", mistakes=2)
def bits_of_one_layer(
    batch: int, num_kv_heads: int, length: int, head_dim: int, dtype: torch.dtype, layers: int
) -> int:
    """Bits are returned instead of bytes.

    One layer is counted instead of all.
    """
    one = torch.zeros((), dtype=dtype).element_size() * 8
    return 2 * batch * num_kv_heads * length * head_dim * one


@wrong(of="GroupedQueryAttention", mistakes=1)
class NewTokensSeeTheFuture(nn.Module):
    """step has no mask, so several new tokens see those behind them."""

    def __init__(self, d_model: int, num_heads: int, num_kv_heads: int, bias: bool = False) -> None:
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{d_model} is not divisible by {num_heads}")
        if num_heads % num_kv_heads:
            raise ValueError(f"{num_heads} is not divisible by {num_kv_heads}")
        self.h, self.hk, self.d = num_heads, num_kv_heads, d_model // num_heads
        self.w_q = nn.Linear(d_model, d_model, bias=bias)
        self.w_k = nn.Linear(d_model, num_kv_heads * self.d, bias=bias)
        self.w_v = nn.Linear(d_model, num_kv_heads * self.d, bias=bias)
        self.w_o = nn.Linear(d_model, d_model, bias=bias)

    def project(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        q = self.w_q(x).unflatten(-1, (self.h, self.d)).transpose(1, 2)
        k = self.w_k(x).unflatten(-1, (self.hk, self.d)).transpose(1, 2)
        v = self.w_v(x).unflatten(-1, (self.hk, self.d)).transpose(1, 2)
        return q, k, v

    def forward(self, x: torch.Tensor, keep: torch.Tensor | None = None) -> torch.Tensor:
        q, k, v = self.project(x)
        out = grouped_query_attention(q, k, v, keep)
        return self.w_o(out.transpose(1, 2).flatten(2))

    def step(
        self, x: torch.Tensor, past: tuple[torch.Tensor, torch.Tensor] | None = None
    ) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
        q, k, v = self.project(x)
        if past is not None:
            k, v = torch.cat([past[0], k], dim=2), torch.cat([past[1], v], dim=2)
        out = grouped_query_attention(q, k, v)
        return self.w_o(out.transpose(1, 2).flatten(2)), (k, v)


@wrong(of="GroupedQueryAttention", mistakes=1)
class PastWithRepeatedHeads(nn.Module):
    """The past that step returns holds the heads repeated to H, instead of the Hk heads."""

    def __init__(self, d_model: int, num_heads: int, num_kv_heads: int, bias: bool = False) -> None:
        super().__init__()
        if d_model % num_heads != 0:
            raise ValueError(f"d_model {d_model}, num_heads {num_heads}")
        if num_heads % num_kv_heads != 0:
            raise ValueError(f"num_heads {num_heads}, num_kv_heads {num_kv_heads}")
        self.num_heads, self.num_kv_heads = num_heads, num_kv_heads
        self.head_dim = d_model // num_heads
        kv_width = num_kv_heads * self.head_dim
        self.w_q = nn.Linear(d_model, d_model, bias=bias)
        self.w_k = nn.Linear(d_model, kv_width, bias=bias)
        self.w_v = nn.Linear(d_model, kv_width, bias=bias)
        self.w_o = nn.Linear(d_model, d_model, bias=bias)

    def split(self, x: torch.Tensor, heads: int) -> torch.Tensor:
        b, length, _ = x.shape
        return x.view(b, length, heads, self.head_dim).transpose(1, 2)

    def forward(self, x: torch.Tensor, keep: torch.Tensor | None = None) -> torch.Tensor:
        q = self.split(self.w_q(x), self.num_heads)
        k = self.split(self.w_k(x), self.num_kv_heads)
        v = self.split(self.w_v(x), self.num_kv_heads)
        out = grouped_query_attention(q, k, v, keep)
        return self.w_o(out.transpose(1, 2).reshape(x.shape))

    def step(
        self, x: torch.Tensor, past: tuple[torch.Tensor, torch.Tensor] | None = None
    ) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
        n = self.num_heads // self.num_kv_heads
        q = self.split(self.w_q(x), self.num_heads)
        k = repeat_kv(self.split(self.w_k(x), self.num_kv_heads), n)
        v = repeat_kv(self.split(self.w_v(x), self.num_kv_heads), n)
        if past is not None:
            k = torch.cat([past[0], k], dim=-2)
            v = torch.cat([past[1], v], dim=-2)
        t, total = q.shape[-2], k.shape[-2]
        keep = torch.ones(t, total, dtype=torch.bool, device=x.device).tril(total - t)
        out = grouped_query_attention(q, k, v, keep)
        return self.w_o(out.transpose(1, 2).reshape(x.shape)), (k, v)


@wrong(of="GroupedQueryAttention", mistakes=1)
class StepFromTheFirstKey(nn.Module):
    """The triangle of step is aligned to the first key of the past instead of the last."""

    def __init__(self, d_model: int, num_heads: int, num_kv_heads: int, bias: bool = False) -> None:
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{d_model} is not divisible by {num_heads}")
        if num_heads % num_kv_heads:
            raise ValueError(f"{num_heads} is not divisible by {num_kv_heads}")
        self.d = d_model // num_heads
        self.w_q = nn.Linear(d_model, d_model, bias)
        self.w_k = nn.Linear(d_model, num_kv_heads * self.d, bias)
        self.w_v = nn.Linear(d_model, num_kv_heads * self.d, bias)
        self.w_o = nn.Linear(d_model, d_model, bias)

    def attend(self, x, k, v, keep):
        q = self.heads(self.w_q(x))
        out = grouped_query_attention(q, k, v, keep)
        return self.w_o(out.transpose(1, 2).flatten(-2))

    def heads(self, x):
        return x.unflatten(-1, (x.shape[-1] // self.d, self.d)).transpose(1, 2)

    def forward(self, x: torch.Tensor, keep: torch.Tensor | None = None) -> torch.Tensor:
        return self.attend(x, self.heads(self.w_k(x)), self.heads(self.w_v(x)), keep)

    def step(
        self, x: torch.Tensor, past: tuple[torch.Tensor, torch.Tensor] | None = None
    ) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
        k, v = self.heads(self.w_k(x)), self.heads(self.w_v(x))
        if past is not None:
            k = torch.cat([past[0], k], dim=2)
            v = torch.cat([past[1], v], dim=2)
        i = torch.arange(x.shape[1], device=x.device)[:, None]
        j = torch.arange(k.shape[2], device=x.device)[None, :]
        return self.attend(x, k, v, j <= i), (k, v)


@wrong(of="GroupedQueryAttention", mistakes=1)
class WidthOfAKeyValueHead(nn.Module):
    """A head's width is taken as E // Hk for keys and values, so they are as wide as in MHA."""

    def __init__(self, d_model: int, num_heads: int, num_kv_heads: int, bias: bool = False) -> None:
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{d_model} is not divisible by {num_heads}")
        if num_heads % num_kv_heads:
            raise ValueError(f"{num_heads} is not divisible by {num_kv_heads}")
        self.num_heads, self.num_kv_heads = num_heads, num_kv_heads
        self.w_q = nn.Linear(d_model, d_model, bias=bias)
        self.w_k = nn.Linear(d_model, num_kv_heads * (d_model // num_kv_heads), bias=bias)
        self.w_v = nn.Linear(d_model, num_kv_heads * (d_model // num_kv_heads), bias=bias)
        self.w_o = nn.Linear(d_model, d_model, bias=bias)

    def _split(self, y: torch.Tensor) -> torch.Tensor:
        b, n, e = y.shape
        return y.reshape(b, n, self.num_heads, e // self.num_heads).transpose(1, 2)

    def forward(self, x: torch.Tensor, keep: torch.Tensor | None = None) -> torch.Tensor:
        q, k, v = self._split(self.w_q(x)), self._split(self.w_k(x)), self._split(self.w_v(x))
        y = grouped_query_attention(q, k, v, keep)
        return self.w_o(y.transpose(1, 2).reshape(x.shape))

    def step(
        self, x: torch.Tensor, past: tuple[torch.Tensor, torch.Tensor] | None = None
    ) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
        q, k, v = self._split(self.w_q(x)), self._split(self.w_k(x)), self._split(self.w_v(x))
        if past is not None:
            k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)
        t, n = q.size(2), k.size(2)
        keep = torch.arange(n, device=x.device) <= torch.arange(n - t, n, device=x.device)[:, None]
        y = grouped_query_attention(q, k, v, keep)
        return self.w_o(y.transpose(1, 2).reshape(x.shape)), (k, v)


@wrong(of="GroupedQueryAttention", mistakes=1)
class CausalForward(nn.Module):
    """forward is always causal, though only step should be."""

    def __init__(self, d_model: int, num_heads: int, num_kv_heads: int, bias: bool = False) -> None:
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{d_model} is not divisible by {num_heads}")
        if num_heads % num_kv_heads:
            raise ValueError(f"{num_heads} is not divisible by {num_kv_heads}")
        self.h, self.hk, self.d = num_heads, num_kv_heads, d_model // num_heads
        self.w_q = nn.Linear(d_model, d_model, bias=bias)
        self.w_k = nn.Linear(d_model, num_kv_heads * self.d, bias=bias)
        self.w_v = nn.Linear(d_model, num_kv_heads * self.d, bias=bias)
        self.w_o = nn.Linear(d_model, d_model, bias=bias)

    def forward(self, x: torch.Tensor, keep: torch.Tensor | None = None) -> torch.Tensor:
        return self._run(x, None, keep)[0]

    def step(
        self, x: torch.Tensor, past: tuple[torch.Tensor, torch.Tensor] | None = None
    ) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
        return self._run(x, past, None)

    def _run(self, x, past, keep):
        b, t, e = x.shape
        q = self.w_q(x).view(b, t, self.h, self.d).transpose(1, 2)
        k = self.w_k(x).view(b, t, self.hk, self.d).transpose(1, 2)
        v = self.w_v(x).view(b, t, self.hk, self.d).transpose(1, 2)
        if past is not None:
            k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)
        n = k.shape[2]
        causal = torch.ones(t, n, dtype=torch.bool, device=x.device).tril(n - t)
        keep = causal if keep is None else keep & causal
        out = grouped_query_attention(q, k, v, keep)
        return self.w_o(out.transpose(1, 2).reshape(b, t, e)), (k, v)


@wrong(of="GroupedQueryAttention", mistakes=2)
class NoBiasAndPastForgotten(nn.Module):
    """The projections never have a bias.

    step returns the new keys and values only; those of the past are forgotten.
    """

    def __init__(self, d_model: int, num_heads: int, num_kv_heads: int, bias: bool = False) -> None:
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{d_model} is not divisible by {num_heads}")
        if num_heads % num_kv_heads:
            raise ValueError(f"{num_heads} is not divisible by {num_kv_heads}")
        self.h, self.hk, self.d = num_heads, num_kv_heads, d_model // num_heads
        self.w_q = nn.Linear(d_model, d_model, bias=False)
        self.w_k = nn.Linear(d_model, num_kv_heads * self.d, bias=False)
        self.w_v = nn.Linear(d_model, num_kv_heads * self.d, bias=False)
        self.w_o = nn.Linear(d_model, d_model, bias=False)

    def project(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        b, t, _ = x.shape
        q = self.w_q(x).view(b, t, self.h, self.d).transpose(1, 2)
        k = self.w_k(x).view(b, t, self.hk, self.d).transpose(1, 2)
        v = self.w_v(x).view(b, t, self.hk, self.d).transpose(1, 2)
        return q, k, v

    def forward(self, x: torch.Tensor, keep: torch.Tensor | None = None) -> torch.Tensor:
        q, k, v = self.project(x)
        return self.w_o(grouped_query_attention(q, k, v, keep).transpose(1, 2).flatten(2))

    def step(
        self, x: torch.Tensor, past: tuple[torch.Tensor, torch.Tensor] | None = None
    ) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
        q, k, v = self.project(x)
        keys, values = k, v
        if past is not None:
            keys = torch.cat([past[0], k], dim=2)
            values = torch.cat([past[1], v], dim=2)
        t, n = q.shape[2], keys.shape[2]
        keep = torch.ones(t, n, dtype=torch.bool, device=x.device).tril(n - t)
        out = grouped_query_attention(q, keys, values, keep)
        return self.w_o(out.transpose(1, 2).flatten(2)), (k, v)


@wrong(of="GroupedQueryAttention", mistakes=2)
class HeadsWithoutTransposeAndMaskDropped(nn.Module):
    """The heads are made by a reshape to (B, H, L, D) without a transpose.

    forward does not hand its mask on.
    """

    def __init__(self, d_model: int, num_heads: int, num_kv_heads: int, bias: bool = False) -> None:
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{d_model} is not divisible by {num_heads}")
        if num_heads % num_kv_heads:
            raise ValueError(f"{num_heads} is not divisible by {num_kv_heads}")
        self.num_heads, self.num_kv_heads = num_heads, num_kv_heads
        self.head_dim = d_model // num_heads
        self.w_q = nn.Linear(d_model, d_model, bias=bias)
        self.w_k = nn.Linear(d_model, num_kv_heads * self.head_dim, bias=bias)
        self.w_v = nn.Linear(d_model, num_kv_heads * self.head_dim, bias=bias)
        self.w_o = nn.Linear(d_model, d_model, bias=bias)

    def project(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        b, n, _ = x.shape
        q = self.w_q(x).reshape(b, self.num_heads, n, self.head_dim)
        k = self.w_k(x).reshape(b, self.num_kv_heads, n, self.head_dim)
        v = self.w_v(x).reshape(b, self.num_kv_heads, n, self.head_dim)
        return q, k, v

    def forward(self, x: torch.Tensor, keep: torch.Tensor | None = None) -> torch.Tensor:
        q, k, v = self.project(x)
        return self.w_o(grouped_query_attention(q, k, v).reshape(x.shape))

    def step(
        self, x: torch.Tensor, past: tuple[torch.Tensor, torch.Tensor] | None = None
    ) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
        q, k, v = self.project(x)
        if past is not None:
            k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)
        t, n = q.shape[2], k.shape[2]
        future = torch.ones(t, n, dtype=torch.bool, device=x.device).triu(n - t + 1)
        return self.w_o(grouped_query_attention(q, k, v, ~future).reshape(x.shape)), (k, v)


@wrong(of="GroupedQueryAttention", mistakes=2)
class OneAheadAndRemembers(nn.Module):
    """Each new token of step sees the token behind it: the diagonal is one too high.

    The layer keeps the past of the last step and goes on with it if none is given.
    """

    def __init__(self, d_model: int, num_heads: int, num_kv_heads: int, bias: bool = False) -> None:
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{d_model} is not divisible by {num_heads}")
        if num_heads % num_kv_heads:
            raise ValueError(f"{num_heads} is not divisible by {num_kv_heads}")
        self.h, self.hk, self.d = num_heads, num_kv_heads, d_model // num_heads
        self.past = None
        self.w_q = nn.Linear(d_model, d_model, bias=bias)
        self.w_k = nn.Linear(d_model, num_kv_heads * self.d, bias=bias)
        self.w_v = nn.Linear(d_model, num_kv_heads * self.d, bias=bias)
        self.w_o = nn.Linear(d_model, d_model, bias=bias)

    def project(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        b, t, _ = x.shape
        q = self.w_q(x).view(b, t, self.h, self.d).transpose(1, 2)
        k = self.w_k(x).view(b, t, self.hk, self.d).transpose(1, 2)
        v = self.w_v(x).view(b, t, self.hk, self.d).transpose(1, 2)
        return q, k, v

    def forward(self, x: torch.Tensor, keep: torch.Tensor | None = None) -> torch.Tensor:
        q, k, v = self.project(x)
        return self.w_o(grouped_query_attention(q, k, v, keep).transpose(1, 2).flatten(2))

    def step(
        self, x: torch.Tensor, past: tuple[torch.Tensor, torch.Tensor] | None = None
    ) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
        q, k, v = self.project(x)
        past = self.past if past is None else past
        if past is not None:
            k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)
        self.past = (k, v)
        t, n = q.shape[2], k.shape[2]
        keep = torch.ones(t, n, dtype=torch.bool, device=x.device).tril(n - t + 1)
        out = grouped_query_attention(q, k, v, keep)
        return self.w_o(out.transpose(1, 2).flatten(2)), (k, v)
