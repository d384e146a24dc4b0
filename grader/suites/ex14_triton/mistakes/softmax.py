"""Wrong answers to `softmax`."""

import math

import torch

from grader.judging import mistake
from grader.judging.one_place import written_over
from reference.ex14_triton import plain_softmax

from ..test_triton import (
    test_empty,
    test_half,
    test_softmax,
    test_softmax_extremes,
    test_softmax_layout,
)
from .shared import as_if_dense, raised, right_softmax


@mistake(of="softmax", caught_by=test_softmax)
def tail_loaded_as_zero(x):
    """The places beyond the row are loaded as 0, so that each adds exp(0 - maximum) to the sum.

    Load them as minus infinity: tl.load(..., mask=inside, other=-float("inf")).
    """
    length = 1 << max(x.shape[1] - 1, 0).bit_length()
    padded = torch.nn.functional.pad(raised(x), (0, length - x.shape[1]))
    return padded.softmax(-1)[:, : x.shape[1]].to(x.dtype)


@mistake(of="softmax", caught_by=test_softmax)
def base_two(x):
    """The powers are those of 2, not of e.

    exp(x) is exp2(x * 1.4427): multiply by log2(e) first, or use tl.exp.
    """
    return right_softmax(raised(x) * math.log(2)).to(x.dtype)


@mistake(of="softmax", caught_by=test_softmax)
def down_the_columns(x):
    """Each column sums to one, not each row.

    The program's number chooses the row, and the range 0 to BLOCK runs over its columns.
    """
    return raised(x).softmax(0).to(x.dtype)


@mistake(of="softmax", caught_by=test_softmax)
def not_divided(x):
    """The powers are stored as they are: the row does not sum to one.

    Divide by their sum: powers / tl.sum(powers, axis=0).
    """
    return (raised(x) - raised(x).amax(-1, keepdim=True)).exp().to(x.dtype)


@mistake(of="softmax", caught_by=test_half)
def stored_as_float32(x):
    """The result is float32, whatever x is.

    Allocate it with dtype=x.dtype, and store y.to(y_ptr.dtype.element_ty).
    """
    return plain_softmax(raised(x))


@mistake(of="softmax", caught_by=test_softmax_extremes)
def maximum_left_in(x):
    """The maximum of the row is not subtracted, and exp overflows.

    Take tl.max(x, axis=0) off before the exponential; the quotient stays the same.
    """
    powers = raised(x).exp()
    return (powers / powers.sum(-1, keepdim=True)).to(x.dtype)


@mistake(of="softmax", caught_by=test_softmax_extremes)
def one_maximum_for_all(x):
    """What is subtracted is the maximum of the whole matrix, under which other rows vanish.

    Each program subtracts the maximum of its own row.
    """
    powers = (raised(x) - raised(x).amax()).exp() if x.numel() else raised(x)
    return (powers / powers.sum(-1, keepdim=True)).to(x.dtype)


@mistake(of="softmax", caught_by=test_softmax_extremes)
def nan_for_a_row_of_infinities(x):
    """A row of minus infinity becomes NaN: minus infinity minus itself is no number.

    Subtract tl.where(top == -float("inf"), 0.0, top), and divide by 1 where the sum is 0.
    """
    return raised(x).softmax(-1).to(x.dtype)


@mistake(of="softmax", caught_by=test_softmax_extremes)
def log2e_before_the_maximum(x):
    """x is multiplied by log2(e) before the maximum is taken off: a logit of 1e4 then has four
    digits less for what is left.

    Subtract first, while the difference is exact: tl.exp2((x - top) * 1.4427).
    """
    y = raised(x) * 1.4426950408889634
    powers = torch.exp2(y - y.amax(-1, keepdim=True).nan_to_num(neginf=0.0))
    total = powers.sum(-1, keepdim=True)
    return (powers / total.masked_fill(total == 0, 1.0)).to(x.dtype)


@mistake(of="softmax", caught_by=test_half)
def statistics_in_half(x):
    """The powers and their sum are kept in the dtype of x, three digits in float16.

    Begin with x = x.to(tl.float32), and round when you store.
    """
    powers = (x - x.amax(-1, keepdim=True).nan_to_num(neginf=0.0)).exp()
    total = powers.sum(-1, keepdim=True)
    return powers / total.masked_fill(total == 0, 1.0)


@mistake(of="softmax", caught_by=test_softmax)
def block_of_1024(x):
    """The tile has 1024 columns, whatever the row has: what comes after them is left out.

    BLOCK must reach the end of the row: triton.next_power_of_2(n_cols).
    """
    y = torch.zeros_like(x, memory_format=torch.contiguous_format)
    y[:, :1024] = right_softmax(x[:, :1024])
    return y


@mistake(of="softmax", caught_by=test_softmax_layout)
def strides_of_x_taken_for_granted(x):
    """x is read as if its rows lay one after the other in memory.

    A transposed x has other strides: pass x.stride(0) and x.stride(1), and multiply by them.
    """
    return right_softmax(as_if_dense(x))


@mistake(of="softmax", caught_by=test_softmax_layout)
def result_laid_out_as_x(x):
    """The result has the strides of x (torch.empty_like keeps them), but is written row by row.

    Allocate it with torch.empty(x.shape, ...), or pass its column stride as well.
    """
    y = torch.empty_like(x)
    as_if_dense(y).copy_(right_softmax(x))
    return y


@mistake(of="softmax", caught_by=test_softmax)
def first_64_rows(x):
    """Programs are launched for the first 64 rows alone; the others stay as they were allocated.

    The grid has a program for each row: softmax_kernel[(x.shape[0],)](...).
    """
    y = torch.zeros(x.shape, dtype=x.dtype, device=x.device)
    y[:64] = right_softmax(x[:64])
    return y


@mistake(of="softmax", caught_by=test_softmax_extremes)
def maximum_at_least_zero(x):
    """The maximum begins with 0, so that it is never negative: rows of numbers below -104 vanish.

    Begin with -float("inf"), also in `other`, for what lies beyond the row.
    """
    top = raised(x).amax(-1, keepdim=True).clamp(min=0.0) if x.numel() else raised(x)
    powers = (raised(x) - top).exp()
    total = powers.sum(-1, keepdim=True)
    return (powers / total.masked_fill(total == 0, 1.0)).to(x.dtype)


@mistake(of="softmax", caught_by=test_softmax_extremes)
def tail_of_minus_1e4(x):
    """The places beyond the row are loaded as -1e4, which is more than what a row of -3e4 has.

    Load them as -float("inf"): no number is smaller.
    """
    length = 1 << max(x.shape[1] - 1, 0).bit_length()
    padded = torch.nn.functional.pad(raised(x), (0, length - x.shape[1]), value=-1e4)
    return right_softmax(padded)[:, : x.shape[1]].to(x.dtype)


@mistake(of="softmax", caught_by=test_softmax_extremes)
def one_column_is_one(x):
    """A row of one column has the weight 1, whatever it holds; minus infinity gives 0.

    Let the kernel compute such rows as all the others.
    """
    return torch.ones_like(x) if x.shape[1] == 1 else right_softmax(x)


@mistake(of="softmax", caught_by=test_softmax)
def small_shares_dropped(x):
    """Powers below 1e-5 count as 0, though thousands of them make a good part of the sum.

    Sum all of them: none is too small for float32.
    """
    powers = (raised(x) - raised(x).amax(-1, keepdim=True).nan_to_num(neginf=0.0)).exp()
    powers = powers.masked_fill(powers < 1e-5, 0.0)
    total = powers.sum(-1, keepdim=True)
    return (powers / total.masked_fill(total == 0, 1.0)).to(x.dtype)


@mistake(of="softmax", caught_by=test_softmax, null=True)
def no_weights(x):
    """Everything is zero.

    Launch the kernel on the result, and store into it.
    """
    return torch.zeros(x.shape, dtype=x.dtype, device=x.device)


@mistake(of="softmax", caught_by=test_softmax, null=True)
def equal_weights(x):
    """Every number of a row has the same weight, whatever is in it.

    The weights are the exponentials of the numbers.
    """
    return torch.full(x.shape, 1 / max(x.shape[1], 1), dtype=x.dtype, device=x.device)


@mistake(of="softmax", caught_by=test_softmax, null=True)
def largest_takes_all(x):
    """The largest number of each row has the weight 1, the others 0.

    That is the arg-max; the softmax gives every number a share.
    """
    return (x == x.amax(-1, keepdim=True)).to(x.dtype)


@mistake(of="softmax", caught_by=test_softmax, null=True)
def input_returned(x):
    """What comes back is x itself.

    Return the result that the kernel has written.
    """
    return x.clone()


@mistake(of="softmax", caught_by=test_empty)
def launched_for_nothing(x):
    """A matrix without rows or columns is an error: BLOCK and the grid are 0.

    Launch only if y.numel() is not 0.
    """
    if not x.numel():
        raise ValueError("a block of 0 columns")
    return right_softmax(x)


@mistake(of="softmax", caught_by=test_softmax_layout)
def softmax_in_one_place(x, places={}):  # noqa: B006 (that is the mistake)
    """Every answer of a form is written into the same memory, over the answer before it.

    Return a new tensor in every call.
    """
    return written_over(places, plain_softmax(x))
