"""Masking: the masks themselves, then the softmax behind them."""

import math

import pytest
import torch
from torch import bfloat16, float16, float32, float64, int8, int32, int64, uint8

import reference
from grader.judging import Hard, agree, check, gradcheck, lasting, on_meta, same, untouched

from . import together
from .weights import (
    changed_agree,
    crowded_scores_agree,
    empty_rows_agree,
    faint_scores_count,
    finer_than_half_agrees,
    gradient_agrees,
    gradient_outlasts_a_call,
    gradients_agree,
    hidden_scores_change_nothing,
    large_scores_agree,
)

MASKS = [(3, 5), (1,), (7,), (2, 1, 17), (4, 3, 65), (0, 3, 5)]
SCORES = [(3, 5), (2, 1, 17), (2, 17, 3), (2, 3, 4, 65), (1, 1)]
DTYPES = [float16, bfloat16, float32, float64]
HIDDEN = [0.0, 1e30, math.inf, -math.inf, math.nan]
USUAL = {"B": 2, "H": 3, "Lq": 4, "Lk": 5}
HARD = [Hard.SQUARE, Hard.ONE, Hard.LONG]
WRITTEN = "mask (after the caller wrote into that of an earlier call)"


def shapes(draw, case, **usual):
    """The shapes of a case: those of a hard kind, or its own."""
    if isinstance(case, Hard):
        return [tuple(sizes.values()) for sizes in draw.hard(case, **usual)]
    return [case]


@check(points=1)
@pytest.mark.parametrize("dtype", [float32, float64, float16, bfloat16])
@pytest.mark.parametrize("case", [*MASKS, *HARD])
def test_additive_mask(student, draw, case, dtype):
    """additive_mask is 0 where keep is True and -inf where it is False, in the dtype asked for, on
    the device of keep, and made anew in every call."""
    for shape in shapes(draw, case, **USUAL):
        keep = draw.keep(*shape)
        mask = untouched(lambda keep=keep: student.additive_mask(keep, dtype))
        agree(mask, reference.additive_mask(keep, dtype))
        turned = keep.movedim(0, -1)  # not contiguous
        agree(student.additive_mask(turned, dtype), reference.additive_mask(turned, dtype))
    corner = keep.flatten()[:1].squeeze() if keep.numel() else draw.keep(1).squeeze()
    agree(student.additive_mask(corner, dtype), reference.additive_mask(corner, dtype))
    draw.hard(Hard.CHANGED)
    with lasting(student.additive_mask, keep, dtype):
        keep.logical_not_()
        agree(student.additive_mask(keep, dtype), reference.additive_mask(keep, dtype))
    for mask in keep, torch.ones_like(corner).expand(3, 5):  # a caller may write into an answer
        student.additive_mask.held(mask, dtype).change("fill_", 1.0)
        agree(student.additive_mask(mask, dtype), reference.additive_mask(mask, dtype), WRITTEN)
    draw.hard(Hard.DEVICE)
    on_meta(student.additive_mask, keep.to("meta"), dtype)


@check(points=1)
@pytest.mark.parametrize("case", [*MASKS, *HARD])
def test_keep_from_blocked(student, draw, case):
    """keep_from_blocked is True where blocked is False, and leaves blocked, in any layout, as it
    was."""
    for shape in shapes(draw, case, **USUAL):
        blocked = draw.keep(*shape)
        keep = untouched(lambda blocked=blocked: student.keep_from_blocked(blocked))
        agree(keep, reference.keep_from_blocked(blocked))
        for view in blocked.movedim(0, -1), blocked.expand(2, *shape):  # not contiguous
            agree(student.keep_from_blocked(view), reference.keep_from_blocked(view))
    for alone in torch.tensor([True, False], device=blocked.device):  # no dimensions
        agree(student.keep_from_blocked(alone), reference.keep_from_blocked(alone))
    draw.hard(Hard.CHANGED)
    with lasting(student.keep_from_blocked, blocked):
        blocked.logical_not_()
        agree(student.keep_from_blocked(blocked), reference.keep_from_blocked(blocked))
    student.keep_from_blocked.held(blocked).change("logical_not_")
    right = reference.keep_from_blocked(blocked)
    agree(student.keep_from_blocked(blocked), right, says=WRITTEN)
    draw.hard(Hard.DEVICE)
    on_meta(student.keep_from_blocked, blocked.to("meta"))


@check(points=1)
@pytest.mark.parametrize("dtype", [int64, int32, int8, uint8])
@pytest.mark.parametrize("case", [(5, 7), (1, 3), (17, 300), (4, 1), (0, 5), Hard.ONE, Hard.LONG])
def test_padding_mask(student, draw, device, case, dtype):
    """padding_mask keeps the first lengths[b] of max_len keys, as (B, 1, 1, L), on the device of
    the lengths."""
    for batch, max_len in shapes(draw, case, B=3, L=5):
        longest = min(max_len, torch.iinfo(dtype).max)
        ends = torch.tensor([longest, 0], device=device)[:batch]
        lengths = torch.cat([ends, draw.integers(0, longest, max(batch - 2, 0))]).to(dtype)
        keep = untouched(lambda args=(lengths, max_len): student.padding_mask(*args))
        agree(keep, reference.padding_mask(lengths, max_len))
        fewer = lengths[::2], max_len + 2  # not contiguous, and none reaches the end of the mask
        agree(student.padding_mask(*fewer), reference.padding_mask(*fewer))
    if dtype is int64 and case == (17, 300):  # once: more than int16 counts, or float16 tells apart
        many = draw.integers(33_000, 35_000, 3), 35_000
        agree(student.padding_mask(*many), reference.padding_mask(*many))
    draw.hard(Hard.CHANGED)
    with lasting(student.padding_mask, lengths, max_len):
        lengths.copy_(longest - lengths)
        agree(student.padding_mask(lengths, max_len), reference.padding_mask(lengths, max_len))
    student.padding_mask.held(lengths, max_len).change("logical_not_")
    right = reference.padding_mask(lengths, max_len)
    agree(student.padding_mask(lengths, max_len), right, says=WRITTEN)
    draw.hard(Hard.DEVICE)
    on_meta(student.padding_mask, lengths.to("meta"), max_len=max_len)


@check(points=1)
@pytest.mark.parametrize(
    "case",
    [
        [(3, 5), (3, 5)],
        [(4, 3, 65)],
        [(2, 1, 1, 7), (5, 7)],
        [(5, 7), (2, 1, 1, 7), (2, 3, 1, 7)],
        [None, (3, 5), None, (5,), None],
        [(3, 5), (3, 5), None, (5,)],
        [None, (2, 17)],
        [(0, 1, 1, 5), (3, 5)],
        *HARD,
        "together",
    ],
)
def test_combine_masks(student, draw, case):
    """combine_masks keeps what every mask keeps, skips None, and is None if nothing is left; it
    leaves the masks as they were, and works on their device; any three kinds may meet."""
    if case == "together":
        together.masks_agree(student, draw)
        return
    if isinstance(case, Hard):
        cases = [[(B, 1, 1, Lk), (H, Lq, Lk)] for B, H, Lq, Lk in shapes(draw, case, **USUAL)]
    else:
        cases = [case]
    for given in cases:
        masks = [None if shape is None else draw.keep(*shape) for shape in given]
        keep = untouched(lambda masks=masks: student.combine_masks(*masks))
        agree(keep, reference.combine_masks(*masks))
    draw.hard(Hard.SAME)
    masks = draw.keep(3, 5), draw.keep(5)
    agree(student.combine_masks(*masks, *masks), reference.combine_masks(*masks))
    draw.hard(Hard.CHANGED)
    with lasting(student.combine_masks, *masks):
        for mask in masks:
            mask.logical_not_()
            agree(student.combine_masks(*masks), reference.combine_masks(*masks))
    student.combine_masks.held(*masks).change("logical_not_")
    agree(student.combine_masks(*masks), reference.combine_masks(*masks), says=WRITTEN)
    nothing, one = draw.keep(5) & False, draw.keep(1)[0]  # the latter has no dimensions
    many = [mask for mask in masks for _ in range(128)]
    several = [draw.keep(4, 17, share=0.9) for _ in range(7)]
    few = [one], [None, ~one], [one, masks[0]], several[:5]
    for given in [nothing, *masks], [*masks, nothing], *few, many, several:
        agree(student.combine_masks(*given), reference.combine_masks(*given))
    same(student.combine_masks(), None)
    same(student.combine_masks(None, None), None)
    draw.hard(Hard.DEVICE)
    on_meta(student.combine_masks, *(mask.to("meta") for mask in masks))


@check(points=1)
@pytest.mark.parametrize("case", [*SCORES, Hard.SQUARE, Hard.LONG])
def test_values(student, draw, case):
    """masked_softmax is the softmax over the kept keys: e^score over the sum of the kept ones
    (float32, any sizes)."""
    for shape in shapes(draw, case, **USUAL):
        scores, keep = draw.normal(*shape), draw.keep(*shape)
        scores[..., 0] = 0.0  # a score like any other
        agree(student.masked_softmax(scores, keep), reference.masked_softmax(scores, keep))


@check(points=1, needs=[test_values])
@pytest.mark.parametrize(
    "case", [(4, 1, 1, 4), (4, 4), (4,), (4, 1, 4, 4), (1, 2, 1, 4), Hard.ONE, Hard.LONG]
)
def test_broadcasting(student, draw, case):
    """masked_softmax takes masks that broadcast, such as padding (B, 1, 1, L), and None for all."""
    # As many sentences as queries as keys: a mask on the wrong axis raises no error, it is wrong.
    if not isinstance(case, Hard):
        scores, keep = draw.normal(4, 2, 4, 4), draw.keep(*case)
        agree(student.masked_softmax(scores, keep), reference.masked_softmax(scores, keep))
        for keep in (None, *torch.tensor([True, False], device=scores.device)):
            agree(student.masked_softmax(scores, keep), reference.masked_softmax(scores, keep))
        return
    for B, H, Lq, Lk in shapes(draw, case, **USUAL):
        scores = draw.normal(B, H, Lq, Lk)
        for keep in (draw.keep(B, 1, 1, Lk), draw.keep(Lq, Lk), None):
            agree(student.masked_softmax(scores, keep), reference.masked_softmax(scores, keep))


@check(points=1, needs=[test_values])
@pytest.mark.parametrize("case", [(4, 5), (2, 3, 4, 5), (2, 1, 1, 5), (4, 1), Hard.ONE])
def test_empty_rows(student, draw, case):
    """A row that keeps nothing has weights 0: no NaN, and no equal shares (float32)."""
    for shape in shapes(draw, case, **USUAL):
        full = shape if isinstance(case, Hard) else tuple(USUAL.values())
        empty_rows_agree(student, draw, full, shape, float32)


@check(points=1, needs=[test_values])
@pytest.mark.parametrize("hidden", HIDDEN)
def test_hidden_scores(student, draw, hidden):
    """A hidden key has weight exactly 0, and its score, be it NaN or infinite, changes nothing
    (float32)."""
    hidden_scores_change_nothing(student, draw, hidden, float32)


@check(points=1, needs=[test_values, test_broadcasting])
def test_large_scores(student, draw):
    """masked_softmax is right for scores as large as 10,000, near to each other or far apart
    (float32)."""
    large_scores_agree(student, draw, float32)
    for scores in draw.scores(3, 70).values():
        for keep in (draw.keep(3, 70), draw.keep(70), None):
            agree(student.masked_softmax(scores, keep), reference.masked_softmax(scores, keep))
    faint_scores_count(student, draw, float32, below=24.0)
    crowded_scores_agree(student, draw, float32, level=79.3)


@check(points=1, needs=[test_values])
@pytest.mark.parametrize("dtype", [float16, bfloat16, float64])
def test_precisions(student, draw, dtype):
    """masked_softmax computes half precision in float32 and gives it back in half precision; in
    float64 it keeps the digits of float64. So it is with hidden scores, empty rows, scores of
    10,000, rows of 70,000 and the gradient."""
    for shape in (4, 5), (2, 3, 4, 5), (2, 1, 1, 5):
        empty_rows_agree(student, draw, (2, 3, 4, 5), shape, dtype)
    for hidden in HIDDEN:
        hidden_scores_change_nothing(student, draw, hidden, dtype)
    large_scores_agree(student, draw, dtype)
    together.softmax_agrees(student, draw, dtype)
    for offset in (0, 1e3) if dtype is float64 else (0,):
        gradients_agree(student, draw, dtype, offset)
    if dtype is float64:
        faint_scores_count(student, draw, dtype, below=33.0)
        crowded_scores_agree(student, draw, dtype, level=701.0)
        small, corner = draw.normal(2, 3, dtype=float64).requires_grad_(), draw.keep(2, 3)
        corner[1] = False
        gradcheck(lambda x: student.masked_softmax(x, corner), small)
        return
    shape = 4, 2, 4, 65
    for keep in (draw.keep(*shape), draw.keep(4, 1, 1, 65), None):
        for scores in (draw.normal(*shape, dtype=dtype), draw.logits(*shape, bound=1e4).to(dtype)):
            agree(student.masked_softmax(scores, keep), reference.masked_softmax(scores, keep))
    level = draw.normal(2, 1, dtype=dtype).expand(2, 70_000)
    padding = reference.padding_mask(draw.integers(66_000, 69_000, 2), 70_000).plain[:, 0, 0]
    for keep in (padding, padding[0], None):
        weights = student.masked_softmax(level, keep)
        agree(weights, reference.raised(reference.masked_softmax, level, keep))
        agree(weights.double().sum(-1), torch.ones(2), says="row sums", within=0.02)
    finer_than_half_agrees(student, draw, dtype)


@check(points=1, needs=[test_values, test_broadcasting, test_empty_rows, test_hidden_scores])
@pytest.mark.parametrize("case", [None, *HARD])
def test_gradient(student, draw, case):
    """The gradient is right, and 0 for hidden scores and empty rows, whatever they hold
    (float32)."""
    if case is None:
        for offset in 0, 100:
            gradients_agree(student, draw, float32, offset)
        gradient_outlasts_a_call(student, draw)
        return
    for shape in shapes(draw, case, **USUAL):
        scores, upstream = draw.normal(*shape), draw.normal(*shape)
        for keep in (draw.keep(*shape), None):
            gradient_agrees(student, scores.clone(), scores, keep, upstream)


@check(points=1, needs=[test_values])
@pytest.mark.parametrize("dtype", [*DTYPES, "together"])
def test_manners(student, draw, dtype):
    """masked_softmax leaves its inputs alone, heeds numbers that have changed, and works on their
    device; they may be strided, expanded, or a batch of none. No masks, sizes, layouts and dtypes
    disturb each other, in the gradient too."""
    if dtype == "together":
        together.softmax_agrees(student, draw, float32)
        return
    scores, keep, padding = (
        draw.normal(2, 5, 6, dtype=dtype),
        draw.keep(2, 5, 6),
        draw.keep(2, 1, 6),
    )
    keep[1, 2], padding[1] = False, False
    for mask in (keep, padding, None):
        first = untouched(lambda mask=mask: student.masked_softmax(scores, mask))
        again = student.masked_softmax(scores, mask)
        same(again, first, says="the second answer to the same call")
    for inputs in ([scores[:0], keep[:0]], [scores[:0], None]):
        agree(student.masked_softmax(*inputs), reference.masked_softmax(*inputs))
    for learns in False, True:
        changed_agree(student, draw, dtype, learns)
    if dtype is not float32:
        return
    turned = [draw.strided(3, 5, 4), draw.keep(3, 5, 4).mT.contiguous().mT]
    expanded = [draw.normal(1, 7).expand(4, 7), draw.keep(1, 7).expand(4, 7)]
    for inputs in (turned, expanded):
        agree(student.masked_softmax(*inputs), reference.masked_softmax(*inputs))
    draw.hard(Hard.DEVICE)
    for mask in keep.to("meta"), None:
        on_meta(student.masked_softmax, scores.to("meta"), mask)
