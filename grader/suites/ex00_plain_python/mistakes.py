"""What goes wrong with matrices in lists, and with attention on them, by name."""

import math

from grader.judging import mistake
from reference.ex00_plain_python import (
    dot,
    plain_apply_mask,
    plain_attention,
    plain_matmul,
    plain_row_softmax,
    plain_softmax,
    plain_transpose,
)

from .test_plain_python import (
    test_attention,
    test_attention_mask,
    test_mask,
    test_matmul,
    test_matmul_refuses,
    test_softmax,
    test_softmax_extremes,
    test_transpose,
)


def fit(a, b):
    for row in a:
        if len(row) != len(b):
            raise ValueError(f"{len(row)} and {len(b)}")


# matmul


@mistake(of="matmul", caught_by=test_matmul)
def one_row_repeated(a, b):
    """All rows of the product are one and the same list, so the last one written stands in all.

    `[[0.0] * p] * n` repeats one row n times; `[[0.0] * p for _ in range(n)]` makes n rows.
    """
    fit(a, b)
    product = [[0.0] * len(b[0])] * len(a)
    for i, row in enumerate(a):
        for j, column in enumerate(plain_transpose(b)):
            product[i][j] = dot(row, column)
    return product


@mistake(of="matmul", caught_by=test_matmul)
def whole_because_the_first_is(a, b):
    """A product is cut to a whole number where the first number of its row is an int.

    Ints and floats may stand in one row; what Python adds up needs no `int`.
    """
    fit(a, b)
    product = plain_matmul(a, b)
    return [
        [int(x) if isinstance(row[0], int) else x for x in sums]
        for row, sums in zip(a, product, strict=True)
    ]


@mistake(of="matmul", caught_by=test_matmul)
def rows_times_rows(a, b):
    """The rows of `a` are multiplied with the rows of `b`, where its columns belong.

    Column j of `b` is [row[j] for row in b].
    """
    fit(a, b)
    return [[sum(x * y for x, y in zip(one, other, strict=False)) for other in b] for one in a]


@mistake(of="matmul", caught_by=test_matmul)
def place_by_place(a, b):
    """Each number is multiplied with the one at the same place of the other matrix.

    A product of matrices sums: row i of `a` times column j of `b`.
    """
    fit(a, b)
    return [
        [x * y for x, y in zip(one, other, strict=False)] for one, other in zip(a, b, strict=False)
    ]


@mistake(of="matmul", caught_by=test_matmul)
def factors_swapped(a, b):
    """The product is `b` times `a`.

    The rows come from the first factor, the columns from the second.
    """
    fit(a, b)
    return plain_matmul(b, a)


@mistake(of="matmul", caught_by=test_matmul)
def only_the_last_term(a, b):
    """Each number is the last term of its sum: `=` stands where `+=` should.

    Begin with 0 and add every a[i][t] * b[t][j].
    """
    fit(a, b)
    return [[row[-1] * x for x in b[-1]] for row in a]


@mistake(of="matmul", caught_by=test_matmul)
def last_term_left_out(a, b):
    """The last term of every sum is left out.

    range(n) ends at n - 1 by itself: range(len(b)), not range(len(b) - 1).
    """
    fit(a, b)
    return [[dot(row[:-1], column[:-1]) for column in plain_transpose(b)] for row in a]


@mistake(of="matmul", caught_by=test_matmul)
def sums_cut_to_whole_numbers(a, b):
    """The sums are whole numbers: `int` or `//` cuts off what comes after the point.

    Leave the numbers as they are.
    """
    return [[int(x) for x in row] for row in plain_matmul(a, b)]


@mistake(of="matmul", caught_by=test_matmul_refuses)
def cut_to_the_shorter(a, b):
    """Rows and columns that do not fit are cut to the shorter of the two: `zip` does that silently.

    Compare len(a[0]) with len(b) first, and raise a ValueError that names both.
    """
    columns = plain_transpose(b)
    return [[sum(x * y for x, y in zip(row, c, strict=False)) for c in columns] for row in a]


@mistake(of="matmul", caught_by=test_matmul_refuses)
def single_row_fits_all(a, b):
    """A `b` of a single row is let through, whatever the width of `a` is.

    One row fits only an `a` of one column: compare len(a[0]) with len(b) for every size.
    """
    return cut_to_the_shorter(a, b) if len(b) == 1 else plain_matmul(a, b)


@mistake(of="matmul", caught_by=test_matmul_refuses)
def wrong_numbers_compared(a, b):
    """The number of rows of `a` is compared with that of `b`.

    The rows of `a` must be as long as `b` has rows: len(a[0]) and len(b).
    """
    if len(a) != len(b) and len(a[0]) != len(b):
        raise ValueError(f"{len(a)} rows and {len(b)} rows")
    return cut_to_the_shorter(a, b)


@mistake(of="matmul", caught_by=test_matmul_refuses)
def refusal_lists_numbers(a, b):
    """The ValueError for matrices that do not fit lists numbers, whatever their sizes are.

    Put the two sizes in the message: f"rows of {len(a[0])} numbers, but {len(b)} rows".
    """
    try:
        return plain_matmul(a, b)
    except ValueError:
        raise ValueError(f"one of {list(range(128))} does not fit") from None


@mistake(of="matmul", caught_by=test_matmul, null=True)
def zeros_for_a_product(a, b):
    """The product is all zeros: what is computed never gets into it.

    Write each sum into its place, product[i][j], or build the rows from the sums.
    """
    return [[0.0 for _ in b[0]] for _ in a]


# transpose


@mistake(of="transpose", caught_by=test_transpose)
def columns_as_tuples(a):
    """The columns are tuples: `zip` makes no lists.

    [list(column) for column in zip(*a)].
    """
    return list(zip(*a, strict=True))


@mistake(of="transpose", caught_by=test_transpose)
def turned_by_a_quarter(a):
    """The matrix is turned by a quarter: the numbers of each column run from the bottom up.

    Row j of the answer is [row[j] for row in a], with the rows of `a` in their order.
    """
    return plain_transpose(a[::-1])


@mistake(of="transpose", caught_by=test_transpose)
def no_rows_have_no_first_row(a):
    """No rows at all end in an IndexError: there is no a[0] to take the width from.

    zip(*a) needs no width; or answer [] if there are no rows.
    """
    return [[row[j] for row in a] for j in range(len(a[0]))]


@mistake(of="transpose", caught_by=test_transpose)
def rows_without_a_number_as_they_are(a):
    """Rows without a number come back as rows, because a matrix without a number was left alone.

    Of n rows of 0 numbers make 0 rows of n numbers: [].
    """
    return plain_transpose(a) if a and a[0] else list(a)


@mistake(of="transpose", caught_by=test_transpose)
def transposed_in_place(a):
    """The caller's own list is turned: its rows are written over.

    Build a new list of new rows, and leave `a` as it is.
    """
    a[:] = plain_transpose(a)
    return a


@mistake(of="transpose", caught_by=test_transpose, null=True)
def rows_as_they_are(a):
    """The rows come back as rows.

    Row j of the answer is made of what stands at place j of every row.
    """
    return [list(row) for row in a]


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


# apply_mask


@mistake(of="apply_mask", caught_by=test_mask)
def zero_taken_for_hidden(scores, keep):
    """A kept score of 0 becomes -inf: `kept and score or -math.inf` takes 0 for False.

    Write `score if kept else -math.inf`.
    """
    pairs = [zip(*both, strict=True) for both in zip(scores, keep, strict=True)]
    return [[(kept and score) or -math.inf for score, kept in row] for row in pairs]


@mistake(of="apply_mask", caught_by=test_mask)
def mask_inverted(scores, keep):
    """What should be kept is hidden, and what should be hidden is kept.

    True means "may attend": the score where `keep` is True, -math.inf where it is False.
    """
    return plain_apply_mask(scores, [[not seen for seen in row] for row in keep])


def filled(scores, keep, number):
    """Another number than -inf in the hidden places."""
    return [
        [number if x == -math.inf and not seen else x for x, seen in zip(row, mask, strict=True)]
        for row, mask in zip(plain_apply_mask(scores, keep), keep, strict=True)
    ]


@mistake(of="apply_mask", caught_by=test_mask)
def filled_with_zero(scores, keep):
    """Hidden scores become 0, which is a score like any other: its exponential is 1.

    Put -math.inf there, whose exponential is 0.
    """
    return filled(scores, keep, 0.0)


@mistake(of="apply_mask", caught_by=test_mask)
def filled_with_a_finite_number(scores, keep):
    """Hidden scores become -1e9, so that a row that sees nothing shares its weight out equally.

    Put -math.inf there.
    """
    return filled(scores, keep, -1e9)


def changed(scores, keep, change):
    """Hidden scores are computed with instead of replaced."""
    return [
        [x if seen else change(x) for x, seen in zip(row, mask, strict=True)]
        for row, mask in zip(scores, keep, strict=True)
    ]


@mistake(of="apply_mask", caught_by=test_mask)
def minus_infinity_added(scores, keep):
    """-inf is added to hidden scores, and with NaN or inf that gives NaN.

    Put -math.inf in the place of the score: x if seen else -math.inf.
    """
    return changed(scores, keep, lambda x: x - math.inf)


@mistake(of="apply_mask", caught_by=test_mask)
def multiplied_with_the_mask(scores, keep):
    """The scores are multiplied with the mask, which makes hidden ones 0 or NaN.

    Put -math.inf in the place of a hidden score.
    """
    return changed(scores, keep, lambda x: x * 0)


@mistake(of="apply_mask", caught_by=test_mask)
def masked_in_place(scores, keep):
    """The mask is written into the caller's scores.

    Build a new list for each row.
    """
    scores[:] = plain_apply_mask(scores, keep)
    return scores


@mistake(of="apply_mask", caught_by=test_mask, null=True)
def mask_ignored(scores, keep):
    """The scores come back as they are: nothing is hidden.

    Put -math.inf where `keep` is False.
    """
    return [list(row) for row in scores]


# attention


@mistake(of="attention", caught_by=test_attention)
def scale_missing(q, k, v, keep=None):
    """The scores are not divided by sqrt(D).

    Multiply each with 1 / math.sqrt(len(k[0])).
    """
    return plain_attention(q, k, v, keep, scale=1.0)


@mistake(of="attention", caught_by=test_attention)
def small_weights_left_out(q, k, v, keep=None):
    """Weights below 1e-9 are left out of the output, as if their keys were hidden.

    A small weight counts: leave out what has the weight 0, and nothing else.
    """
    _, weights = plain_attention(q, k, v, keep)
    output = [
        [
            sum(w * row[d] for w, row in zip(one, v, strict=True) if w > 1e-9)
            for d in range(len(v[0]))
        ]
        for one in weights
    ]
    return output, weights


@mistake(of="attention", caught_by=test_attention)
def divided_by_d(q, k, v, keep=None):
    """The scores are divided by D where its square root belongs.

    The spread of a dot product grows with the root of the width: math.sqrt(len(k[0])).
    """
    return plain_attention(q, k, v, keep, scale=1 / len(k[0]))


@mistake(of="attention", caught_by=test_attention)
def scale_of_the_values(q, k, v, keep=None):
    """The scale comes from the width of the values.

    D is the width of queries and keys: len(k[0]).
    """
    return plain_attention(q, k, v, keep, scale=1 / math.sqrt(len(v[0])))


@mistake(of="attention", caught_by=test_attention)
def scale_one_per_cent_off(q, k, v, keep=None):
    """The scale is not quite 1 / sqrt(D).

    Use math.sqrt(len(k[0])) itself: no constant added to it, no rounded number.
    """
    return plain_attention(q, k, v, keep, scale=0.99 / math.sqrt(len(k[0])))


@mistake(of="attention", caught_by=test_attention)
def weights_of_the_queries(q, k, v, keep=None):
    """The weights of each key sum to one over the queries.

    Each query shares out one whole weight over the keys: softmax of the rows of Lk scores.
    """

    def columns(scores):
        return plain_transpose(plain_row_softmax(plain_transpose(scores)))

    return plain_attention(q, k, v, keep, soften=columns)


@mistake(of="attention", caught_by=test_attention)
def scores_come_back(q, k, v, keep=None):
    """The second thing that comes back is the scores, before the softmax.

    Return the output and the weights.
    """
    output, _ = plain_attention(q, k, v, keep)
    return output, plain_attention(q, k, v, keep, soften=lambda scores: scores)[1]


@mistake(of="attention", caught_by=test_attention)
def weights_before_output(q, k, v, keep=None):
    """The weights come back first and the output second.

    Return (output, weights).
    """
    return plain_attention(q, k, v, keep)[::-1]


@mistake(of="attention", caught_by=test_attention_mask)
def masked_after_the_softmax(q, k, v, keep=None):
    """The weights are masked after the softmax, so that the rest sum to less than one.

    Mask the scores, then take the softmax.
    """
    output, weights = plain_attention(q, k, v)
    if keep is None:
        return output, weights
    seen = [
        [w * kept for w, kept in zip(row, mask, strict=True)]
        for row, mask in zip(weights, keep, strict=True)
    ]
    return [[dot(row, column) for column in plain_transpose(v)] for row in seen], seen


@mistake(of="attention", caught_by=test_attention_mask)
def zero_times_nan(q, k, v, keep=None):
    """Hidden values are multiplied with a weight of 0, and 0 times NaN or inf is NaN.

    Leave them out of the sum: ... for j in range(len(v)) if row[j].
    """
    _, weights = plain_attention(q, k, v, keep)
    return [[dot(row, column) for column in plain_transpose(v)] for row in weights], weights


@mistake(of="attention", caught_by=test_attention_mask)
def mask_forgotten(q, k, v, keep=None):
    """The mask plays no part: hidden keys get weight.

    Unless `keep` is None, apply_mask comes between scores and softmax.
    """
    return plain_attention(q, k, v)


@mistake(of="attention", caught_by=test_attention_mask)
def attention_inverts_the_mask(q, k, v, keep=None):
    """The mask is turned round: the queries see what should be hidden from them.

    True means "may attend".
    """
    return plain_attention(q, k, v, keep, hide=mask_inverted)


@mistake(of="attention", caught_by=test_attention_mask)
def hidden_with_minus_1e9(q, k, v, keep=None):
    """A query that sees nothing answers with the mean of all, as if hidden scores were -1e9.

    Hide them with -math.inf, and answer such a query with zeros.
    """
    return plain_attention(q, k, v, keep, hide=filled_with_a_finite_number)


@mistake(of="attention", caught_by=test_attention, null=True)
def zeros(q, k, v, keep=None):
    """Output and weights are zeros.

    Weigh the values by softmax(q k^T / sqrt(D)).
    """
    return [[0.0] * len(v[0]) for _ in q], [[0.0] * len(k) for _ in q]


@mistake(of="attention", caught_by=test_attention, null=True)
def mean_of_the_values(q, k, v, keep=None):
    """Every query answers with the mean of the values: the scores play no part.

    Weigh the values by softmax(q k^T / sqrt(D)).
    """
    return plain_attention(q, k, v, soften=equal_weights)


@mistake(of="attention", caught_by=test_attention, null=True)
def best_key_only(q, k, v, keep=None):
    """Every query answers with the value of its best key alone.

    Softmax shares the weight out over all keys.
    """
    return plain_attention(q, k, v, soften=winner_takes_all)


@mistake(of="attention", caught_by=test_attention, null=True)
def values_come_back(q, k, v, keep=None):
    """The values come back as the output: nothing was attended to.

    The output is the product of the weights and `v`.
    """
    rows = [(v * len(q))[i] for i in range(len(q))]
    return [list(row) for row in rows], [
        [float(i == j) for j in range(len(k))] for i in range(len(q))
    ]
