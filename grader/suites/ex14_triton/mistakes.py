"""What goes wrong in kernels, by name: the same arithmetic on whole tensors, without a kernel."""

import math

import torch

from grader.judging import mistake
from grader.judging.one_place import written_over
from reference.ex14_triton import plain_keep, plain_softmax

from .test_triton import (
    test_attention,
    test_attention_layout,
    test_causal,
    test_empty,
    test_half,
    test_scores,
    test_softmax,
    test_softmax_extremes,
    test_softmax_layout,
)

TILE = 64  # keys, and queries, that a tiled mistake takes at a time


def raised(x):
    """Half precision as float32."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def right_softmax(x):
    return plain_softmax(raised(x)).to(x.dtype)


def scores_of(q, k, scale=None):
    """The scores in float32, scaled by 1/sqrt(D) unless told otherwise."""
    return raised(q) @ raised(k).mT * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)


def attend(q, k, v, causal=False, scale=None, keep=None):
    """Right, but for what its caller changes in the inputs or in the mask."""
    scores = scores_of(q, k, scale)
    if keep is None and causal:
        keep = plain_keep(q, k)
    if keep is not None:
        scores = scores.masked_fill(~keep, -torch.inf)
    return (plain_softmax(scores) @ raised(v)).to(q.dtype)


def tile_by_tile(
    q, k, v, causal, scale, shrink_total, shrink_output, dtype=torch.float32, of_sum=torch.float32
):  # fmt: skip
    """The running maximum, sum and output, tile by tile.

    shrink_...  what an old sum and an old output are multiplied by, of how the maximum has grown
    """
    scores = scores_of(q, k, scale)
    if causal:
        scores = scores.masked_fill(~plain_keep(q, k), -torch.inf)
    top = scores.new_full((*scores.shape[:-1], 1), -torch.inf)
    total, output = torch.zeros_like(top), torch.zeros_like(raised(q)).to(dtype)
    for start in range(0, k.shape[-2], TILE):
        tile = scores[..., start : start + TILE]
        new_top = torch.maximum(top, tile.amax(-1, keepdim=True))
        safe = new_top.masked_fill(new_top.isneginf(), 0.0)
        powers = (tile - safe).exp()
        total = total * shrink_total(top - safe) + powers.sum(-1, keepdim=True)
        total = raised(total.to(of_sum))
        new = powers @ raised(v[..., start : start + TILE, :])
        top, output = new_top, (output * shrink_output(top - safe) + new).to(dtype)
    return (output / total.masked_fill(total == 0, 1.0)).to(q.dtype)


def as_if_dense(x):
    """The numbers that lie one after the other from where x begins."""
    steps = [math.prod(x.shape[i + 1 :]) for i in range(x.ndim)]
    return x.as_strided(x.shape, steps)


@mistake(of="softmax", caught_by=test_softmax)
def tail_loaded_as_zero(x):
    """The places beyond the row are loaded as 0, so that each adds exp(0 - maximum) to the sum.

    Load them as minus infinity: tl.load(..., mask=inside, other=-float("inf")).
    """
    length = 1 << max(x.shape[1] - 1, 0).bit_length()
    padded = torch.nn.functional.pad(raised(x), (0, length - x.shape[1]))
    return padded.softmax(-1)[:, : x.shape[1]].to(x.dtype)


@mistake(of="softmax", caught_by=test_softmax)
def base_two(x):
    """The powers are those of 2, not of e.

    exp(x) is exp2(x * 1.4427): multiply by log2(e) first, or use tl.exp.
    """
    return right_softmax(raised(x) * math.log(2)).to(x.dtype)


@mistake(of="softmax", caught_by=test_softmax)
def down_the_columns(x):
    """Each column sums to one, not each row.

    The program's number chooses the row, and the range 0 to BLOCK runs over its columns.
    """
    return raised(x).softmax(0).to(x.dtype)


@mistake(of="softmax", caught_by=test_softmax)
def not_divided(x):
    """The powers are stored as they are: the row does not sum to one.

    Divide by their sum: powers / tl.sum(powers, axis=0).
    """
    return (raised(x) - raised(x).amax(-1, keepdim=True)).exp().to(x.dtype)


@mistake(of="softmax", caught_by=test_half)
def stored_as_float32(x):
    """The result is float32, whatever x is.

    Allocate it with dtype=x.dtype, and store y.to(y_ptr.dtype.element_ty).
    """
    return plain_softmax(raised(x))


@mistake(of="softmax", caught_by=test_softmax_extremes)
def maximum_left_in(x):
    """The maximum of the row is not subtracted, and exp overflows.

    Take tl.max(x, axis=0) off before the exponential; the quotient stays the same.
    """
    powers = raised(x).exp()
    return (powers / powers.sum(-1, keepdim=True)).to(x.dtype)


@mistake(of="softmax", caught_by=test_softmax_extremes)
def one_maximum_for_all(x):
    """What is subtracted is the maximum of the whole matrix, under which other rows vanish.

    Each program subtracts the maximum of its own row.
    """
    powers = (raised(x) - raised(x).amax()).exp() if x.numel() else raised(x)
    return (powers / powers.sum(-1, keepdim=True)).to(x.dtype)


@mistake(of="softmax", caught_by=test_softmax_extremes)
def nan_for_a_row_of_infinities(x):
    """A row of minus infinity becomes NaN: minus infinity minus itself is no number.

    Subtract tl.where(top == -float("inf"), 0.0, top), and divide by 1 where the sum is 0.
    """
    return raised(x).softmax(-1).to(x.dtype)


@mistake(of="softmax", caught_by=test_softmax_extremes)
def log2e_before_the_maximum(x):
    """x is multiplied by log2(e) before the maximum is taken off: a logit of 1e4 then has four
    digits less for what is left.

    Subtract first, while the difference is exact: tl.exp2((x - top) * 1.4427).
    """
    y = raised(x) * 1.4426950408889634
    powers = torch.exp2(y - y.amax(-1, keepdim=True).nan_to_num(neginf=0.0))
    total = powers.sum(-1, keepdim=True)
    return (powers / total.masked_fill(total == 0, 1.0)).to(x.dtype)


@mistake(of="softmax", caught_by=test_half)
def statistics_in_half(x):
    """The powers and their sum are kept in the dtype of x, three digits in float16.

    Begin with x = x.to(tl.float32), and round when you store.
    """
    powers = (x - x.amax(-1, keepdim=True).nan_to_num(neginf=0.0)).exp()
    total = powers.sum(-1, keepdim=True)
    return powers / total.masked_fill(total == 0, 1.0)


@mistake(of="softmax", caught_by=test_softmax)
def block_of_1024(x):
    """The tile has 1024 columns, whatever the row has: what comes after them is left out.

    BLOCK must reach the end of the row: triton.next_power_of_2(n_cols).
    """
    y = torch.zeros_like(x, memory_format=torch.contiguous_format)
    y[:, :1024] = right_softmax(x[:, :1024])
    return y


@mistake(of="softmax", caught_by=test_softmax_layout)
def strides_of_x_taken_for_granted(x):
    """x is read as if its rows lay one after the other in memory.

    A transposed x has other strides: pass x.stride(0) and x.stride(1), and multiply by them.
    """
    return right_softmax(as_if_dense(x))


@mistake(of="softmax", caught_by=test_softmax_layout)
def result_laid_out_as_x(x):
    """The result has the strides of x (torch.empty_like keeps them), but is written row by row.

    Allocate it with torch.empty(x.shape, ...), or pass its column stride as well.
    """
    y = torch.empty_like(x)
    as_if_dense(y).copy_(right_softmax(x))
    return y


@mistake(of="softmax", caught_by=test_softmax)
def first_64_rows(x):
    """Programs are launched for the first 64 rows alone; the others stay as they were allocated.

    The grid has a program for each row: softmax_kernel[(x.shape[0],)](...).
    """
    y = torch.zeros(x.shape, dtype=x.dtype, device=x.device)
    y[:64] = right_softmax(x[:64])
    return y


@mistake(of="softmax", caught_by=test_softmax_extremes)
def maximum_at_least_zero(x):
    """The maximum begins with 0, so that it is never negative: rows of numbers below -104 vanish.

    Begin with -float("inf"), also in `other`, for what lies beyond the row.
    """
    top = raised(x).amax(-1, keepdim=True).clamp(min=0.0) if x.numel() else raised(x)
    powers = (raised(x) - top).exp()
    total = powers.sum(-1, keepdim=True)
    return (powers / total.masked_fill(total == 0, 1.0)).to(x.dtype)


@mistake(of="softmax", caught_by=test_softmax_extremes)
def tail_of_minus_1e4(x):
    """The places beyond the row are loaded as -1e4, which is more than what a row of -3e4 has.

    Load them as -float("inf"): no number is smaller.
    """
    length = 1 << max(x.shape[1] - 1, 0).bit_length()
    padded = torch.nn.functional.pad(raised(x), (0, length - x.shape[1]), value=-1e4)
    return right_softmax(padded)[:, : x.shape[1]].to(x.dtype)


@mistake(of="softmax", caught_by=test_softmax_extremes)
def one_column_is_one(x):
    """A row of one column has the weight 1, whatever it holds; minus infinity gives 0.

    Let the kernel compute such rows as all the others.
    """
    return torch.ones_like(x) if x.shape[1] == 1 else right_softmax(x)


@mistake(of="softmax", caught_by=test_softmax)
def small_shares_dropped(x):
    """Powers below 1e-5 count as 0, though thousands of them make a good part of the sum.

    Sum all of them: none is too small for float32.
    """
    powers = (raised(x) - raised(x).amax(-1, keepdim=True).nan_to_num(neginf=0.0)).exp()
    powers = powers.masked_fill(powers < 1e-5, 0.0)
    total = powers.sum(-1, keepdim=True)
    return (powers / total.masked_fill(total == 0, 1.0)).to(x.dtype)


@mistake(of="softmax", caught_by=test_softmax, null=True)
def no_weights(x):
    """Everything is zero.

    Launch the kernel on the result, and store into it.
    """
    return torch.zeros(x.shape, dtype=x.dtype, device=x.device)


@mistake(of="softmax", caught_by=test_softmax, null=True)
def equal_weights(x):
    """Every number of a row has the same weight, whatever is in it.

    The weights are the exponentials of the numbers.
    """
    return torch.full(x.shape, 1 / max(x.shape[1], 1), dtype=x.dtype, device=x.device)


@mistake(of="softmax", caught_by=test_softmax, null=True)
def largest_takes_all(x):
    """The largest number of each row has the weight 1, the others 0.

    That is the arg-max; the softmax gives every number a share.
    """
    return (x == x.amax(-1, keepdim=True)).to(x.dtype)


@mistake(of="softmax", caught_by=test_softmax, null=True)
def input_returned(x):
    """What comes back is x itself.

    Return the result that the kernel has written.
    """
    return x.clone()


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


@mistake(of="softmax", caught_by=test_empty)
def launched_for_nothing(x):
    """A matrix without rows or columns is an error: BLOCK and the grid are 0.

    Launch only if y.numel() is not 0.
    """
    if not x.numel():
        raise ValueError("a block of 0 columns")
    return right_softmax(x)


@mistake(of="flash_attention", caught_by=test_empty)
def no_keys_divided(q, k, v, causal=False, scale=None):
    """Without keys the output is 0 divided by a sum of 0: NaN.

    Divide by tl.where(total == 0.0, 1.0, total).
    """
    if not k.shape[-2]:
        return torch.full(q.shape, torch.nan, dtype=q.dtype, device=q.device)
    return attend(q, k, v, causal, scale)


@mistake(of="softmax", caught_by=test_softmax_layout)
def softmax_in_one_place(x, places={}):  # noqa: B006 (that is the mistake)
    """Every answer of a form is written into the same memory, over the answer before it.

    Return a new tensor in every call.
    """
    return written_over(places, plain_softmax(x))


# Wrong under a few conditions together


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
