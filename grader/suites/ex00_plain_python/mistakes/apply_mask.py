"""Wrong answers to `apply_mask`."""

import math

from grader.judging import mistake
from reference.ex00_plain_python import (
    plain_apply_mask,
)

from ..test_plain_python import (
    test_mask,
)

# apply_mask


@mistake(of="apply_mask", caught_by=test_mask)
def zero_taken_for_hidden(scores, keep):
    """A kept score of 0 becomes -inf: `kept and score or -math.inf` takes 0 for False.

    Write `score if kept else -math.inf`.
    """
    pairs = [zip(*both, strict=True) for both in zip(scores, keep, strict=True)]
    return [[(kept and score) or -math.inf for score, kept in row] for row in pairs]


@mistake(of="apply_mask", caught_by=test_mask)
def mask_inverted(scores, keep):
    """What should be kept is hidden, and what should be hidden is kept.

    True means "may attend": the score where `keep` is True, -math.inf where it is False.
    """
    return plain_apply_mask(scores, [[not seen for seen in row] for row in keep])


def filled(scores, keep, number):
    """Another number than -inf in the hidden places."""
    return [
        [number if x == -math.inf and not seen else x for x, seen in zip(row, mask, strict=True)]
        for row, mask in zip(plain_apply_mask(scores, keep), keep, strict=True)
    ]


@mistake(of="apply_mask", caught_by=test_mask)
def filled_with_zero(scores, keep):
    """Hidden scores become 0, which is a score like any other: its exponential is 1.

    Put -math.inf there, whose exponential is 0.
    """
    return filled(scores, keep, 0.0)


@mistake(of="apply_mask", caught_by=test_mask)
def filled_with_a_finite_number(scores, keep):
    """Hidden scores become -1e9, so that a row that sees nothing shares its weight out equally.

    Put -math.inf there.
    """
    return filled(scores, keep, -1e9)


def changed(scores, keep, change):
    """Hidden scores are computed with instead of replaced."""
    return [
        [x if seen else change(x) for x, seen in zip(row, mask, strict=True)]
        for row, mask in zip(scores, keep, strict=True)
    ]


@mistake(of="apply_mask", caught_by=test_mask)
def minus_infinity_added(scores, keep):
    """-inf is added to hidden scores, and with NaN or inf that gives NaN.

    Put -math.inf in the place of the score: x if seen else -math.inf.
    """
    return changed(scores, keep, lambda x: x - math.inf)


@mistake(of="apply_mask", caught_by=test_mask)
def multiplied_with_the_mask(scores, keep):
    """The scores are multiplied with the mask, which makes hidden ones 0 or NaN.

    Put -math.inf in the place of a hidden score.
    """
    return changed(scores, keep, lambda x: x * 0)


@mistake(of="apply_mask", caught_by=test_mask)
def masked_in_place(scores, keep):
    """The mask is written into the caller's scores.

    Build a new list for each row.
    """
    scores[:] = plain_apply_mask(scores, keep)
    return scores


@mistake(of="apply_mask", caught_by=test_mask, null=True)
def mask_ignored(scores, keep):
    """The scores come back as they are: nothing is hidden.

    Put -math.inf where `keep` is False.
    """
    return [list(row) for row in scores]
