"""Wrong answers to `causal_mask`."""

import torch

from grader.judging import mistake

from ..steps import (
    last_to_last,
    triangle,
)
from ..test_causal_mask import (
    test_causal_mask,
)
from .shared import first_to_first, never_moved_back, one_further, the_other_way


def never_moved_on(queries, keys, device):
    return torch.arange(queries, device=device) + min(keys - queries, 0)


def but_the_last(keys, queries):
    return (keys <= queries) & (keys < len(keys) - 1)


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
