"""Wrong answers to `sliding_window_mask`."""

import torch

from grader.judging import mistake

from ..steps import (
    band,
    last_to_last,
)
from ..test_causal_mask import (
    test_sliding_window_mask,
)
from .shared import first_to_first, never_moved_back, the_other_way


def ahead_of_own_key(behind):
    return behind > 0


def everywhere(behind, *_):
    return torch.ones_like(behind, dtype=torch.bool)


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
