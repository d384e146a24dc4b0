"""Wrong answers to `merge_partials`."""

import torch

from grader.judging import mistake
from grader.judging.one_place import written_over
from reference.ex10_online_softmax import (
    plain_merge_partials,
)

from ..test_online_softmax import (
    test_merge,
    test_merge_empty,
    test_merge_sizes,
)
from .shared import finite

# Task 2: two answers into one


def _weighted(a, b, weights, lse=None):
    """The outputs under these weights, and the right lse unless one is given."""
    parts = [torch.where((y == -torch.inf)[..., None], 0.0, x) for x, y in (a, b)]
    output = sum(w[..., None] * part for w, part in zip(weights, parts, strict=True))
    return output.to(a[0].dtype), plain_merge_partials(a, b)[1] if lse is None else lse


def _powers(a, b):
    """exp(lse) of both parts, with the larger lse subtracted."""
    base = finite(torch.maximum(a[1], b[1]))
    return torch.exp(a[1] - base), torch.exp(b[1] - base)


def _shares(a, b):
    one, other = _powers(a, b)
    total = torch.where(one + other == 0, 1.0, one + other)
    return one / total, other / total


@mistake(of="merge_partials", caught_by=test_merge)
def average_of_the_outputs(a, b):
    """The output is the plain average of the two.

    The part whose exponentials sum to more weighs more: by exp(lse).
    """
    half = torch.full_like(a[1], 0.5)
    return _weighted(a, b, (half, half))


@mistake(of="merge_partials", caught_by=test_merge)
def weights_not_normalised(a, b):
    """The weights exp(lse - larger lse) are not divided by their sum.

    Divide the sum of the weighted outputs by the sum of the weights.
    """
    return _weighted(a, b, _powers(a, b))


@mistake(of="merge_partials", caught_by=test_merge)
def lse_added(a, b):
    """The lse of both is the sum of the two lse.

    Add the exponentials, not the logarithms: log(exp(lse_a) + exp(lse_b)).
    """
    return _weighted(a, b, _shares(a, b), a[1] + b[1])


@mistake(of="merge_partials", caught_by=test_merge)
def exponentials_overflow(a, b):
    """exp(lse) is taken as it stands, and overflows or vanishes where lse is large.

    Subtract the larger lse from both first.
    """
    one, other = a[1].exp(), b[1].exp()
    return _weighted(a, b, (one / (one + other), other / (one + other)), (one + other).log())


@mistake(of="merge_partials", caught_by=test_merge_empty)
def nan_from_two_empty_parts(a, b):
    """Of two empty parts comes NaN: -inf - -inf.

    Subtract 0 where the larger lse is -inf, and divide by 1 where the sum of the weights is 0.
    """
    top = torch.maximum(a[1], b[1])
    one, other = torch.exp(a[1] - top), torch.exp(b[1] - top)
    shares = one / (one + other), other / (one + other)
    return _weighted(a, b, shares, top + torch.log(one + other))


@mistake(of="merge_partials", caught_by=test_merge_empty)
def nan_let_through(a, b):
    """The NaN in the output of an empty part gets through: its weight is 0, but 0 * NaN is NaN.

    Replace the output by 0 where the lse of its part is -inf.
    """
    shares = [w[..., None] * x for w, (x, _) in zip(_shares(a, b), (a, b), strict=True)]
    return sum(shares).to(a[0].dtype), plain_merge_partials(a, b)[1]


@mistake(of="merge_partials", caught_by=test_merge_empty)
def nan_repaired_in_the_output(a, b):
    """The NaN of empty parts is replaced in the answer, and comes back in the gradient.

    Do not let it arise: replace output and lse of an empty part before they are used.
    """
    lse = torch.logaddexp(a[1], b[1])
    parts = [torch.exp(y - lse)[..., None] * x for x, y in (a, b)]
    return sum(part.nan_to_num(0, 0, 0) for part in parts).to(a[0].dtype), lse


@mistake(of="merge_partials", caught_by=test_merge, null=True)
def first_part_returned(a, b):
    """The first part is returned as it came.

    Mix both outputs, weighted by exp(lse).
    """
    return a[0] + 0, a[1] + 0


@mistake(of="merge_partials", caught_by=test_merge_sizes)
def second_part_overwritten(a, b):
    """The second output is weighed in place, so that it is changed, and the first with it if both
    are one tensor.

    Write output * weight, which makes a new tensor, not output *= weight.
    """
    right = plain_merge_partials(a, b)
    if a[0] is b[0]:
        b[0].mul_(0.5)
    return right


@mistake(of="merge_partials", caught_by=test_merge_sizes)
def merged_in_one_place(a, b, places={}):  # noqa: B006 (that is the mistake)
    """Every answer of a form is written into the same memory, over the answer before it.

    Return new tensors in every call.
    """
    return written_over(places, plain_merge_partials(a, b))


@mistake(of="merge_partials", caught_by=test_merge)
def low_parts_left_out(a, b):
    """A part whose lse is below -1e30 counts as one that saw nothing.

    Only -inf says so: scores may be as low as -1e32.
    """
    return plain_merge_partials(*((x, y.masked_fill(y < -1e30, -torch.inf)) for x, y in (a, b)))
