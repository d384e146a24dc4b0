"""Masking: the masks themselves, then the softmax behind them."""

import math

import pytest
import torch
from torch import bfloat16, float16, float32, float64, int32, int64

from grader.judging import agree, backward, check, gradcheck, same, untouched
from reference import ex02_masking as reference

MASKS = [(3, 5), (1,), (7,), (2, 1, 17), (4, 3, 65), (0, 3, 5)]
SCORES = [(3, 5), (2, 1, 17), (2, 17, 3), (2, 3, 4, 65), (1, 1)]
HALVES = [float16, bfloat16]
DTYPES = [*HALVES, float32, float64]


@check(points=1)
@pytest.mark.parametrize("dtype", [float32, float64, float16, bfloat16])
@pytest.mark.parametrize("shape", MASKS)
def test_additive_mask(student, draw, shape, dtype):
    """additive_mask is 0 where keep is True and -inf where it is False, in the dtype asked for."""
    keep = draw.keep(*shape)
    mask = untouched(lambda: student.additive_mask(keep, dtype))
    agree(mask, reference.additive_mask(keep, dtype))
    turned = keep.movedim(0, -1)  # not contiguous
    agree(student.additive_mask(turned, dtype), reference.additive_mask(turned, dtype))


@check(points=1)
@pytest.mark.parametrize("shape", MASKS)
def test_keep_from_blocked(student, draw, shape):
    """keep_from_blocked is True where blocked is False, and leaves blocked as it was."""
    blocked = draw.keep(*shape)
    keep = untouched(lambda: student.keep_from_blocked(blocked))
    agree(keep, reference.keep_from_blocked(blocked))
    turned = blocked.movedim(0, -1)  # not contiguous
    agree(student.keep_from_blocked(turned), reference.keep_from_blocked(turned))


@check(points=1)
@pytest.mark.parametrize("dtype", [int64, int32])
@pytest.mark.parametrize(("batch", "max_len"), [(5, 7), (1, 3), (17, 300), (4, 1), (0, 5)])
def test_padding_mask(student, draw, device, batch, max_len, dtype):
    """padding_mask keeps the first lengths[b] of max_len keys, as (B, 1, 1, L)."""
    ends = torch.tensor([max_len, 0], device=device)[:batch]
    lengths = torch.cat([ends, draw.integers(0, max_len, max(batch - 2, 0))]).to(dtype)
    keep = untouched(lambda: student.padding_mask(lengths, max_len))
    agree(keep, reference.padding_mask(lengths, max_len))
    shorter = lengths[::2]  # not contiguous, and none of them reaches the end of the mask
    agree(student.padding_mask(shorter, max_len + 2), reference.padding_mask(shorter, max_len + 2))


@check(points=1)
@pytest.mark.parametrize(
    "shapes",
    [
        [(3, 5), (3, 5)],
        [(4, 3, 65)],
        [(2, 1, 1, 7), (5, 7)],
        [(5, 7), (2, 1, 1, 7), (2, 3, 1, 7)],
        [None, (3, 5), None, (5,), None],
        [(3, 5), (3, 5), None, (5,)],
        [None, (2, 17)],
        [(0, 1, 1, 5), (3, 5)],
    ],
)
def test_combine_masks(student, draw, shapes):
    """combine_masks keeps what every mask keeps, skips None, and is None if nothing is left."""
    masks = [None if shape is None else draw.keep(*shape) for shape in shapes]
    keep = untouched(lambda: student.combine_masks(*masks))
    agree(keep, reference.combine_masks(*masks))
    same(student.combine_masks(), None)
    same(student.combine_masks(None, None), None)


@check(points=1)
@pytest.mark.parametrize("dtype", [float32, float64])
@pytest.mark.parametrize("shape", SCORES)
def test_values(student, draw, shape, dtype):
    """masked_softmax is the softmax over the kept keys: e^score over the sum of the kept ones."""
    scores, keep = draw.normal(*shape, dtype=dtype), draw.keep(*shape)
    scores[..., 0] = 0.0  # a score like any other
    agree(student.masked_softmax(scores, keep), reference.masked_softmax(scores, keep))


@check(points=1, needs=[test_values])
@pytest.mark.parametrize("dtype", [float32, float64])
@pytest.mark.parametrize("shape", [(4, 1, 1, 4), (4, 4), (4,), (4, 1, 4, 4), (1, 2, 1, 4)])
def test_broadcasting(student, draw, shape, dtype):
    """masked_softmax takes masks that broadcast, such as padding (B, 1, 1, L), and None for all."""
    # As many sentences as queries as keys: a mask on the wrong axis raises no error, it is wrong.
    scores, keep = draw.normal(4, 2, 4, 4, dtype=dtype), draw.keep(*shape)
    agree(student.masked_softmax(scores, keep), reference.masked_softmax(scores, keep))
    agree(student.masked_softmax(scores, None), reference.masked_softmax(scores, None))


@check(points=1, needs=[test_values])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(4, 5), (2, 3, 4, 5), (2, 1, 1, 5), (4, 1)])
def test_empty_rows(student, draw, shape, dtype):
    """A row that keeps nothing has weights 0: no NaN, and no equal shares."""
    scores, keep = draw.normal(2, 3, 4, 5, dtype=dtype), draw.keep(*shape)
    keep[0] = False
    agree(student.masked_softmax(scores, keep), reference.masked_softmax(scores, keep))
    nothing = torch.zeros_like(keep)
    agree(student.masked_softmax(scores, nothing), reference.masked_softmax(scores, nothing))


@check(points=1, needs=[test_values])
@pytest.mark.parametrize("hidden", [0.0, 1e30, math.inf, -math.inf, math.nan])
@pytest.mark.parametrize("dtype", DTYPES)
def test_hidden_scores(student, draw, hidden, dtype):
    """A hidden key has weight exactly 0, and its score, be it NaN or infinite, changes nothing."""
    scores = draw.normal(2, 5, 17, dtype=dtype)
    for keep in (draw.keep(2, 5, 17), draw.keep(2, 1, 17)):
        filled = scores.double().masked_fill(~keep, hidden).to(dtype)
        weights = student.masked_softmax(filled, keep)
        agree(weights, reference.masked_softmax(scores, keep))
        none = torch.zeros_like(weights)
        same(weights.masked_fill(keep, 0.0), none, says="hidden weights")


@check(points=1, needs=[test_values, test_broadcasting])
@pytest.mark.parametrize("dtype", [float32, float64])
def test_large_scores(student, draw, dtype):
    """masked_softmax is right for scores as large as 10,000, near to each other or far apart."""
    near, far = draw.logits(16, 65, bound=1e4), draw.logits(65, 16, bound=1e4).mT
    for keep in (draw.keep(16, 65), draw.keep(1, 65), None):
        for scores in (near.to(dtype), far.to(dtype), draw.normal(16, 65, dtype=dtype) - 1e4):
            agree(student.masked_softmax(scores, keep), reference.masked_softmax(scores, keep))


@check(points=1, needs=[test_values, test_broadcasting])
@pytest.mark.parametrize("dtype", HALVES)
def test_half_precision(student, draw, dtype):
    """masked_softmax computes half precision in float32, and gives it back in half precision."""
    shape = 4, 2, 4, 65
    for keep in (draw.keep(*shape), draw.keep(4, 1, 1, 65), None):
        for scores in (draw.normal(*shape, dtype=dtype), draw.logits(*shape, bound=1e4).to(dtype)):
            agree(student.masked_softmax(scores, keep), reference.masked_softmax(scores, keep))
    level = draw.normal(2, 1, dtype=dtype).expand(2, 70_000)
    padding = reference.padding_mask(draw.integers(66_000, 69_000, 2), 70_000).plain[:, 0, 0]
    for keep in (padding, padding[0], None):
        weights = student.masked_softmax(level, keep)
        agree(weights, reference.masked_softmax(level, keep))
        agree(weights.double().sum(-1), torch.ones(2), says="row sums", within=0.02)


@check(points=1, needs=[test_values, test_broadcasting, test_empty_rows, test_hidden_scores])
@pytest.mark.parametrize(
    ("dtype", "offset"), [(float16, 0), (bfloat16, 0), (float32, 0), (float64, 0), (float64, 1e3)]
)
def test_gradient(student, draw, dtype, offset):
    """The gradient is right, and 0 for hidden scores and empty rows, whatever they hold."""
    full, padding = draw.keep(2, 3, 4, 5), draw.keep(2, 1, 1, 5)
    full[0, 1], full[1, 0, 2] = False, False
    clean = draw.normal(2, 3, 4, 5, dtype=dtype) + offset
    upstream = draw.normal(2, 3, 4, 5, dtype=dtype)
    for keep, hidden in [
        (full, 1.0),
        (full, math.inf),
        (full, math.nan),
        (padding, math.nan),
        (None, 0.0),
    ]:
        scores = clean.clone() if keep is None else clean.masked_fill(~keep, hidden)
        weights = student.masked_softmax(scores.requires_grad_(), keep)
        agree(weights, reference.masked_softmax(clean, keep))
        [got] = backward(weights, scores, upstream=upstream)
        [expected] = reference.masked_softmax_gradients(clean, keep, upstream=upstream)
        agree(got, expected, says="gradient of scores")
    small, corner = draw.normal(2, 3, dtype=float64).requires_grad_(), draw.keep(2, 3)
    corner[1] = False
    gradcheck(lambda x: student.masked_softmax(x, corner), small)


@check(points=1, needs=[test_values])
@pytest.mark.parametrize("dtype", DTYPES)
def test_manners(student, draw, dtype):
    """masked_softmax leaves its inputs alone; they may be strided, expanded, or a batch of none."""
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
    turned = [draw.strided(3, 5, 4, dtype=dtype), draw.keep(3, 5, 4).mT.contiguous().mT]
    expanded = [draw.normal(1, 7, dtype=dtype).expand(4, 7), draw.keep(1, 7).expand(4, 7)]
    for inputs in (turned, expanded, [scores[:0], keep[:0]], [scores[:0], None]):
        agree(student.masked_softmax(*inputs), reference.masked_softmax(*inputs))
