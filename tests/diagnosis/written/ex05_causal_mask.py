"""Wrong answers to ex05_causal_mask, written with nothing but the skeleton in sight."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch

from tests.diagnosis.written import wrong

if TYPE_CHECKING:  # the names that an answer finds in the rest of its file
    from exercises.ex05_causal_mask import causal_mask


@wrong(of="causal_mask", mistakes=1)
def tril_from_the_first_key(
    q_len: int, k_len: int, device: torch.device | str | None = None
) -> torch.Tensor:
    """The triangle is aligned to the first key instead of the last."""
    return torch.tril(torch.ones(q_len, k_len, dtype=torch.bool, device=device))


@wrong(of="causal_mask", mistakes=1)
def own_key_hidden(
    q_len: int, k_len: int, device: torch.device | str | None = None
) -> torch.Tensor:
    """A query does not see its own key: the comparison is < where it should be <=."""
    rows = torch.arange(q_len, device=device)[:, None] + (k_len - q_len)
    cols = torch.arange(k_len, device=device)[None, :]
    return cols < rows


@wrong(of="causal_mask", mistakes=1)
def one_key_ahead(q_len: int, k_len: int, device: torch.device | str | None = None) -> torch.Tensor:
    """The diagonal is one too far to the right: every query sees one key of the future."""
    full = torch.ones(q_len, k_len, dtype=torch.bool, device=device)
    return full.tril(diagonal=k_len - q_len + 1)


@wrong(of="causal_mask", mistakes=1)
def marks_what_is_hidden(
    q_len: int, k_len: int, device: torch.device | str | None = None
) -> torch.Tensor:
    """True stands for hidden keys, the convention of nn.Transformer, not for keys that are seen."""
    ones = torch.ones((q_len, k_len), device=device)
    return torch.triu(ones, diagonal=1 + k_len - q_len).bool()


@wrong(of="causal_mask", mistakes=1)
def ones_and_zeros(
    q_len: int, k_len: int, device: torch.device | str | None = None
) -> torch.Tensor:
    """The mask holds the numbers 1.0 and 0.0 and is never made boolean."""
    return torch.tril(torch.ones(q_len, k_len, device=device), diagonal=k_len - q_len)


@wrong(of="causal_mask", mistakes=1)
def offset_never_negative(
    q_len: int, k_len: int, device: torch.device | str | None = None
) -> torch.Tensor:
    """With more queries than keys the offset is set to 0, so that the first queries see keys."""
    past = max(k_len - q_len, 0)
    keep = torch.zeros(q_len, k_len, dtype=torch.bool, device=device)
    for i in range(q_len):
        keep[i, : i + past + 1] = True
    return keep


@wrong(of="causal_mask", mistakes=1)
def remembers_its_masks(
    q_len: int, k_len: int, device: torch.device | str | None = None
) -> torch.Tensor:
    """The same tensor is returned at the next call, so a caller who changes it changes both."""
    made = causal_mask.__dict__.setdefault("made", {})
    size = (q_len, k_len, str(device))
    if size not in made:
        i = torch.arange(q_len, device=device).view(-1, 1)
        j = torch.arange(k_len, device=device).view(1, -1)
        made[size] = j <= i + k_len - q_len
    return made[size]


@wrong(of="causal_mask", mistakes=1)
def offset_the_wrong_way(
    q_len: int, k_len: int, device: torch.device | str | None = None
) -> torch.Tensor:
    """The offset is q_len - k_len, with the wrong sign."""
    q_pos = torch.arange(q_len, device=device) + q_len - k_len
    k_pos = torch.arange(k_len, device=device)
    return q_pos.unsqueeze(1) >= k_pos.unsqueeze(0)


@wrong(of="causal_mask", mistakes=2)
def loop_of_hidden_keys(
    q_len: int, k_len: int, device: torch.device | str | None = None
) -> torch.Tensor:
    """True stands for hidden keys instead of visible ones.

    The triangle is aligned to the first key instead of the last.
    """
    mask = torch.zeros(q_len, k_len, dtype=torch.bool, device=device)
    for i in range(q_len):
        for j in range(k_len):
            if j > i:
                mask[i, j] = True
    return mask


@wrong(of="causal_mask", mistakes=2)
def additive_and_one_short(
    q_len: int, k_len: int, device: torch.device | str | None = None
) -> torch.Tensor:
    """The mask is one to add to the scores, 0 and -inf, not a boolean one.

    A query's own key is hidden: the diagonal of the triangle is one too low.
    """
    mask = torch.full((q_len, k_len), float("-inf"), device=device)
    return mask.triu(diagonal=k_len - q_len)


@wrong(of="causal_mask", mistakes=2)
def device_forgotten_and_one_ahead(
    q_len: int, k_len: int, device: torch.device | str | None = None
) -> torch.Tensor:
    """The device is ignored: the mask always lies on the default one.

    Every query sees one key of the future.
    """
    offset = k_len - q_len
    positions = torch.arange(q_len) + offset + 1
    return torch.arange(k_len).expand(q_len, k_len) <= positions[:, None]


@wrong(of="sliding_window_mask", mistakes=1)
def one_key_too_many(
    q_len: int, k_len: int, window: int, device: torch.device | str | None = None
) -> torch.Tensor:
    """The window holds window keys before the query's own, so one too many."""
    i = torch.arange(q_len, device=device)[:, None] + k_len - q_len
    j = torch.arange(k_len, device=device)
    return (j <= i) & (i - j <= window)


@wrong(of="sliding_window_mask", mistakes=1)
def one_key_too_few(
    q_len: int, k_len: int, window: int, device: torch.device | str | None = None
) -> torch.Tensor:
    """The window is one key too narrow: the lower triangle that is cut off is one too large."""
    ones = torch.ones(q_len, k_len, dtype=torch.bool, device=device)
    offset = k_len - q_len
    seen = ones.tril(offset)
    too_old = ones.tril(offset - window + 1)
    return seen & ~too_old


@wrong(of="sliding_window_mask", mistakes=1)
def window_to_both_sides(
    q_len: int, k_len: int, window: int, device: torch.device | str | None = None
) -> torch.Tensor:
    """The window reaches to both sides, like a local attention that is not causal."""
    i = torch.arange(q_len, device=device).unsqueeze(-1) + (k_len - q_len)
    j = torch.arange(k_len, device=device)
    return (i - j).abs() < window


@wrong(of="sliding_window_mask", mistakes=1)
def window_from_the_row_number(
    q_len: int, k_len: int, window: int, device: torch.device | str | None = None
) -> torch.Tensor:
    """The window begins at the row's number instead of the query's position."""
    i = torch.arange(q_len, device=device)[:, None]
    j = torch.arange(k_len, device=device)[None, :]
    return (j <= i + k_len - q_len) & (j > i - window)


@wrong(of="sliding_window_mask", mistakes=1)
def slices_without_the_own_key(
    q_len: int, k_len: int, window: int, device: torch.device | str | None = None
) -> torch.Tensor:
    """The window ends before the query's own key: the slice's end should be one larger."""
    keep = torch.zeros((q_len, k_len), dtype=torch.bool, device=device)
    for i in range(q_len):
        position = i + k_len - q_len
        if position >= 0:
            keep[i, max(position - window, 0) : position] = True
    return keep


@wrong(of="sliding_window_mask", mistakes=2)
def first_key_and_too_many(
    q_len: int, k_len: int, window: int, device: torch.device | str | None = None
) -> torch.Tensor:
    """The band is aligned to the first key instead of the last.

    The window is one key too wide.
    """
    ones = torch.ones(q_len, k_len, device=device)
    band = torch.tril(ones) * torch.triu(ones, diagonal=-window)
    return band == 1


@wrong(of="sliding_window_mask", mistakes=2)
def future_open_and_integers(
    q_len: int, k_len: int, window: int, device: torch.device | str | None = None
) -> torch.Tensor:
    """Nothing hides the future: only old keys are cut off.

    The mask comes back as integers instead of booleans.
    """
    position = torch.arange(k_len - q_len, k_len, device=device)
    age = position[:, None] - torch.arange(k_len, device=device)[None, :]
    return torch.where(age < window, 1, 0)


@wrong(of="causal_attention", mistakes=1)
def top_left_attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """The triangle is aligned to the first key instead of the last."""
    dtype = q.dtype
    if dtype in (torch.float16, torch.bfloat16):
        q, k, v = q.float(), k.float(), v.float()
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    future = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).triu(1)
    weights = scores.masked_fill(future, float("-inf")).softmax(dim=-1)
    return (weights @ v).to(dtype)


@wrong(of="causal_attention", mistakes=1)
def minus_a_billion(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """The scores of hidden keys get -1e9 added instead of being replaced by -inf."""
    dtype = q.dtype
    if dtype in (torch.float16, torch.bfloat16):
        q, k, v = q.float(), k.float(), v.float()
    keep = causal_mask(q.shape[-2], k.shape[-2], q.device)
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    scores = scores + (~keep).to(scores.dtype) * -1e9
    weights = torch.softmax(scores, dim=-1) * keep.any(-1, keepdim=True)
    return (weights @ v).to(dtype)


@wrong(of="causal_attention", mistakes=1)
def rows_of_nan(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Queries before the first key get NaN instead of 0: their softmax is over -inf alone."""
    wide = torch.promote_types(q.dtype, torch.float32)
    q_len, k_len = q.size(-2), k.size(-2)
    keep = causal_mask(q_len, k_len, device=q.device)
    scores = torch.einsum("...qd,...kd->...qk", q.to(wide), k.to(wide)) * q.size(-1) ** -0.5
    scores = torch.where(keep, scores, -torch.inf)
    weights = torch.softmax(scores, dim=-1)
    return torch.einsum("...qk,...kd->...qd", weights, v.to(wide)).to(q.dtype)


@wrong(of="causal_attention", mistakes=1)
def added_infinity(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """-inf is added to hidden scores, not put in their place: empty rows' gradient is NaN."""
    compute = q.dtype if q.dtype == torch.float64 else torch.float32
    qc, kc, vc = (t.to(compute) for t in (q, k, v))
    mask = causal_mask(qc.shape[-2], kc.shape[-2], q.device)
    logits = (qc / math.sqrt(qc.shape[-1])) @ kc.mT
    logits = logits + torch.zeros_like(logits).masked_fill(mask.logical_not(), -math.inf)
    weights = torch.nan_to_num(logits.softmax(-1), nan=0.0)
    return (weights @ vc).to(q.dtype)


@wrong(of="causal_attention", mistakes=1)
def scale_left_out(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """The scores are not divided by sqrt(D)."""
    out_dtype = q.dtype
    if out_dtype != torch.float64:
        q, k, v = q.float(), k.float(), v.float()
    keep = causal_mask(q.shape[-2], k.shape[-2], q.device)
    empty = ~keep.any(dim=-1, keepdim=True)
    scores = torch.matmul(q, k.transpose(-1, -2))
    scores = scores.masked_fill(~keep, -math.inf).masked_fill(empty, 0.0)
    weights = torch.softmax(scores, dim=-1).masked_fill(empty, 0.0)
    return torch.matmul(weights, v).to(out_dtype)


@wrong(of="causal_attention", mistakes=1)
def scale_by_the_value_width(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """The scores are divided by the root of the values' width instead of the keys'."""
    out_dtype = q.dtype
    if out_dtype != torch.float64:
        q, k, v = q.float(), k.float(), v.float()
    d = v.shape[-1]
    keep = causal_mask(q.shape[-2], k.shape[-2], q.device)
    empty = ~keep.any(dim=-1, keepdim=True)
    scores = (q @ k.transpose(-1, -2)) / math.sqrt(d)
    scores = scores.masked_fill(~keep, -math.inf).masked_fill(empty, 0.0)
    return (torch.softmax(scores, -1).masked_fill(empty, 0.0) @ v).to(out_dtype)


@wrong(of="causal_attention", mistakes=1)
def stays_in_half_precision(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """float16 and bfloat16 are computed in themselves instead of float32."""
    d = q.shape[-1]
    keep = causal_mask(q.shape[-2], k.shape[-2], q.device)
    blind = ~keep.any(dim=-1, keepdim=True)
    scores = q @ k.transpose(-1, -2) / math.sqrt(d)
    scores = scores.masked_fill(~keep & ~blind, -math.inf).masked_fill(blind, 0.0)
    weights = scores.softmax(dim=-1).masked_fill(blind, 0.0)
    return weights @ v


@wrong(of="causal_attention", mistakes=1)
def zeros_become_hidden(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """The hidden places are found by a score of 0, so a visible score of 0 is hidden as well."""
    wide = torch.promote_types(q.dtype, torch.float32)
    q_len, k_len = q.shape[-2], k.shape[-2]
    scores = (q.to(wide) @ k.to(wide).transpose(-2, -1)) / math.sqrt(q.shape[-1])
    scores = torch.tril(scores, diagonal=k_len - q_len)
    scores = scores.masked_fill(scores == 0, float("-inf"))
    blind = torch.isinf(scores).all(dim=-1, keepdim=True)
    weights = scores.masked_fill(blind, 0.0).softmax(dim=-1).masked_fill(blind, 0.0)
    return (weights @ v.to(wide)).to(q.dtype)


@wrong(of="causal_attention", mistakes=1)
def triangle_after_the_softmax(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """The mask multiplies the weights after the softmax, whose rows then sum to less than 1."""
    wide = torch.promote_types(q.dtype, torch.float32)
    attn = torch.softmax(q.to(wide) @ k.to(wide).mT / q.shape[-1] ** 0.5, dim=-1)
    attn = torch.tril(attn, diagonal=k.shape[-2] - q.shape[-2])
    return (attn @ v.to(wide)).to(q.dtype)


@wrong(of="causal_attention", mistakes=1)
def mask_times_scores(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """The scores are multiplied by the mask: a hidden score becomes 0, which is not hidden."""
    wide = torch.promote_types(q.dtype, torch.float32)
    keep = causal_mask(q.shape[-2], k.shape[-2], q.device)
    scores = q.to(wide) @ k.to(wide).transpose(-2, -1) / math.sqrt(q.shape[-1])
    weights = torch.softmax(scores * keep, dim=-1)
    weights = weights * keep.any(dim=-1, keepdim=True)
    return (weights @ v.to(wide)).to(q.dtype)


@wrong(of="causal_attention", mistakes=1)
def everything_in_float32(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """float64 is computed in float32 too and loses its digits."""
    original = q.dtype
    q, k, v = q.float(), k.float(), v.float()
    keep = causal_mask(q.shape[-2], k.shape[-2], q.device)
    empty = ~keep.any(dim=-1, keepdim=True)
    scores = (q @ k.mT) * (1 / math.sqrt(q.shape[-1]))
    scores = scores.masked_fill(~keep, -math.inf).masked_fill(empty, 0.0)
    weights = torch.softmax(scores, dim=-1).masked_fill(empty, 0.0)
    return (weights @ v).to(original)


@wrong(of="causal_attention", mistakes=1)
def softmax_over_the_queries(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """The softmax goes over the queries instead of the keys."""
    wide = torch.promote_types(q.dtype, torch.float32)
    keep = causal_mask(q.shape[-2], k.shape[-2], q.device)
    scores = q.to(wide) @ k.to(wide).transpose(-2, -1) / math.sqrt(q.shape[-1])
    weights = scores.masked_fill(~keep, -math.inf).softmax(dim=-2)
    return (weights @ v.to(wide)).to(q.dtype)


@wrong(of="causal_attention", mistakes=2)
def exponentials_by_hand(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """The exponentials are taken without subtracting the maximum and overflow for large scores.

    The triangle is aligned to the first key instead of the last.
    """
    wide = torch.promote_types(q.dtype, torch.float32)
    scores = q.to(wide) @ k.to(wide).transpose(-2, -1) / math.sqrt(q.shape[-1])
    allowed = torch.ones_like(scores, dtype=torch.bool).tril()
    e = torch.exp(scores.masked_fill(~allowed, -math.inf))
    return ((e / e.sum(dim=-1, keepdim=True)) @ v.to(wide)).to(q.dtype)


@wrong(of="causal_attention", mistakes=2)
def in_place_and_rows_of_nan(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """The queries are divided by sqrt(D) in place, which changes the caller's tensor.

    Queries before the first key get NaN instead of 0.
    """
    with torch.no_grad():
        q /= math.sqrt(q.shape[-1])
    wide = torch.promote_types(q.dtype, torch.float32)
    scores = q.to(wide) @ k.to(wide).transpose(-2, -1)
    keep = causal_mask(q.shape[-2], k.shape[-2], q.device)
    scores = scores.masked_fill(~keep, float("-inf"))
    return (scores.softmax(-1) @ v.to(wide)).to(q.dtype)


@wrong(of="causal_attention", mistakes=2)
def float32_out_and_unscaled(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Half precision is not converted back: the output is float32.

    The scores are not divided by sqrt(D).
    """
    if q.dtype in (torch.half, torch.bfloat16):
        q, k, v = q.float(), k.float(), v.float()
    keep = causal_mask(q.shape[-2], k.shape[-2], q.device)
    some = keep.any(dim=-1, keepdim=True)
    scores = torch.einsum("...id,...jd->...ij", q, k)
    scores = scores.masked_fill(~keep & some, -math.inf)
    scores = torch.where(some, scores, 0.0)
    return (torch.softmax(scores, -1) * some) @ v


@wrong(of="causal_attention", mistakes=2)
def prefix_loop(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """A query does not see its own key: the slice of its keys is one too short.

    The scores are divided by D instead of sqrt(D).
    """
    wide = torch.promote_types(q.dtype, torch.float32)
    qw, kw, vw = q.to(wide), k.to(wide), v.to(wide)
    rows = []
    for i in range(q.shape[-2]):
        end = max(i + k.shape[-2] - q.shape[-2], 0)
        scores = (qw[..., i : i + 1, :] @ kw[..., :end, :].transpose(-2, -1)) / q.shape[-1]
        rows.append(torch.softmax(scores, dim=-1) @ vw[..., :end, :])
    return torch.cat(rows, dim=-2).to(q.dtype)


@wrong(of="causal_attention", mistakes=2)
def one_ahead_in_half_precision(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Every query sees one key of the future.

    Half precision is computed in itself instead of float32.
    """
    shift = k.shape[-2] - q.shape[-2]
    i = torch.arange(q.shape[-2], device=q.device)[:, None]
    j = torch.arange(k.shape[-2], device=q.device)[None, :]
    hidden = j - i > shift + 1
    empty = hidden.all(dim=-1, keepdim=True)
    scores = (q / math.sqrt(q.shape[-1])) @ k.transpose(-2, -1)
    scores = scores.masked_fill(hidden, -math.inf).masked_fill(empty, 0.0)
    return torch.softmax(scores, dim=-1).masked_fill(empty, 0.0) @ v
