"""Properties of weights, by themselves and under a mask, each with a small experiment.

A probe calls a function on small inputs and returns the fact that refutes the property, or None.
It also gets the right function; a probe that the right function does not pass does not count.
"""

import numpy as np
import torch

from grader.core.diagnosis_records import Fact
from grader.diagnosis.probed_function import CLOSE, ProbedFunction, distance, fact
from grader.judging.draw import Draw

TINY = 1e-5  # how far the sum of weights in float32 may be from 1
SMALL = 3  # rows and keys


def probe_row_sums(f: ProbedFunction, right: ProbedFunction, draw: Draw) -> Fact | None:
    """The weights of a row are not negative, and sum to one."""
    weights = f.weigh(draw.normal(4, 4))
    if not np.isfinite(weights).all():
        return None
    if weights.min() < -TINY:
        return fact("negative_weights", least=weights.min())
    sums = weights.sum(-1)
    far = sums[np.abs(sums - 1).argmax()]
    if abs(far - 1) <= TINY:
        return None
    if np.abs(weights.sum(-2) - 1).max() <= TINY:
        return fact("columns_sum", sum=far)
    if abs(weights.sum() - 1) <= TINY:
        return fact("table_sum", sum=far)
    return fact("row_sums", sum=far)


def probe_shift(f: ProbedFunction, right: ProbedFunction, draw: Draw) -> Fact | None:
    """The same number added to all scores of a row changes no weight."""
    scores = draw.normal(SMALL, SMALL)
    change = distance(f.weigh(scores), f.weigh(scores + 1))
    return fact("shift", change=change) if change > CLOSE else None


def probe_order(f: ProbedFunction, right: ProbedFunction, draw: Draw) -> Fact | None:
    """A larger score has a larger weight."""
    weights = f.weigh(torch.tensor([[0.0, 1.0, 2.0], [2.0, 0.0, 1.0], [1.0, 2.0, 0.0]]))
    if not np.isfinite(weights).all() or distance(weights, weights[:1].repeat(3, 0)) <= CLOSE:
        return None
    for row, (low, high) in enumerate([(0, 2), (1, 0), (2, 1)]):
        if weights[row, low] > weights[row, high] + CLOSE:
            return fact("order", low=weights[row, low], high=weights[row, high])
    return None


def probe_other_rows(f: ProbedFunction, right: ProbedFunction, draw: Draw) -> Fact | None:
    """The weights of a row do not depend on the scores of another row."""
    scores = draw.normal(SMALL, SMALL)
    other = scores.clone()
    other[1:] = draw.normal(SMALL - 1, SMALL)
    change = distance(f.weigh(scores)[:1], f.weigh(other)[:1])
    return fact("other_rows", change=change) if change > CLOSE else None


def probe_large_scores(f: ProbedFunction, right: ProbedFunction, draw: Draw) -> Fact | None:
    """Scores of 1000 have weights, of either sign."""
    for size in (1000.0, -1000.0):
        rows = torch.tensor([[0.0, 1.0, 2.0], [1.0, 0.0, 0.0], [2.0, 2.0, 1.0]])
        if not np.isfinite(f.weigh(rows)).all():
            return None
        if not np.isfinite(f.weigh(rows + size)).all():
            return fact("large_scores", score=size)
    return None


def probe_rows_apart(f: ProbedFunction, right: ProbedFunction, draw: Draw) -> Fact | None:
    """A row of small scores has weights beside a row of large ones."""
    scores = draw.normal(2, 2)
    apart = scores + torch.tensor([[0.0], [500.0]])
    before, after = f.weigh(scores), f.weigh(apart)
    if distance(before, right.weigh(scores)) > CLOSE or not np.isfinite(before).all():
        return None
    wrong = ~np.isfinite(after[0]).all() or distance(before[:1], after[:1]) > CLOSE
    return fact("rows_apart", size=500) if wrong and np.isfinite(right.weigh(apart)).all() else None


def probe_float16(f: ProbedFunction, right: ProbedFunction, draw: Draw) -> Fact | None:
    """float16 gives finite weights where float32 does."""
    rows = torch.tensor([[12.0, 11.0, 12.5], [0.0, 1.0, 2.0], [12.0, 12.0, 12.0]])
    if not distance(f.weigh(rows), right.weigh(rows)) <= CLOSE:
        return None
    weights = f.weigh(rows.half())
    return None if np.isfinite(weights).all() else fact("float16", score=12.5)


def probe_axis(f: ProbedFunction, right: ProbedFunction, draw: Draw) -> Fact | None:
    """The axis that is given is heeded."""
    if len(f.parameters) < 2:
        return None
    x = draw.normal(SMALL, SMALL)
    same = distance(f(x, 0), f(x, -1)) == 0
    return fact("axis_ignored") if same else None


def probe_mask(f: ProbedFunction, right: ProbedFunction, draw: Draw) -> Fact | None:
    """A hidden key has no weight."""
    scores, keep = draw.normal(3, 3), torch.tensor([[1, 1, 0], [0, 1, 1], [1, 0, 0]]).bool()
    weights, hidden = f.weigh(scores, keep), ~keep.numpy()
    if not np.isfinite(weights).all():
        return None
    if weights[~hidden].max() <= TINY and weights[hidden].min() >= 0.05:
        return fact("mask_inverted")
    if distance(weights, f.weigh(scores, torch.ones_like(keep))) == 0:
        return fact("mask_ignored")
    largest = weights[hidden].max()
    if largest > TINY:
        return fact("hidden_weight", weight=largest)
    sums = weights.sum(-1)
    far = sums[np.abs(sums - 1).argmax()]
    return fact("masked_sum", sum=far) if abs(far - 1) > TINY else None


def probe_hidden_score(f: ProbedFunction, right: ProbedFunction, draw: Draw) -> Fact | None:
    """A large score of a hidden key changes nothing."""
    scores = draw.normal(3, 3)
    keep = torch.tensor([[1, 1, 0]] * 3).bool()
    large = scores.clone()
    large[:, 2] = 1000.0
    before, after = (f.weigh(x, keep)[:, :2] for x in (scores, large))
    if not np.isfinite(before).all() or distance(before, right.weigh(scores, keep)[:, :2]) > CLOSE:
        return None
    wrong = not np.isfinite(after).all() or distance(before, after) > CLOSE
    return fact("hidden_score", score=1000) if wrong else None


def probe_empty_row(f: ProbedFunction, right: ProbedFunction, draw: Draw) -> Fact | None:
    """A row whose keys are all hidden has weights of zero."""
    keep = torch.tensor([[1, 1, 1], [0, 0, 0], [1, 1, 0]]).bool()
    row = f.weigh(draw.normal(3, 3), keep)[1]
    if not np.isfinite(row).all():
        return fact("empty_row_not_finite")
    return fact("empty_row_sum", sum=row.sum()) if np.abs(row).max() > TINY else None
