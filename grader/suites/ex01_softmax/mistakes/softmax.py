"""Wrong answers to `softmax`."""

import torch

from grader.judging import mistake

from ..test_softmax import (
    test_dim,
    test_gradient,
    test_large_scores,
    test_manners,
    test_precisions,
    test_values,
)
from .shared import (
    HALVES,
    is_last,
    raised,
    shifted,
    softmax_of_tensor,
    summed,
    summed_as_a_constant,
    unchanged,
)


def shifted_in_place(wide, dim):
    wide -= wide.detach().amax(dim, keepdim=True)
    return wide


@mistake(of="softmax", caught_by=test_large_scores)
def no_maximum_subtracted(x, dim=-1):
    """The maximum is not subtracted before exp, so large scores overflow.

    Subtract x.amax(dim, keepdim=True) first: it changes nothing on paper.
    """
    return softmax_of_tensor(x, dim, shift=unchanged)


@mistake(of="softmax", caught_by=test_large_scores)
def mean_subtracted(x, dim=-1):
    """The mean is subtracted before exp, so a score far above the others overflows.

    Subtract x.amax(dim, keepdim=True): then no exponent is above 0.
    """
    return softmax_of_tensor(x, dim, shift=lambda wide, dim: wide - wide.mean(dim, keepdim=True))


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


@mistake(of="softmax", caught_by=test_precisions)
def dtype_promoted(x, dim=-1):
    """The weights of scores in half precision come back in float32.

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


@mistake(of="softmax", caught_by=test_precisions)
def powers_in_half_precision(x, dim=-1):
    """The exponentials are rounded to half precision before they are summed.

    Convert once, at the end: the smallest of many exponentials are 0 in float16.
    """
    return softmax_of_tensor(x, dim, power=lambda wide: raised(wide.exp().to(x.dtype)))


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


# What beginners do.


@mistake(of="softmax", caught_by=test_dim)
def sum_over_the_last_dimension(x, dim=-1):
    """The sum runs over the last dimension whatever `dim` is; the maximum does not.

    Hand `dim` to the sum as well: sum(dim, keepdim=True).
    """
    return softmax_of_tensor(x, dim, total=lambda powers, dim: summed(powers, -1))


@mistake(of="softmax", caught_by=test_dim)
def maximum_of_the_last_dimension(x, dim=-1):
    """The maximum is taken over the last dimension whatever `dim` is; the sum is not.

    Hand `dim` to the maximum as well: it cancels only if it is the same in numerator and sum.
    """
    return softmax_of_tensor(x, dim, shift=lambda wide, dim: shifted(wide, -1))


@mistake(of="softmax", caught_by=test_values)
def maximum_not_kept(x, dim=-1):
    """The maximum loses its axis, and is then lined up with the wrong one.

    Keep the axis: amax(dim, keepdim=True).
    """
    return softmax_of_tensor(x, dim, shift=lambda wide, dim: wide - wide.amax(dim))


@mistake(of="softmax", caught_by=test_gradient)
def denominator_detached(x, dim=-1):
    """The sum is cut out of the graph, and the gradient lacks its part.

    Only the maximum may be detached, because it cancels. The sum must stay.
    """
    return softmax_of_tensor(x, dim, total=summed_as_a_constant)


@mistake(of="softmax", caught_by=test_gradient)
def maximum_and_denominator_detached(x, dim=-1):
    """Maximum and sum are cut out of the graph, and the gradient lacks the sum's part.

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


@mistake(of="softmax", caught_by=test_values)
def first_left_out_of_the_sum(x, dim=-1):
    """The sum leaves out the first exponential: its loop begins at 1.

    Begin at 0, or take powers.sum(dim, keepdim=True).
    """
    return softmax_of_tensor(
        x, dim, total=lambda powers, dim: summed(powers.narrow(dim, 1, powers.shape[dim] - 1), dim)
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


@mistake(of="softmax", caught_by=test_values)
def no_exponential(x, dim=-1):
    """The scores themselves are divided by their sum: exp is missing.

    Take exp first: it makes every number positive, and the weights sum to one.
    """
    return softmax_of_tensor(x, dim, shift=unchanged, power=unchanged)


@mistake(of="softmax", caught_by=test_values)
def not_divided(x, dim=-1):
    """The exponentials are returned without the division by their sum.

    Divide by powers.sum(dim, keepdim=True).
    """
    return softmax_of_tensor(x, dim, total=lambda powers, dim: 1)


@mistake(of="softmax", caught_by=test_dim)
def dim_not_moved_back(x, dim=-1):
    """`dim` is moved to the end and never moved back.

    Move it back at the end: .movedim(-1, dim). Or leave it: max and sum take any `dim`.
    """
    return softmax_of_tensor(x.movedim(dim, -1), -1)
