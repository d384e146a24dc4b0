"""What goes wrong in a softmax, by name."""

import numpy as np
import torch

from grader.judging import mistake

from .test_softmax import (
    test_dim,
    test_gradient,
    test_half_precision,
    test_large_scores,
    test_manners,
    test_numpy_axis,
    test_numpy_large_scores,
    test_numpy_manners,
    test_numpy_values,
    test_values,
)


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
    with np.errstate(over="ignore", invalid="ignore"):
        powers = np.exp(x)
        return powers / powers.sum(axis, keepdims=True)


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


@mistake(of="softmax", caught_by=test_values)
def epsilon_in_the_denominator(x, dim=-1):
    """A small number is added to the denominator, so that the weights sum to less than one.

    Leave it out: with the maximum subtracted the sum is at least 1.
    """
    powers = torch.exp(x - x.amax(dim, keepdim=True))
    return powers / (powers.sum(dim, keepdim=True) + 1e-6)


@mistake(of="softmax", caught_by=test_half_precision)
def half_precision_not_raised(x, dim=-1):
    """Half precision is summed step by step in half precision.

    Compute in float32 (x.float()) and convert the weights back at the end.
    """
    powers = torch.exp(x - x.amax(dim, keepdim=True))
    return powers / powers.cumsum(dim).narrow(dim, x.shape[dim] - 1, 1)


@mistake(of="softmax_numpy", caught_by=test_numpy_manners)
def half_precision_not_raised_numpy(x, axis=-1):
    """float16 is summed in float16, where 70,000 ones are infinity.

    Compute in float32 (x.astype(np.float32)) and convert the weights back at the end.
    """
    with np.errstate(over="ignore"):
        powers = np.exp(x - x.max(axis, keepdims=True))
        return powers / powers.sum(axis, keepdims=True)


@mistake(of="softmax", caught_by=test_large_scores)
def dtype_promoted(x, dim=-1):
    """The weights come back in float32 although the scores were in half precision.

    Convert the result to the dtype of the input: .to(x.dtype).
    """
    return torch.softmax(x.float() if x.dtype.itemsize == 2 else x, dim)


@mistake(of="softmax", caught_by=test_values)
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


@mistake(of="softmax_numpy", caught_by=test_numpy_manners)
def input_overwritten_numpy(x, axis=-1):
    """The scores are overwritten: `x -= top` changes the caller's array.

    Write x = x - top: it makes a new array.
    """
    if x.dtype == np.float16:
        x = x.astype(np.float32).astype(np.float32)
    top = x.max(axis, keepdims=True)
    if x.size:
        x -= top
    powers = np.exp(x)
    return powers / powers.sum(axis, keepdims=True)


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
