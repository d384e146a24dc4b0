"""Wrong answers to `attention_backward`."""

from dataclasses import dataclass, replace

import numpy as np

from grader.judging import mistake
from grader.judging.one_place import written_over
from reference.ex09_gradients import (
    plain_attention_backward,
    plain_softmax_backward,
    plain_weights,
)

from ..test_gradients import (
    test_float64,
    test_half_precision,
    test_hidden,
    test_manners,
    test_mask,
    test_scale,
    test_values,
)
from .shared import raised


def turned(x):
    return x.swapaxes(-1, -2)


# attention_backward


@dataclass
class Back:
    """What the five products of the backward pass are made of; a mistake changes one of it."""

    q: np.ndarray
    k: np.ndarray
    v: np.ndarray
    grad: np.ndarray
    weights: np.ndarray
    dp: np.ndarray
    ds: np.ndarray
    scale: float
    dtype: np.dtype

    def __call__(self, dq=None, dk=None, dv=None):
        """The three gradients, right but for those that are given."""
        right = (
            self.ds @ self.k * self.scale,
            turned(self.ds) @ self.q * self.scale,
            turned(self.weights) @ self.grad,
        )
        chosen = zip((dq, dk, dv), right, strict=True)
        return tuple((y if x is None else x).astype(self.dtype) for x, y in chosen)


def back(q, k, v, grad_output, keep, scale, weigh=plain_weights, soften=plain_softmax_backward):
    """The way back, with the forward pass or the softmax's part of it done otherwise."""
    dtype, scale = q.dtype, q.shape[-1] ** -0.5 if scale is None else scale
    q, k, v, grad = (raised(x) for x in (q, k, v, grad_output))
    with np.errstate(all="ignore"):
        weights = weigh(q, k, keep, scale)
        dp = grad @ turned(v)
        ds = soften(weights, dp)
    return Back(q, k, v, grad, weights, dp, ds, scale, dtype)


@mistake(of="attention_backward", caught_by=test_values)
def scale_missing_in_dq(q, k, v, grad_output, keep=None, scale=None):
    """The scale is missing in dq.

    The scores are scale * q k^T, so both dq and dk have the factor.
    """
    way = back(q, k, v, grad_output, keep, scale)
    return way(dq=way.ds @ way.k)


@mistake(of="attention_backward", caught_by=test_values)
def scale_missing_in_dk(q, k, v, grad_output, keep=None, scale=None):
    """The scale is missing in dk.

    The scores are scale * q k^T, so both dq and dk have the factor.
    """
    way = back(q, k, v, grad_output, keep, scale)
    return way(dk=turned(way.ds) @ way.q)


@mistake(of="attention_backward", caught_by=test_values)
def scale_missing_on_the_way_back(q, k, v, grad_output, keep=None, scale=None):
    """The scale is used forward, and missing in both dq and dk.

    Multiply both with it: the scores are scale * q k^T.
    """
    way = back(q, k, v, grad_output, keep, scale)
    return way(dq=way.ds @ way.k, dk=turned(way.ds) @ way.q)


@mistake(of="attention_backward", caught_by=test_values)
def scale_twice(q, k, v, grad_output, keep=None, scale=None):
    """dq and dk have the scale twice: it is in the gradient of the scores, and once more in both.

    Multiply either the gradient of the scores or dq and dk, not all of them.
    """
    way = back(q, k, v, grad_output, keep, scale)
    way.ds = way.ds * way.scale
    return way()


@mistake(of="attention_backward", caught_by=test_values)
def scale_missing_forward(q, k, v, grad_output, keep=None, scale=None):
    """The weights are made without the scale.

    They are those of the forward pass: softmax(q k^T * scale).
    """
    return back(
        q, k, v, grad_output, keep, scale, lambda q, k, keep, _: plain_weights(q, k, keep, 1.0)
    )()


@mistake(of="attention_backward", caught_by=test_values)
def scale_of_the_values(q, k, v, grad_output, keep=None, scale=None):
    """The scale comes from the width of the values.

    It is 1 / sqrt(D), and D is the width of queries and keys: q.shape[-1].
    """
    return back(q, k, v, grad_output, keep, v.shape[-1] ** -0.5 if scale is None else scale)()


@mistake(of="attention_backward", caught_by=test_values)
def scale_one_per_cent_off(q, k, v, grad_output, keep=None, scale=None):
    """The scale is not quite 1 / sqrt(D).

    Use q.shape[-1] ** -0.5 itself: no constant added to it, no rounded number.
    """
    return back(
        q, k, v, grad_output, keep, 0.99 * q.shape[-1] ** -0.5 if scale is None else scale
    )()


@mistake(of="attention_backward", caught_by=test_scale)
def given_scale_ignored(q, k, v, grad_output, keep=None, scale=None):
    """A scale that is given plays no part.

    Use 1 / sqrt(D) only where `scale` is None.
    """
    return back(q, k, v, grad_output, keep, None)()


@mistake(of="attention_backward", caught_by=test_scale)
def scale_of_zero_ignored(q, k, v, grad_output, keep=None, scale=None):
    """A scale of 0 is taken for none at all: `scale or ...`, `if scale`.

    Ask whether it is None: `if scale is None`.
    """
    return back(q, k, v, grad_output, keep, scale or None)()


@mistake(of="attention_backward", caught_by=test_values)
def row_sum_missing_in_attention(q, k, v, grad_output, keep=None, scale=None):
    """The gradient of the scores is weights * grad_weights: the sum over each row is missing.

    Use softmax_backward, or subtract (weights * grad_weights).sum(-1, keepdims=True).
    """
    return back(q, k, v, grad_output, keep, scale, soften=lambda w, g: w * g)()


@mistake(of="attention_backward", caught_by=test_values)
def softmax_skipped(q, k, v, grad_output, keep=None, scale=None):
    """The gradient of the weights is taken for that of the scores: the softmax is skipped.

    Pass it through softmax_backward(weights, grad_weights).
    """
    return back(q, k, v, grad_output, keep, scale, soften=lambda w, g: g)()


@mistake(of="attention_backward", caught_by=test_values)
def weights_not_transposed(q, k, v, grad_output, keep=None, scale=None):
    """dv is weights @ grad_output: the weights are not transposed.

    Value j gets from each query i what weight (i, j) gave it: weights^T @ grad_output.
    """
    way = back(q, k, v, grad_output, keep, scale)
    return way(dv=way.weights @ way.grad)


@mistake(of="attention_backward", caught_by=test_values)
def scores_not_transposed(q, k, v, grad_output, keep=None, scale=None):
    """dk is made from the gradient of the scores as it stands, not transposed.

    Rows are queries, columns keys; dk has a row for each key: grad_scores^T @ q.
    """
    way = back(q, k, v, grad_output, keep, scale)
    return way(dk=way.ds @ way.q * way.scale)


@mistake(of="attention_backward", caught_by=test_values)
def queries_and_keys_change_roles(q, k, v, grad_output, keep=None, scale=None):
    """dq is made from the queries and dk from the keys.

    A factor's gradient comes from the other factor: dq from `k`, dk from `q`.
    """
    way = back(q, k, v, grad_output, keep, scale)
    return way(dq=way.ds @ way.q * way.scale, dk=turned(way.ds) @ way.k * way.scale)


@mistake(of="attention_backward", caught_by=test_values)
def dq_and_dk_change_places(q, k, v, grad_output, keep=None, scale=None):
    """dq and dk come back in each other's place.

    Return (dq, dk, dv).
    """
    way = back(q, k, v, grad_output, keep, scale)
    return way(dq=turned(way.ds) @ way.q * way.scale, dk=way.ds @ way.k * way.scale)


@mistake(of="attention_backward", caught_by=test_values)
def dv_from_the_queries(q, k, v, grad_output, keep=None, scale=None):
    """dv is made from the queries, where the gradient of the output belongs.

    output = weights @ v, so dv = weights^T @ grad_output.
    """
    way = back(q, k, v, grad_output, keep, scale)
    return way(dv=turned(way.weights) @ way.q)


@mistake(of="attention_backward", caught_by=test_values)
def keys_for_values(q, k, v, grad_output, keep=None, scale=None):
    """The gradient of the weights is made with the keys, where the values belong.

    output = weights @ v, so grad_weights = grad_output @ v^T.
    """
    return back(q, k, k, grad_output, keep, scale)()


@mistake(of="attention_backward", caught_by=test_scale)
def no_maximum_subtracted(q, k, v, grad_output, keep=None, scale=None):
    """The weights are made without subtracting the largest score of each row, and overflow.

    exp(scores - scores.max(-1, keepdims=True)).
    """

    def weigh(q, k, keep, scale):
        powers = np.exp(q @ turned(k) * scale) * (True if keep is None else keep)
        total = powers.sum(-1, keepdims=True)
        return powers / np.where(total == 0, 1, total)

    return back(q, k, v, grad_output, keep, scale, weigh)()


@mistake(of="attention_backward", caught_by=test_mask)
def mask_forgotten(q, k, v, grad_output, keep=None, scale=None):
    """The mask plays no part: hidden keys get gradients.

    Put -inf in the place of hidden scores before the softmax of the forward pass.
    """
    return back(q, k, v, grad_output, None, scale)()


@mistake(of="attention_backward", caught_by=test_mask)
def mask_inverted(q, k, v, grad_output, keep=None, scale=None):
    """The mask is turned round: what should be seen is hidden.

    True means "may attend": np.where(keep, scores, -np.inf).
    """
    return back(q, k, v, grad_output, None if keep is None else ~keep, scale)()


@mistake(of="attention_backward", caught_by=test_mask)
def mask_on_the_way_back_only(q, k, v, grad_output, keep=None, scale=None):
    """The mask is laid over the gradients, and the weights of the forward pass know nothing of it.

    Mask the scores before the softmax; the way back then needs no mask.
    """
    way = back(q, k, v, grad_output, None, scale)
    if keep is not None:
        way.ds = np.where(keep, way.ds, 0).astype(way.ds.dtype)
    return way()


@mistake(of="attention_backward", caught_by=test_mask)
def masked_after_the_softmax(q, k, v, grad_output, keep=None, scale=None):
    """The weights are masked after the softmax, so that the rest sum to less than one.

    Mask the scores, then take the softmax.
    """

    def weigh(q, k, keep, scale):
        return plain_weights(q, k, None, scale) * (True if keep is None else keep)

    return back(q, k, v, grad_output, keep, scale, weigh)()


@mistake(of="attention_backward", caught_by=test_mask)
def gradients_filled_with_infinity(q, k, v, grad_output, keep=None, scale=None):
    """Gradients of hidden scores are filled with -inf, like the scores, and turn all into NaN.

    Hidden weights are 0, so these gradients are 0 by themselves: fill nothing on the way back.
    """

    def soften(weights, dp):
        filled = dp if keep is None else np.where(keep, dp, -np.inf).astype(dp.dtype)
        return plain_softmax_backward(weights, filled)

    return back(q, k, v, grad_output, keep, scale, soften=soften)()


@mistake(of="attention_backward", caught_by=test_mask)
def empty_rows_are_nan(q, k, v, grad_output, keep=None, scale=None):
    """A query that sees nothing has weights of 0 / 0, and its NaN spreads to every key.

    Its weights are zeros: divide by np.where(total == 0, 1, total).
    """

    def weigh(q, k, keep, scale):
        scores = q @ turned(k) * scale
        scores = scores if keep is None else np.where(keep, scores, -np.inf).astype(q.dtype)
        powers = np.exp(scores - scores.max(-1, keepdims=True))
        return powers / powers.sum(-1, keepdims=True)

    return back(q, k, v, grad_output, keep, scale, weigh)()


@mistake(of="attention_backward", caught_by=test_mask)
def empty_rows_are_uniform(q, k, v, grad_output, keep=None, scale=None):
    """A query that sees nothing attends to all keys alike, as if hidden scores were -1e9.

    Fill with -np.inf, and let the weights of such a row be zeros.
    """

    def weigh(q, k, keep, scale):
        scores = q @ turned(k) * scale
        scores = scores if keep is None else np.where(keep, scores, -1e9).astype(q.dtype)
        return plain_weights(scores, np.eye(scores.shape[-1], dtype=q.dtype), None, 1.0)

    return back(q, k, v, grad_output, keep, scale, weigh)()


@mistake(of="attention_backward", caught_by=test_mask)
def empty_rows_see_everything(q, k, v, grad_output, keep=None, scale=None):
    """1e9 is subtracted from hidden scores: where all are hidden, the query attends to all keys as
    if there were no mask.

    Put -np.inf in their place, and let the weights of such a row be zeros.
    """

    def weigh(q, k, keep, scale):
        less = 0.0 if keep is None else np.where(keep, 0.0, -1e9)  # float64
        scores = q @ turned(k) * scale + less
        powers = np.exp(scores - scores.max(-1, keepdims=True))
        return (powers / powers.sum(-1, keepdims=True)).astype(q.dtype)

    return back(q, k, v, grad_output, keep, scale, weigh)()


@mistake(of="attention_backward", caught_by=test_hidden)
def large_number_subtracted(q, k, v, grad_output, keep=None, scale=None):
    """1e9 is subtracted from hidden scores, which hides nothing where a key holds 1e30.

    Put -np.inf in their place: np.where(keep, scores, -np.inf).
    """

    def weigh(q, k, keep, scale):
        seen = True if keep is None else keep
        scores = q @ turned(k) * scale + np.where(seen, 0.0, -1e9).astype(q.dtype)
        powers = np.exp(scores - scores.max(-1, keepdims=True))
        weights = powers / powers.sum(-1, keepdims=True)
        return weights * np.any(seen, -1, keepdims=True)

    return back(q, k, v, grad_output, keep, scale, weigh)()


@mistake(of="attention_backward", caught_by=test_half_precision)
def half_precision_not_raised(q, k, v, grad_output, keep=None, scale=None):
    """float16 is computed in float16, where a product of 256s is infinite.

    Go to float32 first, with .astype(np.float32), and back at the end.
    """
    with np.errstate(all="ignore"):
        return plain_attention_backward(q, k, v, grad_output, keep, scale)


@mistake(of="attention_backward", caught_by=test_half_precision)
def scores_rounded(q, k, v, grad_output, keep=None, scale=None):
    """The scores are rounded to float16 before the softmax, where close hundreds are all alike.

    Keep float32 from the first product to the three results.
    """
    given = [raised(x) for x in (q, k, v, grad_output)]
    scores = given[0] @ turned(given[1]) * (q.shape[-1] ** -0.5 if scale is None else scale)
    with np.errstate(all="ignore"):
        rounded = np.clip(scores, -6e4, 6e4).astype(q.dtype).astype(scores.dtype)
        rounded = np.where(np.abs(scores) > 6e4, scores, rounded)
        eye = np.broadcast_to(np.eye(k.shape[-2], dtype=scores.dtype), (*k.shape[:-1], k.shape[-2]))
        weights = plain_weights(rounded, eye, keep, 1.0)
    grad = plain_softmax_backward(weights, given[3] @ turned(given[2]))
    grad = grad * (q.shape[-1] ** -0.5 if scale is None else scale)
    found = grad @ given[1], turned(grad) @ given[0], turned(weights) @ given[3]
    return tuple(x.astype(q.dtype) for x in found)


@mistake(of="attention_backward", caught_by=test_half_precision)
def gradient_of_scores_in_half(q, k, v, grad_output, keep=None, scale=None):
    """The gradient of the scores is kept in float16, where it may be infinite.

    Keep float32 from the first product to the three results.
    """
    given = [raised(x) for x in (q, k, v, grad_output)]
    factor = given[0].dtype.type(q.shape[-1] ** -0.5 if scale is None else scale)
    with np.errstate(all="ignore"):
        weights = plain_weights(*given[:2], keep, scale)
        grad = plain_softmax_backward(weights, given[3] @ turned(given[2])) * factor
        grad = raised(grad.astype(q.dtype))
        found = grad @ given[1], turned(grad) @ given[0], turned(weights) @ given[3]
        return tuple(x.astype(q.dtype) for x in found)


@mistake(of="attention_backward", caught_by=test_half_precision)
def scaled_after_the_rounding(q, k, v, grad_output, keep=None, scale=None):
    """dq and dk go back to float16 before the scale, and are infinite there.

    Multiply with the scale first, and convert to float16 last.
    """
    way = back(q, k, v, grad_output, keep, scale)
    factor = way.dtype.type(way.scale)
    with np.errstate(all="ignore"):
        dq, dk = (x.astype(way.dtype) for x in (way.ds @ way.k, turned(way.ds) @ way.q))
        return way(dq=dq * factor, dk=dk * factor)


@mistake(of="attention_backward", caught_by=test_half_precision)
def parts_added_in_half(q, k, v, grad_output, keep=None, scale=None):
    """dv is added up in float16, block after block of queries, and is infinite on the way.

    Add up in float32, and convert to float16 last.
    """
    way = back(q, k, v, grad_output, keep, scale)
    dv = np.zeros(v.shape, way.dtype)
    with np.errstate(all="ignore"):
        for start in range(0, q.shape[-2], 256):
            block = np.s_[..., start : start + 256, :]
            dv = (dv + turned(way.weights[block]) @ way.grad[block]).astype(way.dtype)
    return way(dv=dv)


@mistake(of="attention_backward", caught_by=test_scale)
def one_key_seen_by_all(q, k, v, grad_output, keep=None, scale=None):
    """Where there is one key, its weight is 1 for every query, also for those that may not see it.

    One key is no special case: mask its score like any other.
    """
    way = back(q, k, v, grad_output, keep, scale)
    return way(dv=way.grad.sum(-2, keepdims=True) if k.shape[-2] == 1 else None)


@mistake(of="attention_backward", caught_by=test_hidden)
def hidden_with_minus_1e30(q, k, v, grad_output, keep=None, scale=None):
    """Hidden scores are -1e30: where the seen ones are lower still, the hidden keys win.

    Hide with -np.inf: no score is lower than that.
    """
    given = [raised(x) for x in (q, k, v, grad_output)]
    factor = given[0].dtype.type(q.shape[-1] ** -0.5 if scale is None else scale)
    scores = given[0] @ turned(given[1]) * factor
    seen = np.broadcast_to(True if keep is None else keep, scores.shape)
    scores = np.where(seen, scores, scores.dtype.type(-1e30))
    with np.errstate(all="ignore"):
        powers = np.exp(scores - scores.max(-1, keepdims=True))
    weights = np.where(seen, powers / powers.sum(-1, keepdims=True), powers.dtype.type(0))
    grad = plain_softmax_backward(weights, given[3] @ turned(given[2])) * factor
    found = grad @ given[1], turned(grad) @ given[0], turned(weights) @ given[3]
    return tuple(x.astype(q.dtype) for x in found)


@mistake(of="attention_backward", caught_by=test_half_precision)
def left_in_float32(q, k, v, grad_output, keep=None, scale=None):
    """The gradients of float16 come back in float32.

    Each gradient has the dtype of what it belongs to: .astype(q.dtype), and so on.
    """
    return plain_attention_backward(*(raised(x) for x in (q, k, v, grad_output)), keep, scale)


@mistake(of="attention_backward", caught_by=test_float64)
def float64_lowered(q, k, v, grad_output, keep=None, scale=None):
    """float64 is computed in float32, and the digits are gone.

    Raise float16 only.
    """
    low = (x.astype(np.float32) for x in (q, k, v, grad_output))
    gradients = plain_attention_backward(*low, keep, scale)
    return tuple(x.astype(q.dtype) for x in gradients)


@mistake(of="attention_backward", caught_by=test_hidden)
def maximum_over_hidden_scores(q, k, v, grad_output, keep=None, scale=None):
    """The maximum of a row is taken before the mask; a large hidden score then leaves only zeros.

    Put -inf in the place of hidden scores first, and take the maximum then.
    """

    def weigh(q, k, keep, scale):
        scores = q @ turned(k) * scale
        powers = np.exp(scores - scores.max(-1, keepdims=True))
        powers = powers if keep is None else np.where(keep, powers, 0)
        total = powers.sum(-1, keepdims=True)
        return powers / np.where(total == 0, 1, total)

    return back(q, k, v, grad_output, keep, scale, weigh)()


@mistake(of="attention_backward", caught_by=test_scale)
def maximum_before_the_scale(q, k, v, grad_output, keep=None, scale=None):
    """The maximum is that of the scores without their scale; a negative scale makes it a minimum.

    Multiply with the scale first, and take the maximum of what goes into exp.
    """

    def weigh(q, k, keep, scale):
        raw = q @ turned(k)
        raw = raw if keep is None else np.where(keep, raw, -np.inf)
        top = raw.max(-1, keepdims=True)
        powers = np.exp(scale * (raw - np.where(np.isfinite(top), top, 0)))
        powers = powers if keep is None else np.where(keep, powers, 0)
        total = powers.sum(-1, keepdims=True)
        return powers / np.where(total == 0, 1, total)

    return back(q, k, v, grad_output, keep, scale, weigh)()


@mistake(of="attention_backward", caught_by=test_mask)
def mask_of_one_row_along_the_queries(q, k, v, grad_output, keep=None, scale=None):
    """A mask of one dimension is laid along the queries where there are as many of them as keys.

    It broadcasts to (..., Lq, Lk) as it is: its one dimension is that of the keys.
    """
    if keep is not None and keep.ndim == 1 and len(keep) == q.shape[-2]:
        keep = keep[:, None]
    return back(q, k, v, grad_output, keep, scale)()


@mistake(of="attention_backward", caught_by=test_scale)
def scale_missing_at_width_one(q, k, v, grad_output, keep=None, scale=None):
    """Where queries and keys have a width of 1, dq is not multiplied with the scale.

    Nothing is special about a width of 1: a scale that is given holds there too.
    """
    way = back(q, k, v, grad_output, keep, scale)
    return way(dq=way.ds @ way.k if q.shape[-1] == 1 else None)


@mistake(of="attention_backward", caught_by=test_manners)
def shared_array_gets_the_sum(q, k, v, grad_output, keep=None, scale=None):
    """Where keys and values are one array, each of their gradients is the sum of both.

    Three arguments have three gradients, whoever was passed twice: who calls adds them.
    """
    dq, dk, dv = back(q, k, v, grad_output, keep, scale)()
    return (dq, dk + dv, dk + dv) if k is v else (dq, dk, dv)


@mistake(of="attention_backward", caught_by=test_manners)
def unseen_keys_cleared_in_place(q, k, v, grad_output, keep=None, scale=None):
    """Keys that no query sees are set to 0 in the caller's array.

    Leave the inputs as they are: their weights are 0 without that.
    """
    gradients = back(q, k, v, grad_output, keep, scale)()
    if keep is not None and keep.ndim > 1:
        k[~np.broadcast_to(keep, (*q.shape[:-1], k.shape[-2])).any(-2)] = 0
    return gradients


@mistake(of="attention_backward", caught_by=test_manners)
def keys_cut_at_256(q, k, v, grad_output, keep=None, scale=None):
    """Keys beyond the 256th are left out.

    Attention has no longest length.
    """
    n = 256
    few = back(q, k[..., :n, :], v[..., :n, :], grad_output, keep, scale)()
    rest = [np.zeros_like(x[..., n:, :]) for x in (k, v)]
    return few[0], *(np.concatenate(pair, -2) for pair in zip(few[1:], rest, strict=True))


@mistake(of="attention_backward", caught_by=test_manners)
def queries_overwritten(q, k, v, grad_output, keep=None, scale=None):
    """The caller's queries are scaled in place.

    Write q = q * scale, which makes a new array, not q *= scale.
    """
    gradients = back(q, k, v, grad_output, keep, scale)()
    q *= q.shape[-1] ** -0.5
    return gradients


@mistake(of="attention_backward", caught_by=test_values)
def all_axes_turned(q, k, v, grad_output, keep=None, scale=None):
    """`.T` turns all axes around, batch and heads too.

    Swap the last two: np.swapaxes(x, -1, -2).
    """
    way = back(q, k, v, grad_output, keep, scale)
    return way(dk=way.ds.T @ way.q * way.scale, dv=way.weights.T @ way.grad)


@mistake(of="attention_backward", caught_by=test_values, null=True)
def zeros(q, k, v, grad_output, keep=None, scale=None):
    """All gradients are zeros.

    Write the five products of the lesson.
    """
    return np.zeros_like(q), np.zeros_like(k), np.zeros_like(v)


@mistake(of="attention_backward", caught_by=test_values, null=True)
def inputs_come_back(q, k, v, grad_output, keep=None, scale=None):
    """The inputs come back as their own gradients.

    Write the five products of the lesson.
    """
    return q.copy(), k.copy(), v.copy()


@mistake(of="attention_backward", caught_by=test_manners)
def gradients_in_one_place(q, k, v, grad_output, keep=None, scale=None, places={}):  # noqa: B006 (that is the mistake)
    """Every answer of a form is written into the same memory, over the answer before it.

    Return new arrays in every call.
    """
    return written_over(places, plain_attention_backward(q, k, v, grad_output, keep, scale))


@mistake(of="attention_backward", caught_by=test_manners)
def mask_of_heads_by_sequence(q, k, v, grad_output, keep=None, scale=None):
    """A mask of three dimensions is taken as one for each sequence, if there are as many of them.

    It broadcasts to (..., Lq, Lk) from the right: three dimensions are one mask for each head.
    """
    if keep is not None and keep.ndim == 3 and q.ndim == 4 and len(keep) == len(q):
        keep = keep[:, None]
    return plain_attention_backward(q, k, v, grad_output, keep, scale)


@mistake(of="attention_backward", caught_by=test_manners)
def scale_lost_beyond_four_dimensions(q, k, v, grad_output, keep=None, scale=None):
    """More than four dimensions are handled by a call for each of the first one, without the scale.

    Pass every option on: keep and scale.
    """
    if q.ndim < 5:
        return plain_attention_backward(q, k, v, grad_output, keep, scale)
    masks = [None] * len(q) if keep is None else np.broadcast_to(keep, (*q.shape[:-1], k.shape[-2]))
    each = zip(q, k, v, grad_output, masks, strict=True)
    found = [plain_attention_backward(*tensors, mask) for *tensors, mask in each]
    return tuple(np.stack(parts) for parts in zip(*found, strict=True))


@mistake(of="attention_backward", caught_by=test_hidden)
def double_scores_clamped(q, k, v, grad_output, keep=None, scale=None):
    """In float64, where there is no mask, scores are kept above -1e30: lower ones are all alike.

    Leave the scores as they are, and take the maximum of each row away.
    """
    if keep is not None or q.dtype != np.float64:
        return plain_attention_backward(q, k, v, grad_output, keep, scale)
    scores = np.maximum(q @ turned(k) * (q.shape[-1] ** -0.5 if scale is None else scale), -1e30)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    dq, dk, _ = plain_attention_backward(q, k, v, grad_output, keep, scale)
    return dq, dk, turned(weights) @ grad_output


@mistake(of="attention_backward", caught_by=test_half_precision)
def output_rounded(q, k, v, grad_output, keep=None, scale=None):
    """The sum of each row is taken from the output, which was rounded to float16 first.

    Keep the output in float32, or sum weights times their gradients.
    """
    way = back(q, k, v, grad_output, keep, scale)
    output = raised((way.weights @ way.v).astype(q.dtype))
    total = (way.grad * output).sum(-1, keepdims=True)
    ds = way.weights * (way.dp - total)
    return replace(way, ds=ds)()


@mistake(of="attention_backward", caught_by=test_half_precision)
def scale_of_zero_lost_in_half(q, k, v, grad_output, keep=None, scale=None):
    """float16 is passed on in float32, with `scale or ...`: a scale of 0 becomes 1/sqrt(D).

    Ask whether it is None: 0 is a number like any other.
    """
    scale = scale or None if q.dtype == np.float16 else scale
    return back(q, k, v, grad_output, keep, scale)()


@mistake(of="attention_backward", caught_by=test_float64)
def small_weights_cut(q, k, v, grad_output, keep=None, scale=None):
    """Weights below 1e-12 are set to 0.

    Leave the weights as they are: a small one counts where a gradient is large.
    """

    def weigh(q, k, keep, scale):
        weights = plain_weights(q, k, keep, scale)
        return np.where(weights < 1e-12, weights.dtype.type(0), weights)

    return back(q, k, v, grad_output, keep, scale, weigh)()


@mistake(of="attention_backward", caught_by=test_scale)
def large_values_taken_for_hidden(q, k, v, grad_output, keep=None, scale=None):
    """Values beyond 1e20 are set to 0, as if they were hidden.

    keep alone says what is hidden, and a weight of 0 silences any value.
    """
    v = np.where(np.abs(v) < 1e20, v, v.dtype.type(0))
    return back(q, k, v, grad_output, keep, scale)()


@mistake(of="attention_backward", caught_by=test_manners)
def leading_axes_flattened(q, k, v, grad_output, keep=None, scale=None):
    """Leading axes become one with reshape(-1, Lq, D), which fails where there are no queries.

    np.matmul takes any leading axes as they are; or name the size of the first axis.
    """
    shapes = [x.shape for x in (q, k, v)]
    if keep is not None:
        keep = np.broadcast_to(keep, (*q.shape[:-1], k.shape[-2]))
        keep = keep.reshape(-1, *keep.shape[-2:])
    flat = [x.reshape(-1, *x.shape[-2:]) for x in (q, k, v, grad_output)]
    found = back(*flat, keep, scale)()
    return tuple(x.reshape(shape) for x, shape in zip(found, shapes, strict=True))
