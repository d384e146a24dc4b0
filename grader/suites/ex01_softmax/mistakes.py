"""What goes wrong in a softmax, by name.

A mistake is a right softmax with one step changed: `widen`, `shift`, `power`, `total`, `narrow`.
"""

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

HALVES = (torch.float16, torch.bfloat16)


def unchanged(numbers, *_):
    """In the place of a step that is left out."""
    return numbers


# The steps in PyTorch.


def raised(x):
    """Half precision raised to float32; the other two as they are."""
    return x.float() if x.dtype in HALVES else x


def shifted(wide, dim):
    return wide - wide.amax(dim, keepdim=True)


def shifted_in_place(wide, dim):
    wide -= wide.detach().amax(dim, keepdim=True)
    return wide


def summed(powers, dim):
    return powers.sum(dim, keepdim=True)


def summed_as_a_constant(powers, dim):
    return powers.sum(dim, keepdim=True).detach()


def converted_back(weights, x):
    return weights.to(x.dtype)


def softmax_of_tensor(
    x, dim, widen=raised, shift=shifted, power=torch.exp, total=summed, narrow=converted_back
):
    """Right, but for the step that a mistake replaces."""
    powers = power(shift(widen(x), dim))
    return narrow(powers / total(powers, dim), x)


def is_last(tensor, dim):
    return dim in (-1, tensor.ndim - 1)


# The steps in NumPy.


def raised_array(x):
    """float16 raised to float32; the other two as they are."""
    return x.astype(np.float32) if x.dtype == np.float16 else x


def shifted_array(wide, axis):
    return wide - wide.max(axis, keepdims=True)


def shifted_array_in_place(wide, axis):
    wide -= wide.max(axis, keepdims=True)
    return wide


def summed_array(powers, axis):
    return powers.sum(axis, keepdims=True)


def converted_array_back(weights, x):
    return weights.astype(x.dtype)


def softmax_of_array(
    x, axis, widen=raised_array, shift=shifted_array, power=np.exp, total=summed_array,
    narrow=converted_array_back,
):  # fmt: skip
    """Right, but for the step that a mistake replaces."""
    with np.errstate(all="ignore"):
        powers = power(shift(widen(x), axis))
        return narrow(powers / total(powers, axis), x)


@mistake(of="softmax", caught_by=test_large_scores)
def no_maximum_subtracted(x, dim=-1):
    """The maximum is not subtracted before exp, so large scores overflow.

    Subtract x.amax(dim, keepdim=True) first: it changes nothing on paper.
    """
    return softmax_of_tensor(x, dim, shift=unchanged)


@mistake(of="softmax_numpy", caught_by=test_numpy_large_scores)
def no_maximum_subtracted_numpy(x, axis=-1):
    """The maximum is not subtracted before exp, so large scores overflow.

    Subtract x.max(axis, keepdims=True) first: it changes nothing on paper.
    """
    return softmax_of_array(x, axis, shift=unchanged)


@mistake(of="softmax_numpy", caught_by=test_numpy_large_scores)
def straight_from_the_formula_numpy(x, axis=-1):
    """No maximum is subtracted before exp, and float16 is summed in float16.

    Raise float16 to float32, and subtract x.max(axis, keepdims=True): it changes nothing on paper.
    """
    return softmax_of_array(x, axis, widen=unchanged, shift=unchanged)


@mistake(of="softmax", caught_by=test_large_scores)
def mean_subtracted(x, dim=-1):
    """The mean is subtracted before exp, so a score far above the others overflows.

    Subtract x.amax(dim, keepdim=True): then no exponent is above 0.
    """
    return softmax_of_tensor(x, dim, shift=lambda wide, dim: wide - wide.mean(dim, keepdim=True))


@mistake(of="softmax_numpy", caught_by=test_numpy_large_scores)
def mean_subtracted_numpy(x, axis=-1):
    """The mean is subtracted before exp, so a score far above the others overflows.

    Subtract x.max(axis, keepdims=True): then no exponent is above 0.
    """
    return softmax_of_array(x, axis, shift=lambda wide, axis: wide - wide.mean(axis, keepdims=True))


@mistake(of="softmax", caught_by=test_large_scores)
def logsumexp(x, dim=-1):
    """exp(x - logsumexp(x)) loses its small digits when the scores are large.

    Subtract the maximum, take exp, and divide by the sum: the division keeps the digits.
    """

    def less(wide, dim):
        return wide - torch.logsumexp(wide, dim, keepdim=True)

    return softmax_of_tensor(x, dim, shift=less, total=lambda powers, dim: 1)


@mistake(of="softmax", caught_by=test_large_scores)
def global_maximum(x, dim=-1):
    """One maximum is taken for the whole tensor: rows of small scores become 0/0, and an empty
    tensor has none.

    Take the maximum of each row: amax(dim, keepdim=True).
    """
    return softmax_of_tensor(x, dim, shift=lambda wide, dim: wide - wide.max())


@mistake(of="softmax_numpy", caught_by=test_numpy_large_scores)
def global_maximum_numpy(x, axis=-1):
    """One maximum is taken for the whole array: rows of small scores become 0/0, and an empty
    array has none.

    Take the maximum of each row: x.max(axis, keepdims=True).
    """
    return softmax_of_array(x, axis, shift=lambda wide, axis: wide - wide.max())


@mistake(of="softmax", caught_by=test_values)
def wrong_axis(x, dim=-1):
    """The weights sum to one along the first dimension instead of `dim`.

    Hand `dim` to the maximum and to the sum.
    """
    return softmax_of_tensor(x, 0)


@mistake(of="softmax", caught_by=test_dim)
def dim_ignored(x, dim=-1):
    """`dim` is ignored: the last dimension is used whatever was asked for.

    Hand `dim` to the maximum and to the sum.
    """
    return softmax_of_tensor(x, -1)


@mistake(of="softmax_numpy", caught_by=test_numpy_axis)
def axis_ignored_numpy(x, axis=-1):
    """`axis` is ignored: the last axis is used whatever was asked for.

    Hand `axis` to the maximum and to the sum.
    """
    return softmax_of_array(x, -1)


@mistake(of="softmax", caught_by=test_values)
def summed_over_everything(x, dim=-1):
    """The sum runs over the whole tensor instead of one row.

    Sum along `dim` only, with keepdim=True.
    """
    return softmax_of_tensor(x, dim, total=lambda powers, dim: powers.sum())


@mistake(of="softmax", caught_by=test_precisions)
def epsilon_in_the_denominator(x, dim=-1):
    """A small number is added to the denominator, so that the weights sum to less than one.

    Leave it out: with the maximum subtracted the sum is at least 1.
    """
    return softmax_of_tensor(x, dim, total=lambda powers, dim: summed(powers, dim) + 1e-6)


@mistake(of="softmax", caught_by=test_precisions)
def half_precision_not_raised(x, dim=-1):
    """Half precision is computed in half precision, and the digits of the weights are gone.

    Compute in float32 (x.float()) and convert the weights back at the end.
    """
    return softmax_of_tensor(x, dim, widen=unchanged)


@mistake(of="softmax_numpy", caught_by=test_numpy_precisions)
def half_precision_not_raised_numpy(x, axis=-1):
    """float16 is summed in float16, where 70,000 ones are infinity.

    Compute in float32 (x.astype(np.float32)) and convert the weights back at the end.
    """
    return softmax_of_array(x, axis, widen=unchanged)


@mistake(of="softmax", caught_by=test_precisions)
def dtype_promoted(x, dim=-1):
    """The weights come back in float32 although the scores were in half precision.

    Convert the result to the dtype of the input: .to(x.dtype).
    """
    return softmax_of_tensor(x, dim, narrow=unchanged)


@mistake(of="softmax", caught_by=test_precisions)
def float64_lowered(x, dim=-1):
    """float64 is computed in float32, and the digits are gone.

    Raise half precision only; leave float32 and float64 as they are.
    """
    return softmax_of_tensor(x, dim, widen=torch.Tensor.float)


@mistake(of="softmax", caught_by=test_manners)
def input_overwritten(x, dim=-1):
    """The scores are overwritten: an operator with a trailing underscore, or `-=`.

    Write x = x - top instead of x -= top: the first makes a new tensor.
    """
    return softmax_of_tensor(x, dim, shift=shifted_in_place)


@mistake(of="softmax", caught_by=test_manners)
def input_overwritten_beside_the_graph(x, dim=-1):
    """The scores are overwritten through `.data` or under no_grad, where PyTorch does not object.

    Write x = x - top: it makes a new tensor.
    """

    def shift(wide, dim):
        wide.data -= wide.data.amax(dim, keepdim=True)
        return wide

    return softmax_of_tensor(x, dim, shift=shift)


@mistake(of="softmax_numpy", caught_by=test_numpy_axis)
def input_overwritten_numpy(x, axis=-1):
    """The scores are overwritten: `x -= top` changes the caller's array.

    Write x = x - top: it makes a new array.
    """
    return softmax_of_array(x, axis, shift=shifted_array_in_place)


@mistake(of="softmax", caught_by=test_values)
def denominator_not_kept(x, dim=-1):
    """The sum loses its axis, and is then lined up with the wrong one.

    Keep the axis: sum(dim, keepdim=True).
    """
    return softmax_of_tensor(x, dim, total=torch.sum)


@mistake(of="softmax", caught_by=test_gradient)
def graph_cut(x, dim=-1):
    """The gradient is cut: something in between is detached, or goes through NumPy.

    Use PyTorch operators only, from x to the result.
    """
    return softmax_of_tensor(x.detach(), dim)


@mistake(of="softmax", caught_by=test_gradient)
def graph_cut_in_float32(x, dim=-1):
    """The gradient is cut in float32: such scores are detached, and only float64 keeps its graph.

    Use PyTorch operators only, from x to the result, whatever the dtype.
    """
    return softmax_of_tensor(x.detach() if x.dtype == torch.float32 else x, dim)


@mistake(of="softmax", caught_by=test_precisions)
def graph_cut_in_half_precision(x, dim=-1):
    """The gradient is cut in half precision: the scores are raised through a list or an array.

    Raise them with x.float(), which keeps the graph.
    """
    return softmax_of_tensor(x.detach() if x.dtype in HALVES else x, dim)


@mistake(of="softmax", caught_by=test_precisions)
def denominator_detached_in_half_precision(x, dim=-1):
    """In half precision the sum is cut out of the graph, and the gradient lacks its part.

    Only the maximum may be detached, because it cancels. The sum must stay.
    """
    return softmax_of_tensor(x, dim, total=summed_as_a_constant if x.dtype in HALVES else summed)


@mistake(of="softmax", caught_by=test_precisions)
def differences_in_half_precision(x, dim=-1):
    """Half precision is raised after the maximum was subtracted, so the differences are rounded.

    Raise the scores first: x.float(), then the maximum.
    """
    return softmax_of_tensor(x, dim, widen=unchanged, shift=lambda x, dim: raised(shifted(x, dim)))


@mistake(of="softmax_numpy", caught_by=test_numpy_precisions)
def differences_in_half_precision_numpy(x, axis=-1):
    """float16 is raised after the maximum was subtracted, so the differences are rounded.

    Raise the scores first: x.astype(np.float32), then the maximum.
    """

    def shift(x, axis):
        return raised_array(shifted_array(x, axis))

    return softmax_of_array(x, axis, widen=unchanged, shift=shift)


@mistake(of="softmax", caught_by=test_precisions)
def powers_in_half_precision(x, dim=-1):
    """The exponentials are rounded to half precision before they are summed.

    Convert once, at the end: the smallest of many exponentials are 0 in float16.
    """
    return softmax_of_tensor(x, dim, power=lambda wide: raised(wide.exp().to(x.dtype)))


@mistake(of="softmax_numpy", caught_by=test_numpy_precisions)
def powers_in_half_precision_numpy(x, axis=-1):
    """The exponentials are rounded to float16 before they are summed.

    Convert once, at the end: the smallest of many exponentials are 0 in float16.
    """

    def power(wide):
        return raised_array(np.exp(wide).astype(x.dtype))

    return softmax_of_array(x, axis, power=power)


class GradientInHalf(torch.autograd.Function):
    """A softmax in float32 whose backward pass has the dtype of the scores."""

    @staticmethod
    def forward(ctx, x, dim):
        ctx.weights, ctx.dim = softmax_of_tensor(x, dim), dim
        return ctx.weights

    @staticmethod
    def backward(ctx, upstream):
        inner = summed(ctx.weights * upstream, ctx.dim)
        return ctx.weights * (upstream - inner), None


@mistake(of="softmax", caught_by=test_precisions)
def gradient_in_half_precision(x, dim=-1):
    """In half precision the gradient is computed in half precision, where small products are 0.

    Compute the backward pass in float32 as well; PyTorch does so from x.float() on.
    """
    return GradientInHalf.apply(x, dim) if x.dtype in HALVES else softmax_of_tensor(x, dim)


@mistake(of="softmax", caught_by=test_large_scores)
def no_maximum_with_a_gradient(x, dim=-1):
    """The maximum is not subtracted where a gradient is asked for, so large scores overflow.

    Subtract x.amax(dim, keepdim=True) always: it cancels in the gradient, too.
    """
    return softmax_of_tensor(x, dim, shift=unchanged if x.requires_grad else shifted)


@mistake(of="softmax", caught_by=test_large_scores)
def no_maximum_along_other_dims(x, dim=-1):
    """The maximum is subtracted along the last dimension only; along others large scores overflow.

    Subtract x.amax(dim, keepdim=True), with the `dim` that was given.
    """
    return softmax_of_tensor(x, dim, shift=shifted if is_last(x, dim) else unchanged)


@mistake(of="softmax", caught_by=test_dim)
def dim_ignored_in_float32(x, dim=-1):
    """`dim` is ignored in float32: the last dimension is used whatever was asked for.

    Hand `dim` to the maximum and to the sum, whatever the dtype.
    """
    return softmax_of_tensor(x, -1 if x.dtype == torch.float32 else dim)


@mistake(of="softmax", caught_by=test_precisions)
def dim_ignored_in_half_precision(x, dim=-1):
    """`dim` is ignored in half precision: the last dimension is used whatever was asked for.

    Hand `dim` to the softmax of the raised scores, too.
    """
    return softmax_of_tensor(x, -1 if x.dtype in HALVES else dim)


@mistake(of="softmax", caught_by=test_manners)
def float64_overwritten(x, dim=-1):
    """float64 scores are overwritten: they need no raising, so no copy of them was made.

    Write x = x - top instead of x -= top: the first always makes a new tensor.
    """
    return softmax_of_tensor(
        x, dim, shift=shifted_in_place if x.dtype == torch.float64 else shifted
    )


@mistake(of="softmax", caught_by=test_manners)
def overwritten_along_other_dims(x, dim=-1):
    """The scores are overwritten when `dim` is not the last dimension.

    Use operators without a trailing underscore, whatever `dim` is.
    """
    weights = softmax_of_tensor(x, dim)
    if not is_last(x, dim):
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
    return softmax_of_tensor(x, dim)


@mistake(of="softmax_numpy", caught_by=test_numpy_axis)
def float32_overwritten_numpy(x, axis=-1):
    """float32 scores are overwritten: `x.astype(np.float32, copy=False)` is x itself.

    Write wide = wide - top instead of wide -= top: it makes a new array.
    """
    in_place = x.dtype == np.float32
    return softmax_of_array(x, axis, shift=shifted_array_in_place if in_place else shifted_array)


@mistake(of="softmax_numpy", caught_by=test_numpy_precisions)
def float16_overwritten_numpy(x, axis=-1):
    """float16 scores are overwritten: the weights are written into the caller's array.

    Return the new array that astype makes.
    """
    weights = softmax_of_array(x, axis)
    if x.dtype == np.float16:
        x[...] = weights
        return x
    return weights


@mistake(of="softmax_numpy", caught_by=test_numpy_axis)
def overwritten_along_other_axes_numpy(x, axis=-1):
    """The scores are overwritten when `axis` is not the last one.

    Write x = x - top instead of x -= top, whatever `axis` is.
    """
    return softmax_of_array(
        x, axis, shift=shifted_array if is_last(x, axis) else shifted_array_in_place
    )


@mistake(of="softmax_numpy", caught_by=test_numpy_axis)
def axis_ignored_in_float32_numpy(x, axis=-1):
    """`axis` is ignored in float32: the last axis is used whatever was asked for.

    Hand `axis` to the maximum and to the sum, whatever the dtype.
    """
    return softmax_of_array(x, -1 if x.dtype == np.float32 else axis)


@mistake(of="softmax_numpy", caught_by=test_numpy_precisions)
def axis_ignored_in_float16_numpy(x, axis=-1):
    """`axis` is ignored in float16: the last axis is used whatever was asked for.

    Hand `axis` to the maximum and to the sum of the raised scores, too.
    """
    return softmax_of_array(x, -1 if x.dtype == np.float16 else axis)


@mistake(of="softmax_numpy", caught_by=test_numpy_precisions)
def no_maximum_in_float16_numpy(x, axis=-1):
    """float16 is raised to float32, but its maximum is not subtracted, so large scores overflow.

    Subtract the maximum of the raised scores, too.
    """
    return softmax_of_array(x, axis, shift=unchanged if x.dtype == np.float16 else shifted_array)


@mistake(of="softmax_numpy", caught_by=test_numpy_large_scores)
def no_maximum_along_other_axes_numpy(x, axis=-1):
    """The maximum is subtracted along the last axis only; along others large scores overflow.

    Subtract x.max(axis=axis, keepdims=True), with the `axis` that was given.
    """
    return softmax_of_array(x, axis, shift=shifted_array if is_last(x, axis) else unchanged)


@mistake(of="softmax_numpy", caught_by=test_numpy_precisions)
def uniform_in_float16_numpy(x, axis=-1):
    """In float16 every score gets the same weight.

    Raise the scores with x.astype(np.float32), and compute their softmax like any other.
    """
    return (
        np.full_like(x, 1 / x.shape[axis]) if x.dtype == np.float16 else softmax_of_array(x, axis)
    )


# What beginners do.


@mistake(of="softmax", caught_by=test_dim)
def sum_over_the_last_dimension(x, dim=-1):
    """The sum runs over the last dimension whatever `dim` is; the maximum does not.

    Hand `dim` to the sum as well: sum(dim, keepdim=True).
    """
    return softmax_of_tensor(x, dim, total=lambda powers, dim: summed(powers, -1))


@mistake(of="softmax_numpy", caught_by=test_numpy_axis)
def sum_over_the_last_axis_numpy(x, axis=-1):
    """The sum runs over the last axis whatever `axis` is; the maximum does not.

    Hand `axis` to the sum as well: sum(axis, keepdims=True).
    """
    return softmax_of_array(x, axis, total=lambda powers, axis: summed_array(powers, -1))


@mistake(of="softmax", caught_by=test_dim)
def maximum_of_the_last_dimension(x, dim=-1):
    """The maximum is taken over the last dimension whatever `dim` is; the sum is not.

    Hand `dim` to the maximum as well: it cancels only if it is the same in numerator and sum.
    """
    return softmax_of_tensor(x, dim, shift=lambda wide, dim: shifted(wide, -1))


@mistake(of="softmax_numpy", caught_by=test_numpy_axis)
def maximum_of_the_last_axis_numpy(x, axis=-1):
    """The maximum is taken over the last axis whatever `axis` is; the sum is not.

    Hand `axis` to the maximum as well: it cancels only if it is the same in numerator and sum.
    """
    return softmax_of_array(x, axis, shift=lambda wide, axis: shifted_array(wide, -1))


@mistake(of="softmax_numpy", caught_by=test_numpy_values)
def summed_over_everything_numpy(x, axis=-1):
    """The sum runs over the whole array instead of one row.

    Sum along `axis` only, with keepdims=True.
    """
    return softmax_of_array(x, axis, total=lambda powers, axis: powers.sum())


@mistake(of="softmax_numpy", caught_by=test_numpy_values)
def denominator_not_kept_numpy(x, axis=-1):
    """The sum loses its axis, and is then lined up with the wrong one.

    Keep the axis: sum(axis, keepdims=True).
    """
    return softmax_of_array(x, axis, total=np.sum)


@mistake(of="softmax", caught_by=test_values)
def maximum_not_kept(x, dim=-1):
    """The maximum loses its axis, and is then lined up with the wrong one.

    Keep the axis: amax(dim, keepdim=True).
    """
    return softmax_of_tensor(x, dim, shift=lambda wide, dim: wide - wide.amax(dim))


@mistake(of="softmax_numpy", caught_by=test_numpy_values)
def maximum_not_kept_numpy(x, axis=-1):
    """The maximum loses its axis, and is then lined up with the wrong one.

    Keep the axis: x.max(axis, keepdims=True).
    """
    return softmax_of_array(x, axis, shift=lambda wide, axis: wide - wide.max(axis))


@mistake(of="softmax", caught_by=test_gradient)
def denominator_detached(x, dim=-1):
    """The sum is cut out of the graph, by detach or no_grad, and the gradient lacks its part.

    Only the maximum may be detached, because it cancels. The sum must stay.
    """
    return softmax_of_tensor(x, dim, total=summed_as_a_constant)


@mistake(of="softmax", caught_by=test_gradient)
def maximum_and_denominator_detached(x, dim=-1):
    """Maximum and sum are cut out of the graph, by no_grad, and the gradient lacks the sum's part.

    Only the maximum may be detached, because it cancels. The sum must stay.
    """

    def shift(wide, dim):
        return wide - wide.detach().amax(dim, keepdim=True)

    return softmax_of_tensor(x, dim, shift=shift, total=summed_as_a_constant)


@mistake(of="softmax", caught_by=test_values)
def divided_by_the_norm(x, dim=-1):
    """The exponentials are divided by their Euclidean norm instead of their sum.

    Divide by the sum: it is the weights that sum to one, and not their squares.
    """
    total = torch.linalg.vector_norm
    return softmax_of_tensor(x, dim, total=lambda powers, dim: total(powers, 2, dim, keepdim=True))


@mistake(of="softmax_numpy", caught_by=test_numpy_values)
def divided_by_the_norm_numpy(x, axis=-1):
    """The exponentials are divided by their Euclidean norm instead of their sum.

    Divide by the sum: it is the weights that sum to one, and not their squares.
    """
    return softmax_of_array(
        x, axis, total=lambda powers, axis: summed_array(powers**2, axis) ** 0.5
    )


@mistake(of="softmax", caught_by=test_values)
def first_left_out_of_the_sum(x, dim=-1):
    """The sum leaves out the first exponential: its loop begins at 1.

    Begin at 0, or take powers.sum(dim, keepdim=True).
    """
    return softmax_of_tensor(
        x, dim, total=lambda powers, dim: summed(powers.narrow(dim, 1, powers.shape[dim] - 1), dim)
    )


@mistake(of="softmax_numpy", caught_by=test_numpy_values)
def first_left_out_of_the_sum_numpy(x, axis=-1):
    """The sum leaves out the first exponential: its loop begins at 1.

    Begin at 0, or take powers.sum(axis, keepdims=True).
    """
    return softmax_of_array(
        x, axis, total=lambda powers, axis: summed_array(np.delete(powers, 0, axis), axis)
    )


@mistake(of="softmax", caught_by=test_values)
def position_of_the_maximum_subtracted(x, dim=-1):
    """The position of the maximum is subtracted instead of its value, so large scores overflow.

    max(dim) returns values and positions: take [0], or use amax(dim, keepdim=True).
    """
    return softmax_of_tensor(x, dim, shift=lambda wide, dim: wide - wide.argmax(dim, keepdim=True))


@mistake(of="softmax", caught_by=test_large_scores)
def scores_clamped(x, dim=-1):
    """Scores are cut off at -50 and 50, instead of having the maximum subtracted.

    Leave them as they are, and subtract x.amax(dim, keepdim=True): differences count, not sizes.
    """
    return softmax_of_tensor(x, dim, shift=lambda wide, dim: wide.clamp(-50, 50))


@mistake(of="softmax_numpy", caught_by=test_numpy_large_scores)
def scores_clamped_numpy(x, axis=-1):
    """Scores are cut off at -50 and 50, instead of having the maximum subtracted.

    Leave them as they are, and subtract x.max(axis, keepdims=True): differences count, not sizes.
    """
    return softmax_of_array(x, axis, shift=lambda wide, axis: wide.clip(-50, 50))


@mistake(of="softmax", caught_by=test_values)
def no_exponential(x, dim=-1):
    """The scores themselves are divided by their sum: exp is missing.

    Take exp first: it makes every number positive, and the weights sum to one.
    """
    return softmax_of_tensor(x, dim, shift=unchanged, power=unchanged)


@mistake(of="softmax_numpy", caught_by=test_numpy_values)
def no_exponential_numpy(x, axis=-1):
    """The scores themselves are divided by their sum: exp is missing.

    Take exp first: it makes every number positive, and the weights sum to one.
    """
    return softmax_of_array(x, axis, shift=unchanged, power=unchanged)


@mistake(of="softmax", caught_by=test_values)
def not_divided(x, dim=-1):
    """The exponentials are returned without the division by their sum.

    Divide by powers.sum(dim, keepdim=True).
    """
    return softmax_of_tensor(x, dim, total=lambda powers, dim: 1)


@mistake(of="softmax_numpy", caught_by=test_numpy_values)
def not_divided_numpy(x, axis=-1):
    """The exponentials are returned without the division by their sum.

    Divide by powers.sum(axis, keepdims=True).
    """
    return softmax_of_array(x, axis, total=lambda powers, axis: 1)


@mistake(of="softmax", caught_by=test_dim)
def dim_not_moved_back(x, dim=-1):
    """`dim` is moved to the end and never moved back.

    Move it back at the end: .movedim(-1, dim). Or leave it: max and sum take any `dim`.
    """
    return softmax_of_tensor(x.movedim(dim, -1), -1)


@mistake(of="softmax_numpy", caught_by=test_numpy_axis)
def axis_not_moved_back_numpy(x, axis=-1):
    """`axis` is moved to the end and never moved back.

    Move it back at the end: np.moveaxis(weights, -1, axis). Or leave it: max and sum take any axis.
    """
    return softmax_of_array(np.moveaxis(x, axis, -1), -1)


@mistake(of="softmax_numpy", caught_by=test_numpy_precisions)
def epsilon_in_the_denominator_numpy(x, axis=-1):
    """A small number is added to the denominator, so that the weights sum to less than one.

    Leave it out: with the maximum subtracted the sum is at least 1.
    """
    return softmax_of_array(x, axis, total=lambda powers, axis: summed_array(powers, axis) + 1e-6)


@mistake(of="softmax_numpy", caught_by=test_numpy_precisions)
def float64_lowered_numpy(x, axis=-1):
    """float64 is computed in float32, and the digits are gone.

    Raise float16 only; leave float32 and float64 as they are.
    """
    return softmax_of_array(x, axis, widen=lambda x: x.astype(np.float32))


@mistake(of="softmax_numpy", caught_by=test_numpy_precisions)
def dtype_promoted_numpy(x, axis=-1):
    """The weights come back in float32 although the scores were in float16.

    Convert the result to the dtype of the input: .astype(x.dtype).
    """
    return softmax_of_array(x, axis, narrow=unchanged)


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
