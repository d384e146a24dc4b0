"""What goes wrong in causal masks and in causal attention: one step of `steps.py` is another."""

import math

import torch

from grader.judging import mistake
from grader.judging.one_place import written_over

from .steps import (
    attended,
    band,
    filled,
    inverse_root,
    last_to_last,
    raised,
    scored,
    seeing,
    summed,
    triangle,
    unchanged,
    zero_in_empty_rows,
)
from .test_causal_mask import (
    test_causal_mask,
    test_corner,
    test_future,
    test_gradient,
    test_manners,
    test_precision,
    test_sliding_window_mask,
    test_values,
)

HALVES = (torch.float16, torch.bfloat16)


def first_to_first(queries, keys, device):
    return torch.arange(queries, device=device)


def the_other_way(queries, keys, device):
    return torch.arange(queries, device=device) + (queries - keys)


def never_moved_back(queries, keys, device):
    return torch.arange(queries, device=device) + max(keys - queries, 0)


def never_moved_on(queries, keys, device):
    return torch.arange(queries, device=device) + min(keys - queries, 0)


def but_the_last(keys, queries):
    return (keys <= queries) & (keys < len(keys) - 1)


def one_further(keys, queries):
    return keys <= queries + 1


def ahead_of_own_key(behind):
    return behind > 0


def everywhere(behind, *_):
    return torch.ones_like(behind, dtype=torch.bool)


def multiplied(weights, keep):
    return weights * keep


def with_infinity(scores, keep):
    """-inf added to hidden scores, not put in their place."""
    return scores + torch.zeros_like(scores).masked_fill(~keep, -torch.inf)


def less_a_billion(scores, keep):
    return scores - 1e9 * ~keep


def scored_in_half(q, k, widen, scale):
    """The scores in the dtype of the queries."""
    return raised(q @ k.mT * scale)


def above_zero(powers, dim):
    return summed(powers, dim).clamp(min=1e-30)


def never_zero(powers, dim):
    """The sums, and 1 in the place of 0."""
    total = summed(powers, dim)
    return total.masked_fill(total == 0, 1.0)


@mistake(of="causal_mask", caught_by=test_causal_mask)
def diagonal_hidden(q_len, k_len, device=None):
    """The query's own key is hidden as well.

    A query may look at itself: compare with <= instead of <.
    """
    return triangle(q_len, k_len, device, seen=torch.lt)


@mistake(of="causal_mask", caught_by=test_causal_mask)
def one_key_ahead(q_len, k_len, device=None):
    """Each query sees one key too many: the one after its own.

    The offset of the diagonal is k_len - q_len, without the + 1.
    """
    return triangle(q_len, k_len, device, seen=one_further)


@mistake(of="causal_mask", caught_by=test_causal_mask)
def top_left(q_len, k_len, device=None):
    """Query 0 is lined up with key 0, which is right only if q_len equals k_len.

    The last query belongs to the last key: move the diagonal by k_len - q_len.
    """
    return triangle(q_len, k_len, device, place=first_to_first)


@mistake(of="causal_mask", caught_by=test_causal_mask)
def offset_the_other_way(q_len, k_len, device=None):
    """The diagonal is moved by q_len - k_len: the right distance in the wrong direction.

    Query i stands at position i + k_len - q_len, so that the last query meets the last key.
    """
    return triangle(q_len, k_len, device, place=the_other_way)


@mistake(of="causal_mask", caught_by=test_causal_mask)
def polarity_inverted(q_len, k_len, device=None):
    """The mask is True where a key is hidden.

    Here True means "may attend". If you built it with triu, put ~ in front of it.
    """
    return ~triangle(q_len, k_len, device)


@mistake(of="causal_mask", caught_by=test_causal_mask)
def future_instead_of_past(q_len, k_len, device=None):
    """Each query sees its own key and the later ones: the triangle is the upper one.

    The past lies to the left of the diagonal: tril, or key <= position.
    """
    return triangle(q_len, k_len, device, seen=torch.ge)


@mistake(of="causal_mask", caught_by=test_causal_mask)
def lengths_swapped(q_len, k_len, device=None):
    """The mask has a row for each key and a column for each query.

    Rows are queries and columns are keys: (q_len, k_len).
    """
    return triangle(k_len, q_len, device)


@mistake(of="causal_mask", caught_by=test_causal_mask)
def square(q_len, k_len, device=None):
    """The mask is square: it has as many columns as rows, whatever k_len is.

    It needs a column for each key, the old ones too: (q_len, k_len).
    """
    return triangle(q_len, q_len, device)


@mistake(of="causal_mask", caught_by=test_causal_mask)
def never_an_empty_row(q_len, k_len, device=None):
    """Queries that stand before the first key are given that key, so that no row is empty.

    Leave their rows all False: the position i + k_len - q_len may be negative.
    """

    def place(q_len, k_len, device):
        return last_to_last(q_len, k_len, device).clamp(min=0)

    return triangle(q_len, k_len, device, place=place)


@mistake(of="causal_mask", caught_by=test_causal_mask)
def floats(q_len, k_len, device=None):
    """The mask holds the numbers 0 and 1.

    Make it boolean: dtype=torch.bool, or a comparison, which is boolean by itself.
    """
    return triangle(q_len, k_len, device).float()


@mistake(of="causal_mask", caught_by=test_causal_mask)
def additive(q_len, k_len, device=None):
    """The mask holds 0 and -inf, to be added to scores.

    Return booleans, True = may attend: that mask == 0.
    """
    return torch.zeros(q_len, k_len, device=device).masked_fill(
        ~triangle(q_len, k_len, device), -torch.inf
    )


@mistake(of="causal_mask", caught_by=test_causal_mask)
def offset_never_negative(q_len, k_len, device=None):
    """With more queries than keys the offset is 0, so that the first queries see keys.

    Leave the offset k_len - q_len negative: queries before the first key see nothing.
    """
    return triangle(q_len, k_len, device, place=never_moved_back)


@mistake(of="causal_mask", caught_by=test_causal_mask)
def offset_only_negative(q_len, k_len, device=None):
    """With more keys than queries the offset is 0, so that the last query does not see the last
    keys.

    Move the diagonal by k_len - q_len: the last query belongs to the last key.
    """
    return triangle(q_len, k_len, device, place=never_moved_on)


@mistake(of="causal_mask", caught_by=test_causal_mask)
def rows_are_keys(q_len, k_len, device=None):
    """The mask is transposed: it has a row for each key.

    Rows are queries and columns are keys: positions[:, None] are those of the queries.
    """
    return triangle(q_len, k_len, device).mT


@mistake(of="causal_mask", caught_by=test_causal_mask)
def triangle_with_an_axis_more(q_len, k_len, device=None):
    """The mask has an axis more than (q_len, k_len).

    Return (q_len, k_len): it broadcasts over batch and heads.
    """
    return triangle(q_len, k_len, device)[None]


@mistake(of="causal_mask", caught_by=test_causal_mask)
def triangle_with_two_axes_more(q_len, k_len, device=None):
    """The mask has axes for batch and heads besides (q_len, k_len).

    Return (q_len, k_len): it broadcasts over batch and heads.
    """
    return triangle(q_len, k_len, device)[None, None]


@mistake(of="causal_mask", caught_by=test_causal_mask)
def triangle_in_a_list(q_len, k_len, device=None):
    """The answer is a list of Python values and no tensor.

    Compare two tensors: torch.arange(k_len) <= positions.
    """
    return triangle(q_len, k_len, device).tolist()


@mistake(of="causal_mask", caught_by=test_causal_mask)
def last_key_hidden_from_all(q_len, k_len, device=None):
    """No query sees the last key.

    Number the keys 0 to k_len - 1, and compare with <=.
    """
    return triangle(q_len, k_len, device, seen=but_the_last)


@mistake(of="causal_mask", caught_by=test_causal_mask, null=True)
def everything(q_len, k_len, device=None):
    """Every query may attend to every key.

    Nothing is hidden yet: a key that stands further on than the query must be False.
    """
    return torch.ones_like(triangle(q_len, k_len, device))


@mistake(of="causal_mask", caught_by=test_causal_mask, null=True)
def nothing(q_len, k_len, device=None):
    """No query may attend to anything.

    The keys up to the query's own must be True.
    """
    return torch.zeros_like(triangle(q_len, k_len, device))


@mistake(of="causal_mask", caught_by=test_causal_mask, null=True)
def diagonal_only(q_len, k_len, device=None):
    """Each query sees its own key and nothing before it.

    The past stays visible: the triangle below the diagonal is True as well.
    """
    return triangle(q_len, k_len, device, seen=torch.eq)


@mistake(of="sliding_window_mask", caught_by=test_sliding_window_mask)
def window_one_too_wide(q_len, k_len, window, device=None):
    """Each query sees window + 1 keys: its own is not counted.

    The query's own key is one of the window: behind < window instead of <=.
    """
    return band(q_len, k_len, window + 1, device)


@mistake(of="sliding_window_mask", caught_by=test_sliding_window_mask)
def window_one_too_narrow(q_len, k_len, window, device=None):
    """Each query sees window - 1 keys.

    The last key of the window lies window - 1 behind the query: behind < window.
    """
    return band(q_len, k_len, window - 1, device)


@mistake(of="sliding_window_mask", caught_by=test_sliding_window_mask)
def own_key_not_in_window(q_len, k_len, window, device=None):
    """The window holds the keys before the query, and the query's own key is hidden.

    With window=1 a query sees itself: 0 <= behind < window.
    """
    return band(q_len, k_len, window, device, past=ahead_of_own_key, near=torch.le)


@mistake(of="sliding_window_mask", caught_by=test_sliding_window_mask)
def window_to_both_sides(q_len, k_len, window, device=None):
    """The window reaches ahead of the query as far as behind it.

    It is causal: a key that lies ahead (behind < 0) is hidden.
    """
    return band(
        q_len,
        k_len,
        window,
        device,
        past=everywhere,
        near=lambda behind, window: behind.abs() < window,
    )


@mistake(of="sliding_window_mask", caught_by=test_sliding_window_mask)
def window_centred(q_len, k_len, window, device=None):
    """The query stands in the middle of its window: half of it lies ahead.

    It is causal: the window ends at the query's own key.
    """
    return band(
        q_len,
        k_len,
        window,
        device,
        past=everywhere,
        near=lambda behind, window: behind.abs() <= window // 2,
    )


@mistake(of="sliding_window_mask", caught_by=test_sliding_window_mask)
def window_not_causal(q_len, k_len, window, device=None):
    """The distant past is hidden, but the future is not.

    Ask for both: behind < window, and behind >= 0.
    """
    return band(q_len, k_len, window, device, past=everywhere)


@mistake(of="sliding_window_mask", caught_by=test_sliding_window_mask)
def window_ahead(q_len, k_len, window, device=None):
    """The window opens ahead of the query instead of behind it.

    Subtract the key's position from the query's, not the other way round.
    """

    def past(behind):
        return behind <= 0

    def near(behind, window):
        return -behind < window

    return band(q_len, k_len, window, device, past=past, near=near)


@mistake(of="sliding_window_mask", caught_by=test_sliding_window_mask)
def conditions_joined_by_or(q_len, k_len, window, device=None):
    """A key counts as visible if it is in the past or near; nearly everything is.

    Both must hold: join them by & instead of |.
    """
    return band(q_len, k_len, window, device, join=torch.logical_or)


@mistake(of="sliding_window_mask", caught_by=test_sliding_window_mask)
def window_top_left(q_len, k_len, window, device=None):
    """Query 0 is lined up with key 0, which is right only if q_len equals k_len.

    The last query belongs to the last key: query i stands at position i + k_len - q_len.
    """
    return band(q_len, k_len, window, device, place=first_to_first)


@mistake(of="sliding_window_mask", caught_by=test_sliding_window_mask)
def blocks_instead_of_a_window(q_len, k_len, window, device=None):
    """The text is cut into blocks of `window`, and each query sees its own block only.

    The window slides along: every query has its own, which ends at its own key.
    """
    keys, places = torch.arange(k_len, device=device), last_to_last(q_len, k_len, device)[:, None]

    def near(behind, window):
        return places // window == keys // window

    return band(q_len, k_len, window, device, near=near)


@mistake(of="sliding_window_mask", caught_by=test_sliding_window_mask)
def last_keys_of_all(q_len, k_len, window, device=None):
    """All queries see the same keys: the last `window` of the whole text.

    The window ends at the query's own key, so it moves from row to row.
    """

    def near(behind, window):
        return torch.arange(k_len, device=device) >= k_len - window

    return band(q_len, k_len, window, device, near=near)


@mistake(of="sliding_window_mask", caught_by=test_sliding_window_mask)
def window_inverted(q_len, k_len, window, device=None):
    """The mask is True where a key is hidden.

    Here True means "may attend": put ~ in front of it.
    """
    return ~band(q_len, k_len, window, device)


@mistake(of="sliding_window_mask", caught_by=test_sliding_window_mask)
def window_offset_the_other_way(q_len, k_len, window, device=None):
    """The diagonal is moved by q_len - k_len: the right distance in the wrong direction.

    Query i stands at position i + k_len - q_len, so that the last query meets the last key.
    """
    return band(q_len, k_len, window, device, place=the_other_way)


@mistake(of="sliding_window_mask", caught_by=test_sliding_window_mask)
def window_offset_never_negative(q_len, k_len, window, device=None):
    """With more queries than keys the offset is 0, so that the first queries see keys.

    Leave the offset k_len - q_len negative: queries before the first key see nothing.
    """
    return band(q_len, k_len, window, device, place=never_moved_back)


@mistake(of="sliding_window_mask", caught_by=test_sliding_window_mask)
def own_key_hidden_in_window(q_len, k_len, window, device=None):
    """A query does not see its own key.

    Its own key is one of the window: 0 <= behind, not 0 < behind.
    """
    return band(q_len, k_len, window, device, past=ahead_of_own_key)


@mistake(of="sliding_window_mask", caught_by=test_sliding_window_mask)
def next_key_in_window(q_len, k_len, window, device=None):
    """Each query sees one key of the future.

    A key that lies ahead is hidden: behind >= 0.
    """
    return band(q_len, k_len, window, device, past=lambda behind: behind >= -1)


@mistake(of="sliding_window_mask", caught_by=test_sliding_window_mask)
def window_from_the_row(q_len, k_len, window, device=None):
    """The end of the window is counted from the number of the row, and not from the position of
    the query.

    Use the position i + k_len - q_len for both comparisons.
    """

    def near(behind, window):
        return behind - (k_len - q_len) < window

    return band(q_len, k_len, window, device, near=near)


@mistake(of="sliding_window_mask", caught_by=test_sliding_window_mask)
def past_from_the_row(q_len, k_len, window, device=None):
    """Which keys are ahead is counted from the number of the row, and not from the position of the
    query.

    Use the position i + k_len - q_len for both comparisons.
    """

    def past(behind):
        return behind - (k_len - q_len) >= 0

    return band(q_len, k_len, window, device, past=past)


@mistake(of="sliding_window_mask", caught_by=test_sliding_window_mask)
def near_keys_hidden(q_len, k_len, window, device=None):
    """The near keys are hidden, and the distant past is seen.

    Keep what is nearer than the window: behind < window.
    """
    return band(q_len, k_len, window, device, near=torch.ge)


@mistake(of="sliding_window_mask", caught_by=test_sliding_window_mask)
def window_of_numbers(q_len, k_len, window, device=None):
    """The mask holds the numbers 0 and 1.

    Make it boolean: a comparison is boolean by itself.
    """
    return band(q_len, k_len, window, device).int()


@mistake(of="sliding_window_mask", caught_by=test_sliding_window_mask)
def window_added(q_len, k_len, window, device=None):
    """The mask holds 0 and -inf, to be added to scores.

    Return booleans, True = may attend.
    """
    keep = band(q_len, k_len, window, device)
    return torch.zeros(keep.shape, device=device).masked_fill(~keep, -torch.inf)


@mistake(of="sliding_window_mask", caught_by=test_sliding_window_mask)
def window_transposed(q_len, k_len, window, device=None):
    """The mask has a row for each key and a column for each query.

    Rows are queries and columns are keys: (q_len, k_len).
    """
    return band(q_len, k_len, window, device).mT


@mistake(of="sliding_window_mask", caught_by=test_sliding_window_mask)
def window_square(q_len, k_len, window, device=None):
    """The mask is square: it has as many columns as rows, whatever k_len is.

    It needs a column for each key: (q_len, k_len).
    """
    return band(q_len, q_len, window, device)


@mistake(of="sliding_window_mask", caught_by=test_sliding_window_mask)
def window_with_an_axis_more(q_len, k_len, window, device=None):
    """The mask has an axis more than (q_len, k_len).

    Return (q_len, k_len): it broadcasts over batch and heads.
    """
    return band(q_len, k_len, window, device)[None]


@mistake(of="sliding_window_mask", caught_by=test_sliding_window_mask)
def window_with_two_axes_more(q_len, k_len, window, device=None):
    """The mask has axes for batch and heads besides (q_len, k_len).

    Return (q_len, k_len): it broadcasts over batch and heads.
    """
    return band(q_len, k_len, window, device)[None, None]


@mistake(of="sliding_window_mask", caught_by=test_sliding_window_mask)
def window_of_one_at_least_two(q_len, k_len, window, device=None):
    """A window of 1 is taken for one of 2.

    With window=1 a query sees itself alone.
    """
    return band(q_len, k_len, max(window, 2), device)


@mistake(of="sliding_window_mask", caught_by=test_sliding_window_mask, null=True)
def window_ignored(q_len, k_len, window, device=None):
    """`window` is ignored: this is the causal mask.

    Hide the distant past too: keep where behind < window.
    """
    return band(q_len, k_len, window, device, near=everywhere)


@mistake(of="sliding_window_mask", caught_by=test_sliding_window_mask, null=True)
def everything_in_the_window(q_len, k_len, window, device=None):
    """Every query may attend to every key.

    Nothing is hidden yet: keep where 0 <= behind < window.
    """
    return torch.ones_like(band(q_len, k_len, window, device))


@mistake(of="sliding_window_mask", caught_by=test_sliding_window_mask, null=True)
def nothing_in_the_window(q_len, k_len, window, device=None):
    """No query may attend to anything.

    The query's own key and the window - 1 keys before it must be True.
    """
    return torch.zeros_like(band(q_len, k_len, window, device))


@mistake(of="causal_attention", caught_by=test_values)
def no_mask(q, k, v):
    """Nothing is hidden: every query attends to the future as well.

    Hide the scores where causal_mask is False before the softmax.
    """
    return attended(q, k, v, visible=lambda q, k, scores: torch.ones_like(seeing()(q, k, scores)))


@mistake(of="causal_attention", caught_by=test_values)
def attends_to_the_hidden(q, k, v):
    """The mask is the wrong way round: each query attends to what should be hidden from it.

    masked_fill fills where its mask is True, so hand it ~keep.
    """
    return attended(q, k, v, visible=lambda q, k, scores: ~seeing()(q, k, scores))


@mistake(of="causal_attention", caught_by=test_values)
def own_key_hidden(q, k, v):
    """A query does not see its own key.

    The diagonal belongs to the past: key <= position.
    """
    return attended(q, k, v, visible=seeing(seen=torch.lt))


@mistake(of="causal_attention", caught_by=test_values)
def next_key_seen(q, k, v):
    """Each query sees one key too many: the one after its own.

    The query at position p sees keys 0 to p: the slice k[..., :p + 1, :].
    """
    return attended(q, k, v, visible=seeing(seen=one_further))


@mistake(of="causal_attention", caught_by=test_corner)
def attention_top_left(q, k, v):
    """Query 0 is lined up with key 0, as is_causal=True does, also where the lengths differ.

    The last query belongs to the last key: build the mask with the offset Lk - Lq.
    """
    return attended(q, k, v, visible=seeing(place=first_to_first))


@mistake(of="causal_attention", caught_by=test_corner)
def attention_offset_the_other_way(q, k, v):
    """The diagonal is moved by Lq - Lk: the right distance in the wrong direction.

    Query i stands at position i + Lk - Lq, so that the last query meets the last key.
    """
    return attended(q, k, v, visible=seeing(place=the_other_way))


@mistake(of="causal_attention", caught_by=test_corner)
def square_mask(q, k, v):
    """The mask is square, with the number of queries for both sides, and does not fit the scores.

    Its columns are keys: causal_mask(q.shape[-2], k.shape[-2]).
    """
    return attended(q, k, v, visible=lambda q, k, scores: seeing()(q, q, scores))


@mistake(of="causal_attention", caught_by=test_corner)
def past_forgotten(q, k, v):
    """The past is forgotten: the new queries see the new keys only.

    The keys before them were there first, and every new query sees them all.
    """

    def visible(q, k, scores):
        new = min(q.shape[-2], k.shape[-2])
        return seeing()(q, k, scores) & (
            torch.arange(k.shape[-2], device=q.device) >= k.shape[-2] - new
        )

    return attended(q, k, v, visible=visible)


@mistake(of="causal_attention", caught_by=test_corner)
def empty_row_is_nan(q, k, v):
    """A query that stands before the first key gets NaN: a softmax over nothing but -inf.

    Its output is 0: hide its scores with 0 instead of -inf and set its weights to 0 afterwards.
    """
    return attended(q, k, v, mend=unchanged, close=unchanged)


@mistake(of="causal_attention", caught_by=test_corner)
def empty_row_is_uniform(q, k, v):
    """A query that sees nothing gets the mean of all values, as if hidden scores were -1e9.

    Hide with -inf, and give a row of nothing the output 0.
    """
    return attended(q, k, v, hide=filled(-1e9), mend=unchanged, close=unchanged)


@mistake(of="causal_attention", caught_by=test_corner)
def slice_counts_from_the_end(q, k, v):
    """A slice k[:stop] with a negative stop cuts from the end, so early queries see keys.

    A query before the first key has no keys to slice: stop = max(stop, 0).
    """
    rows = []
    for i in range(q.shape[-2]):
        stop = i + 1 + k.shape[-2] - q.shape[-2]
        rows.append(attended(q[..., i : i + 1, :], k[..., :stop, :], v[..., :stop, :]))
    return torch.cat(rows, dim=-2)


@mistake(of="causal_attention", caught_by=test_values)
def masked_after_the_softmax(q, k, v):
    """The weights are zeroed after the softmax, and no longer sum to one.

    Hide the scores before the softmax, so that hidden keys have no part in the denominator.
    """
    return attended(q, k, v, hide=unchanged, mend=unchanged, close=multiplied)


@mistake(of="causal_attention", caught_by=test_precision)
def renormalised_after_the_softmax(q, k, v):
    """The weights are zeroed after the softmax and divided by what is left, which may be nothing.

    Hide the scores before the softmax: then a large hidden score cannot swallow the others.
    """

    def power(distances, keep):
        return distances.softmax(-1) * keep

    return attended(
        q, k, v, hide=unchanged, mend=unchanged, power=power, total=above_zero, close=unchanged
    )


@mistake(of="causal_attention", caught_by=test_precision)
def maximum_before_the_mask(q, k, v):
    """The maximum of each row is taken over hidden scores too, and a large one makes a row 0/0.

    Hide first, then take the maximum of what is left.
    """

    def power(distances, keep):
        return distances.exp().masked_fill(~keep, 0.0)

    return attended(q, k, v, hide=unchanged, mend=unchanged, power=power)


@mistake(of="causal_attention", caught_by=test_future)
def mask_added(q, k, v):
    """The mask of -inf is added to the scores, and NaN + -inf is still NaN.

    Replace the hidden scores instead: masked_fill(~keep, -inf), or torch.where.
    """
    return attended(q, k, v, hide=with_infinity)


@mistake(of="causal_attention", caught_by=test_future)
def minus_a_billion_added(q, k, v):
    """-1e9 is added to hidden scores, and a key of 1e30 makes light of it.

    Replace the hidden scores instead: masked_fill(~keep, -inf), or torch.where.
    """
    return attended(q, k, v, hide=less_a_billion)


@mistake(of="causal_attention", caught_by=test_values)
def hidden_scores_are_zero(q, k, v):
    """Hidden scores are set to 0, which is a score like any other.

    exp(0) is 1. A hidden score must be -inf: exp(-inf) is 0.
    """
    return attended(q, k, v, hide=filled(0.0), mend=unchanged, close=unchanged)


@mistake(of="causal_attention", caught_by=test_precision)
def hidden_scores_are_minus_100(q, k, v):
    """Hidden scores are set to -100, and where the true scores are lower still, the future leaks.

    No finite number is low enough: use -inf.
    """
    return attended(q, k, v, hide=filled(-100.0))


@mistake(of="causal_attention", caught_by=test_values)
def zero_times_infinity(q, k, v):
    """The mask is multiplied by -inf, and 0 * -inf is NaN.

    Fill instead: scores.masked_fill(~keep, -inf).
    """
    return attended(
        q,
        k,
        v,
        hide=lambda scores, keep: scores + ~keep * -torch.inf,
        mend=unchanged,
        close=unchanged,
    )


@mistake(of="causal_attention", caught_by=test_precision)
def mask_from_the_scores(q, k, v):
    """The scores are cut to a triangle, and what is 0 then counts as hidden: true zeros as well.

    Build the mask from positions; a score of 0 is a score.
    """

    def visible(q, k, scores):
        return scores.tril(k.shape[-2] - q.shape[-2]) != 0

    return attended(q, k, v, visible=visible)


@mistake(of="causal_attention", caught_by=test_values)
def no_scale(q, k, v):
    """The scores are not divided by sqrt(D).

    Multiply them by 1 / math.sqrt(q.shape[-1]).
    """
    return attended(q, k, v, scale=lambda q, v: 1.0)


@mistake(of="causal_attention", caught_by=test_values)
def divided_by_the_width(q, k, v):
    """The scores are divided by D instead of sqrt(D).

    Divide by math.sqrt(q.shape[-1]).
    """
    return attended(q, k, v, scale=lambda q, v: 1 / q.shape[-1])


@mistake(of="causal_attention", caught_by=test_values)
def scale_of_the_value_width(q, k, v):
    """The scale comes from the width of the values.

    It is the width of the queries and keys that counts: 1 / math.sqrt(q.shape[-1]).
    """
    return attended(q, k, v, scale=lambda q, v: v.shape[-1] ** -0.5)


@mistake(of="causal_attention", caught_by=test_values)
def multiplied_by_the_root(q, k, v):
    """The scores are multiplied by sqrt(D) instead of divided by it.

    Divide: the wider the heads, the larger the raw scores.
    """
    return attended(q, k, v, scale=lambda q, v: math.sqrt(q.shape[-1]))


@mistake(of="causal_attention", caught_by=test_values)
def scale_one_percent_off(q, k, v):
    """The scale is 1 % off.

    It is exactly 1 / math.sqrt(q.shape[-1]).
    """
    return attended(q, k, v, scale=lambda q, v: 1.01 * inverse_root(q, v))


@mistake(of="causal_attention", caught_by=test_values)
def softmax_over_the_queries(q, k, v):
    """The softmax runs over the queries: the columns sum to one instead of the rows.

    Each query shares out its own weight over the keys: dim=-1.
    """

    def close(weights, keep):
        return weights.nan_to_num(0.0)

    return attended(q, k, v, mend=unchanged, close=close, dim=-2)


@mistake(of="causal_attention", caught_by=test_values)
def weights_returned_too(q, k, v):
    """The weights are returned beside the output.

    From this exercise on the output comes alone.
    """
    return attended(q, k, v), scored(q, k, raised, inverse_root(q, v))


@mistake(of="causal_attention", caught_by=test_values)
def chunk_local_position(q, k, v):
    """Rows are counted anew in every chunk, so later chunks see the first keys only.

    Row i of a chunk that begins at `start` stands at position start + i + Lk - Lq.
    """

    def visible(rows, k, scores):
        keep = torch.ones(rows.shape[-2], k.shape[-2], dtype=torch.bool, device=q.device)
        return keep.tril(k.shape[-2] - q.shape[-2])

    starts = range(0, q.shape[-2], 64)
    chunks = [attended(q[..., i : i + 64, :], k, v, visible=visible) for i in starts]
    return torch.cat(chunks, dim=-2)


@mistake(of="causal_attention", caught_by=test_values)
def whole_chunk_seen(q, k, v):
    """Within a chunk nothing is hidden: its first row sees as far as its last.

    The slice of the keys is right for the last row only; the others need the mask as well.
    """

    def visible(rows, k, scores):
        return torch.ones(rows.shape[-2], k.shape[-2], dtype=torch.bool, device=q.device)

    outputs, past = [], k.shape[-2] - q.shape[-2]
    for start in range(0, q.shape[-2], 2):
        rows = q[..., start : start + 2, :]
        seen = max(start + rows.shape[-2] + past, 0)
        outputs.append(attended(rows, k[..., :seen, :], v[..., :seen, :], visible=visible))
    return torch.cat(outputs, dim=-2)


@mistake(of="causal_attention", caught_by=test_values)
def ragged_chunk_dropped(q, k, v):
    """The last rows get nothing where the length is no multiple of the chunk.

    Let the last chunk be shorter: stop = min(start + rows, Lq).
    """
    q_len = q.shape[-2]
    rows = min(64, q_len)
    done = torch.arange(q_len, device=q.device) < q_len // rows * rows
    return attended(q, k, v) * done[:, None]


@mistake(of="causal_attention", caught_by=test_precision)
def float64_lowered(q, k, v):
    """float64 is computed in float32, and the digits are gone.

    Raise half precision only; leave float32 and float64 as they are.
    """
    return attended(q, k, v, widen=torch.Tensor.float)


@mistake(of="causal_attention", caught_by=test_values)
def computed_in_bfloat16(q, k, v):
    """Everything is computed in bfloat16, whatever the inputs are, and most digits are gone.

    Leave float32 and float64 as they are.
    """
    return attended(*(x.to(torch.bfloat16) for x in (q, k, v))).to(q.dtype)


@mistake(of="causal_attention", caught_by=test_values)
def epsilon_in_the_denominator(q, k, v):
    """A small number is added to the denominator, so that the weights sum to less than one.

    Leave it out: torch.softmax needs none, and a row of nothing is a case of its own.
    """
    return attended(q, k, v, total=lambda powers, dim: summed(powers, dim) + 1e-6)


@mistake(of="causal_attention", caught_by=test_values)
def first_queries_for_every_batch(q, k, v):
    """The queries of the first batch are used for all of them.

    Leave the leading dimensions to @, which multiplies each batch and head by its own.
    """
    return attended(q[:1].expand_as(q) if q.ndim > 2 else q, k, v)


@mistake(of="causal_attention", caught_by=test_precision)
def half_precision_not_raised(q, k, v):
    """The scores are computed in half precision, where 256 * 256 is infinity.

    Compute in float32 (q.float() and so on), and convert the output at the end.
    """
    return attended(q, k, v, score=scored_in_half)


@mistake(of="causal_attention", caught_by=test_precision)
def sum_in_half_precision(q, k, v):
    """The weights are summed in half precision, where 70,000 ones are infinity.

    Compute the softmax in float32 and convert the output at the end.
    """
    return attended(q, k, v, total=lambda powers, dim: summed(powers, dim).to(q.dtype))


@mistake(of="causal_attention", caught_by=test_precision)
def fill_too_large_for_half(q, k, v):
    """Hidden scores are set to -1e9, which float16 cannot hold: it ends at 65,504.

    Use -inf, which every floating-point dtype has, and compute the scores in float32.
    """

    def hide(scores, keep):
        return raised(scores.to(q.dtype).masked_fill(~keep, -1e9))

    return attended(q, k, v, hide=hide)


@mistake(of="causal_attention", caught_by=test_precision)
def dtype_promoted(q, k, v):
    """The output comes back in float32 although the inputs are in half precision.

    Convert it to the dtype of the input: .to(q.dtype).
    """
    return attended(q, k, v, narrow=unchanged)


@mistake(of="causal_attention", caught_by=test_gradient)
def graph_cut(q, k, v):
    """The weights are detached, so that only the values get a gradient.

    Keep .detach(), .data, no_grad and NumPy out of the way from q and k to the output.
    """
    return attended(q.detach(), k.detach(), v)


@mistake(of="causal_attention", caught_by=test_corner)
def nan_replaced_at_the_end(q, k, v):
    """The NaN of an empty row is replaced in the output only; NaN weights spoil the gradient of v.

    Let no weight be NaN: set the weights of an empty row to 0, before they meet the values.
    """

    def narrow(output, q):
        return output.nan_to_num(0.0).to(q.dtype)

    return attended(q, k, v, mend=unchanged, close=unchanged, narrow=narrow)


@mistake(of="causal_attention", caught_by=test_manners)
def input_overwritten(q, k, v):
    """The queries are scaled in place: `q *= scale` changes the caller's tensor.

    Write q = q * scale: it makes a new tensor.
    """
    output = attended(q.clone(), k, v)
    q.data.mul_(q.shape[-1] ** -0.5)
    return output


@mistake(of="causal_attention", caught_by=test_manners)
def view_of_strided_memory(q, k, v):
    """The leading dimensions are joined by view, which fails where they are strided in memory.

    Use reshape or flatten, which copy where they must; or leave the dimensions: @ takes any.
    """
    flat = [x.view(math.prod(x.shape[:-2]), *x.shape[-2:]) for x in (q, k, v)]
    return attended(*flat).view(*q.shape[:-1], v.shape[-1])


@mistake(of="causal_attention", caught_by=test_precision)
def no_maximum_subtracted(q, k, v):
    """No maximum is subtracted before exp, so large scores overflow.

    Use torch.softmax, which does it, or subtract the maximum of what is seen.
    """
    return attended(q, k, v, shift=unchanged)


@mistake(of="causal_attention", caught_by=test_precision)
def no_maximum_and_no_sum(q, k, v):
    """No maximum is subtracted before exp: large scores overflow, low ones vanish, and their sum,
    0, is replaced by 1.

    Use torch.softmax, or subtract the maximum of what is seen: then no sum is 0.
    """
    return attended(q, k, v, shift=unchanged, total=never_zero)


@mistake(of="causal_attention", caught_by=test_future)
def powers_multiplied_by_the_mask(q, k, v):
    """Hidden scores go through exp and are multiplied by 0 afterwards: NaN * 0 and inf * 0 are
    NaN, and scores far below a hidden one vanish.

    Replace hidden scores first: masked_fill(~keep, -inf), or torch.where.
    """
    return attended(
        q,
        k,
        v,
        hide=unchanged,
        mend=unchanged,
        power=lambda x, keep: x.exp() * keep,
        total=never_zero,
        close=unchanged,
    )


@mistake(of="causal_attention", caught_by=test_values)
def scores_multiplied_by_the_mask(q, k, v):
    """The scores are multiplied by the mask: a hidden score becomes 0, which is a score like any
    other.

    exp(0) is 1. A hidden score must be -inf: exp(-inf) is 0.
    """
    return attended(q, k, v, hide=multiplied, mend=unchanged, close=unchanged)


@mistake(of="causal_attention", caught_by=test_values)
def hidden_scores_are_plus_infinity(q, k, v):
    """Hidden scores are set to +inf: the sign is lost.

    Set them to -inf: exp(-inf) is 0.
    """
    return attended(q, k, v, hide=filled(torch.inf))


@mistake(of="causal_attention", caught_by=test_future)
def minus_ten_thousand_added(q, k, v):
    """-10,000 is added to hidden scores, which is little for a large key.

    Replace the hidden scores instead: masked_fill(~keep, -inf), or torch.where.
    """
    return attended(q, k, v, hide=lambda scores, keep: scores - 1e4 * ~keep)


@mistake(of="causal_attention", caught_by=test_corner)
def empty_row_not_zeroed(q, k, v):
    """A query that stands before the first key gets equal scores, and so the mean of all values.

    Set the weights of such a row to 0 after the softmax as well.
    """
    return attended(q, k, v, close=unchanged)


@mistake(of="causal_attention", caught_by=test_corner)
def empty_row_sees_everything(q, k, v):
    """A query that stands before the first key attends to all keys by their scores.

    Its output is 0: set its weights to 0.
    """

    def visible(q, k, scores):
        keep = seeing()(q, k, scores)
        return keep | ~keep.any(-1, keepdim=True)

    return attended(q, k, v, visible=visible)


@mistake(of="causal_attention", caught_by=test_corner)
def first_key_for_an_empty_row(q, k, v):
    """A query that stands before the first key is given that key.

    Its output is 0: the position i + Lk - Lq may be negative.
    """

    def place(q_len, k_len, device):
        return last_to_last(q_len, k_len, device).clamp(min=0)

    return attended(q, k, v, visible=seeing(place=place))


@mistake(of="causal_attention", caught_by=test_corner)
def attention_offset_never_negative(q, k, v):
    """With more queries than keys the offset is 0, so that the first queries see keys.

    Leave the offset Lk - Lq negative: queries before the first key see nothing.
    """
    return attended(q, k, v, visible=seeing(place=never_moved_back))


@mistake(of="causal_attention", caught_by=test_values)
def future_seen_instead(q, k, v):
    """Each query sees its own key and the later ones: the triangle is the upper one.

    The past lies to the left of the diagonal: tril, or key <= position.
    """
    return attended(q, k, v, visible=seeing(seen=torch.ge))


@mistake(of="causal_attention", caught_by=test_values)
def scale_of_the_number_of_keys(q, k, v):
    """The scale comes from the number of keys.

    It is the width of the queries and keys that counts: 1 / math.sqrt(q.shape[-1]).
    """
    return attended(q, k, v, scale=lambda *_: k.shape[-2] ** -0.5)


@mistake(of="causal_attention", caught_by=test_precision)
def everything_in_half_precision(q, k, v):
    """Half precision is computed in half precision throughout.

    Compute in float32 (q.float() and so on), and convert the output at the end.
    """
    return attended(q, k, v, widen=unchanged)


@mistake(of="causal_attention", caught_by=test_manners)
def queries_scaled_in_place(q, k, v):
    """The queries are scaled in place: `q *= scale` changes the caller's tensor, and its gradient.

    Write q = q * scale: it makes a new tensor.
    """
    q *= q.shape[-1] ** -0.5
    return attended(q, k, v, scale=lambda q, v: 1.0)


@mistake(of="causal_attention", caught_by=test_manners)
def raised_queries_scaled_in_place(q, k, v):
    """Where nothing is converted, q.to(wide) is q itself: `*=` changes the caller's queries, and
    their gradient.

    Write q = q * scale: it makes a new tensor in every dtype.
    """
    scaled = raised(q)
    scaled *= q.shape[-1] ** -0.5
    return attended(scaled, k, v, scale=lambda q, v: 1.0).to(k.dtype)


@mistake(of="causal_attention", caught_by=test_precision)
def output_in_float32(q, k, v):
    """The output is float32 whatever the inputs are.

    Convert it to the dtype of the input: .to(q.dtype).
    """
    return attended(q, k, v, narrow=lambda output, q: output.float())


@mistake(of="causal_attention", caught_by=test_gradient)
def output_detached(q, k, v):
    """The output is detached: no gradient flows at all.

    Keep .detach(), .data, no_grad and NumPy out of the way to the output.
    """
    return attended(q, k, v).detach()


@mistake(of="causal_attention", caught_by=test_gradient)
def values_detached(q, k, v):
    """The values are detached, so that they get no gradient.

    Keep .detach(), .data, no_grad and NumPy out of the way from v to the output.
    """
    return attended(q, k, v.detach())


@mistake(of="causal_attention", caught_by=test_gradient)
def denominator_detached(q, k, v):
    """The output is right, but the sum it is divided by is cut out of the graph.

    Only the maximum may be detached, because it cancels. The sum must stay.
    """
    return attended(q, k, v, total=lambda powers, dim: summed(powers, dim).detach())


@mistake(of="causal_attention", caught_by=test_values, null=True)
def zeros(q, k, v):
    """Zeros.

    Nothing is computed yet.
    """
    return q.new_zeros(*q.shape[:-1], v.shape[-1])


@mistake(of="causal_attention", caught_by=test_values, null=True)
def values_returned(q, k, v):
    """The values are returned as they came.

    Each output row is a mixture of the values so far.
    """
    return v.clone()


@mistake(of="causal_attention", caught_by=test_values, null=True)
def query_returned(q, k, v):
    """The queries are returned as they came.

    Each output row is a mixture of values.
    """
    return q.clone()


@mistake(of="causal_attention", caught_by=test_values, null=True)
def mean_of_the_values(q, k, v):
    """Every query gets the mean of all values.

    The weights depend on the scores, and hidden keys have none.
    """
    return v.mean(-2, keepdim=True).expand(*q.shape[:-1], v.shape[-1])


@mistake(of="causal_attention", caught_by=test_values, null=True)
def running_mean_of_the_values(q, k, v):
    """Every query gets the plain mean of the values so far: queries and keys play no part.

    The weights depend on the scores, through softmax.
    """
    return attended(0 * q, torch.zeros_like(k), v)


@mistake(of="causal_attention", caught_by=test_values, null=True)
def largest_score_takes_all(q, k, v):
    """All the weight goes to the largest score.

    That is argmax. Softmax leaves something for the others.
    """
    return attended(q.double(), k.double(), v.double(), scale=lambda q, v: 1e9).to(q.dtype)


@mistake(of="causal_attention", caught_by=test_values, null=True)
def linear_layer_of_the_queries(q, k, v):
    """The queries go through one matrix, and keys and values play no part.

    Scores from queries and keys, softmax, then the values.
    """
    matrix = torch.ones(q.shape[-1], v.shape[-1], dtype=q.dtype, device=q.device)
    return q @ matrix / q.shape[-1]


# Right by themselves, wrong together


@mistake(of="causal_attention", caught_by=test_precision)
def no_maximum_where_the_lengths_differ(q, k, v):
    """Where Lq and Lk differ, exp(scores) is divided by its sum without the maximum taken off.

    Use one softmax for every length, and one that subtracts the maximum: torch.softmax.
    """
    if q.shape[-2] == k.shape[-2]:
        return attended(q, k, v)
    return attended(q, k, v, shift=unchanged, total=never_zero)


@mistake(of="causal_attention", caught_by=test_precision)
def no_maximum_for_one_query(q, k, v):
    """A single query takes a way of its own, in which exp of a large score is infinity.

    torch.softmax subtracts the maximum. A single query needs it as much as many.
    """
    if q.shape[-2] > 1:
        return attended(q, k, v)
    return attended(q, k, v, shift=unchanged, total=never_zero)


@mistake(of="causal_attention", caught_by=test_corner)
def mask_kept_for_each_number_of_queries(q, k, v, kept={}):  # noqa: B006 (that is the mistake)
    """The mask is kept from call to call by Lq alone, and handed out again for another Lk.

    Build it anew, or keep it by both lengths and the device.
    """

    def visible(q, k, scores):
        return kept.setdefault((q.shape[-2], q.device), seeing()(q, k, scores))

    return attended(q, k, v, visible=visible)


@mistake(of="causal_attention", caught_by=test_future)
def minus_a_billion_added_after_a_past(q, k, v):
    """Where Lq and Lk differ, -1e9 is added to hidden scores; a key of 1e30 makes light of it.

    Replace hidden scores by -inf, whatever the lengths are: masked_fill(~keep, -inf).
    """
    hide = filled(-torch.inf) if q.shape[-2] == k.shape[-2] else less_a_billion
    return attended(q, k, v, hide=hide)


@mistake(of="causal_attention", caught_by=test_future)
def finite_fill_in_half_precision(q, k, v):
    """In half precision -1e4 is added to hidden scores, which a large key outweighs.

    Compute the scores in float32 and replace hidden ones by -inf: masked_fill(~keep, -inf).
    """

    def hide(scores, keep):
        return scores - 1e4 * ~keep

    return attended(q, k, v, hide=hide if q.dtype in HALVES else filled(-torch.inf))


@mistake(of="causal_attention", caught_by=test_precision)
def half_precision_not_raised_after_a_past(q, k, v):
    """Half precision is raised to float32 only where Lq equals Lk.

    Raise it for every length: 256 * 256 is infinity in float16.
    """
    return attended(q, k, v, score=scored if q.shape[-2] == k.shape[-2] else scored_in_half)


@mistake(of="causal_attention", caught_by=test_precision)
def half_precision_not_raised_for_one_query(q, k, v):
    """Half precision is raised to float32, but not for a single query.

    A single query overflows as well: 256 * 256 is infinity in float16.
    """
    return attended(q, k, v, score=scored if q.shape[-2] > 1 else scored_in_half)


@mistake(of="causal_attention", caught_by=test_precision)
def top_left_in_half_precision(q, k, v):
    """In half precision query 0 is lined up with key 0.

    The last query belongs to the last key, in every dtype.
    """
    place = first_to_first if q.dtype in HALVES else last_to_last
    return attended(q, k, v, visible=seeing(place=place))


@mistake(of="causal_attention", caught_by=test_corner)
def empty_row_is_nan_in_half_precision(q, k, v):
    """In half precision a query that stands before the first key gets NaN.

    Its output is 0, in every dtype.
    """
    step = unchanged if q.dtype in HALVES else zero_in_empty_rows
    return attended(q, k, v, mend=step, close=step)


@mistake(of="causal_attention", caught_by=test_precision)
def chunk_local_position_in_half_precision(q, k, v):
    """In half precision rows are counted anew in every chunk.

    Row i of a chunk that begins at `start` stands at position start + i + Lk - Lq, in every dtype.
    """
    if q.dtype not in HALVES:
        return attended(q, k, v)
    return chunk_local_position(q, k, v)


@mistake(of="causal_attention", caught_by=test_precision)
def graph_cut_in_half_precision(q, k, v):
    """In half precision the gradient is cut: x.detach().float(), or a new tensor from the numbers.

    x.float() keeps the graph, and converts.
    """
    if q.dtype in HALVES:
        q, k = q.detach(), k.detach()
    return attended(q, k, v)


@mistake(of="causal_attention", caught_by=test_gradient)
def graph_cut_in_float32(q, k, v):
    """The gradient is cut for every dtype but float64.

    Leave .detach() and torch.no_grad() out, for every dtype.
    """
    if q.dtype != torch.float64:
        q, k = q.detach(), k.detach()
    return attended(q, k, v)


@mistake(of="causal_attention", caught_by=test_gradient)
def graph_cut_for_one_query(q, k, v):
    """A single query gets no gradient: its way is taken under torch.no_grad().

    Whether gradients are wanted is the caller's choice.
    """
    if q.shape[-2] == 1:
        q, k = q.detach(), k.detach()
    return attended(q, k, v)


@mistake(of="causal_attention", caught_by=test_gradient)
def graph_cut_with_heads(q, k, v):
    """Inputs of four dimensions get no gradient.

    Treat all leading dimensions alike, and leave .detach() out.
    """
    if q.ndim == 4:
        q, k = q.detach(), k.detach()
    return attended(q, k, v)


@mistake(of="causal_attention", caught_by=test_manners)
def input_overwritten_in_float64(q, k, v):
    """Where nothing is converted, q.to(wide) is q itself: `q *= scale` changes the caller's.

    Write q = q * scale: it makes a new tensor in every dtype.
    """
    output = attended(q.clone(), k, v)
    if q.dtype == torch.float64:
        q.data.mul_(q.shape[-1] ** -0.5)
    return output


@mistake(of="causal_attention", caught_by=test_manners)
def input_overwritten_in_half_precision(q, k, v):
    """In half precision the queries are scaled in place.

    Write q = q * scale: it makes a new tensor.
    """
    output = attended(q.clone(), k, v)
    if q.dtype in HALVES:
        q.data.mul_(q.shape[-1] ** -0.5)
    return output


@mistake(of="causal_attention", caught_by=test_manners)
def input_overwritten_for_one_query(q, k, v):
    """A single query is scaled in place.

    Write q = q * scale: it makes a new tensor.
    """
    output = attended(q.clone(), k, v)
    if q.shape[-2] == 1:
        q.data.mul_(q.shape[-1] ** -0.5)
    return output


@mistake(of="causal_attention", caught_by=test_manners)
def values_overwritten_where_rows_are_empty(q, k, v):
    """Where there are more queries than keys, the values are changed in place.

    Zero the output of the rows that see nothing, not what was handed in.
    """
    output = attended(q, k, v.clone())
    if q.shape[-2] > k.shape[-2]:
        v.data[..., :1, :] = 0.0
    return output


@mistake(of="causal_attention", caught_by=test_manners)
def view_of_strided_memory_for_one_query(q, k, v):
    """For a single query the keys are joined by view, which fails where they are strided in memory.

    Use reshape or flatten, which copy where they must; or leave the dimensions: @ takes any.
    """
    if q.shape[-2] == 1:
        k = k.view(-1, *k.shape[-2:]).view(k.shape)
    return attended(q, k, v)


@mistake(of="sliding_window_mask", caught_by=test_sliding_window_mask)
def window_cut_to_the_keys(q_len, k_len, window, device=None):
    """A window longer than the text falls back to a mask whose query 0 is lined up with key 0.

    A long window changes nothing: the same two comparisons, positions i + k_len - q_len.
    """

    def place(q_len, k_len, device):
        return torch.arange(q_len, device=device) + min(k_len - q_len, 0)

    return band(q_len, k_len, window, device, place=last_to_last if window <= k_len else place)


@mistake(of="causal_attention", caught_by=test_precision)
def maximum_with_a_floor(q, k, v):
    """The running maximum starts at -1e4, so that rows whose scores all lie below it vanish.

    Start it at -inf, or take the maximum of the row itself.
    """

    def shift(hidden, dim):
        return hidden - hidden.detach().amax(dim, keepdim=True).clamp(min=-1e4)

    return attended(q, k, v, shift=shift, total=above_zero)


@mistake(of="causal_mask", caught_by=test_causal_mask)
def positions_in_int16(q_len, k_len, device=None):
    """Positions are counted in int16, which ends at 32,767.

    Leave the dtype of positions to PyTorch: torch.arange(...) is int64.
    """

    def seen(keys, queries):
        return keys.to(torch.int16) <= queries.to(torch.int16)

    return triangle(q_len, k_len, device, seen=seen)


@mistake(of="causal_mask", caught_by=test_causal_mask)
def device_forgotten(q_len, k_len, device=None):
    """`device` is not heeded: the mask is always made on the CPU.

    Hand device=device to every tensor that is made.
    """
    return triangle(q_len, k_len)


@mistake(of="causal_mask", caught_by=test_manners)
def one_mask_for_all(q_len, k_len, device=None, kept={}):  # noqa: B006 (that is the mistake)
    """The mask is kept and returned again, so that whoever changes it changes those of all others.

    Return a new mask at every call, or a clone of the one that is kept.
    """
    form = q_len, k_len, str(device)
    return kept.setdefault(form, triangle(q_len, k_len, device))


@mistake(of="causal_mask", caught_by=test_manners)
def no_query_means_no_keys(q_len, k_len, device=None):
    """Without queries the mask has no columns either.

    Its shape is (q_len, k_len) for any lengths: (0, 4) for no queries and four keys.
    """
    return triangle(q_len, k_len if q_len else 0, device)


@mistake(of="sliding_window_mask", caught_by=test_sliding_window_mask)
def window_device_forgotten(q_len, k_len, window, device=None):
    """`device` is not heeded: the mask is always made on the CPU.

    Hand device=device to every tensor that is made.
    """
    return band(q_len, k_len, window)


@mistake(of="sliding_window_mask", caught_by=test_sliding_window_mask)
def distances_in_one_byte(q_len, k_len, window, device=None):
    """Distances are counted in int8, which ends at 127: far keys come near again.

    Leave the dtype of positions to PyTorch: torch.arange(...) is int64.
    """
    return band(
        q_len,
        k_len,
        window,
        device,
        near=lambda behind, window: behind.to(torch.int8).long().abs() < window,
    )


@mistake(of="sliding_window_mask", caught_by=test_manners)
def one_window_for_all(q_len, k_len, window, device=None, kept={}):  # noqa: B006 (the mistake)
    """The mask is kept and returned again, so that whoever changes it changes those of all others.

    Return a new mask at every call, or a clone of the one that is kept.
    """
    form = q_len, k_len, window, str(device)
    return kept.setdefault(form, band(q_len, k_len, window, device))


@mistake(of="causal_attention", caught_by=test_values)
def batch_of_one_squeezed(q, k, v):
    """A squeeze drops leading dimensions of one.

    Name the axis that is to go; squeeze takes every axis of size 1.
    """
    output = attended(q, k, v)
    return output.squeeze(0) if output.ndim == 4 else output


@mistake(of="causal_attention", caught_by=test_values)
def last_1024_keys_only(q, k, v):
    """Only the last 1024 keys are read, as if there were a window.

    A causal mask hides later keys and nothing else.
    """
    return attended(q, k[..., -1024:, :], v[..., -1024:, :])


@mistake(of="causal_attention", caught_by=test_corner)
def lowest_number_filled(q, k, v):
    """Hidden scores become torch.finfo(dtype).min: a query that sees nothing gets a mean.

    Use -inf, and give such a query zeros.
    """

    def hide(scores, keep):
        return scores.masked_fill(~keep, torch.finfo(scores.dtype).min)

    return attended(q, k, v, hide=hide, mend=unchanged, close=unchanged)


@mistake(of="causal_attention", caught_by=test_precision)
def softmax_alone_in_float32(q, k, v):
    """Only the softmax is computed in float32: its scores and products stay in the dtype of q.

    That is the habit of model code: softmax(scores, dtype=torch.float32).to(q.dtype). The scores
    need float32 as well, and float64 must not become float32: convert half precision first.
    """

    def hide(scores, keep):
        return scores.masked_fill(~keep, -torch.inf).float()

    def close(weights, keep):
        return zero_in_empty_rows(weights, keep).to(q.dtype)

    return attended(q, k, v, widen=unchanged, hide=hide, close=close)


@mistake(of="causal_attention", caught_by=test_precision)
def scale_rounded_to_float32(q, k, v):
    """The scale is a float32 tensor, torch.sqrt(torch.tensor(D)), and float64 loses digits to it.

    Use a Python number: math.sqrt(D), or D ** 0.5.
    """
    root = torch.sqrt(torch.tensor(1.1 * q.shape[-1], dtype=torch.float32)).item() / 1.1**0.5
    return attended(q, k, v, scale=lambda q, v: 1 / root)


@mistake(of="causal_attention", caught_by=test_precision)
def zeros_of_float32(q, k, v):
    """The zeros of the rows before the first key are float32, and make the whole output float32.

    Make them in the dtype of q, or convert the output at the end: .to(q.dtype).
    """
    output = attended(q, k, v)
    return output.float() if q.shape[-2] > k.shape[-2] and q.dtype in HALVES else output


@mistake(of="causal_attention", caught_by=test_manners)
def one_tensor_taken_for_scaled(q, k, v):
    """Where k and v are the same tensor, the scale is left out.

    The scale is 1/sqrt(D), whatever the tensors are.
    """
    return attended(q, k, v, scale=(lambda q, v: 1.0) if k is v else inverse_root)


@mistake(of="causal_attention", caught_by=test_manners)
def keys_remembered(q, k, v, seen=[]):  # noqa: B006 (that is the mistake)
    """A copy of the keys is kept, and used for the same tensor although its numbers have changed.

    Compute the answer anew at every call.
    """
    copies = [copy for known, copy in seen if known is k]
    if not copies and not k.requires_grad:
        seen.append((k, k.clone()))
    return attended(q, copies[0] if copies else k, v)


@mistake(of="causal_attention", caught_by=test_manners)
def one_buffer_for_all_answers(q, k, v, buffers={}):  # noqa: B006 (that is the mistake)
    """Every output of a shape is written into the same memory, over the output before it.

    Return a new tensor at every call.
    """
    return written_over(buffers, attended(q, k, v))


@mistake(of="causal_attention", caught_by=test_manners)
def mask_made_on_the_cpu(q, k, v):
    """The mask is made on the CPU, wherever the queries are.

    Hand device=q.device to every tensor that is made.
    """
    output = attended(q, k, v)
    return torch.zeros(output.shape) if q.is_meta else output


@mistake(of="causal_attention", caught_by=test_manners)
def strided_keys_copied_without_graph(q, k, v):
    """Keys that do not lie in memory in one piece are first copied with .data, so that they get no
    gradient.

    Copy them with .contiguous() or .reshape(), which gradients pass through.
    """
    return attended(q, k if k.is_contiguous() else k.data.contiguous(), v)


@mistake(of="causal_attention", caught_by=test_precision)
def empty_rows_told_by_the_lowest_float32(q, k, v):
    """A row counts as empty if its largest score is the lowest number of float32; in float64 it is
    that of float64, and such rows get the mean of the values.

    Tell empty rows by the mask: ~keep.any(-1, keepdim=True).
    """

    def hide(scores, keep):
        return scores.masked_fill(~keep, torch.finfo(scores.dtype).min)

    def close(weights, keep):
        empty = ~keep.any(-1, keepdim=True) & (weights.dtype is torch.float32)
        return weights.masked_fill(empty, 0.0)

    return attended(q, k, v, hide=hide, mend=unchanged, close=close)


@mistake(of="causal_attention", caught_by=test_precision)
def rows_of_a_float32_buffer(q, k, v):
    """With more queries than keys the rows are written into zeros of float32, which float64 loses
    its digits in.

    Make the zeros in the dtype of q: q.new_zeros(...).
    """

    def narrow(output, q):
        return (output.float() if q.shape[-2] > k.shape[-2] else output).to(q.dtype)

    return attended(q, k, v, narrow=narrow)


@mistake(of="causal_attention", caught_by=test_manners)
def values_of_one_sequence_for_all(q, k, v):
    """Values that are expanded over the batch are read once, with .data[:1], and get no gradient.

    Expanded tensors need no path of their own: matrix products broadcast, and gradients flow.
    """
    expanded = v.ndim > 2 and len(v) > 1 and v.stride(0) == 0
    return attended(q, k, v.data[:1] if expanded else v)


@mistake(of="causal_mask", caught_by=test_manners)
def part_of_a_table(q_len, k_len, device=None, table=torch.ones(64, 64).tril().bool()):  # noqa: B008
    """Square masks are views of one table, so that a caller who writes into a mask changes others.

    Make a new tensor in every call, or return a copy: table[:q_len, :k_len].clone().
    """
    if q_len == k_len <= len(table) and device is None:
        return table[:q_len, :k_len]
    return triangle(q_len, k_len, device)


@mistake(of="causal_mask", caught_by=test_manners)
def one_entry_for_all_keys(q_len, k_len, device=None):
    """The mask of one query is a single True, expanded: it cannot be written into.

    torch.ones(1, k_len, dtype=torch.bool) has a place in memory for each key.
    """
    if q_len == 1:
        return torch.ones(1, 1, dtype=torch.bool, device=device).expand(1, k_len)
    return triangle(q_len, k_len, device)


@mistake(of="sliding_window_mask", caught_by=test_sliding_window_mask)
def window_in_int32(q_len, k_len, window, device=None):
    """Positions are int32, in which a window of 2**40 becomes 0.

    torch.arange gives int64 by itself: leave its dtype alone.
    """
    return band(q_len, k_len, (window + 2**31) % 2**32 - 2**31, device)


@mistake(of="causal_attention", caught_by=test_precision)
def bfloat16_not_raised(q, k, v):
    """float16 is computed in float32, but bfloat16 is not, which tells scores of 512 and 513
    apart no longer.

    Raise both: torch.promote_types(q.dtype, torch.float32).
    """

    def widen(x):
        return x.float() if x.dtype == torch.float16 else x

    return attended(q, k, v, widen=widen)


@mistake(of="causal_attention", caught_by=test_precision)
def queries_scaled_in_half_precision(q, k, v):
    """The queries are divided by sqrt(D) before they become float32, so that they are rounded.

    First q.float(), then the scale.
    """
    return attended(q * inverse_root(q, v), k, v, scale=lambda q, v: 1.0)


@mistake(of="causal_attention", caught_by=test_precision)
def raised_where_gradients_are_on(q, k, v):
    """Under torch.no_grad() half precision is not computed in float32.

    Scores are rounded with and without gradients: raise in both cases.
    """
    return attended(q, k, v, widen=raised if torch.is_grad_enabled() else unchanged)


@mistake(of="causal_attention", caught_by=test_precision)
def hidden_with_minus_1e30(q, k, v):
    """Hidden scores become -1e30, which hides nothing where all scores are lower.

    Hide a score by putting -inf in its place: masked_fill(~keep, -torch.inf).
    """
    return attended(q, k, v, hide=filled(-1e30))


@mistake(of="causal_attention", caught_by=test_precision)
def distances_cut_at_30(q, k, v):
    """The distances from the largest score are cut at -30, so that no weight is below exp(-30).

    A small weight counts where its value is large. exp needs no limit below.
    """

    def power(distances, keep):
        return distances.clamp(min=-30.0).exp() * keep

    return attended(q, k, v, power=power)


@mistake(of="causal_attention", caught_by=test_gradient)
def no_graph_unless_queries_learn(q, k, v):
    """No gradient reaches k and v unless q requires one.

    Each input may be the only one that learns. Leave the graph to PyTorch.
    """
    if not q.requires_grad:
        k, v = k.detach(), v.detach()
    return attended(q, k, v)


@mistake(of="causal_attention", caught_by=test_corner)
def blocks_of_a_16th_of_the_queries(q, k, v):
    """More than 2,048 queries are taken in 16 blocks, and those that are left over get zeros.

    The last block is shorter: range(0, Lq, block), and its end is min(start + block, Lq).
    """
    output = attended(q, k, v)
    done = q.shape[-2] // 16 * 16 if q.shape[-2] > 2048 else q.shape[-2]
    return torch.cat([output[..., :done, :], torch.zeros_like(output[..., done:, :])], -2)


@mistake(of="causal_attention", caught_by=test_corner)
def nothing_hidden_beyond_4096(q, k, v):
    """The table of the mask has 4,096 places, and keys beyond it are seen by every query.

    Build the mask for the lengths of this call.
    """

    def visible(q, k, scores):
        keep = seeing()(q, k, scores)
        return keep | (torch.arange(k.shape[-2], device=q.device) >= 4096)

    return attended(q, k, v, visible=visible)


@mistake(of="causal_attention", caught_by=test_future)
def nan_keys_replaced_in_place(q, k, v):
    """NaN in the keys is replaced in the caller's tensor.

    k = k.nan_to_num() makes a new tensor; or take only those keys that are seen.
    """
    k.data.nan_to_num_(0.0)
    return attended(q, k, v)


@mistake(of="causal_attention", caught_by=test_precision)
def many_queries_in_half(q, k, v):
    """More than 512 queries are taken in blocks, and these are computed in half precision.

    Convert to float32 before you cut into blocks.
    """
    return attended(q, k, v, widen=unchanged if q.shape[-2] > 512 else raised)


@mistake(of="causal_mask", caught_by=test_causal_mask)
def positions_in_float16(q_len, k_len, device=None):
    """Positions are float16, in which 4,999 and 5,000 are the same number.

    Leave the dtype of positions to PyTorch: torch.arange(...) is int64.
    """

    def seen(keys, queries):
        return keys.half() <= queries.half()

    return triangle(q_len, k_len, device, seen=seen)


@mistake(of="sliding_window_mask", caught_by=test_sliding_window_mask)
def distances_in_float16(q_len, k_len, window, device=None):
    """Distances are float16, which has not every whole number beyond 2,048.

    Leave the dtype of positions to PyTorch: torch.arange(...) is int64.
    """
    return band(q_len, k_len, window, device, near=lambda behind, window: behind.half() < window)


@mistake(of="sliding_window_mask", caught_by=test_sliding_window_mask)
def window_added_to_the_keys(q_len, k_len, window, device=None):
    """The window is added to the positions of the keys, where sys.maxsize makes them negative.

    Subtract positions only, and compare with the window: behind < window.
    """
    own = last_to_last(q_len, k_len, device)[:, None]
    return triangle(q_len, k_len, device) & (torch.arange(k_len, device=device) + window > own)


@mistake(of="causal_attention", caught_by=test_precision)
def double_scores_cut_to_float32(q, k, v):
    """Scores are clamped to what float32 can hold, in float64 too, where larger ones become equal.

    Leave scores as they are: the softmax subtracts the largest.
    """
    most = torch.finfo(torch.float32).max
    return attended(q, k, v, score=lambda *given: scored(*given).clamp(-most, most))


@mistake(of="causal_attention", caught_by=test_corner)
def whole_blocks_of_1024_queries(q, k, v):
    """More than 2,048 queries are taken in whole blocks of 1,024, if there are as many keys, and
    the queries that are left over get zeros.

    The last block is shorter: range(0, Lq, block), and its end is min(start + block, Lq).
    """
    output, q_len = attended(q, k, v), q.shape[-2]
    done = q_len // 1024 * 1024 if q_len > 2048 and q_len == k.shape[-2] else q_len
    return torch.cat([output[..., :done, :], torch.zeros_like(output[..., done:, :])], -2)


@mistake(of="causal_attention", caught_by=test_manners)
def one_place_in_half_precision(q, k, v, places={}):  # noqa: B006 (that is the mistake)
    """In half precision all outputs of a form are written over the one before.

    Return a new tensor in every call, whatever the dtype.
    """
    output = attended(q, k, v)
    return output if q.dtype.itemsize > 2 else written_over(places, output)


@mistake(of="causal_attention", caught_by=test_precision)
def keys_cut_off_in_half_precision(q, k, v):
    """In half precision the keys are cut off from their gradient where q and v need none.

    Leave detach() out: any of the three may be the one that learns.
    """
    alone = q.dtype.itemsize == 2 and not (q.requires_grad or v.requires_grad)
    return attended(q, k.detach() if alone else k, v)


@mistake(of="causal_attention", caught_by=test_precision)
def values_cut_off_where_they_are_the_keys(q, k, v):
    """Where keys and values are one tensor, but not the queries, the values have no gradient.

    Leave detach() out: the gradient of the tensor is the sum of both.
    """
    return attended(q, k, v.detach() if v is k and q is not k else v)
