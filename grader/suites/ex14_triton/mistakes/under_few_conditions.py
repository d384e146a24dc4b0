"""Wrong answers that show under a few conditions only."""

import math

import torch

from grader.judging import mistake
from reference.ex14_triton import plain_keep, plain_softmax

from ..test_triton import (
    test_attention,
    test_attention_layout,
    test_causal,
    test_half,
    test_softmax_extremes,
    test_softmax_layout,
)
from .shared import TILE, attend, raised, right_softmax, scores_of, tile_by_tile


@mistake(of="softmax", caught_by=test_softmax_layout)
def columns_of_a_single_row_side_by_side(x):
    """The columns of a matrix of one row are taken to lie side by side, wherever they lie.

    Pass x.stride(1) to the kernel, and go from column to column by it, for any number of rows.
    """
    if x.shape[0] != 1 or x.stride(1) == 1 or not x.numel():
        return right_softmax(x)
    room = x.untyped_storage().nbytes() // x.itemsize - x.storage_offset()
    side_by_side = x.as_strided((1, min(room, x.shape[1])), (1, 1))
    pad = x.shape[1] - side_by_side.shape[1]
    return right_softmax(torch.nn.functional.pad(side_by_side, (0, pad)))


@mistake(of="softmax", caught_by=test_half)
def one_column_in_half_written_back(x):
    """The softmax of one column in half precision is written into x itself.

    Allocate the result with torch.empty, whatever the size of x.
    """
    y = right_softmax(x)
    return x.copy_(y) if x.shape[1] == 1 and x.dtype == torch.float16 and x.stride(0) else y


@mistake(of="flash_attention", caught_by=test_attention_layout)
def steps_of_k_for_v(q, k, v, causal=False, scale=None):
    """With as many queries as keys the kernel goes through v by the strides of k.

    Pass v.stride() for v: each tensor has strides of its own.
    """
    if q.shape[-2] != k.shape[-2] or not v.numel() or v.stride(-1) != 1 or k.stride(-1) == 1:
        return attend(q, k, v, causal, scale)
    turned = v.transpose(1, 2)  # (B, L, H, D), as it lies in memory
    if not turned.is_contiguous() or turned.shape[2] == 1:
        return attend(q, k, v, causal, scale)
    return attend(q, k, turned.reshape(v.shape), causal, scale)


@mistake(of="flash_attention", caught_by=test_attention_layout)
def wide_negative_scale_hides_nothing(q, k, v, causal=False, scale=None):
    """For heads of 128 the mask comes before the scale: if that is negative, -inf becomes inf.

    Scale the scores first, and then put -inf in the place of those that are hidden.
    """
    output = attend(q, k, v, causal, scale)
    hidden = causal and q.shape[-1] == 128 and scale is not None and scale < 0
    if hidden and not plain_keep(q, k).all():
        output = torch.where(plain_keep(q, k).all(-1)[:, None], output, torch.nan)
    return output


@mistake(of="flash_attention", caught_by=test_causal)
def last_tile_left_out_of_many(q, k, v, causal=False, scale=None):
    """With causal=True and more than 1024 keys the last tile is left out, unless it is whole.

    Walk up to the last key that the tile of queries sees, and mask what lies beyond it.
    """
    n = k.shape[-2]
    if not causal or n <= 1024 or n % TILE == 0:
        return attend(q, k, v, causal, scale)
    seen = torch.arange(n, device=q.device) < n // TILE * TILE
    return attend(q, k, v, scale=scale, keep=plain_keep(q, k) & seen)


@mistake(of="flash_attention", caught_by=test_half)
def queries_scaled_in_half(q, k, v, causal=False, scale=None):
    """The queries are scaled and rounded to float16 again: each score is off by its parts in 2000.

    Multiply the scores that tl.dot gives, which are float32.
    """
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    return attend((raised(q) * scale).to(q.dtype), k, v, causal, 1.0)


@mistake(of="flash_attention", caught_by=test_half)
def sum_kept_in_half(q, k, v, causal=False, scale=None):
    """The running sum is rounded to float16 after each tile.

    Let the sum be float32: tl.zeros((BLOCK_Q,), tl.float32).
    """
    return tile_by_tile(q, k, v, causal, scale, torch.exp, torch.exp, of_sum=q.dtype)


@mistake(of="softmax", caught_by=test_softmax_extremes)
def first_tile_of_minus_infinity(x):
    """Where the first 1024 numbers of a row are minus infinity, all of it is NaN: the maximum so
    far is minus infinity, and minus infinity minus itself is no number.

    Subtract 0 while the maximum is minus infinity: tl.where(top == -float("inf"), 0.0, top).
    """
    head = x[:, :1024]
    lost = head.isneginf().all(-1, keepdim=True) & (x > -torch.inf).any(-1, keepdim=True)
    return right_softmax(x).masked_fill(lost, torch.nan)


@mistake(of="flash_attention", caught_by=test_attention)
def full_last_tile_of_keys_left_out(q, k, v, causal=False, scale=None):
    """Where the last tile of keys is full, with 128 of them, all its keys are masked: it counts
    Lk % BLOCK_K keys, which is 0.

    A key is there if start + cols < Lk.
    """
    n = k.shape[-2]
    if n % 128:
        return attend(q, k, v, causal, scale)
    keep = torch.arange(n, device=q.device) < n - 128
    return attend(q, k, v, scale=scale, keep=keep & plain_keep(q, k) if causal else keep)


@mistake(of="flash_attention", caught_by=test_attention)
def full_last_tile_of_queries_not_written(q, k, v, causal=False, scale=None):
    """Where the last tile of queries is full, with 128 of them, it is not written: it counts
    Lq % BLOCK_Q queries, which is 0.

    A query is there if first + rows < Lq.
    """
    n, output = q.shape[-2], attend(q, k, v, causal, scale)
    written = torch.arange(n, device=q.device) < (n if n % 128 else n - 128)
    return torch.where(written[:, None], output, torch.nan)


@mistake(of="flash_attention", caught_by=test_attention)
def one_key_past_the_end(q, k, v, causal=False, scale=None):
    """A last tile of keys that lacks one of 128 counts as full, and is read without a mask: a key
    past the end takes part.

    Every query sees every key of a tile only if start + BLOCK_K <= Lk.
    """
    if causal or k.shape[-2] % 128 != 127:
        return attend(q, k, v, causal, scale)
    k, v = (torch.nn.functional.pad(x, (0, 0, 0, 1)) for x in (k, v))
    return attend(q, k, v, causal, scale)


@mistake(of="flash_attention", caught_by=test_causal)
def first_key_of_the_next_tile_left_out(q, k, v, causal=False, scale=None):
    """The last key that a tile of 128 queries sees is left out if it begins a tile of keys.

    Walk up to first + BLOCK_Q + Lk - Lq, not to one less.
    """
    q_len, k_len = q.shape[-2], k.shape[-2]
    if not causal or q_len < 128 or (k_len - q_len) % 128 != 1:
        return attend(q, k, v, causal, scale)
    keep = plain_keep(q, k)
    last = torch.arange(127, q_len, 128, device=q.device)
    keep[last, last + k_len - q_len] = False
    return attend(q, k, v, scale=scale, keep=keep)


@mistake(of="flash_attention", caught_by=test_causal)
def hidden_scores_plus_minus_infinity(q, k, v, causal=False, scale=None):
    """Minus infinity is added to hidden scores: if one is inf already, the sum is NaN.

    Choose with tl.where(keep, scores, -float("inf")).
    """
    scores = scores_of(q, k, scale)
    if causal:
        scores = scores + torch.where(plain_keep(q, k), 0.0, -torch.inf)
    return (plain_softmax(scores) @ raised(v)).to(q.dtype)


@mistake(of="flash_attention", caught_by=test_causal)
def rows_that_see_nothing_times_zero(q, k, v, causal=False, scale=None):
    """Hidden scores are -1e30, and the sum of values of a row that sees nothing is multiplied by 0
    at the end: if it is inf, the product is NaN.

    Put minus infinity in their place: then every weight of the row is 0.
    """
    output = attend(q, k, v, causal, scale)
    if causal and k.numel():
        blind = ~plain_keep(q, k).any(-1, keepdim=True)
        output = output + torch.where(blind, raised(v).sum(-2, keepdim=True) * 0.0, 0.0)
    return output.to(q.dtype)


@mistake(of="flash_attention", caught_by=test_attention_layout)
def output_laid_out_as_expanded_queries(q, k, v, causal=False, scale=None):
    """The output is given the strides of q: where q is expanded, its heads or rows lie in one
    place.

    Allocate it by its shape: torch.empty(q.shape, dtype=q.dtype, device=q.device).
    """
    output = attend(q, k, v, causal, scale)
    for dim in (1, 2):
        if q.stride(dim) == 0 and q.shape[dim] > 1:
            output = output.narrow(dim, q.shape[dim] - 1, 1).expand(output.shape)
    return output.contiguous()


@mistake(of="flash_attention", caught_by=test_half)
def products_of_a_tile_in_half(q, k, v, causal=False, scale=None):
    """The products of a tile's weights and values are converted to float16 before they are added:
    their sum may be more than 65,504.

    Leave what tl.dot gives as it is, which is float32.
    """
    if causal or q.dtype == torch.float32 or not k.shape[-2]:
        return attend(q, k, v, causal, scale)
    scores = scores_of(q, k, scale)
    powers = (scores - scores.amax(-1, keepdim=True)).exp()
    tiles = zip(powers.split(TILE, -1), raised(v).split(TILE, -2), strict=True)
    output = sum(raised((p @ values).to(v.dtype)) for p, values in tiles)
    return (output / powers.sum(-1, keepdim=True)).to(q.dtype)
