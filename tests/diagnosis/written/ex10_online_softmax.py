"""Wrong answers to ex10_online_softmax, written with nothing but the skeleton in sight."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch

from tests.diagnosis.written import wrong

if TYPE_CHECKING:  # the name that an answer finds in the rest of its file
    from exercises.ex10_online_softmax import merge_partials


@wrong(of="online_softmax", mistakes=1)
def maximum_from_zero(x: torch.Tensor, block_size: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The running maximum begins at 0 instead of -inf, so rows below 0 get the maximum 0."""
    if block_size < 1:
        raise ValueError(f"block_size is {block_size}, but should be at least 1")
    wide = torch.promote_types(x.dtype, torch.float32)
    row_max = torch.zeros(x.shape[:-1], dtype=wide, device=x.device)
    row_sum = torch.zeros_like(row_max)
    for start in range(0, x.shape[-1], block_size):
        block = x[..., start : start + block_size].to(wide)
        new_max = torch.maximum(row_max, block.amax(dim=-1))
        row_sum = row_sum * torch.exp(row_max - new_max)
        row_sum = row_sum + torch.exp(block - new_max.unsqueeze(-1)).sum(dim=-1)
        row_max = new_max
    return row_max, row_sum


@wrong(of="online_softmax", mistakes=1)
def old_sum_not_rescaled(x: torch.Tensor, block_size: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The sum so far is not rescaled when the maximum grows."""
    if block_size < 1:
        raise ValueError(f"block_size must be positive, got {block_size}")
    wide = torch.promote_types(x.dtype, torch.float32)
    m = torch.full(x.shape[:-1], -math.inf, dtype=wide, device=x.device)
    total = torch.zeros(x.shape[:-1], dtype=wide, device=x.device)
    for block in x.split(block_size, dim=-1):
        block = block.to(wide)
        m = torch.maximum(m, block.max(dim=-1).values)
        safe = m.masked_fill(m == -math.inf, 0.0)
        total = total + (block - safe[..., None]).exp().sum(-1)
    return m, total


@wrong(of="online_softmax", mistakes=1)
def short_block_dropped(x: torch.Tensor, block_size: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The last block is left out if it is shorter than the others."""
    if block_size < 1:
        raise ValueError(f"block_size {block_size} < 1")
    wide = torch.promote_types(x.dtype, torch.float32)
    row_max = x.new_full(x.shape[:-1], float("-inf"), dtype=wide)
    row_sum = x.new_zeros(x.shape[:-1], dtype=wide)
    for i in range(x.shape[-1] // block_size):
        part = x[..., i * block_size : (i + 1) * block_size].to(wide)
        bigger = torch.maximum(row_max, part.amax(-1))
        base = torch.where(torch.isneginf(bigger), 0.0, bigger)
        row_sum = row_sum * torch.exp(row_max - base) + torch.exp(part - base[..., None]).sum(-1)
        row_max = bigger
    return row_max, row_sum


@wrong(of="online_softmax", mistakes=2)
def rescaled_the_wrong_way_in_half(
    x: torch.Tensor, block_size: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """The old sum is multiplied by exp(new - old) instead of exp(old - new).

    The statistics of half precision are kept in half precision.
    """
    if block_size < 1:
        raise ValueError(f"block_size is {block_size}")
    first = x[..., :block_size]
    row_max = first.amax(dim=-1)
    base = row_max.masked_fill(row_max == -math.inf, 0.0)
    row_sum = torch.exp(first - base.unsqueeze(-1)).sum(dim=-1)
    for start in range(block_size, x.shape[-1], block_size):
        block = x[..., start : start + block_size]
        new_max = torch.maximum(row_max, block.amax(dim=-1))
        base = new_max.masked_fill(new_max == -math.inf, 0.0)
        old = row_max.masked_fill(row_max == -math.inf, 0.0)
        row_sum = row_sum * torch.exp(base - old)
        row_sum = row_sum + torch.exp(block - base.unsqueeze(-1)).sum(dim=-1)
        row_max = new_max
    return row_max, row_sum


@wrong(of="online_softmax", mistakes=2)
def hidden_rows_of_nan_and_size_zero(
    x: torch.Tensor, block_size: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """A row that begins with a block of -inf gives NaN as its sum.

    A block_size below 1 is read as 1 instead of being refused.
    """
    size = max(block_size, 1)
    x = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
    m = torch.full_like(x[..., 0], -math.inf)
    s = torch.zeros_like(m)
    for start in range(0, x.shape[-1], size):
        block = x[..., start : start + size]
        m_new = torch.maximum(m, block.amax(dim=-1))
        s = s * torch.exp(m - m_new) + torch.sum(torch.exp(block - m_new[..., None]), dim=-1)
        m = m_new
    return m, s


@wrong(of="merge_partials", mistakes=1)
def plain_mean(
    a: tuple[torch.Tensor, torch.Tensor], b: tuple[torch.Tensor, torch.Tensor]
) -> tuple[torch.Tensor, torch.Tensor]:
    """The two outputs are averaged, however much weight each part has."""
    out_a, lse_a = a
    out_b, lse_b = b
    top = torch.maximum(lse_a, lse_b)
    base = torch.where(torch.isneginf(top), 0.0, top)
    total = torch.exp(lse_a - base) + torch.exp(lse_b - base)
    none = total == 0
    lse = torch.where(none, -math.inf, base + torch.log(torch.where(none, 1.0, total)))
    no_a, no_b = torch.isneginf(lse_a)[..., None], torch.isneginf(lse_b)[..., None]
    left = torch.where(no_a, 0.0, out_a.to(lse.dtype))
    right = torch.where(no_b, 0.0, out_b.to(lse.dtype))
    parts = (~no_a).to(lse.dtype) + (~no_b).to(lse.dtype)
    output = (left + right) / parts.clamp(min=1.0)
    return output.to(out_a.dtype), lse


@wrong(of="merge_partials", mistakes=1)
def exponentials_of_the_lse(
    a: tuple[torch.Tensor, torch.Tensor], b: tuple[torch.Tensor, torch.Tensor]
) -> tuple[torch.Tensor, torch.Tensor]:
    """The exponentials of both lse are taken as they are, and overflow or vanish when far from 0."""
    out_a, lse_a = a
    out_b, lse_b = b
    w_a, w_b = torch.exp(lse_a), torch.exp(lse_b)
    total = w_a + w_b
    safe = torch.where(total == 0, 1.0, total)
    left = torch.where((w_a == 0)[..., None], 0.0, out_a.to(total.dtype) * (w_a / safe)[..., None])
    right = torch.where((w_b == 0)[..., None], 0.0, out_b.to(total.dtype) * (w_b / safe)[..., None])
    return (left + right).to(out_a.dtype), torch.where(total == 0, -math.inf, torch.log(safe))


@wrong(of="merge_partials", mistakes=2)
def larger_lse_and_nan(
    a: tuple[torch.Tensor, torch.Tensor], b: tuple[torch.Tensor, torch.Tensor]
) -> tuple[torch.Tensor, torch.Tensor]:
    """The lse of both is the larger of the two instead of the logarithm of their sum.

    Two parts that saw nothing give NaN: -inf minus -inf.
    """
    (o1, l1), (o2, l2) = a, b
    m = torch.maximum(l1, l2)
    w1, w2 = torch.exp(l1 - m), torch.exp(l2 - m)
    w1, w2 = w1 / (w1 + w2), w2 / (w1 + w2)
    first = torch.where((w1 == 0).unsqueeze(-1), 0.0, o1 * w1.unsqueeze(-1).to(o1.dtype))
    second = torch.where((w2 == 0).unsqueeze(-1), 0.0, o2 * w2.unsqueeze(-1).to(o2.dtype))
    return (first + second).to(o1.dtype), m


@wrong(of="merge_partials", mistakes=2)
def added_and_promoted(
    a: tuple[torch.Tensor, torch.Tensor], b: tuple[torch.Tensor, torch.Tensor]
) -> tuple[torch.Tensor, torch.Tensor]:
    """The outputs are weighted by exp(lse) but never divided by the sum of both weights.

    The output of half precision comes back in float32.
    """
    out_a, lse_a = a
    out_b, lse_b = b
    top = torch.maximum(lse_a, lse_b)
    top = torch.where(torch.isneginf(top), torch.zeros_like(top), top)
    w_a = torch.exp(lse_a - top)
    w_b = torch.exp(lse_b - top)
    out_a = out_a.to(lse_a.dtype).masked_fill((w_a == 0)[..., None], 0.0)
    out_b = out_b.to(lse_b.dtype).masked_fill((w_b == 0)[..., None], 0.0)
    output = w_a[..., None] * out_a + w_b[..., None] * out_b
    none = w_a + w_b == 0
    lse = top + torch.log(torch.where(none, 1.0, w_a + w_b))
    return output, lse.masked_fill(none, -math.inf)


@wrong(of="flash_attention", mistakes=1)
def output_not_rescaled(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    causal: bool = False,
    scale: float | None = None,
    block_size: int = 64,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The output so far is not rescaled when the maximum grows; the sum is."""
    if block_size < 1:
        raise ValueError(f"block_size is {block_size}, not 1 or more")
    wide = torch.promote_types(q.dtype, torch.float32)
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    lq, lk = q.shape[-2], k.shape[-2]
    qw = q.to(wide) * scale
    m = torch.full(q.shape[:-1], -math.inf, dtype=wide, device=q.device)
    s = torch.zeros_like(m)
    acc = torch.zeros(*q.shape[:-1], v.shape[-1], dtype=wide, device=q.device)
    rows = torch.arange(lq, device=q.device)[:, None] + lk - lq
    for start in range(0, lk, block_size):
        kb = k[..., start : start + block_size, :].to(wide)
        vb = v[..., start : start + block_size, :].to(wide)
        scores = qw @ kb.transpose(-2, -1)
        if causal:
            cols = torch.arange(start, start + kb.shape[-2], device=q.device)
            scores = scores.masked_fill(cols > rows, -math.inf)
        new = torch.maximum(m, scores.amax(dim=-1)).detach()
        base = torch.where(torch.isneginf(new), 0.0, new)
        p = torch.exp(scores - base[..., None])
        s = s * torch.exp(m - base) + p.sum(dim=-1)
        acc = acc + p @ vb
        m = new
    empty = s == 0
    out = acc / torch.where(empty, 1.0, s)[..., None]
    base = torch.where(empty, 0.0, m)
    lse = torch.where(empty, -math.inf, base + torch.log(torch.where(empty, 1.0, s)))
    return out.to(q.dtype), lse


@wrong(of="flash_attention", mistakes=1)
def columns_counted_in_the_tile(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    causal: bool = False,
    scale: float | None = None,
    block_size: int = 64,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The causal mask counts the keys of each tile from 0: the tile's start is forgotten."""
    if block_size < 1:
        raise ValueError(f"block_size must be at least 1, not {block_size}")
    wide = torch.promote_types(q.dtype, torch.float32)
    if scale is None:
        scale = 1 / math.sqrt(q.size(-1))
    n_q, n_k = q.size(-2), k.size(-2)
    output = torch.zeros(*q.shape[:-1], v.size(-1), dtype=wide, device=q.device)
    lse = torch.full(q.shape[:-1], -math.inf, dtype=wide, device=q.device)
    for k_tile, v_tile in zip(k.split(block_size, -2), v.split(block_size, -2), strict=True):
        scores = q.to(wide) @ k_tile.to(wide).mT * scale
        if causal:
            i = torch.arange(n_q, device=q.device).unsqueeze(1)
            j = torch.arange(k_tile.size(-2), device=q.device).unsqueeze(0)
            scores = scores.masked_fill(j > i + n_k - n_q, -math.inf)
        blind = torch.isneginf(scores).all(dim=-1)
        filled = scores.masked_fill(blind[..., None], 0.0)
        part = torch.softmax(filled, dim=-1) @ v_tile.to(wide)
        part_lse = torch.logsumexp(filled, dim=-1).masked_fill(blind, -math.inf)
        output, lse = merge_partials((output, lse), (part, part_lse))
    return output.to(q.dtype), lse


@wrong(of="flash_attention", mistakes=1)
def lse_without_the_maximum(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    causal: bool = False,
    scale: float | None = None,
    block_size: int = 64,
) -> tuple[torch.Tensor, torch.Tensor]:
    """lse is the logarithm of the sum alone; the maximum is not added again."""
    if block_size < 1:
        raise ValueError(f"block_size={block_size}")
    wide = torch.promote_types(q.dtype, torch.float32)
    c = 1.0 / q.shape[-1] ** 0.5 if scale is None else scale
    lq, lk = q.shape[-2], k.shape[-2]
    m = q.new_full((*q.shape[:-1], 1), -math.inf, dtype=wide)
    z = q.new_zeros((*q.shape[:-1], 1), dtype=wide)
    o = q.new_zeros((*q.shape[:-1], v.shape[-1]), dtype=wide)
    for a in range(0, lk, block_size):
        b = min(a + block_size, lk)
        x = torch.einsum("...id,...jd->...ij", q.to(wide), k[..., a:b, :].to(wide)) * c
        if causal:
            ok = torch.ones(lq, b - a, dtype=torch.bool, device=q.device).tril(lk - lq - a)
            x = torch.where(ok, x, -math.inf)
        m_new = torch.maximum(m, x.amax(-1, keepdim=True)).detach()
        safe = m_new.masked_fill(m_new == -math.inf, 0.0)
        e = torch.exp(x - safe)
        alpha = torch.exp(m - safe)
        z = alpha * z + e.sum(-1, keepdim=True)
        o = alpha * o + torch.einsum("...ij,...jd->...id", e, v[..., a:b, :].to(wide))
        m = m_new
    seen = z > 0
    z_safe = torch.where(seen, z, 1.0)
    lse = torch.where(seen, torch.log(z_safe), -math.inf).squeeze(-1)
    return (o / z_safe).to(q.dtype), lse


@wrong(of="flash_attention", mistakes=2)
def first_corner_and_half(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    causal: bool = False,
    scale: float | None = None,
    block_size: int = 64,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The causal triangle is aligned to the first key instead of the last.

    The scores of half precision are computed in half precision and converted afterwards.
    """
    if block_size < 1:
        raise ValueError(f"block_size must be at least 1, not {block_size}")
    wide = torch.promote_types(q.dtype, torch.float32)
    factor = q.shape[-1] ** -0.5 if scale is None else scale
    output = torch.zeros(*q.shape[:-1], v.shape[-1], dtype=wide, device=q.device)
    lse = torch.full(q.shape[:-1], -math.inf, dtype=wide, device=q.device)
    row = torch.arange(q.shape[-2], device=q.device)[:, None]
    for start in range(0, k.shape[-2], block_size):
        kt, vt = k[..., start : start + block_size, :], v[..., start : start + block_size, :]
        scores = (q @ kt.transpose(-2, -1) * factor).to(wide)
        if causal:
            column = start + torch.arange(kt.shape[-2], device=q.device)
            scores = scores.masked_fill(column > row, -math.inf)
        blind = torch.isneginf(scores).all(-1)
        filled = scores.masked_fill(blind[..., None], 0.0)
        tile_lse = torch.logsumexp(filled, -1)
        tile = torch.exp(filled - tile_lse[..., None]) @ vt.to(wide)
        tile_lse = tile_lse.masked_fill(blind, -math.inf)
        output, lse = merge_partials((output, lse), (tile, tile_lse))
    return output.to(q.dtype), lse


@wrong(of="flash_attention", mistakes=2)
def undivided_and_scale_ignored(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    causal: bool = False,
    scale: float | None = None,
    block_size: int = 64,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The output is not divided by the sum of the exponentials at the end.

    The scale that is given is ignored: it is always 1/sqrt(D).
    """
    if block_size < 1:
        raise ValueError(f"block_size must be at least 1, not {block_size}")
    wide = torch.promote_types(q.dtype, torch.float32)
    n, length = q.shape[-2], k.shape[-2]
    qs = q.to(wide) / math.sqrt(q.shape[-1])
    m = torch.full((*q.shape[:-1], 1), -math.inf, dtype=wide, device=q.device)
    total = torch.zeros_like(m)
    acc = torch.zeros(*q.shape[:-1], v.shape[-1], dtype=wide, device=q.device)
    for start in range(0, length, block_size):
        stop = min(start + block_size, length)
        s = torch.matmul(qs, k[..., start:stop, :].to(wide).transpose(-1, -2))
        if causal:
            late = torch.ones(n, stop - start, dtype=torch.bool, device=q.device)
            s = s.masked_fill(late.triu(length - n - start + 1), -math.inf)
        new = torch.maximum(m, s.max(dim=-1, keepdim=True).values).detach()
        base = new.masked_fill(torch.isneginf(new), 0.0)
        p = torch.exp(s - base)
        shrink = torch.exp(m - base)
        total = total * shrink + p.sum(dim=-1, keepdim=True)
        acc = acc * shrink + p @ v[..., start:stop, :].to(wide)
        m = new
    none = total == 0
    lse = m.masked_fill(none, 0.0) + torch.log(total.masked_fill(none, 1.0))
    return acc.to(q.dtype), lse.masked_fill(none, -math.inf).squeeze(-1)


@wrong(of="flash_attention", mistakes=2)
def mean_of_tiles_and_statistics_in_half(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    causal: bool = False,
    scale: float | None = None,
    block_size: int = 64,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The outputs of the tiles are averaged, as if each had the same weight.

    lse is rounded to the dtype of q, half precision too.
    """
    if block_size < 1:
        raise ValueError(f"block_size must be at least 1, not {block_size}")
    wide = torch.promote_types(q.dtype, torch.float32)
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    offset = k.shape[-2] - q.shape[-2]
    row = torch.arange(q.shape[-2], device=q.device)[:, None] + offset
    tiles = []
    total = torch.zeros(*q.shape[:-1], v.shape[-1], dtype=wide, device=q.device)
    count = torch.zeros(*q.shape[:-1], 1, dtype=wide, device=q.device)
    for start in range(0, k.shape[-2], block_size):
        kb = k[..., start : start + block_size, :].to(wide)
        scores = q.to(wide) @ kb.transpose(-2, -1) * scale
        if causal:
            column = start + torch.arange(kb.shape[-2], device=q.device)
            scores = scores.masked_fill(column > row, -math.inf)
        blind = torch.isneginf(scores).all(-1, keepdim=True)
        filled = scores.masked_fill(blind, 0.0)
        weights = torch.softmax(filled, dim=-1).masked_fill(blind, 0.0)
        total = total + weights @ v[..., start : start + block_size, :].to(wide)
        count = count + (~blind).to(wide)
        tiles.append(torch.logsumexp(filled, -1).masked_fill(blind[..., 0], -math.inf))
    each = torch.stack(tiles, dim=-1)
    none = torch.isneginf(each).all(dim=-1)
    lse = torch.logsumexp(each.masked_fill(none[..., None], 0.0), dim=-1)
    lse = lse.masked_fill(none, -math.inf)
    return (total / count.clamp(min=1.0)).to(q.dtype), lse.to(q.dtype)
