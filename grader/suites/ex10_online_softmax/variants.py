"""Right answers, written otherwise."""

import math

import torch

from grader.judging import variant


@variant(of="online_softmax")
def from_the_lowest_number_in_double(x, block_size):
    """In float64, from a maximum that is finite from the start, as many kernels have it."""
    if block_size <= 0:
        raise ValueError(f"block_size must be positive, not {block_size}")
    m = torch.full(x.shape[:-1], torch.finfo(torch.float64).min, dtype=torch.float64).to(x.device)
    d = torch.zeros_like(m)
    for piece in torch.split(x, block_size, dim=-1):
        larger = torch.maximum(m, piece.double().max(-1).values)
        d = d * torch.exp(m - larger) + (piece - larger.unsqueeze(-1)).exp().sum(-1)
        m = larger
    wide = torch.float64 if x.dtype == torch.float64 else torch.float32
    return torch.where(d == 0, -math.inf, m).to(wide), d.to(wide)


@variant(of="online_softmax")
def last_block_filled_up(x, block_size):
    """Every block as wide as the others: the last one filled up with -inf, as a GPU loads it."""
    if block_size < 1:
        raise ValueError(f"cannot read {block_size} columns at once")
    tops, sums = x.new_full(x.shape[:-1], -math.inf).float(), 0.0
    tops = tops.to(x.dtype) if x.dtype == torch.float64 else tops
    for number in range((x.shape[-1] + block_size - 1) // block_size):
        piece = x[..., number * block_size :][..., :block_size].to(tops.dtype)
        missing = block_size - piece.shape[-1]
        piece = torch.nn.functional.pad(piece, (0, missing), value=-math.inf)
        new = torch.maximum(tops, piece.amax(-1).detach())
        finite = new.masked_fill(new == -math.inf, 0)
        sums = sums * (tops - finite).exp() + (piece - finite[..., None]).exp().sum(-1)
        tops = new
    return tops, sums


@variant(of="online_softmax")
def halves_joined(x, block_size):
    """The statistics of half the blocks and of the other half, joined: a tree in place of a run."""
    if block_size < 1:
        raise ValueError(f"no blocks of {block_size}")

    def of(start, stop):
        if stop - start <= block_size:
            piece = x[..., start:stop].to(torch.promote_types(x.dtype, torch.float32))
            top = piece.amax(-1)
            return top, torch.exp(piece - top.nan_to_num(neginf=0.0)[..., None]).sum(-1)
        blocks = math.ceil((stop - start) / block_size)
        middle = start + blocks // 2 * block_size
        (top, total), (other_top, other_total) = of(start, middle), of(middle, stop)
        both = torch.maximum(top, other_top)
        base = both.nan_to_num(neginf=0.0)
        return both, total * torch.exp(top - base) + other_total * torch.exp(other_top - base)

    return of(0, x.shape[-1])


@variant(of="merge_partials")
def by_a_sigmoid(a, b):
    """The share of one part is the sigmoid of the difference, as ring attention has it."""
    (out_a, lse_a), (out_b, lse_b) = a, b
    no_a, no_b = lse_a == -torch.inf, lse_b == -torch.inf
    x, y = torch.where(no_a, 0.0, lse_a), torch.where(no_b, 0.0, lse_b)
    share = torch.where(no_a, 0.0, torch.where(no_b, 1.0, torch.sigmoid(x - y)))[..., None]
    wide = torch.promote_types(out_a.dtype, torch.float32)
    first = torch.where(no_a[..., None], 0.0, out_a).to(wide)
    second = torch.where(no_b[..., None], 0.0, out_b).to(wide)
    second = torch.where((no_a & ~no_b)[..., None], second, second - share * second)
    both = x - torch.nn.functional.logsigmoid(x - y)
    lse = torch.where(no_a, torch.where(no_b, -torch.inf, y), torch.where(no_b, x, both))
    return (share * first + second).to(out_a.dtype), lse


@variant(of="merge_partials")
def stacked_and_weighted(a, b):
    """Both parts stacked, a softmax over the two lse, weights exp(lse - lse of both)."""
    outputs, lses = torch.stack([a[0], b[0]]), torch.stack([a[1], b[1]])
    empty = torch.isneginf(lses)
    nothing = empty.all(0)
    lse = torch.logsumexp(lses.masked_fill(nothing, 0.0), 0)
    weights = torch.exp(lses.masked_fill(empty, -torch.inf).masked_fill(nothing, 0.0) - lse)
    weights = weights.masked_fill(empty, 0.0)[..., None].to(lses.dtype)
    mixed = (weights * outputs.masked_fill(empty[..., None], 0.0)).sum(0)
    return [mixed.to(a[0].dtype), lse.masked_fill(nothing, -torch.inf)]


@variant(of="flash_attention")
def tiles_of_queries_too(q, k, v, causal=False, scale=None, block_size=64):
    """Two loops; tiles above the diagonal are left out, sums are carried in place of copies."""
    if block_size < 1:
        raise ValueError(f"block_size={block_size}")
    wide = torch.promote_types(q.dtype, torch.float32)
    n, m = q.shape[-2], k.shape[-2]
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    outputs, lses = [], []
    for rows in torch.arange(n, device=q.device).split(block_size):
        some = q[..., rows, :].to(wide)
        top = torch.full(some.shape[:-1], -torch.inf, dtype=wide, device=q.device)
        total, output = torch.zeros_like(top), some.new_zeros(*top.shape, v.shape[-1])
        for keys in torch.arange(m, device=q.device).split(block_size):
            if causal and keys[0] > rows[-1] + m - n:
                break
            scores = torch.einsum("...id,...jd->...ij", some, k[..., keys, :].to(wide)) * scale
            if causal:
                scores = torch.where(keys <= rows[:, None] + m - n, scores, -torch.inf)
            larger = torch.maximum(top, scores.detach().amax(-1))
            safe = larger.masked_fill(larger == -torch.inf, 0.0)
            powers, old = torch.exp(scores - safe[..., None]), torch.exp(top - safe)
            total = total * old + powers.sum(-1)
            output = output * old[..., None] + powers @ v[..., keys, :].to(wide)
            top = larger
        seen = total > 0
        total = torch.where(seen, total, 1.0)
        outputs.append((output / total[..., None]).to(q.dtype))
        lses.append(torch.where(seen, top + total.log(), -torch.inf))
    return torch.cat(outputs, -2), torch.cat(lses, -1)


@variant(of="flash_attention")
def partials_merged(q, k, v, causal=False, scale=None, block_size=64):
    """Each tile is answered by itself, with torch.softmax, and merged into what there is."""
    if block_size < 1:
        raise ValueError(f"block_size {block_size} is less than 1")
    wide = torch.promote_types(q.dtype, torch.float32)
    x = q.to(wide) * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    rows = torch.arange(q.shape[-2], device=q.device)[:, None] + k.shape[-2] - q.shape[-2]
    part = x.new_zeros(*q.shape[:-1], v.shape[-1]), x.new_full(q.shape[:-1], -torch.inf)
    for start in range(0, k.shape[-2], block_size):
        keys = k[..., start : start + block_size, :].to(wide)
        values = v[..., start : start + block_size, :].to(wide)
        scores = x @ keys.transpose(-2, -1)
        places = start + torch.arange(keys.shape[-2], device=q.device)
        hidden = (places > rows) if causal else torch.zeros_like(places > rows)
        empty = hidden.all(-1, keepdim=True)
        scores = scores.masked_fill(hidden, -torch.inf).masked_fill(empty, 0.0)
        output = torch.softmax(scores, -1).masked_fill(empty, 0.0) @ values
        lse = torch.logsumexp(scores, -1).masked_fill(empty.squeeze(-1), -torch.inf)
        part = merge_partials(part, (output, lse))  # noqa: F821 (it is the submission's)
    return part[0].to(q.dtype), part[1]


@variant(of="flash_attention")
def two_passes_in_double(q, k, v, causal=False, scale=None, block_size=64):
    """First the lse of all tiles, then the weights exp(score - lse) against it, in float64."""
    if block_size < 1:
        raise ValueError("block_size is " + str(block_size))
    wide = torch.promote_types(q.dtype, torch.float32)
    factor = q.shape[-1] ** -0.5 if scale is None else scale
    starts = list(range(0, k.shape[-2], block_size))
    last = torch.arange(q.shape[-2], device=q.device)[:, None] + k.shape[-2] - q.shape[-2]

    def tile(start):
        keys = k[..., start : start + block_size, :].double()
        scores = torch.matmul(q.double(), keys.mT) * factor
        places = torch.arange(start, start + keys.shape[-2], device=q.device)
        return scores.masked_fill(places > last, -torch.inf) if causal else scores

    lse = torch.full(q.shape[:-1], -torch.inf, dtype=torch.float64, device=q.device)
    for start in starts:
        scores = tile(start)
        empty = torch.isneginf(scores).all(-1)
        block = torch.logsumexp(scores.masked_fill(empty[..., None], 0.0), -1)
        none = torch.isneginf(lse)
        both = torch.logaddexp(lse.masked_fill(none, 0.0), block)
        lse = torch.where(empty, lse, torch.where(none, block, both))
    base = lse.masked_fill(torch.isneginf(lse), 0.0)[..., None]
    output = sum(
        torch.exp(tile(start) - base) @ v[..., start : start + block_size, :].double()
        for start in starts
    )
    return output.to(q.dtype), lse.to(wide)


@variant(of="flash_attention")
def maximum_kept_finite(q, k, v, causal=False, scale=None, block_size=64):
    """The maximum starts at the lowest finite number: nothing is ever infinite minus infinite."""
    if block_size < 1:
        raise ValueError(f"{block_size} keys make no tile")
    dtype, wide = q.dtype, torch.float64 if q.dtype == torch.float64 else torch.float32
    q, k, v = q.to(wide), k.to(wide), v.to(wide)
    q = q * (q.shape[-1] ** -0.5 if scale is None else scale)
    low = torch.finfo(wide).min
    m = torch.full_like(q[..., :1], low)
    total, acc = torch.zeros_like(m), torch.zeros(*q.shape[:-1], v.shape[-1]).to(q)
    last = torch.arange(q.shape[-2], device=q.device) + (k.shape[-2] - q.shape[-2])
    last = last.unsqueeze(1) if causal else k.shape[-2]  # the last key that a query sees
    for j in range(math.ceil(k.shape[-2] / block_size)):
        block = slice(j * block_size, (j + 1) * block_size)
        keep = torch.arange(k.shape[-2], device=q.device)[block] <= last
        scores = torch.where(keep, q @ k[..., block, :].mT, low)
        new = torch.maximum(m, scores.amax(-1, keepdim=True))
        p = torch.exp(scores - new) * keep
        old = torch.exp(m - new)
        total, acc, m = old * total + p.sum(-1, keepdim=True), old * acc + p @ v[..., block, :], new
    empty = total == 0
    total = total + empty
    return (acc / total).to(dtype), (m + total.log()).masked_fill(empty, -torch.inf).squeeze(-1)
