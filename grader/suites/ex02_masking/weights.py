"""Compares a student's masked softmax with the reference's, in any dtype."""

import math

import torch

import reference
from grader.judging import Hard, agree, backward, lasting, same


def empty_rows_agree(student, draw, full, shape, dtype):
    """Compare weights for scores of the full shape and masks of another shape, with empty rows."""
    scores, keep = draw.normal(*full, dtype=dtype), draw.keep(*shape)
    keep[0] = False
    agree(student.masked_softmax(scores, keep), reference.masked_softmax(scores, keep))
    nothing = torch.zeros_like(keep)
    agree(student.masked_softmax(scores, nothing), reference.masked_softmax(scores, nothing))


def hidden_scores_change_nothing(student, draw, hidden, dtype):
    scores = draw.normal(2, 5, 17, dtype=dtype)
    for keep in (draw.keep(2, 5, 17), draw.keep(2, 1, 17)):
        filled = scores.double().masked_fill(~keep, hidden).to(dtype)
        weights = student.masked_softmax(filled, keep)
        agree(weights, reference.masked_softmax(scores, keep))
        none = torch.zeros_like(weights)
        same(weights.masked_fill(keep, 0.0), none, says="hidden weights")


def large_scores_agree(student, draw, dtype):
    near, far = draw.logits(16, 65, bound=1e4), draw.logits(65, 16, bound=1e4).mT
    for keep in (draw.keep(16, 65), draw.keep(1, 65), None):
        for scores in (near.to(dtype), far.to(dtype), draw.normal(16, 65, dtype=dtype) - 1e4):
            agree(student.masked_softmax(scores, keep), reference.masked_softmax(scores, keep))
    if dtype is not torch.float16:  # it has no number as low as that
        n = 17 if dtype is torch.bfloat16 else 300  # in bfloat16 more of them would tie
        q, k = draw.low(9, n, 8)
        scores, keep = (q @ k.mT * 8**-0.5).to(dtype), draw.keep(9, n)
        agree(student.masked_softmax(scores, keep), reference.masked_softmax(scores, keep))


def faint_scores_count(student, draw, dtype, below):
    """Compare weights in a row of 70,000 scores, so far below the last that they count together."""
    scores = (draw.normal(1, dtype=dtype) - below).repeat(70_000)
    scores[-1] += below  # last, so that a sum from left to right loses nothing
    keep = draw.keep(70_000, share=0.9)
    keep[-1] = True
    for mask in keep, None:
        agree(student.masked_softmax(scores, mask), reference.masked_softmax(scores, mask))


def crowded_scores_agree(student, draw, dtype, level):
    """Compare weights in a row of 20,000 scores whose powers exp holds, but not their sum."""
    scores, keep = level + draw.normal(20_000, scale=0.1, dtype=dtype), draw.keep(20_000, share=0.9)
    for mask in keep, None:
        agree(student.masked_softmax(scores, mask), reference.masked_softmax(scores, mask))


def changed_agree(student, draw, dtype, learns):
    """Compare answers to scores and masks that change between two calls: the first answer stays,
    and the next one is computed anew, even if a caller wrote into the first."""
    draw.hard(Hard.CHANGED)
    scores, keep = draw.normal(2, 3, 4, dtype=dtype).requires_grad_(learns), draw.keep(2, 3, 4)
    softmax, right = student.masked_softmax, reference.masked_softmax
    for mask in keep, None:
        with lasting(softmax, scores, mask):
            for change in scores.data.neg_, keep.logical_not_:
                change()
                agree(softmax(scores, mask), right(scores, mask))
        if not learns:
            softmax.held(scores, mask).change("fill_", 2.0)
            says = "weights (after the caller wrote into those of an earlier call)"
            agree(softmax(scores, mask), right(scores, mask), says)


def finer_than_half_agrees(student, draw, dtype):
    """Rows whose differences half precision cannot hold; a gradient whose sum is beyond it."""
    scores, keep = draw.normal(2, 1500, scale=0.2).clamp(-0.5, 0.5) - 3.5, draw.keep(2, 1500)
    scores[:, 0].neg_()  # the largest, about as heavy as all others together
    keep[:, 0] = True
    scores = scores.to(dtype)
    for mask in keep, None:
        right = reference.raised(reference.masked_softmax, scores, mask)
        agree(student.masked_softmax(scores, mask), right)
    level = draw.normal(1, 1, dtype=dtype).repeat(1, 70_000)
    upstream = (draw.normal(1, 70_000) + 2).to(dtype)
    gradient_agrees(student, level.clone(), level, draw.keep(70_000, share=0.9), upstream)


def gradients_agree(student, draw, dtype, offset=0.0):
    """Compare gradients for masks of every kind, with any scores behind the masks."""
    full, padding = draw.keep(2, 3, 4, 5), draw.keep(2, 1, 1, 5)
    full[0, 1], full[1, 0, 2] = False, False
    clean = draw.normal(2, 3, 4, 5, dtype=dtype) + offset
    upstream = draw.normal(2, 3, 4, 5, dtype=dtype)
    cases = [(full, 1.0), (full, math.inf), (full, math.nan), (padding, math.nan), (None, 0.0)]
    for keep, hidden in cases:
        scores = clean.clone() if keep is None else clean.masked_fill(~keep, hidden)
        gradient_agrees(student, scores, clean, keep, upstream)


def gradient_agrees(student, scores, clean, keep, upstream):
    """Compare the gradient of scores with that of clean scores: hidden ones change nothing."""
    weights = student.masked_softmax(scores.requires_grad_(), keep)
    agree(weights, reference.masked_softmax(clean, keep))
    [got] = backward(weights, scores, upstream=upstream)
    [expected] = reference.masked_softmax_gradients(clean, keep, upstream=upstream)
    agree(got, expected, says="gradient of scores")


def gradient_outlasts_a_call(student, draw):
    """Compare the gradient of a call that was followed by another call."""
    scores, other = (draw.normal(3, 5).requires_grad_() for _ in range(2))
    keep = draw.keep(3, 5)
    weights, _ = student.masked_softmax(scores, keep), student.masked_softmax(other, keep)
    [got] = backward(weights, scores, upstream=other.detach())
    [expected] = reference.masked_softmax_gradients(scores, keep, upstream=other.detach())
    agree(got, expected, says="gradient of scores (after a call for other scores)")
