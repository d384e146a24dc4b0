"""Wrong answers to `flash_attention`."""

import math

import torch

from grader.judging import mistake
from grader.judging.one_place import written_over
from reference.ex10_online_softmax import (
    plain_flash_attention,
)

from ..test_online_softmax import (
    test_causal,
    test_float64,
    test_gradients,
    test_half_precision,
    test_scores,
    test_sizes,
    test_values,
)
from .shared import finite, inverted, not_shrinking, one_pass, shrinking, slices, wide


def _tiles(q, k, v, causal, scale, block_size, ahead=None):
    """The tiles of scores and of values; `ahead` says what a causal tile hides."""
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    q_len, k_len = q.shape[-2], k.shape[-2]
    rows = torch.arange(q_len, device=q.device)[:, None]
    pieces, values = [], []
    for block in slices(k_len, block_size):
        keys = torch.arange(k_len, device=q.device)[block]
        scores = wide(q) * scale @ wide(k[..., block, :]).mT
        if causal:
            hidden = keys > rows + k_len - q_len if ahead is None else ahead(keys, rows, k_len)
            scores = scores.masked_fill(hidden, -torch.inf)
        pieces.append(scores)
        values.append(wide(v[..., block, :]))
    return pieces, values


def _end(q, top, total, output):
    total = torch.where(total == 0, 1.0, total)
    return (output / total[..., None]).to(q.dtype), top + torch.log(total)


def _flash(q, k, v, causal, scale, block_size, ahead=None, **steps):
    """The right answer to task 3, but for the steps that are given."""
    tiles = _tiles(q, k, v, causal, scale, block_size, ahead)
    return _end(q, *one_pass(*tiles, **steps))


# Task 3: attention in tiles


@mistake(of="flash_attention", caught_by=test_values)
def output_not_rescaled(q, k, v, causal=False, scale=None, block_size=64):
    """The output so far is not rescaled when the maximum grows; the sum is.

    Multiply both by exp(old maximum - new maximum).
    """
    return _flash(q, k, v, causal, scale, block_size, shrink_output=not_shrinking)


@mistake(of="flash_attention", caught_by=test_values)
def denominator_not_rescaled(q, k, v, causal=False, scale=None, block_size=64):
    """The sum so far is not rescaled when the maximum grows; the output is.

    Multiply both by exp(old maximum - new maximum).
    """
    return _flash(q, k, v, causal, scale, block_size, shrink=not_shrinking, shrink_output=shrinking)


@mistake(of="flash_attention", caught_by=test_values)
def rescaled_the_wrong_way(q, k, v, causal=False, scale=None, block_size=64):
    """What is old is multiplied by exp(new maximum - old maximum): it grows instead of shrinking.

    The factor is exp(old - new), at most 1.
    """
    return _flash(q, k, v, causal, scale, block_size, shrink=inverted)


@mistake(of="flash_attention", caught_by=test_scores)
def running_maximum_from_zero(q, k, v, causal=False, scale=None, block_size=64):
    """The running maximum starts at 0: where all scores are far below, every exponential vanishes.

    Start at -inf.
    """
    return _flash(q, k, v, causal, scale, block_size, start=0.0)


@mistake(of="flash_attention", caught_by=test_values)
def tiles_averaged(q, k, v, causal=False, scale=None, block_size=64):
    """Each tile has a softmax of its own, and the outputs are averaged.

    Tiles with larger scores weigh more: carry a running maximum, sum and output along.
    """
    pieces, values = _tiles(q, k, v, causal, scale, block_size)
    softmax = [torch.exp(x - finite(x.amax(-1, keepdim=True))) for x in pieces]
    sums = [
        torch.where(x.sum(-1, keepdim=True) == 0, 1.0, x.sum(-1, keepdim=True)) for x in softmax
    ]
    output = sum(x / s @ y for x, s, y in zip(softmax, sums, values, strict=True)) / len(pieces)
    return output.to(q.dtype), plain_flash_attention(q, k, v, causal, scale)[1]


@mistake(of="flash_attention", caught_by=test_values)
def short_tile_dropped(q, k, v, causal=False, scale=None, block_size=64):
    """The last tile is left out where it is shorter than block_size.

    There are ceil(Lk / block_size) tiles: range(0, Lk, block_size) starts each of them.
    """
    tiles = _tiles(q, k, v, causal, scale, block_size)
    whole = [(x, y) for x, y in zip(*tiles, strict=True) if x.shape[-1] == block_size]
    if whole:
        tiles = [list(t) for t in zip(*whole, strict=True)]
        return _end(q, *one_pass(*tiles))
    return torch.zeros_like(_end(q, *one_pass(*tiles))[0]), torch.full_like(
        wide(q[..., 0]), -torch.inf
    )


@mistake(of="flash_attention", caught_by=test_values)
def short_tile_filled_with_zeros(q, k, v, causal=False, scale=None, block_size=64):
    """The last tile is filled up with keys of zeros, and these are attended to.

    A key of zeros has the score 0: hide it with -inf, or let the last tile be shorter.
    """
    missing = -k.shape[-2] % max(block_size, 1)
    if causal:
        missing = 0
    k, v = (torch.nn.functional.pad(x, (0, 0, 0, missing)) for x in (k, v))
    return _flash(q, k, v, causal, scale, block_size)


@mistake(of="flash_attention", caught_by=test_causal)
def column_of_the_tile(q, k, v, causal=False, scale=None, block_size=64):
    """The causal test takes the column inside the tile for the place of the key.

    Column j of the tile that begins at `start` is key start + j.
    """

    def ahead(keys, rows, k_len):
        return keys - keys[0] > rows + k_len - q.shape[-2]

    return _flash(q, k, v, causal, scale, block_size, ahead)


@mistake(of="flash_attention", caught_by=test_causal)
def top_left(q, k, v, causal=False, scale=None, block_size=64):
    """The causal triangle begins at the first key, even where there are more keys than queries.

    Query i sits at position i + Lk - Lq.
    """
    return _flash(q, k, v, causal, scale, block_size, lambda keys, rows, _: keys > rows)


@mistake(of="flash_attention", caught_by=test_causal)
def nan_in_empty_rows(q, k, v, causal=False, scale=None, block_size=64):
    """A query that sees nothing gets NaN: -inf - -inf.

    Subtract 0 where the maximum is -inf, and divide by 1 where the sum is 0.
    """
    return _flash(q, k, v, causal, scale, block_size, base=lambda top: top)


@mistake(of="flash_attention", caught_by=test_causal)
def nothing_divided_by_nothing(q, k, v, causal=False, scale=None, block_size=64):
    """The output of a query that sees nothing is 0 / 0, which is NaN.

    Divide by 1 where the sum is 0.
    """
    top, total, output = one_pass(*_tiles(q, k, v, causal, scale, block_size))
    return (output / total[..., None]).to(q.dtype), top + torch.log(total)


@mistake(of="flash_attention", caught_by=test_causal)
def hidden_with_a_finite_number(q, k, v, causal=False, scale=None, block_size=64):
    """A query that sees nothing averages over all keys, as if hidden scores were -1e9.

    Hide with -inf.
    """
    pieces, values = _tiles(q, k, v, causal, scale, block_size)
    return _end(q, *one_pass([x.clamp(min=-1e9) for x in pieces], values))


@mistake(of="flash_attention", caught_by=test_values)
def lse_without_maximum(q, k, v, causal=False, scale=None, block_size=64):
    """The lse is log(sum), without the maximum that was subtracted.

    Add it back: maximum + log(sum).
    """
    top, total, output = one_pass(*_tiles(q, k, v, causal, scale, block_size))
    return _end(q, top, total, output)[0], torch.log(total)


@mistake(of="flash_attention", caught_by=test_values)
def lse_in_base_2(q, k, v, causal=False, scale=None, block_size=64):
    """The lse is a logarithm to the base 2.

    Multiply it by log(2), or use torch.log.
    """
    output, lse = _flash(q, k, v, causal, scale, block_size)
    return output, lse / math.log(2)


@mistake(of="flash_attention", caught_by=test_values)
def sum_in_base_2(q, k, v, causal=False, scale=None, block_size=64):
    """The maximum is added to the logarithm of the sum to the base 2: torch.log2.

    lse is a natural logarithm: maximum + torch.log(sum).
    """
    top, total, output = one_pass(*_tiles(q, k, v, causal, scale, block_size))
    return _end(q, top, total, output)[0], top + torch.log2(total)


@mistake(of="flash_attention", caught_by=test_values)
def scale_missing(q, k, v, causal=False, scale=None, block_size=64):
    """The scores are not divided by sqrt(D).

    Multiply them by 1 / sqrt(D), the width of the queries, where no scale is given.
    """
    return _flash(q, k, v, causal, 1.0 if scale is None else scale, block_size)


@mistake(of="flash_attention", caught_by=test_values)
def scale_one_per_cent_off(q, k, v, causal=False, scale=None, block_size=64):
    """The scale is not quite 1 / sqrt(D).

    Use math.sqrt(q.shape[-1]) as it is: nothing added, nothing rounded.
    """
    return _flash(
        q, k, v, causal, 1.01 * q.shape[-1] ** -0.5 if scale is None else scale, block_size
    )


@mistake(of="flash_attention", caught_by=test_scores)
def scale_of_zero_ignored(q, k, v, causal=False, scale=None, block_size=64):
    """A scale of 0 is taken for none: `scale or ...`.

    Ask whether it is None.
    """
    return _flash(q, k, v, causal, scale or None, block_size)


@mistake(of="flash_attention", caught_by=test_half_precision)
def products_in_half_precision(q, k, v, causal=False, scale=None, block_size=64):
    """The scores are computed in half precision, and 256 times 256 is infinite.

    Convert q and the tile of k to float32 before they are multiplied.
    """
    if q.dtype.itemsize > 2:
        return _flash(q, k, v, causal, scale, block_size)
    return plain_flash_attention(q, k, v, causal, scale)


@mistake(of="flash_attention", caught_by=test_half_precision)
def queries_scaled_in_half_precision(q, k, v, causal=False, scale=None, block_size=64):
    """The queries are scaled in half precision, and the scores inherit the rounding.

    Convert q to float32 before it is multiplied by the scale.
    """
    if q.dtype.itemsize > 2:
        return _flash(q, k, v, causal, scale, block_size)
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    return _flash((q * scale).to(q.dtype), k, v, causal, 1.0, block_size)


@mistake(of="flash_attention", caught_by=test_causal)
def hidden_by_a_finite_number(q, k, v, causal=False, scale=None, block_size=64):
    """Hidden scores are -1e9, above seen scores that are lower still.

    Give hidden scores minus infinity, which no score is below.
    """
    pieces, values = _tiles(q, k, v, causal, scale, block_size)
    idle = torch.cat(pieces, -1).amax(-1, keepdim=True) == -torch.inf
    filled = [torch.where(idle, x, x.masked_fill(x == -torch.inf, -1e9)) for x in pieces]
    return _end(q, *one_pass(filled, values))


@mistake(of="flash_attention", caught_by=test_gradients)
def keys_learn_only_beside_queries(q, k, v, causal=False, scale=None, block_size=64):
    """The graph is cut where q needs no gradient, although k or v may need one.

    Do not ask which input learns: PyTorch finds that out by itself.
    """
    if not q.requires_grad:
        k, v = k.detach(), v.detach()
    return _flash(q, k, v, causal, scale, block_size)


@mistake(of="flash_attention", caught_by=test_float64)
def double_lowered(q, k, v, causal=False, scale=None, block_size=64):
    """float64 is computed in float32, and its precision lost.

    Convert half precision only; float32 and float64 stay as they are.
    """
    if q.dtype is torch.float64:
        answer = _flash(q.float(), k.float(), v.float(), causal, scale, block_size)
        return tuple(x.double() for x in answer)
    return _flash(q, k, v, causal, scale, block_size)


@mistake(of="flash_attention", caught_by=test_scores)
def scale_ignored_where_causal(q, k, v, causal=False, scale=None, block_size=64):
    """With `causal` a scale that is given is ignored.

    The scale and the mask have nothing to do with each other: multiply with it in both cases.
    """
    return plain_flash_attention(q, k, v, causal, None if causal else scale)


@mistake(of="flash_attention", caught_by=test_sizes)
def tile_of_queries_forgets_its_start(q, k, v, causal=False, scale=None, block_size=64):
    """Queries are taken in tiles of 128, and each tile counts its positions from 0.

    Query i of a tile stands at start + i: shift its diagonal by that.
    """
    slices(1, block_size)
    parts, before = [], k.shape[-2] - q.shape[-2]
    for start in range(0, max(1, q.shape[-2]), 128):
        rows = q[..., start : start + 128, :]
        seen = max(0, before + rows.shape[-2]) if causal else k.shape[-2]
        parts.append(plain_flash_attention(rows, k[..., :seen, :], v[..., :seen, :], causal, scale))
    return tuple(torch.cat([part[i] for part in parts], -2 if i == 0 else -1) for i in (0, 1))


@mistake(of="flash_attention", caught_by=test_sizes)
def keys_cut_from_the_end(q, k, v, causal=False, scale=None, block_size=64):
    """In tiles of 256 queries, the keys of a tile that sees none are cut at a negative place.

    Count at least 0 keys: k[..., :-3, :] is all but the last three.
    """
    if not causal:
        return _flash(q, k, v, causal, scale, block_size)
    parts, before = [], k.shape[-2] - q.shape[-2]
    for start in range(q.shape[-2] % 256 or 256, q.shape[-2] + 256, 256):
        rows = q[..., max(0, start - 256) : start, :]
        seen = before + start
        parts.append(_flash(rows, k[..., :seen, :], v[..., :seen, :], True, scale, block_size))
    return tuple(torch.cat([part[i] for part in parts], -2 if i == 0 else -1) for i in (0, 1))


@mistake(of="flash_attention", caught_by=test_gradients)
def queries_scaled_in_place(q, k, v, causal=False, scale=None, block_size=64):
    """The caller's queries are scaled in place: `q *= scale`.

    Write q = q * scale: it makes a new tensor.
    """
    answer = _flash(q, k, v, causal, scale, block_size)
    q.data.mul_(0.5)
    return answer


@mistake(of="flash_attention", caught_by=test_gradients)
def graph_cut(q, k, v, causal=False, scale=None, block_size=64):
    """No gradient flows: torch.no_grad() or .detach() is in the function.

    Whether a gradient is wanted is for the caller to say.
    """
    return _flash(q.detach(), k.detach(), v.detach(), causal, scale, block_size)


@mistake(of="flash_attention", caught_by=test_gradients)
def nan_in_gradients_of_empty_rows(q, k, v, causal=False, scale=None, block_size=64):
    """The NaN of a query that sees nothing is replaced in the output, and comes back in gradients.

    Do not let it arise: subtract 0 where the maximum is -inf, divide by 1 where the sum is 0.
    """
    pieces, values = _tiles(q, k, v, causal, scale, block_size)
    top, total, output = one_pass(pieces, values)
    return (output / total[..., None]).nan_to_num(0.0).to(q.dtype), top + torch.log(total)


# No attention at all


def _nothing(q, v, lse=0.0):
    return q.new_zeros(*q.shape[:-1], v.shape[-1]), torch.full_like(wide(q[..., 0]), lse)


@mistake(of="flash_attention", caught_by=test_values, null=True)
def zeros(q, k, v, causal=False, scale=None, block_size=64):
    """Output and lse are zeros.

    Go through the tiles: scores, maximum, factor, sum, mixture.
    """
    return _nothing(q, v)


@mistake(of="flash_attention", caught_by=test_values, null=True)
def mean_of_the_values(q, k, v, causal=False, scale=None, block_size=64):
    """The output is the plain average of the values: the scores play no part.

    Weight them by softmax(q k^T / sqrt(D)), tile by tile.
    """
    output, lse = _nothing(q, v, math.log(k.shape[-2]))
    return output + v.mean(-2, keepdim=True), lse


@mistake(of="flash_attention", caught_by=test_sizes)
def flash_in_one_place(q, k, v, causal=False, scale=None, block_size=64, places={}):  # noqa: B006 (that is the mistake)
    """Every answer of a form is written into the same memory, over the answer before it.

    Return new tensors in every call.
    """
    return written_over(places, _flash(q, k, v, causal, scale, block_size))


@mistake(of="flash_attention", caught_by=test_causal)
def later_powers_replaced(q, k, v, causal=False, scale=None, block_size=64):
    """The powers of later scores are replaced by 0: that of 1e30 is infinite, and 0 times its
    gradient is NaN.

    Hide the scores before exp: exp(-inf) is 0, and so is its gradient.
    """
    raw, values = _tiles(q, k, v, False, scale, block_size)
    hidden, _ = _tiles(q, k, v, causal, scale, block_size)
    top = torch.cat([x.detach() for x in hidden], -1).amax(-1)
    base, total, output = finite(top)[..., None], 0.0, 0.0
    for scores, seen, value in zip(raw, hidden, values, strict=True):
        powers = torch.where(seen == -torch.inf, 0.0, torch.exp(scores - base))
        total, output = total + powers.sum(-1), output + powers @ value
    return _end(q, top, total, output)


@mistake(of="flash_attention", caught_by=test_float64)
def double_maximum_kept_above(q, k, v, causal=False, scale=None, block_size=64):
    """In float64 the maximum of a tile is not taken below -1e30: lower scores have no powers.

    Only a maximum of -inf needs another number.
    """
    lowest = -1e30 if q.dtype == torch.float64 else -torch.inf
    base = lambda top: finite(top).clamp(min=lowest)  # noqa: E731
    return _flash(q, k, v, causal, scale, block_size, base=base)


@mistake(of="flash_attention", caught_by=test_float64)
def double_keys_alone_are_cut(q, k, v, causal=False, scale=None, block_size=64):
    """In float64 the graph is cut where no query needs a gradient; a key may need one.

    Leave it to autograd, which keeps what any input needs.
    """
    if q.dtype == torch.float64 and not q.requires_grad:
        k = k.detach()
    return _flash(q, k, v, causal, scale, block_size)


@mistake(of="flash_attention", caught_by=test_sizes)
def no_maximum_without_gradients(q, k, v, causal=False, scale=None, block_size=64):
    """Where no gradients are needed exp is taken of the scores as they are: those of hundreds
    overflow.

    Take the maximum away first, with gradients or without.
    """
    if torch.is_grad_enabled() or scale is None:
        return _flash(q, k, v, causal, scale, block_size)
    pieces, values = _tiles(q, k, v, causal, scale, block_size)
    powers, values = torch.cat(pieces, -1).exp(), torch.cat(values, -2)
    total = powers.sum(-1)
    zero = torch.where(total == 0, -torch.inf, torch.zeros_like(total))
    return _end(q, zero, total, powers @ values)


@mistake(of="flash_attention", caught_by=test_scores)
def maximum_seldom_taken(q, k, v, causal=False, scale=None, block_size=64):
    """A new maximum is taken only where it exceeds the old one by 80: powers of up to exp(80)
    overflow beside large values.

    Take every new maximum, or leave out only those that are higher by a few.
    """
    grow = lambda old, new: torch.where(new > old + 80, new, old)  # noqa: E731
    return _flash(q, k, v, causal, scale, block_size, grow=grow)
