"""Wrong answers to `attention`."""

import math

from grader.judging import mistake
from reference.ex00_plain_python import (
    dot,
    plain_attention,
    plain_row_softmax,
    plain_transpose,
)

from ..test_plain_python import (
    test_attention,
    test_attention_mask,
)
from .apply_mask import filled_with_a_finite_number, mask_inverted
from .row_softmax import equal_weights, winner_takes_all

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
