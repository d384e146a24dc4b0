"""What goes wrong in a softmax, by name."""

import numpy as np
import torch

from grader.judging import mistake
from grader.judging.one_place import written_over

from .test_softmax import (
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


def raised(x):
    """Half precision raised to float32; the other two as they are."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


def softmax_of_arrays(x, axis, shifted=True):
    """A right softmax in NumPy, unless the maximum is not to be subtracted."""
    wide = x.astype(np.float32) if x.dtype == np.float16 else x
    with np.errstate(over="ignore", invalid="ignore"):
        powers = np.exp(wide - wide.max(axis, keepdims=True) if shifted else wide)
        return (powers / powers.sum(axis, keepdims=True)).astype(x.dtype)


@mistake(of="softmax", caught_by=test_large_scores)
def no_maximum_subtracted(x, dim=-1):
    """The maximum is not subtracted before exp, so large scores overflow.

    Subtract x.amax(dim, keepdim=True) first: it changes nothing on paper.
    """
    powers = torch.exp(x.float() if x.dtype.itemsize == 2 else x)
    return (powers / powers.sum(dim, keepdim=True)).to(x.dtype)


@mistake(of="softmax_numpy", caught_by=test_numpy_large_scores)
def no_maximum_subtracted_numpy(x, axis=-1):
    """The maximum is not subtracted before exp, so large scores overflow.

    Subtract x.max(axis, keepdims=True) first: it changes nothing on paper.
    """
    return softmax_of_arrays(x, axis, shifted=False)


@mistake(of="softmax_numpy", caught_by=test_numpy_large_scores)
def straight_from_the_formula_numpy(x, axis=-1):
    """No maximum is subtracted before exp, and float16 is summed in float16.

    Raise float16 to float32, and subtract x.max(axis, keepdims=True): it changes nothing on paper.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        powers = np.exp(x)
        return powers / powers.sum(axis, keepdims=True)


@mistake(of="softmax", caught_by=test_large_scores)
def mean_subtracted(x, dim=-1):
    """The mean is subtracted before exp, so a score far above the others overflows.

    Subtract x.amax(dim, keepdim=True): then no exponent is above 0.
    """
    wide = x.float() if x.dtype.itemsize == 2 else x
    powers = torch.exp(wide - wide.mean(dim, keepdim=True))
    return (powers / powers.sum(dim, keepdim=True)).to(x.dtype)


@mistake(of="softmax_numpy", caught_by=test_numpy_large_scores)
def mean_subtracted_numpy(x, axis=-1):
    """The mean is subtracted before exp, so a score far above the others overflows.

    Subtract x.max(axis, keepdims=True): then no exponent is above 0.
    """
    wide = x.astype(np.float32) if x.dtype == np.float16 else x
    with np.errstate(over="ignore", invalid="ignore"):
        powers = np.exp(wide - wide.mean(axis, keepdims=True))
        return (powers / powers.sum(axis, keepdims=True)).astype(x.dtype)


@mistake(of="softmax", caught_by=test_large_scores)
def logsumexp(x, dim=-1):
    """exp(x - logsumexp(x)) loses its small digits when the scores are large.

    Subtract the maximum, take exp, and divide by the sum: the division keeps the digits.
    """
    return torch.exp(x - torch.logsumexp(x, dim, keepdim=True))


@mistake(of="softmax", caught_by=test_large_scores)
def global_maximum(x, dim=-1):
    """One maximum is taken for the whole tensor, so rows of small scores become 0/0.

    Take the maximum of each row: amax(dim, keepdim=True).
    """
    powers = torch.exp(x - x.max())
    return powers / powers.sum(dim, keepdim=True)


@mistake(of="softmax_numpy", caught_by=test_numpy_large_scores)
def global_maximum_numpy(x, axis=-1):
    """One maximum is taken for the whole array, so rows of small scores become 0/0.

    Take the maximum of each row: x.max(axis, keepdims=True).
    """
    with np.errstate(invalid="ignore"):
        powers = np.exp(x - x.max())
        return powers / powers.sum(axis, keepdims=True)


@mistake(of="softmax", caught_by=test_values)
def wrong_axis(x, dim=-1):
    """The weights sum to one along the first dimension instead of `dim`.

    Hand `dim` to the maximum and to the sum.
    """
    return torch.softmax(x, 0)


@mistake(of="softmax", caught_by=test_dim)
def dim_ignored(x, dim=-1):
    """`dim` is ignored: the last dimension is used whatever was asked for.

    Hand `dim` to the maximum and to the sum.
    """
    return torch.softmax(x, -1)


@mistake(of="softmax_numpy", caught_by=test_numpy_axis)
def axis_ignored_numpy(x, axis=-1):
    """`axis` is ignored: the last axis is used whatever was asked for.

    Hand `axis` to the maximum and to the sum.
    """
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


@mistake(of="softmax", caught_by=test_values)
def summed_over_everything(x, dim=-1):
    """The sum runs over the whole tensor instead of one row.

    Sum along `dim` only, with keepdim=True.
    """
    powers = torch.exp(x - x.amax(dim, keepdim=True))
    return powers / powers.sum()


@mistake(of="softmax", caught_by=test_precisions)
def epsilon_in_the_denominator(x, dim=-1):
    """A small number is added to the denominator, so that the weights sum to less than one.

    Leave it out: with the maximum subtracted the sum is at least 1.
    """
    powers = torch.exp(x - x.amax(dim, keepdim=True))
    return powers / (powers.sum(dim, keepdim=True) + 1e-6)


@mistake(of="softmax", caught_by=test_precisions)
def half_precision_not_raised(x, dim=-1):
    """Half precision is summed step by step in half precision.

    Compute in float32 (x.float()) and convert the weights back at the end.
    """
    powers = torch.exp(x - x.amax(dim, keepdim=True))
    return powers / powers.cumsum(dim).narrow(dim, x.shape[dim] - 1, 1)


@mistake(of="softmax_numpy", caught_by=test_numpy_precisions)
def half_precision_not_raised_numpy(x, axis=-1):
    """float16 is summed in float16, where 70,000 ones are infinity.

    Compute in float32 (x.astype(np.float32)) and convert the weights back at the end.
    """
    with np.errstate(over="ignore"):
        powers = np.exp(x - x.max(axis, keepdims=True))
        return powers / powers.sum(axis, keepdims=True)


@mistake(of="softmax", caught_by=test_precisions)
def dtype_promoted(x, dim=-1):
    """The weights come back in float32 although the scores were in half precision.

    Convert the result to the dtype of the input: .to(x.dtype).
    """
    return torch.softmax(x.float() if x.dtype.itemsize == 2 else x, dim)


@mistake(of="softmax", caught_by=test_precisions)
def float64_lowered(x, dim=-1):
    """float64 is computed in float32, and the digits are gone.

    Raise half precision only; leave float32 and float64 as they are.
    """
    return torch.softmax(x.float(), dim).to(x.dtype)


@mistake(of="softmax", caught_by=test_manners)
def input_overwritten(x, dim=-1):
    """The scores are overwritten: an operator with a trailing underscore, or `-=`.

    Write x = x - top instead of x -= top: the first makes a new tensor.
    """
    weights = torch.softmax(x, dim)
    x.data.copy_(weights)
    return weights


@mistake(of="softmax_numpy", caught_by=test_numpy_axis)
def input_overwritten_numpy(x, axis=-1):
    """The scores are overwritten: `x -= top` changes the caller's array.

    Write x = x - top: it makes a new array.
    """
    wide = x.astype(np.float32) if x.dtype == np.float16 else x
    wide -= wide.max(axis, keepdims=True)
    powers = np.exp(wide)
    return (powers / powers.sum(axis, keepdims=True)).astype(x.dtype)


@mistake(of="softmax", caught_by=test_values)
def denominator_not_kept(x, dim=-1):
    """The sum loses its axis, and is then lined up with the wrong one.

    Keep the axis: sum(dim, keepdim=True).
    """
    powers = torch.exp(x - x.amax(dim, keepdim=True))
    return powers / powers.sum(dim)


@mistake(of="softmax", caught_by=test_gradient)
def graph_cut(x, dim=-1):
    """The gradient is cut: something in between is detached, or goes through NumPy.

    Use PyTorch operators only, from x to the result.
    """
    return torch.softmax(x.detach(), dim)


@mistake(of="softmax", caught_by=test_gradient)
def graph_cut_in_float32(x, dim=-1):
    """The gradient is cut in float32: such scores are detached, and only float64 keeps its graph.

    Use PyTorch operators only, from x to the result, whatever the dtype.
    """
    return torch.softmax(raised(x.detach() if x.dtype == torch.float32 else x), dim).to(x.dtype)


@mistake(of="softmax", caught_by=test_precisions)
def graph_cut_in_half_precision(x, dim=-1):
    """The gradient is cut in half precision: the scores are raised through a list or an array.

    Raise them with x.float(), which keeps the graph.
    """
    half = x.dtype in (torch.float16, torch.bfloat16)
    return torch.softmax(raised(x.detach() if half else x), dim).to(x.dtype)


@mistake(of="softmax", caught_by=test_precisions)
def denominator_detached_in_half_precision(x, dim=-1):
    """In half precision the sum is cut out of the graph, and the gradient lacks its part.

    Only the maximum may be detached, because it cancels. The sum must stay.
    """
    wide = raised(x)
    if wide is x:
        return torch.softmax(x, dim)
    powers = torch.exp(wide - wide.amax(dim, keepdim=True))
    return (powers / powers.sum(dim, keepdim=True).detach()).to(x.dtype)


@mistake(of="softmax", caught_by=test_large_scores)
def no_maximum_with_a_gradient(x, dim=-1):
    """The maximum is not subtracted where a gradient is asked for, so large scores overflow.

    Subtract x.amax(dim, keepdim=True) always: it cancels in the gradient, too.
    """
    if not x.requires_grad:
        return torch.softmax(raised(x), dim).to(x.dtype)
    powers = torch.exp(raised(x))
    return (powers / powers.sum(dim, keepdim=True)).to(x.dtype)


@mistake(of="softmax", caught_by=test_large_scores)
def no_maximum_along_other_dims(x, dim=-1):
    """The maximum is subtracted along the last dimension only; along others large scores overflow.

    Subtract x.amax(dim, keepdim=True), with the `dim` that was given.
    """
    if dim in (-1, x.ndim - 1):
        return torch.softmax(raised(x), dim).to(x.dtype)
    powers = torch.exp(raised(x))
    return (powers / powers.sum(dim, keepdim=True)).to(x.dtype)


@mistake(of="softmax", caught_by=test_dim)
def dim_ignored_in_float32(x, dim=-1):
    """`dim` is ignored in float32: the last dimension is used whatever was asked for.

    Hand `dim` to the maximum and to the sum, whatever the dtype.
    """
    return torch.softmax(raised(x), -1 if x.dtype == torch.float32 else dim).to(x.dtype)


@mistake(of="softmax", caught_by=test_precisions)
def dim_ignored_in_half_precision(x, dim=-1):
    """`dim` is ignored in half precision: the last dimension is used whatever was asked for.

    Hand `dim` to the softmax of the raised scores, too.
    """
    wide = raised(x)
    return torch.softmax(wide, dim if wide is x else -1).to(x.dtype)


@mistake(of="softmax", caught_by=test_manners)
def float64_overwritten(x, dim=-1):
    """float64 scores are overwritten: they need no raising, so no copy of them was made.

    Write x = x - top instead of x -= top: the first always makes a new tensor.
    """
    weights = torch.softmax(raised(x), dim).to(x.dtype)
    if x.dtype == torch.float64:
        x.data.copy_(weights)
    return weights


@mistake(of="softmax", caught_by=test_manners)
def overwritten_along_other_dims(x, dim=-1):
    """The scores are overwritten when `dim` is not the last dimension.

    Use operators without a trailing underscore, whatever `dim` is.
    """
    weights = torch.softmax(raised(x), dim).to(x.dtype)
    if dim not in (-1, x.ndim - 1):
        x.data = x.data.contiguous()
        x.data.copy_(weights)
    return weights


@mistake(of="softmax", caught_by=test_precisions)
def strided_float64_misread(x, dim=-1):
    """float64 scores that are not contiguous are read in the order in which they lie in memory.

    Use operators that know the strides; do not take the memory apart.
    """
    if x.dtype == torch.float64:
        x = x.as_strided(x.shape, torch.empty(x.shape).stride())
    return torch.softmax(raised(x), dim).to(x.dtype)


@mistake(of="softmax_numpy", caught_by=test_numpy_axis)
def float32_overwritten_numpy(x, axis=-1):
    """float32 scores are overwritten: `x.astype(np.float32, copy=False)` is x itself.

    Write wide = wide - top instead of wide -= top: it makes a new array.
    """
    weights = softmax_of_arrays(x, axis)
    if x.dtype == np.float32:
        x[...] = weights
    return weights


@mistake(of="softmax_numpy", caught_by=test_numpy_precisions)
def float16_overwritten_numpy(x, axis=-1):
    """float16 scores are overwritten: the weights are written into the caller's array.

    Return the new array that astype makes.
    """
    weights = softmax_of_arrays(x, axis)
    if x.dtype == np.float16:
        x[...] = weights
        return x
    return weights


@mistake(of="softmax_numpy", caught_by=test_numpy_axis)
def overwritten_along_other_axes_numpy(x, axis=-1):
    """The scores are overwritten when `axis` is not the last one.

    Write x = x - top instead of x -= top, whatever `axis` is.
    """
    weights = softmax_of_arrays(x, axis)
    if axis not in (-1, x.ndim - 1):
        x[...] = weights
    return weights


@mistake(of="softmax_numpy", caught_by=test_numpy_axis)
def axis_ignored_in_float32_numpy(x, axis=-1):
    """`axis` is ignored in float32: the last axis is used whatever was asked for.

    Hand `axis` to the maximum and to the sum, whatever the dtype.
    """
    return softmax_of_arrays(x, -1 if x.dtype == np.float32 else axis)


@mistake(of="softmax_numpy", caught_by=test_numpy_precisions)
def axis_ignored_in_float16_numpy(x, axis=-1):
    """`axis` is ignored in float16: the last axis is used whatever was asked for.

    Hand `axis` to the maximum and to the sum of the raised scores, too.
    """
    return softmax_of_arrays(x, -1 if x.dtype == np.float16 else axis)


@mistake(of="softmax_numpy", caught_by=test_numpy_precisions)
def no_maximum_in_float16_numpy(x, axis=-1):
    """float16 is raised to float32, but its maximum is not subtracted, so large scores overflow.

    Subtract the maximum of the raised scores, too.
    """
    return softmax_of_arrays(x, axis, shifted=x.dtype != np.float16)


@mistake(of="softmax_numpy", caught_by=test_numpy_large_scores)
def no_maximum_along_other_axes_numpy(x, axis=-1):
    """The maximum is subtracted along the last axis only; along others large scores overflow.

    Subtract x.max(axis=axis, keepdims=True), with the `axis` that was given.
    """
    return softmax_of_arrays(x, axis, shifted=axis in (-1, x.ndim - 1))


@mistake(of="softmax_numpy", caught_by=test_numpy_precisions)
def uniform_in_float16_numpy(x, axis=-1):
    """In float16 every score gets the same weight.

    Raise the scores with x.astype(np.float32), and compute their softmax like any other.
    """
    return (
        np.full_like(x, 1 / x.shape[axis]) if x.dtype == np.float16 else softmax_of_arrays(x, axis)
    )


# What shows with few inputs only.


@mistake(of="softmax", caught_by=test_values)
def tiles_not_rescaled(x, dim=-1):
    """Rows of more than 2048 scores go in two tiles, and the sum of the first is not rescaled when
    the second has a larger maximum.

    Multiply it by exp(old maximum - new maximum), or sum once, over the whole row.
    """
    wide, length = raised(x), x.shape[dim]
    if length <= 2048:
        return torch.softmax(wide, dim).to(x.dtype)
    tiles = wide.split(2048, dim)
    sums = [(tile - tile.amax(dim, keepdim=True)).exp().sum(dim, keepdim=True) for tile in tiles]
    return ((wide - wide.amax(dim, keepdim=True)).exp() / sum(sums)).to(x.dtype)


@mistake(of="softmax_numpy", caught_by=test_numpy_values)
def only_the_first_1024_numpy(x, axis=-1):
    """The sum stops after 1024 scores.

    Sum over the whole axis, however long it is.
    """
    wide = x.astype(np.float32) if x.dtype == np.float16 else x
    powers = np.exp(wide - wide.max(axis, keepdims=True))
    first = powers.take(range(min(1024, x.shape[axis])), axis)
    return (powers / first.sum(axis, keepdims=True)).astype(x.dtype)


@mistake(of="softmax_numpy", caught_by=test_numpy_values)
def denominator_not_kept_numpy(x, axis=-1):
    """The sum loses its axis where the array is square, and is then lined up with the wrong one.

    Keep the axis, always: sum(axis, keepdims=True).
    """
    if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
        return softmax_of_arrays(x, axis)
    wide = x.astype(np.float32) if x.dtype == np.float16 else x
    powers = np.exp(wide - wide.max(axis, keepdims=True))
    found = powers.sum(axis)
    fits = np.broadcast_shapes(found.shape, x.shape) == x.shape
    return (powers / (found if fits else found[..., None])).astype(x.dtype)


@mistake(of="softmax", caught_by=test_dim)
def leading_dimensions_merged(x, dim=-1):
    """More than four dimensions are merged into four, and `dim` is not counted anew.

    Leave the dimensions as they are: max and sum take any `dim`.
    """
    wide = raised(x)
    if x.ndim < 5 or dim < 0:
        return torch.softmax(wide, dim).to(x.dtype)
    merged = wide.flatten(0, 1)
    return torch.softmax(merged, min(dim, merged.ndim - 1)).reshape(x.shape).to(x.dtype)


@mistake(of="softmax_numpy", caught_by=test_numpy_axis)
def second_last_axis_is_the_first_numpy(x, axis=-1):
    """axis=-2 is taken for axis 0, which it is for two axes only.

    Hand `axis` to NumPy as it is: it counts from the end by itself.
    """
    return softmax_of_arrays(x, 0 if axis == -2 else axis)


@mistake(of="softmax", caught_by=test_large_scores)
def maximum_of_two_dimensions(x, dim=-1):
    """With four dimensions the maximum is taken over the last two, so low rows become 0/0.

    Take the maximum along `dim` alone: amax(dim, keepdim=True).
    """
    wide = raised(x)
    top = wide.amax((-2, -1), keepdim=True) if x.ndim > 3 and x.numel() else 0
    if x.ndim <= 3 or dim not in (-1, x.ndim - 1):
        return torch.softmax(wide, dim).to(x.dtype)
    powers = torch.exp(wide - top)
    return (powers / powers.sum(dim, keepdim=True)).to(x.dtype)


@mistake(of="softmax", caught_by=test_large_scores)
def distance_capped(x, dim=-1):
    """The distance from the maximum is cut off at -10, and what lies lower weighs too much.

    Leave it: exp of a large negative number is 0, which is right.
    """
    wide = raised(x)
    powers = torch.exp((wide - wide.amax(dim, keepdim=True)).clamp(min=-10))
    return (powers / powers.sum(dim, keepdim=True)).to(x.dtype)


@mistake(of="softmax_numpy", caught_by=test_numpy_large_scores)
def maximum_starts_at_zero_numpy(x, axis=-1):
    """The maximum starts at 0, so a row of scores that are all far below 0 becomes 0/0.

    Let it start at the first score, or at -inf.
    """
    wide = x.astype(np.float32) if x.dtype == np.float16 else x
    with np.errstate(invalid="ignore"):
        powers = np.exp(wide - wide.max(axis, keepdims=True, initial=0))
        return (powers / powers.sum(axis, keepdims=True)).astype(x.dtype)


@mistake(of="softmax", caught_by=test_gradient)
def graph_cut_along_other_dims(x, dim=-1):
    """Along another dimension than the last the sum is cut out of the graph.

    Only the maximum may be detached, because it cancels. The sum must stay, whatever `dim` is.
    """
    wide = raised(x)
    if dim in (-1, x.ndim - 1):
        return torch.softmax(wide, dim).to(x.dtype)
    powers = torch.exp(wide - wide.amax(dim, keepdim=True))
    return (powers / powers.sum(dim, keepdim=True).detach()).to(x.dtype)


@mistake(of="softmax", caught_by=test_gradient)
def ones_without_a_graph(x, dim=-1):
    """A single score gets the weight 1 from torch.ones, which has no gradient.

    Let the formula do it: exp(0) / exp(0) is 1, and its gradient 0.
    """
    if x.shape[dim] == 1:
        return torch.ones_like(x)
    return torch.softmax(raised(x), dim).to(x.dtype)


@mistake(of="softmax", caught_by=test_manners)
def kept_by_identity(x, dim=-1, kept={}):  # noqa: B006 (the mistake)
    """The weights are kept for the next call with the same tensor, which may have changed.

    Compute them anew: a tensor that is the same object need not hold the same numbers.
    """
    if x.requires_grad:
        return torch.softmax(raised(x), dim).to(x.dtype)
    if (id(x), dim) not in kept:
        kept[id(x), dim] = torch.softmax(raised(x), dim).to(x.dtype), x  # so no id is used again
    return kept[id(x), dim][0]


@mistake(of="softmax_numpy", caught_by=test_numpy_axis)
def kept_by_identity_numpy(x, axis=-1, kept={}):  # noqa: B006 (the mistake)
    """The weights are kept for the next call with the same array, which may have changed.

    Compute them anew: an array that is the same object need not hold the same numbers.
    """
    if (id(x), axis) not in kept:
        kept[id(x), axis] = softmax_of_arrays(x, axis), x  # so no id is used again
    return kept[id(x), axis][0]


@mistake(of="softmax", caught_by=test_manners)
def row_overwritten(x, dim=-1):
    """The scores of a single row are overwritten: it is its own sum's only reader, it seemed.

    Write x = x - top instead of x -= top, whatever the shape.
    """
    weights = torch.softmax(raised(x), dim).to(x.dtype)
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
    return torch.softmax(raised(x), dim).to(x.dtype)


@mistake(of="softmax", caught_by=test_manners)
def made_on_the_cpu(x, dim=-1):
    """The weights are written into a tensor on the default device, wherever x is.

    Make it with torch.empty_like(x), or return what the division gives.
    """
    weights = torch.empty(x.shape, dtype=x.dtype)
    if x.requires_grad or not x.is_meta:
        return torch.softmax(raised(x), dim).to(x.dtype)
    return weights


@mistake(of="softmax", caught_by=test_manners)
def empty_in_float32(x, dim=-1):
    """An empty tensor comes back in float32, from torch.empty(x.shape).

    Give it the dtype of x, or let the formula do it.
    """
    if x.numel() == 0:
        return torch.empty(x.shape)
    return torch.softmax(raised(x), dim).to(x.dtype)


@mistake(of="softmax_numpy", caught_by=test_numpy_precisions)
def flattened_numpy(x, axis=-1):
    """The rows are reshaped to (-1, n), which has no meaning for an array without numbers.

    Leave the shape as it is: max and sum take any axis.
    """
    if x.size == 0:
        x.reshape(-1, x.shape[axis] * 0)
    return softmax_of_arrays(x, axis)


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
    powers = 2.0 ** (x - x.max(axis, keepdims=True))
    return (powers / powers.sum(axis, keepdims=True)).astype(x.dtype)


@mistake(of="softmax", caught_by=test_manners)
def one_place_for_all_answers(x, dim=-1, places={}):  # noqa: B006 (that is the mistake)
    """Every answer of a form is written into the same memory, over the answer before it.

    Return a new tensor in every call.
    """
    return written_over(places, torch.softmax(raised(x), dim).to(x.dtype))


@mistake(of="softmax_numpy", caught_by=test_numpy_axis)
def one_place_for_all_answers_numpy(x, axis=-1, places={}):  # noqa: B006 (that is the mistake)
    """Every answer of a form is written into the same memory, over the answer before it.

    Return a new array in every call.
    """
    return written_over(places, softmax_of_arrays(x, axis))
