"""Wrong answers that show under a few conditions only."""

import numpy as np
import torch

from grader.judging import mistake
from grader.judging.one_place import written_over

from ..test_softmax import (
    test_dim,
    test_gradient,
    test_large_scores,
    test_manners,
    test_numpy_axis,
    test_numpy_large_scores,
    test_numpy_precisions,
    test_numpy_values,
    test_precisions,
    test_values,
)
from .shared import (
    HALVES,
    is_last,
    raised,
    shifted,
    shifted_array,
    shifted_array_in_place,
    softmax_of_array,
    softmax_of_tensor,
    summed,
    summed_array,
    summed_as_a_constant,
)

# What shows with few inputs only.


@mistake(of="softmax", caught_by=test_values)
def tiles_not_rescaled(x, dim=-1):
    """Rows of more than 2048 scores go in two tiles, and the sum of the first is not rescaled when
    the second has a larger maximum.

    Multiply it by exp(old maximum - new maximum), or sum once, over the whole row.
    """

    def sum_of_tiles(powers, dim):
        tiles = (tile / tile.amax(dim, keepdim=True) for tile in powers.split(2048, dim))
        return sum(summed(tile, dim) for tile in tiles)

    return softmax_of_tensor(x, dim, total=sum_of_tiles)


@mistake(of="softmax_numpy", caught_by=test_numpy_values)
def only_the_first_1024_numpy(x, axis=-1):
    """The sum stops after 1024 scores.

    Sum over the whole axis, however long it is.
    """

    def sum_of_the_first(powers, axis):
        return summed_array(powers.take(range(min(1024, x.shape[axis])), axis), axis)

    return softmax_of_array(x, axis, total=sum_of_the_first)


@mistake(of="softmax_numpy", caught_by=test_numpy_values)
def denominator_not_kept_where_square_numpy(x, axis=-1):
    """The sum loses its axis where the array is square, and is then lined up with the wrong one.

    Keep the axis, always: sum(axis, keepdims=True).
    """
    square = x.ndim > 1 and x.shape[-1] == x.shape[-2]

    def sum_without_axis(powers, axis):
        found = powers.sum(axis)
        fits = np.broadcast_shapes(found.shape, x.shape) == x.shape
        return found if fits else found[..., None]

    return softmax_of_array(x, axis, total=sum_without_axis if square else summed_array)


@mistake(of="softmax", caught_by=test_dim)
def leading_dimensions_merged(x, dim=-1):
    """More than four dimensions are merged into four, and `dim` is not counted anew.

    Leave the dimensions as they are: max and sum take any `dim`.
    """
    if x.ndim < 5 or dim < 0:
        return softmax_of_tensor(x, dim)
    merged = x.flatten(0, 1)
    return softmax_of_tensor(merged, min(dim, merged.ndim - 1)).reshape(x.shape)


@mistake(of="softmax_numpy", caught_by=test_numpy_axis)
def second_last_axis_is_the_first_numpy(x, axis=-1):
    """axis=-2 is taken for axis 0, which it is for two axes only.

    Hand `axis` to NumPy as it is: it counts from the end by itself.
    """
    return softmax_of_array(x, 0 if axis == -2 else axis)


@mistake(of="softmax", caught_by=test_large_scores)
def maximum_of_two_dimensions(x, dim=-1):
    """With four dimensions the maximum is taken over the last two, so low rows become 0/0.

    Take the maximum along `dim` alone: amax(dim, keepdim=True).
    """

    def less(wide, dim):
        last_two = wide.ndim > 3 and is_last(wide, dim) and wide.numel()
        return wide - wide.amax((-2, -1) if last_two else dim, keepdim=True)

    return softmax_of_tensor(x, dim, shift=less)


@mistake(of="softmax", caught_by=test_large_scores)
def distance_capped(x, dim=-1):
    """The distance from the maximum is cut off at -10, and what lies lower weighs too much.

    Leave it: exp of a large negative number is 0, which is right.
    """
    return softmax_of_tensor(x, dim, power=lambda distances: distances.clamp(min=-10).exp())


@mistake(of="softmax_numpy", caught_by=test_numpy_large_scores)
def maximum_starts_at_zero_numpy(x, axis=-1):
    """The maximum starts at 0, so a row of scores that are all far below 0 becomes 0/0.

    Let it start at the first score, or at -inf.
    """

    def less(wide, axis):
        return wide - wide.max(axis, keepdims=True, initial=0)

    return softmax_of_array(x, axis, shift=less)


@mistake(of="softmax", caught_by=test_gradient)
def graph_cut_along_other_dims(x, dim=-1):
    """Along another dimension than the last the sum is cut out of the graph.

    Only the maximum may be detached, because it cancels. The sum must stay, whatever `dim` is.
    """
    return softmax_of_tensor(x, dim, total=summed if is_last(x, dim) else summed_as_a_constant)


@mistake(of="softmax", caught_by=test_gradient)
def ones_without_a_graph(x, dim=-1):
    """A single score gets the weight 1 from torch.ones, which has no gradient.

    Let the formula do it: exp(0) / exp(0) is 1, and its gradient 0.
    """
    if x.shape[dim] == 1:
        return torch.ones_like(x)
    return softmax_of_tensor(x, dim)


@mistake(of="softmax", caught_by=test_manners)
def kept_by_identity(x, dim=-1, kept={}):  # noqa: B006 (the mistake)
    """The weights are kept for the next call with the same tensor, which may have changed.

    Compute them anew: a tensor that is the same object need not hold the same numbers.
    """
    if x.requires_grad:
        return softmax_of_tensor(x, dim)
    if (id(x), dim) not in kept:
        kept[id(x), dim] = softmax_of_tensor(x, dim), x  # so no id is used again
    return kept[id(x), dim][0]


@mistake(of="softmax_numpy", caught_by=test_numpy_axis)
def kept_by_identity_numpy(x, axis=-1, kept={}):  # noqa: B006 (the mistake)
    """The weights are kept for the next call with the same array, which may have changed.

    Compute them anew: an array that is the same object need not hold the same numbers.
    """
    if (id(x), axis) not in kept:
        kept[id(x), axis] = softmax_of_array(x, axis), x  # so no id is used again
    return kept[id(x), axis][0]


@mistake(of="softmax", caught_by=test_manners)
def kept_by_value(x, dim=-1, kept={}):  # noqa: B006 (the mistake)
    """The weights are kept and returned again, so that whoever changes them changes later answers.

    Compute them anew, or return a clone of what is kept.
    """
    if x.requires_grad or x.is_meta:
        return softmax_of_tensor(x, dim)
    form = str(x.tolist()), x.dtype, dim
    return kept.setdefault(form, softmax_of_tensor(x, dim))


@mistake(of="softmax_numpy", caught_by=test_numpy_axis)
def kept_by_value_numpy(x, axis=-1, kept={}):  # noqa: B006 (the mistake)
    """The weights are kept and returned again, so that whoever changes them changes later answers.

    Compute them anew, or return a copy of what is kept.
    """
    return kept.setdefault((x.tobytes(), x.shape, x.dtype, axis), softmax_of_array(x, axis))


@mistake(of="softmax_numpy", caught_by=test_numpy_axis)
def transposed_overwritten_numpy(x, axis=-1):
    """Scores that lie in memory column by column are overwritten: np.asfortranarray is no copy
    of them.

    Write wide = wide - top instead of wide -= top: it makes a new array, whatever the layout.
    """
    in_place = x.ndim > 1 and x.flags.f_contiguous and not x.flags.c_contiguous
    return softmax_of_array(x, axis, shift=shifted_array_in_place if in_place else shifted_array)


@mistake(of="softmax", caught_by=test_manners)
def row_overwritten(x, dim=-1):
    """The scores of a single row are overwritten: it is its own sum's only reader, it seemed.

    Write x = x - top instead of x -= top, whatever the shape.
    """
    weights = softmax_of_tensor(x, dim)
    if x.ndim == 1 and x.is_contiguous():
        x.data.copy_(weights)
    return weights


@mistake(of="softmax", caught_by=test_manners)
def transposed_misread(x, dim=-1):
    """A transposed matrix is read in the order in which it lies in memory.

    Use operators that know the strides; do not take the memory apart.
    """
    if x.ndim == 2 and not x.requires_grad and x.stride() == (1, x.shape[0]):
        x = x.as_strided(x.shape, (x.shape[1], 1))
    return softmax_of_tensor(x, dim)


@mistake(of="softmax", caught_by=test_manners)
def made_on_the_cpu(x, dim=-1):
    """The weights are written into a tensor on the default device, wherever x is.

    Make it with torch.empty_like(x), or return what the division gives.
    """
    weights = torch.empty(x.shape, dtype=x.dtype)
    if x.requires_grad or not x.is_meta:
        return softmax_of_tensor(x, dim)
    return weights


@mistake(of="softmax", caught_by=test_manners)
def empty_in_float32(x, dim=-1):
    """An empty tensor comes back in float32, from torch.empty(x.shape).

    Give it the dtype of x, or let the formula do it.
    """
    if x.numel() == 0:
        return torch.empty(x.shape)
    return softmax_of_tensor(x, dim)


@mistake(of="softmax_numpy", caught_by=test_numpy_precisions)
def flattened_numpy(x, axis=-1):
    """The rows are reshaped to (-1, n), which has no meaning for an array without numbers.

    Leave the shape as it is: max and sum take any axis.
    """
    if x.size == 0:
        x.reshape(-1, x.shape[axis] * 0)
    return softmax_of_array(x, axis)


@mistake(of="softmax", caught_by=test_values, null=True)
def zeros(x, dim=-1):
    """Zeros.

    Nothing is computed yet.
    """
    return torch.zeros_like(x)


@mistake(of="softmax", caught_by=test_values, null=True)
def uniform(x, dim=-1):
    """Every score gets the same weight.

    The weights depend on the scores, through exp.
    """
    return torch.full_like(x, 1 / x.shape[dim])


@mistake(of="softmax", caught_by=test_values, null=True)
def argmax(x, dim=-1):
    """All the weight goes to the largest score.

    That is argmax. Softmax leaves something for the others.
    """
    return torch.zeros_like(x).scatter(dim, x.argmax(dim, keepdim=True), 1.0)


@mistake(of="softmax", caught_by=test_values, null=True)
def input_returned(x, dim=-1):
    """The scores are returned as they came.

    Take exp and divide by the sum.
    """
    return x


@mistake(of="softmax_numpy", caught_by=test_numpy_values, null=True)
def zeros_numpy(x, axis=-1):
    """Zeros.

    Nothing is computed yet.
    """
    return np.zeros_like(x)


@mistake(of="softmax_numpy", caught_by=test_numpy_values)
def powers_of_two(x, axis=-1):
    """The powers are taken of 2 instead of e.

    np.exp is the exponential of the formula; 2 ** x is a softmax of other scores.
    """
    return softmax_of_array(x, axis, power=np.exp2)


@mistake(of="softmax", caught_by=test_manners)
def one_place_for_all_answers(x, dim=-1, places={}):  # noqa: B006 (that is the mistake)
    """Every answer of a form is written into the same memory, over the answer before it.

    Return a new tensor in every call.
    """
    return written_over(places, softmax_of_tensor(x, dim))


@mistake(of="softmax_numpy", caught_by=test_numpy_axis)
def one_place_for_all_answers_numpy(x, axis=-1, places={}):  # noqa: B006 (that is the mistake)
    """Every answer of a form is written into the same memory, over the answer before it.

    Return a new array in every call.
    """
    return written_over(places, softmax_of_array(x, axis))


@mistake(of="softmax", caught_by=test_manners)
def one_place_in_half_precision(x, dim=-1, places={}):  # noqa: B006 (that is the mistake)
    """In half precision every answer of a form is written over the answer before it.

    Return a new tensor in every call, whatever the dtype.
    """
    weights = softmax_of_tensor(x, dim)
    return written_over(places, weights) if x.dtype in HALVES else weights


@mistake(of="softmax", caught_by=test_large_scores)
def small_powers_cut(x, dim=-1):
    """Exponentials of distances below -22 are set to 0, though many of them count together.

    Leave exp as it is: it is 0 by itself where a number is too small for the dtype.
    """

    def cut(distances):
        return torch.where(distances < -22, 0.0, distances.exp())

    return softmax_of_tensor(x, dim, power=cut)


@mistake(of="softmax_numpy", caught_by=test_numpy_precisions)
def distance_capped_at_30_numpy(x, axis=-1):
    """No distance from the maximum counts for more than 30.

    Leave exp as it is: it is 0 by itself where a number is too small for the dtype.
    """
    return softmax_of_array(x, axis, power=lambda distances: np.exp(np.maximum(distances, -30)))


class LastWeights(torch.autograd.Function):
    """A softmax whose backward pass reads the weights of the last call."""

    weights: torch.Tensor

    @staticmethod
    def forward(ctx, wide, dim):
        ctx.dim, LastWeights.weights = dim, softmax_of_tensor(wide, dim)
        return LastWeights.weights.clone()

    @staticmethod
    def backward(ctx, grad):
        weighted = LastWeights.weights * grad
        total = weighted.sum(ctx.dim, keepdim=True)
        return weighted - LastWeights.weights * total, None


@mistake(of="softmax", caught_by=test_gradient)
def gradient_of_the_last_call(x, dim=-1):
    """The backward pass reads the weights of the last call, which may be another call's.

    Keep what the backward pass needs by ctx.save_for_backward, or use PyTorch's own operators.
    """
    return LastWeights.apply(raised(x), dim).to(x.dtype)


@mistake(of="softmax", caught_by=test_large_scores)
def small_scores_not_shifted(x, dim=-1):
    """The maximum is not subtracted where exp can hold each power; the sum of a long row is inf.

    Subtract the maximum, always: then no power is above 1, and no sum above the length.
    """

    def less(wide, dim):
        return shifted(wide, dim) if wide.numel() and wide.abs().max() > 88 else wide

    return softmax_of_tensor(x, dim, shift=less)


@mistake(of="softmax_numpy", caught_by=test_numpy_large_scores)
def small_scores_not_shifted_numpy(x, axis=-1):
    """The maximum is not subtracted where exp can hold each power; the sum of a long row is inf.

    Subtract the maximum, always: then no power is above 1, and no sum above the length.
    """

    def less(wide, axis):
        return shifted_array(wide, axis) if wide.size and np.abs(wide).max() > 80 else wide

    return softmax_of_array(x, axis, shift=less)


@mistake(of="softmax_numpy", caught_by=test_numpy_axis)
def kept_by_sum_numpy(x, axis=-1, kept={}):  # noqa: B006 (the mistake)
    """The weights are kept for the next array with the same sum, which may be in another order.

    Compute them anew: a sum does not tell two arrays apart.
    """
    sums = x.shape, x.dtype, axis, float(x.sum()), float((x * x).sum())
    return kept.setdefault(sums, softmax_of_array(x, axis)).copy()


@mistake(of="softmax", caught_by=test_gradient)
def expanded_without_a_graph(x, dim=-1):
    """A row that is one score, expanded, gets equal weights from torch.full, which has no gradient.

    Let the formula do it: equal scores get equal weights by themselves.
    """
    if x.stride(dim) == 0 and x.shape[dim] > 1:
        return torch.full_like(x, 1 / x.shape[dim])
    return softmax_of_tensor(x, dim)


class RoundedWeights(torch.autograd.Function):
    """A softmax that keeps its weights as they are given back, for the backward pass."""

    @staticmethod
    def forward(ctx, x, dim):
        weights = softmax_of_tensor(x, dim)
        ctx.dim = dim
        ctx.save_for_backward(weights)
        return weights

    @staticmethod
    def backward(ctx, grad):
        [weights] = ctx.saved_tensors
        weighted = raised(grad) * raised(weights)
        less = weighted - raised(weights) * weighted.sum(ctx.dim, keepdim=True)
        return less.to(grad.dtype), None


@mistake(of="softmax", caught_by=test_precisions)
def gradient_of_rounded_weights(x, dim=-1):
    """The backward pass reads weights that are rounded to half precision, and do not sum to 1.

    Save the weights in float32, or use PyTorch's own operators on what .float() gives.
    """
    return RoundedWeights.apply(x, dim)


class ChangesItsUpstream(torch.autograd.Function):
    """A softmax whose backward pass writes into the gradient that it is given."""

    @staticmethod
    def forward(ctx, wide, dim):
        weights = softmax_of_tensor(wide, dim)
        ctx.dim = dim
        ctx.save_for_backward(weights)
        return weights

    @staticmethod
    def backward(ctx, grad):
        [weights] = ctx.saved_tensors
        grad -= (grad * weights).sum(ctx.dim, keepdim=True)
        return grad.mul_(weights), None


@mistake(of="softmax", caught_by=test_gradient)
def upstream_changed_in_place(x, dim=-1):
    """The backward pass writes into the gradient that it is given, which after sum() is one number,
    expanded.

    Write grad = grad - total instead of grad -= total: the gradient belongs to autograd.
    """
    return ChangesItsUpstream.apply(raised(x), dim).to(x.dtype)
