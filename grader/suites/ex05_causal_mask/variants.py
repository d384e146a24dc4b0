"""Right causal masks and causal attentions, written otherwise."""

import math

import numpy as np
import torch

from grader.judging import variant


@variant(of="causal_mask")
def lower_triangle(q_len, k_len, device=None):
    """A triangle of ones with its diagonal moved."""
    return torch.ones(q_len, k_len, dtype=torch.bool, device=device).tril(diagonal=k_len - q_len)


@variant(of="causal_mask")
def upper_triangle_inverted(q_len, k_len, device=None):
    """The tutorials' triangle of what is hidden, and then the opposite of it."""
    blocked = torch.triu(torch.ones(q_len, k_len, device=device), diagonal=k_len - q_len + 1)
    return blocked == 0


@variant(of="causal_mask")
def two_loops(q_len, k_len, device=None):
    """One question per query and key."""
    keep = torch.zeros(q_len, k_len, dtype=torch.bool)
    for i in range(q_len):
        for j in range(k_len):
            keep[i, j] = j <= i + k_len - q_len
    return keep.to(device)


@variant(of="causal_mask")
def counted_from_the_last_corner(q_len, k_len, device=None):
    """Both lengths counted backwards from the corner where the last query meets the last key."""
    queries_left = torch.arange(q_len - 1, -1, -1, device=device).unsqueeze(1)
    keys_left = torch.arange(k_len - 1, -1, -1, device=device).unsqueeze(0)
    return torch.ge(keys_left, queries_left)


@variant(of="causal_mask")
def in_numpy(q_len, k_len, device=None):
    """NumPy's triangle, handed over to PyTorch."""
    return torch.from_numpy(np.tri(q_len, k_len, k_len - q_len, dtype=bool)).to(device or "cpu")


@variant(of="sliding_window_mask")
def band_of_two_triangles(q_len, k_len, window, device=None):
    """A lower and an upper triangle, one inside the other."""
    past = k_len - q_len
    ones = torch.ones((q_len, k_len), device=device, dtype=torch.bool)
    return torch.triu(torch.tril(ones, past), past - window + 1)


@variant(of="sliding_window_mask")
def causal_without_the_distant(q_len, k_len, window, device=None):
    """The causal mask, minus the same mask moved back by the window."""
    ones = torch.ones(q_len, k_len, device=device)
    distant = ones.tril(k_len - q_len - window)
    return (ones.tril(k_len - q_len) - distant).bool()


@variant(of="sliding_window_mask")
def row_by_row(q_len, k_len, window, device=None):
    """One slice of True in each row."""
    keep = torch.full((q_len, k_len), False, device=device)
    for i in range(q_len):
        stop = max(i + 1 + k_len - q_len, 0)
        keep[i, max(stop - window, 0) : stop] = True
    return keep


@variant(of="sliding_window_mask")
def chained_comparison(q_len, k_len, window, device=None):
    """The two borders of each window, compared with every key."""
    own = torch.arange(k_len - q_len, k_len, device=device).view(-1, 1)
    keys = torch.arange(k_len, device=device).view(1, -1)
    return torch.logical_and(keys <= own, own - window < keys)


@variant(of="causal_attention")
def textbook(q, k, v):
    """The whole matrix of scores, -inf where hidden, zeros for the rows of nothing."""
    keep = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool, device=q.device)
    keep = keep.tril(k.shape[-2] - q.shape[-2])
    wide = q.dtype if q.dtype == torch.float64 else torch.float32
    scores = (q.to(wide) @ k.to(wide).transpose(-2, -1)) / math.sqrt(q.size(-1))
    weights = torch.softmax(scores.masked_fill(~keep, float("-inf")), dim=-1)
    weights = weights.masked_fill(~keep.any(-1, keepdim=True), 0.0)
    return (weights @ v.to(wide)).to(q.dtype)


@variant(of="causal_attention")
def as_small_models_have_it(q, k, v):
    """A triangle of float ones, masked_fill where it is 0, and F.softmax."""
    (rows, width), keys, kind = q.shape[-2:], k.shape[-2], q.dtype
    if kind != torch.float64:
        q, k, v = q.float(), k.float(), v.float()
    tril = torch.tril(torch.ones(rows, keys, device=q.device), diagonal=keys - rows)
    att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(width))
    att = torch.nn.functional.softmax(att.masked_fill(tril == 0, float("-inf")), dim=-1)
    att = att.masked_fill(tril.sum(-1, keepdim=True) == 0, 0.0)
    return (att @ v).to(kind)


@variant(of="causal_attention")
def nan_weights_replaced(q, k, v):
    """The weights of a row of nothing turn NaN, and are replaced before they meet the values."""
    q_len, k_len = q.shape[-2], k.shape[-2]
    blocked = torch.ones(q_len, k_len, dtype=torch.bool, device=q.device).triu(k_len - q_len + 1)
    scores = torch.einsum("...qd,...kd->...qk", q.double(), k.double()) * q.shape[-1] ** -0.5
    weights = torch.where(blocked, -torch.inf, scores).softmax(-1).nan_to_num(0.0)
    return torch.einsum("...qk,...kd->...qd", weights, v.double()).to(q.dtype)


@variant(of="causal_attention")
def weights_in_half_precision(q, k, v):
    """Scores and softmax in float32, weights rounded to the dtype of the values, as models do."""
    keep = causal_mask(q.shape[-2], k.shape[-2], q.device)  # noqa: F821 (the submission's own)
    wide = torch.promote_types(q.dtype, torch.float32)
    scores = (q.to(wide) * q.shape[-1] ** -0.5) @ k.to(wide).mT
    weights = scores.masked_fill(keep.logical_not(), torch.finfo(wide).min).softmax(-1) * keep
    return weights.to(v.dtype) @ v


@variant(of="causal_attention")
def one_query_at_a_time(q, k, v):
    """A loop over the queries, each with the slice of the keys that it sees."""
    past = k.shape[-2] - q.shape[-2]
    wide = torch.promote_types(q.dtype, torch.float32)
    rows = []
    for i in range(q.shape[-2]):
        seen = max(past + i + 1, 0)
        keys, values = k[..., :seen, :].to(wide), v[..., :seen, :].to(wide)
        scores = (keys @ q[..., i, :, None].to(wide)).squeeze(-1) / q.shape[-1] ** 0.5
        rows.append((torch.softmax(scores, -1)[..., None] * values).sum(-2))
    return torch.stack(rows, -2).to(q.dtype)


@variant(of="causal_attention")
def batches_flattened(q, k, v):
    """Leading dimensions joined for bmm, softmax by hand, and the division last."""
    lead, q_len, k_len = q.shape[:-2], q.shape[-2], k.shape[-2]
    wide = torch.promote_types(q.dtype, torch.float32)
    batch = math.prod(lead)
    q3, k3, v3 = (x.to(wide).reshape(batch, *x.shape[-2:]) for x in (q, k, v))
    positions = torch.arange(q_len, device=q.device)[:, None] + k_len - q_len
    hidden = torch.arange(k_len, device=q.device) > positions
    scores = torch.bmm(q3, k3.transpose(1, 2)).div(math.sqrt(q.shape[-1]))
    scores = scores.masked_fill(hidden, -torch.inf)
    top = scores.detach().amax(-1, keepdim=True).clamp(min=torch.finfo(wide).min)
    powers = torch.exp(scores - top)
    total = powers.sum(-1, keepdim=True)
    output = torch.bmm(powers, v3) / torch.where(total == 0, 1.0, total)
    return output.reshape(*lead, q_len, v.shape[-1]).to(q.dtype)


@variant(of="causal_attention")
def one_block_of_keys_at_a_time(q, k, v):
    """Blocks of keys with a running maximum and a running sum, as flash attention has them."""
    q_len, k_len = q.shape[-2], k.shape[-2]
    wide = torch.promote_types(q.dtype, torch.float32)
    q, kind = q.to(wide) / math.sqrt(q.shape[-1]), q.dtype
    positions = torch.arange(q_len, device=q.device)[:, None] + k_len - q_len
    top = q.new_full((*q.shape[:-1], 1), torch.finfo(wide).min)
    total = torch.zeros_like(top)
    output = q.new_zeros(*q.shape[:-1], v.shape[-1])
    for start in range(0, k_len, 48):
        stop = min(start + 48, k_len)
        keep = torch.arange(start, stop, device=q.device) <= positions
        scores = q @ k[..., start:stop, :].to(wide).mT
        scores = scores.masked_fill(~keep, -torch.inf)
        new_top = torch.maximum(top, scores.detach().amax(-1, keepdim=True))
        powers, shrink = torch.exp(scores - new_top), torch.exp(top - new_top)
        total = total * shrink + powers.sum(-1, keepdim=True)
        output = output * shrink + powers @ v[..., start:stop, :].to(wide)
        top = new_top
    return (output / total.masked_fill(total == 0, 1.0)).to(kind)


@variant(of="causal_attention")
def empty_rows_cut_off(q, k, v):
    """The rows that see nothing are left out, and put back as zeros at the end."""
    spare = max(q.shape[-2] - k.shape[-2], 0)
    kind = q.dtype
    q, k, v = (x[..., n:, :].to(torch.float64) for x, n in ((q, spare), (k, 0), (v, 0)))
    past = k.shape[-2] - q.shape[-2]
    ahead = torch.full((q.shape[-2], k.shape[-2]), 1, device=q.device).triu(past + 1).bool()
    scores = (q / q.shape[-1] ** 0.25) @ (k / q.shape[-1] ** 0.25).mT
    logs = torch.log_softmax(scores.masked_fill(ahead, -torch.inf), -1)
    return torch.nn.functional.pad(logs.exp() @ v, (0, 0, spare, 0)).to(kind)


@variant(of="causal_attention")
def root_of_the_scale_on_both(q, k, v):
    """Queries and keys divided by the fourth root of the width each, before they are multiplied."""
    wide = torch.promote_types(q.dtype, torch.float32)
    root = q.shape[-1] ** 0.25
    scores = (q.to(wide) / root) @ (k.to(wide) / root).mT
    past = k.shape[-2] - q.shape[-2]
    positions = torch.arange(q.shape[-2], device=q.device)[:, None] + past
    keep = torch.arange(k.shape[-2], device=q.device) <= positions
    hidden = torch.where(positions < 0, 0.0, -torch.inf).to(wide)
    weights = torch.where(keep, scores, hidden).softmax(-1).masked_fill(~keep, 0.0)
    return (weights @ v.to(wide)).to(q.dtype)
