"""Wrong answers to `flash_attention`."""

import math

import torch

from grader.judging import mistake
from reference.ex14_triton import plain_keep, plain_softmax

from ..test_triton import (
    test_attention,
    test_attention_layout,
    test_causal,
    test_empty,
    test_half,
    test_scores,
)
from .shared import TILE, as_if_dense, attend, raised, scores_of, tile_by_tile


@mistake(of="flash_attention", caught_by=test_attention)
def scale_missing(q, k, v, causal=False, scale=None):
    """The scores are not scaled.

    Where scale is None it is 1 / math.sqrt(D).
    """
    return attend(q, k, v, causal, 1.0 if scale is None else scale)


@mistake(of="flash_attention", caught_by=test_attention)
def scale_one_percent_off(q, k, v, causal=False, scale=None):
    """The scores are scaled by a number that is 1 % too small.

    It is exactly 1 / math.sqrt(D), unless another one is given.
    """
    return attend(q, k, v, causal, 0.99 * (1 / math.sqrt(q.shape[-1]) if scale is None else scale))


@mistake(of="flash_attention", caught_by=test_scores)
def given_scale_ignored(q, k, v, causal=False, scale=None):
    """A scale that is given changes nothing.

    1 / math.sqrt(D) is only for scale=None.
    """
    return attend(q, k, v, causal)


@mistake(of="flash_attention", caught_by=test_attention)
def exp2_without_log2e(q, k, v, causal=False, scale=None):
    """exp2 is taken of the plain scores, so that the weights are powers of 2.

    exp(x) is exp2(x * 1.4427): multiply the scale by log2(e) first.
    """
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    return attend(q, k, v, causal, scale * math.log(2))


@mistake(of="flash_attention", caught_by=test_attention)
def log2e_with_exp(q, k, v, causal=False, scale=None):
    """The scale is multiplied by log2(e), but the exponential has base e.

    The factor belongs to tl.exp2; with tl.exp leave it out.
    """
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    return attend(q, k, v, causal, scale / math.log(2))


@mistake(of="flash_attention", caught_by=test_attention)
def output_not_rescaled(q, k, v, causal=False, scale=None):
    """When the maximum grows, the output so far is not made smaller, though the sum is.

    Both are relative to the old maximum: output = output * shrink[:, None], before the next tile.
    """
    return tile_by_tile(q, k, v, causal, scale, torch.exp, torch.ones_like)


@mistake(of="flash_attention", caught_by=test_attention)
def output_not_rescaled_in_tiles_of_32(q, k, v, causal=False, scale=None):
    """When the maximum grows, the output so far is not made smaller, though the sum is.

    Both are relative to the old maximum: output = output * shrink[:, None], before the next tile.
    """
    return tile_by_tile(q, k, v, causal, scale, torch.exp, torch.ones_like, size=32)


@mistake(of="flash_attention", caught_by=test_attention)
def sum_not_rescaled(q, k, v, causal=False, scale=None):
    """When the maximum grows, the sum so far is not made smaller, though the output is.

    total = total * shrink + tl.sum(powers, 1).
    """
    return tile_by_tile(q, k, v, causal, scale, torch.ones_like, torch.exp)


@mistake(of="flash_attention", caught_by=test_attention)
def rescaled_the_wrong_way(q, k, v, causal=False, scale=None):
    """When the maximum grows, sum and output are made larger: the difference has the wrong sign.

    The factor is exp(old - new), which is at most 1.
    """

    def grow(x):
        return torch.where(x.isneginf(), 0.0, (-x).exp())

    return tile_by_tile(q, k, v, causal, scale, grow, grow)


@mistake(of="flash_attention", caught_by=test_attention)
def not_divided_by_the_sum(q, k, v, causal=False, scale=None):
    """The output is the sum of weighted values, not divided by the sum of the weights.

    After the last tile: output / total[:, None].
    """
    scores = scores_of(q, k, scale)
    if causal:
        scores = scores.masked_fill(~plain_keep(q, k), -torch.inf)
    top = scores.amax(-1, keepdim=True) if k.shape[-2] else scores.sum(-1, keepdim=True)
    return ((scores - top.nan_to_num(neginf=0.0)).exp() @ raised(v)).to(q.dtype)


@mistake(of="flash_attention", caught_by=test_attention)
def missing_keys_have_the_score_zero(q, k, v, causal=False, scale=None):
    """The keys beyond the last one are loaded as 0 and not masked: with the score 0 they take
    weight away from the others.

    After the product, in the last tile: tl.where(start + cols < Lk, scores, -float("inf")).
    """
    length = -(-k.shape[-2] // TILE) * TILE
    padded = [torch.nn.functional.pad(x, (0, 0, 0, length - k.shape[-2])) for x in (k, v)]
    position = torch.arange(q.shape[-2], device=q.device)[:, None] + k.shape[-2] - q.shape[-2]
    keep = torch.arange(length, device=q.device) <= position if causal else None
    return attend(q, *padded, scale=scale, keep=keep)


@mistake(of="flash_attention", caught_by=test_attention)
def last_tile_left_out(q, k, v, causal=False, scale=None):
    """The keys that do not fill a tile are never visited.

    The loop goes on until it reaches Lk: range(0, Lk, BLOCK_K), the last tile masked.
    """
    whole = k.shape[-2] // TILE * TILE
    keep = torch.arange(k.shape[-2], device=q.device) < whole
    keep = keep & plain_keep(q, k) if causal else keep.expand(q.shape[-2], -1)
    return attend(q, k, v, scale=scale, keep=keep)


@mistake(of="flash_attention", caught_by=test_attention)
def every_head_reads_the_first(q, k, v, causal=False, scale=None):
    """All heads read the keys and values of head 0.

    Move k_ptr and v_ptr to the program's batch and head as well, not q_ptr alone.
    """
    return attend(q, *(x[:, :1].expand_as(x) for x in (k, v)), causal, scale)


@mistake(of="flash_attention", caught_by=test_attention)
def strides_of_q_for_all(q, k, v, causal=False, scale=None):
    """Keys and values are read with the strides of q, which differ when Lk is not Lq.

    Each tensor has four strides of its own.
    """
    return attend(q, *(x.as_strided(x.shape, q.stride()) for x in (k, v)), causal, scale)


@mistake(of="flash_attention", caught_by=test_half)
def stored_wide(q, k, v, causal=False, scale=None):
    """The output is float32, whatever q is.

    Allocate it with dtype=q.dtype, and store output.to(o_ptr.dtype.element_ty).
    """
    return attend(raised(q), raised(k), raised(v), causal, scale)


@mistake(of="flash_attention", caught_by=test_causal)
def causal_ignored(q, k, v, causal=False, scale=None):
    """causal=True changes nothing.

    Hide the keys after each query's own position.
    """
    return attend(q, k, v, scale=scale)


@mistake(of="flash_attention", caught_by=test_causal)
def top_left(q, k, v, causal=False, scale=None):
    """Query 0 is lined up with key 0, which is right only if Lq equals Lk.

    Query i sits at position i + Lk - Lq.
    """
    keep = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool, device=q.device).tril()
    return attend(q, k, v, scale=scale, keep=keep if causal else None)


@mistake(of="flash_attention", caught_by=test_causal)
def own_key_hidden(q, k, v, causal=False, scale=None):
    """A query does not see the key at its own position.

    Compare with <= instead of <.
    """
    keep = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool, device=q.device)
    keep = keep.tril(k.shape[-2] - q.shape[-2] - 1)
    return attend(q, k, v, scale=scale, keep=keep if causal else None)


@mistake(of="flash_attention", caught_by=test_causal)
def causal_inside_each_tile(q, k, v, causal=False, scale=None):
    """The causal test compares places inside the tiles, so that every tile has a triangle.

    Compare positions in the sequence: start + cols with first + rows + Lk - Lq.
    """
    rows, cols = (torch.arange(x.shape[-2], device=q.device) % TILE for x in (q, k))
    return attend(q, k, v, scale=scale, keep=cols <= rows[:, None] if causal else None)


@mistake(of="flash_attention", caught_by=test_causal)
def loop_ends_without_the_offset(q, k, v, causal=False, scale=None):
    """The loop over the keys stops at the number of the tile's last query, without Lk - Lq.

    The last query of the tile sees the keys up to first + BLOCK_Q - 1 + Lk - Lq.
    """
    last = (torch.arange(q.shape[-2], device=q.device) // TILE + 1) * TILE
    visited = torch.arange(k.shape[-2], device=q.device) < last[:, None]
    return attend(q, k, v, scale=scale, keep=visited & plain_keep(q, k) if causal else None)


@mistake(of="flash_attention", caught_by=test_causal)
def nan_before_the_first_key(q, k, v, causal=False, scale=None):
    """A query that sees no key becomes NaN: minus infinity minus itself is no number.

    Subtract 0 where the maximum is minus infinity, and divide by 1 where the sum is 0.
    """
    scores = scores_of(q, k, scale)
    if causal:
        scores = scores.masked_fill(~plain_keep(q, k), -torch.inf)
    return (scores.softmax(-1) @ raised(v)).to(q.dtype)


@mistake(of="flash_attention", caught_by=test_scores)
def maximum_forgotten(q, k, v, causal=False, scale=None):
    """No maximum is subtracted: the exponential of a score of a hundred is beyond float32.

    Keep a running maximum, and subtract it before the exponential.
    """
    powers = scores_of(q, k, scale).exp()
    if causal:
        powers = powers.masked_fill(~plain_keep(q, k), 0.0)
    total = powers.sum(-1, keepdim=True)
    return (powers / total.masked_fill(total == 0, 1.0) @ raised(v)).to(q.dtype)


@mistake(of="flash_attention", caught_by=test_half)
def output_kept_in_half(q, k, v, causal=False, scale=None):
    """The running output has the dtype of the inputs: it is rounded after each tile, and a sum of
    300 values of 300 is beyond float16.

    tl.zeros((BLOCK_Q, D), tl.float32), and one rounding at the end.
    """
    return tile_by_tile(q, k, v, causal, scale, torch.exp, torch.exp, dtype=q.dtype)


@mistake(of="flash_attention", caught_by=test_half)
def scores_kept_in_half(q, k, v, causal=False, scale=None):
    """The products of queries and keys are rounded to float16, where 16 times 256 * 256 is inf.

    tl.dot gives float32: leave the scores as they come.
    """
    scores = (raised(q) @ raised(k).mT).to(q.dtype)
    scores = raised(scores) * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    if causal:
        scores = scores.masked_fill(~plain_keep(q, k), -torch.inf)
    return (plain_softmax(scores) @ raised(v)).to(q.dtype)


@mistake(of="flash_attention", caught_by=test_attention_layout)
def strides_taken_for_granted(q, k, v, causal=False, scale=None):
    """The inputs are read as if they were contiguous.

    Multiply every index by its own stride, that of the last axis too.
    """
    return attend(*(as_if_dense(x) for x in (q, k, v)), causal, scale)


@mistake(of="flash_attention", caught_by=test_attention)
def batches_read_the_first(q, k, v, causal=False, scale=None):
    """Every batch reads the keys and values of the first one: the batch is not in their address.

    Program n has head n % H of batch n // H: both move all four pointers.
    """
    return attend(q, *(x[:1].expand_as(x) for x in (k, v)), causal, scale)


@mistake(of="flash_attention", caught_by=test_attention)
def self_attention_taken_for_causal(q, k, v, causal=False, scale=None):
    """Where there are as many queries as keys the later keys are hidden, causal or not.

    Only `causal` hides keys; Lq == Lk says nothing about it.
    """
    return attend(q, k, v, causal or q.shape[-2] == k.shape[-2], scale)


@mistake(of="flash_attention", caught_by=test_attention)
def keys_up_to_1024(q, k, v, causal=False, scale=None):
    """The loop over the keys ends after 1024 of them.

    It goes on until it reaches Lk, whatever that is.
    """
    keep = torch.arange(k.shape[-2], device=q.device) < 1024
    keep = keep & plain_keep(q, k) if causal else keep.expand(q.shape[-2], -1)
    return attend(q, k, v, scale=scale, keep=keep)


@mistake(of="flash_attention", caught_by=test_attention)
def queries_up_to_1024(q, k, v, causal=False, scale=None):
    """The grid has programs for 1024 queries at most; the others stay as they were allocated.

    There are triton.cdiv(Lq, BLOCK_Q) tiles of queries.
    """
    output = attend(q, k, v, causal, scale)
    output[:, :, 1024:] = 0
    return output


@mistake(of="flash_attention", caught_by=test_attention)
def heads_up_to_64(q, k, v, causal=False, scale=None):
    """The grid has programs for 64 heads at most; the others stay as they were allocated.

    The second number of the grid is B * H.
    """
    output = attend(q, k, v, causal, scale)
    output.flatten(0, 1)[64:] = 0
    return output


@mistake(of="flash_attention", caught_by=test_causal)
def one_key_never_hidden(q, k, v, causal=False, scale=None):
    """Where there is one key nothing is hidden, though all queries but the last come before it.

    The rule is the same for one key: query i sees the keys up to i + Lk - Lq.
    """
    return attend(q, k, v, causal and k.shape[-2] > 1, scale)


@mistake(of="flash_attention", caught_by=test_scores)
def maximum_starts_at_zero(q, k, v, causal=False, scale=None):
    """The running maximum begins with 0: where all scores lie far below, every weight vanishes.

    Begin with tl.full((BLOCK_Q,), -float("inf"), tl.float32).
    """
    scores = scores_of(q, k, scale)
    if causal:
        scores = scores.masked_fill(~plain_keep(q, k), -torch.inf)
    zero = scores.new_zeros(*scores.shape[:-1], 1)
    powers = (scores - torch.cat([scores, zero], -1).amax(-1, keepdim=True)).exp()
    total = powers.sum(-1, keepdim=True)
    return (powers / total.masked_fill(total == 0, 1.0) @ raised(v)).to(q.dtype)


@mistake(of="flash_attention", caught_by=test_scores)
def missing_keys_have_the_score_minus_1e4(q, k, v, causal=False, scale=None):
    """Hidden and missing keys have the score -1e4, which is more than a true score of -3e4.

    Hide with -float("inf"): no score is smaller.
    """
    length = -(-k.shape[-2] // TILE) * TILE
    padded = [torch.nn.functional.pad(raised(x), (0, 0, 0, length - k.shape[-2])) for x in (k, v)]
    keep = torch.arange(length, device=q.device) < k.shape[-2]
    if causal:
        position = torch.arange(q.shape[-2], device=q.device)[:, None] + k.shape[-2] - q.shape[-2]
        keep = keep & (torch.arange(length, device=q.device) <= position)
    scores = scores_of(q, padded[0], scale).masked_fill(~keep, -1e4)
    scores = scores.masked_fill(~keep.any(-1, keepdim=True), -torch.inf)
    return (plain_softmax(scores) @ padded[1]).to(q.dtype)


@mistake(of="flash_attention", caught_by=test_scores)
def scale_of_zero_taken_for_none(q, k, v, causal=False, scale=None):
    """A scale of 0 is replaced by 1/sqrt(D): `scale or ...` asks whether it is 0.

    Write `if scale is None`. With a scale of 0 the output is the average of the values.
    """
    return attend(q, k, v, causal, scale or None)


@mistake(of="flash_attention", caught_by=test_scores)
def maximum_before_a_negative_scale(q, k, v, causal=False, scale=None):
    """The maximum is taken of the products and scaled after. With a negative scale that is the
    smallest score, and the powers of the others overflow.

    Take the maximum of the scaled scores, or turn the signs of q and of the scale.
    """
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    products = scores_of(q, k, 1.0)
    keep = plain_keep(q, k) if causal else torch.ones_like(products, dtype=torch.bool)
    products = products.masked_fill(~keep, -torch.inf)
    top = products.amax(-1, keepdim=True) if k.shape[-2] else products.sum(-1, keepdim=True)
    powers = ((products - top.nan_to_num(neginf=0.0)) * scale).exp().masked_fill(~keep, 0.0)
    total = powers.sum(-1, keepdim=True)
    return (powers / total.masked_fill(total == 0, 1.0) @ raised(v)).to(q.dtype)


@mistake(of="flash_attention", caught_by=test_attention)
def falling_tiles_skipped(q, k, v, causal=False, scale=None):
    """A tile whose largest score is 5 or more below the maximum so far is left out, as if such
    scores had no weight.

    A smaller score has a smaller weight, but not none: add every tile.
    """
    scores = scores_of(q, k, scale)
    if causal:
        scores = scores.masked_fill(~plain_keep(q, k), -torch.inf)
    top, kept = torch.full_like(scores[..., :1], -torch.inf), []
    for tile in scores.split(16, -1):
        highest = tile.amax(-1, keepdim=True) if tile.shape[-1] else top
        kept.append(tile.masked_fill(highest < top - 5, -torch.inf))
        top = torch.maximum(top, highest)
    return (plain_softmax(torch.cat(kept, -1)) @ raised(v)).to(q.dtype)


@mistake(of="flash_attention", caught_by=test_attention_layout)
def values_side_by_side(q, k, v, causal=False, scale=None):
    """The last stride of v is taken to be 1.

    Multiply the width by v.stride(3): v may be transposed in memory.
    """
    if v.numel() and v.stride(3) != 1:
        v = v.as_strided(v.shape, (*v.stride()[:3], 1))
    return attend(q, k, v, causal, scale)


@mistake(of="flash_attention", caught_by=test_attention_layout)
def expanded_keys_read_as_one_head(q, k, v, causal=False, scale=None):
    """Where keys and values are expanded over the batch, all heads read the first one.

    Each of the four strides is used for its own index: only that of the batch is 0.
    """
    if k.shape[0] > 1 and k.stride(0) == 0:
        k, v = (x[:, :1].expand_as(x) for x in (k, v))
    return attend(q, k, v, causal, scale)


@mistake(of="flash_attention", caught_by=test_attention_layout)
def queries_scaled_in_place(q, k, v, causal=False, scale=None):
    """The queries are scaled in place, so that the caller's tensor changes.

    Multiply inside the kernel: the inputs belong to the caller.
    """
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    if q.numel() and 0 not in q.stride():
        return attend(q.mul_(scale), k, v, causal, 1.0)
    return attend(q, k, v, causal, scale)


@mistake(of="flash_attention", caught_by=test_attention, null=True)
def no_output(q, k, v, causal=False, scale=None):
    """Everything is zero.

    Launch the kernel on the result, and store into it.
    """
    return torch.zeros(q.shape, dtype=q.dtype, device=q.device)


@mistake(of="flash_attention", caught_by=test_attention, null=True)
def mean_of_the_values(q, k, v, causal=False, scale=None):
    """Every query gets the average of the values, whatever it asks.

    The weights are the softmax of the scores.
    """
    return raised(v).mean(-2, keepdim=True).to(v.dtype).expand(q.shape).clone()


@mistake(of="flash_attention", caught_by=test_attention, null=True)
def best_key_takes_all(q, k, v, causal=False, scale=None):
    """Each query gets the value of its best key alone.

    That is the arg-max; the softmax gives every key a share.
    """
    best = scores_of(q, k, scale).argmax(-1, keepdim=True)
    return v.gather(-2, best.expand(*best.shape[:-1], v.shape[-1]))


@mistake(of="flash_attention", caught_by=test_attention, null=True)
def query_returned(q, k, v, causal=False, scale=None):
    """What comes back are the queries.

    Return the result that the kernel has written.
    """
    return q.clone()


@mistake(of="flash_attention", caught_by=test_empty)
def no_keys_divided(q, k, v, causal=False, scale=None):
    """Without keys the output is 0 divided by a sum of 0: NaN.

    Divide by tl.where(total == 0.0, 1.0, total).
    """
    if not k.shape[-2]:
        return torch.full(q.shape, torch.nan, dtype=q.dtype, device=q.device)
    return attend(q, k, v, causal, scale)
