"""Wrong answers to `softmax_backward`."""

import numpy as np

from grader.judging import mistake
from grader.judging.one_place import written_over
from reference.ex09_gradients import (
    plain_softmax_backward,
)

from ..test_gradients import (
    test_float64,
    test_softmax,
    test_softmax_manners,
    test_softmax_rows,
)
from .shared import raised

# softmax_backward


def row_by_row(weights, grad_weights, formula):
    """`formula(w, g)` in float32 or better, in the dtype of the weights."""
    with np.errstate(all="ignore"):
        return formula(raised(weights), raised(grad_weights)).astype(weights.dtype)


@mistake(of="softmax_backward", caught_by=test_softmax)
def row_sum_missing(weights, grad_weights):
    """The gradient is multiplied with the weights, and the sum over the row is missing.

    Raising one score takes weight from all others: w * (g - (w * g).sum(-1, keepdims=True)).
    """
    return row_by_row(weights, grad_weights, lambda w, g: w * g)


@mistake(of="softmax_backward", caught_by=test_softmax)
def diagonal_only(weights, grad_weights):
    """Only each score's own weight is looked at, w * (1 - w): that is the derivative of a sigmoid.

    A score moves all weights of its row: subtract the whole sum of w * g.
    """
    return row_by_row(weights, grad_weights, lambda w, g: w * (1 - w) * g)


@mistake(of="softmax_backward", caught_by=test_softmax)
def sum_without_the_weights(weights, grad_weights):
    """The gradients of a row are summed as they are, not weighed.

    The sum is of w * g: (weights * grad_weights).sum(-1, keepdims=True).
    """
    return row_by_row(weights, grad_weights, lambda w, g: w * (g - g.sum(-1, keepdims=True)))


@mistake(of="softmax_backward", caught_by=test_softmax)
def summed_over_the_wrong_axis(weights, grad_weights):
    """The sum runs over the rows, not over the entries of one row.

    The softmax was taken over the last axis: sum over axis=-1.
    """
    axis = max(-2, -weights.ndim)
    return row_by_row(
        weights, grad_weights, lambda w, g: w * (g - (w * g).sum(axis, keepdims=True))
    )


@mistake(of="softmax_backward", caught_by=test_softmax)
def summed_over_everything(weights, grad_weights):
    """One sum over the whole array is subtracted from every row.

    Each row has a sum of its own: axis=-1, keepdims=True.
    """
    return row_by_row(weights, grad_weights, lambda w, g: w * (g - (w * g).sum()))


@mistake(of="softmax_backward", caught_by=test_softmax)
def summed_axis_dropped(weights, grad_weights):
    """The sum has lost its axis, so that it is subtracted along the wrong one.

    Keep it: .sum(axis=-1, keepdims=True).
    """
    return row_by_row(weights, grad_weights, lambda w, g: w * (g - (w * g).sum(-1)))


@mistake(of="softmax_backward", caught_by=test_softmax)
def sign_flipped(weights, grad_weights):
    """The sign is flipped: the gradients point downhill.

    w * (g - total), not w * (total - g); the step against the gradient is the optimizer's.
    """
    return row_by_row(weights, grad_weights, lambda w, g: -plain_softmax_backward(w, g))


@mistake(of="softmax_backward", caught_by=test_softmax)
def weights_not_multiplied(weights, grad_weights):
    """The bracket is not multiplied with the weights.

    w * (g - total): a weight near 0 hardly moves.
    """
    return row_by_row(weights, grad_weights, lambda w, g: g - (w * g).sum(-1, keepdims=True))


@mistake(of="softmax_backward", caught_by=test_softmax)
def sum_not_multiplied(weights, grad_weights):
    """The sum is subtracted as it is, and only the gradient is multiplied with the weights.

    Both are: w * g - w * total, which is w * (g - total).
    """
    return row_by_row(weights, grad_weights, lambda w, g: w * g - (w * g).sum(-1, keepdims=True))


@mistake(of="softmax_backward", caught_by=test_softmax)
def weights_taken_for_scores(weights, grad_weights):
    """The softmax is taken once more, of the weights.

    What comes in has been through the softmax already: use it as it is.
    """

    def again(w, g):
        powers = np.exp(w)
        return plain_softmax_backward(powers / powers.sum(-1, keepdims=True), g)

    return row_by_row(weights, grad_weights, again)


@mistake(of="softmax_backward", caught_by=test_softmax_rows)
def rows_of_zeros_divided(weights, grad_weights):
    """A row of zero weights becomes NaN: it is divided by its own sum.

    Divide by nothing: w * (g - (w * g).sum(-1, keepdims=True)) gives zeros for such a row.
    """
    return row_by_row(
        weights,
        grad_weights,
        lambda w, g: plain_softmax_backward(w / w.sum(-1, keepdims=True), g),
    )


@mistake(of="softmax_backward", caught_by=test_softmax_manners)
def softmax_half_not_raised(weights, grad_weights):
    """float16 is computed in float16, where the difference of two large gradients is infinite.

    Go to float32 first, with .astype(np.float32), and back at the end.
    """
    with np.errstate(all="ignore"):
        return plain_softmax_backward(weights, grad_weights)


@mistake(of="softmax_backward", caught_by=test_softmax_manners)
def products_in_half(weights, grad_weights):
    """The products of weights and gradients are made in float16, where small ones become 0.

    Go to float32 before the first product, with .astype(np.float32).
    """
    w, g = raised(weights), raised(grad_weights)
    total = raised(weights * grad_weights).sum(-1, keepdims=True)
    return (w * (g - total)).astype(weights.dtype)


@mistake(of="softmax_backward", caught_by=test_softmax_manners)
def softmax_left_in_float32(weights, grad_weights):
    """The gradient of float16 weights comes back in float32.

    Convert it back: .astype(weights.dtype).
    """
    return plain_softmax_backward(raised(weights), raised(grad_weights))


@mistake(of="softmax_backward", caught_by=test_float64)
def softmax_float64_lowered(weights, grad_weights):
    """float64 is computed in float32, and the digits are gone.

    Raise float16 only.
    """
    w, g = weights.astype(np.float32), grad_weights.astype(np.float32)
    return plain_softmax_backward(w, g).astype(weights.dtype)


@mistake(of="softmax_backward", caught_by=test_softmax_manners)
def gradient_overwritten(weights, grad_weights):
    """The caller's grad_weights is overwritten: `-=` works in place.

    Write grad_weights - total, which makes a new array.
    """
    answer = row_by_row(weights, grad_weights, plain_softmax_backward)
    grad_weights -= grad_weights.mean(-1, keepdims=True)
    return answer


@mistake(of="softmax_backward", caught_by=test_softmax, null=True)
def gradient_passed_on(weights, grad_weights):
    """The gradient of the weights comes back as that of the scores.

    In between lies the softmax: w * (g - (w * g).sum(-1, keepdims=True)).
    """
    return grad_weights.copy()


@mistake(of="softmax_backward", caught_by=test_softmax, null=True)
def no_gradient(weights, grad_weights):
    """The gradient is zeros everywhere.

    It is w * (g - (w * g).sum(-1, keepdims=True)).
    """
    return np.zeros_like(weights)


@mistake(of="softmax_backward", caught_by=test_softmax)
def sum_over_256_places(weights, grad_weights):
    """The sum runs over the first 256 places of a row, whatever its length.

    A row may be as long as it likes: sum over the whole last axis.
    """

    def cut(w, g):
        return w * (g - (w * g)[..., :256].sum(-1, keepdims=True))

    return row_by_row(weights, grad_weights, cut)


@mistake(of="softmax_backward", caught_by=test_softmax_rows)
def row_with_a_zero_taken_for_hidden(weights, grad_weights):
    """A row that has one weight of 0 in it gets zeros everywhere.

    Only a row whose weights are all 0 saw nothing; the formula gives that by itself.
    """
    right = row_by_row(weights, grad_weights, plain_softmax_backward)
    return np.where((weights == 0).any(-1, keepdims=True), right.dtype.type(0), right)


@mistake(of="softmax_backward", caught_by=test_softmax_manners)
def answer_kept_by_identity(weights, grad_weights, kept={}):  # noqa: B006
    """An answer is kept under the id of its input, and given again when the numbers have changed.

    An array can be changed in place: compute in every call.
    """
    name = id(weights), id(grad_weights), weights.shape
    if name not in kept:
        kept[name] = (
            row_by_row(weights, grad_weights, plain_softmax_backward),
            weights,
            grad_weights,
        )
    return kept[name][0]


@mistake(of="softmax_backward", caught_by=test_softmax_manners)
def softmax_in_one_place(weights, grad_weights, places={}):  # noqa: B006 (that is the mistake)
    """Every answer of a form is written into the same memory, over the answer before it.

    Return a new array in every call.
    """
    return written_over(places, row_by_row(weights, grad_weights, plain_softmax_backward))
