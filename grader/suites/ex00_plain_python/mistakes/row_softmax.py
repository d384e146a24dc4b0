"""Wrong answers to `row_softmax`."""

import math

from grader.judging import mistake
from reference.ex00_plain_python import (
    plain_row_softmax,
    plain_softmax,
    plain_transpose,
)

from ..test_plain_python import (
    test_softmax,
    test_softmax_extremes,
)

# row_softmax


def weights_of(rows, powers_of):
    """Softmax from another kind of powers."""
    powers = [powers_of(row) for row in rows]
    return [[p / sum(row) for p in row] if sum(row) else [0.0] * len(row) for row in powers]


@mistake(of="row_softmax", caught_by=test_softmax_extremes)
def no_maximum_subtracted(rows):
    """The largest number of a row is not subtracted, and math.exp overflows above 709.

    math.exp(x - max(row)): the weights are the same, and no power is above 1.
    """
    return weights_of(rows, lambda row: [math.exp(x) for x in row])


@mistake(of="row_softmax", caught_by=test_softmax_extremes)
def one_maximum_for_all_rows(rows):
    """One maximum is subtracted from all rows, and rows of much smaller numbers vanish.

    Each row has a maximum of its own: max(row).
    """
    top = max(x for row in rows for x in row)
    return weights_of(rows, lambda row: [math.exp(x - top) for x in row])


@mistake(of="row_softmax", caught_by=test_softmax)
def one_sum_for_all_rows(rows):
    """The powers are divided by the sum of the whole matrix.

    Each row sums to one by itself: divide by the sum of the row.
    """
    powers = [[math.exp(x - max(row)) if max(row) > -math.inf else 0 for x in row] for row in rows]
    total = sum(x for row in powers for x in row)
    return [[x / total for x in row] for row in powers]


@mistake(of="row_softmax", caught_by=test_softmax)
def columns_sum_to_one(rows):
    """The columns sum to one, not the rows.

    Take the maximum and the sum of each row: for row in rows.
    """
    return plain_transpose(plain_row_softmax(plain_transpose(rows)))


@mistake(of="row_softmax", caught_by=test_softmax)
def divided_without_exp(rows):
    """The scores themselves are divided by their sum: the exponential is missing.

    Divide math.exp(x - max(row)) by the sum of these powers.
    """
    return [[x / (sum(row) or 1) for x in row] for row in rows]


@mistake(of="row_softmax", caught_by=test_softmax)
def epsilon_in_the_sum(rows):
    """A small number is added to the sum, so that the weights sum to less than one.

    Leave it out: after the maximum is subtracted the sum is at least 1.
    """
    powers = [[math.exp(x - max(row)) if max(row) > -math.inf else 0 for x in row] for row in rows]
    return [[x / (sum(row) + 1e-6) for x in row] for row in powers]


@mistake(of="row_softmax", caught_by=test_softmax)
def small_epsilon_in_the_sum(rows):
    """1e-9 is added to the sum, so that the weights sum to less than one.

    Leave it out: after the maximum is subtracted the sum is at least 1.
    """
    powers = [[math.exp(x - max(row)) if max(row) > -math.inf else 0 for x in row] for row in rows]
    return [[x / (sum(row) + 1e-9) for x in row] for row in powers]


@mistake(of="row_softmax", caught_by=test_softmax_extremes)
def empty_row_overwritten(rows):
    """The zeros of a row of -inf are written into the row that was given.

    It belongs to the caller: make a new list of zeros.
    """
    empty = [max(row) == -math.inf for row in rows]
    for row in (row for row, is_empty in zip(rows, empty, strict=True) if is_empty):
        row[:] = [0.0] * len(row)
    return [
        list(row) if is_empty else plain_softmax(row)
        for row, is_empty in zip(rows, empty, strict=True)
    ]


@mistake(of="row_softmax", caught_by=test_softmax_extremes)
def maximum_subtracted_if_all_vanish(rows):
    """The maximum is subtracted only if the powers add up to 0: below -700 they have few digits.

    Subtract the maximum of every row, before math.exp.
    """

    def powers(row):
        bare = [math.exp(min(x, 700.0)) for x in row]
        return bare if sum(bare) and max(row) < 700 else [math.exp(x - max(row)) for x in row]

    return [plain_softmax(row) if max(row) == -math.inf else _shares(powers(row)) for row in rows]


def _shares(powers):
    return [x / sum(powers) for x in powers]


@mistake(of="row_softmax", caught_by=test_softmax_extremes)
def empty_row_is_nan(rows):
    """A row of -inf becomes NaN: -inf minus its own maximum, -inf, is no number.

    If max(row) is -math.inf, answer zeros for that row.
    """
    return [
        plain_softmax(row) if max(row) > -math.inf else [x - max(row) for x in row] for row in rows
    ]


@mistake(of="row_softmax", caught_by=test_softmax_extremes)
def empty_row_is_uniform(rows):
    """A row of -inf gets equal weights.

    Nothing may be attended to in such a row: its weights are zeros.
    """
    return [
        plain_softmax(row) if max(row) > -math.inf else [1 / len(row)] * len(row) for row in rows
    ]


@mistake(of="row_softmax", caught_by=test_softmax)
def softened_in_place(rows):
    """The weights are written over the caller's scores.

    Build a new list for each row.
    """
    for row in rows:
        row[:] = plain_softmax(row)
    return rows


@mistake(of="row_softmax", caught_by=test_softmax, null=True)
def equal_weights(rows):
    """All weights of a row are equal: the scores play no part.

    The weights are the exponentials of the scores, divided by their sum.
    """
    return [[1 / len(row) for _ in row] for row in rows]


@mistake(of="row_softmax", caught_by=test_softmax, null=True)
def winner_takes_all(rows):
    """The largest score of a row gets the whole weight.

    Softmax is soft: divide the exponentials by their sum.
    """
    return [[1.0 if j == row.index(max(row)) else 0.0 for j in range(len(row))] for row in rows]


@mistake(of="row_softmax", caught_by=test_softmax_extremes)
def low_rows_taken_for_hidden(rows):
    """A row of scores near -10,000 gets no weights, as if it were hidden.

    Only a row of nothing but -math.inf is empty: compare its maximum with -math.inf.
    """
    return [[0.0] * len(row) if max(row) < -9_900 else plain_softmax(row) for row in rows]


@mistake(of="row_softmax", caught_by=test_softmax_extremes)
def low_rows_taken_for_empty(rows):
    """A row whose largest score is below -9999 gets zeros, as if all of it were hidden.

    Only -math.inf hides: compare the largest score with that.
    """
    return [[0.0] * len(row) if max(row) < -9999 else plain_softmax(row) for row in rows]
