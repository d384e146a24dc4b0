"""Attention on lists: each function by itself, then all of them together."""

import math

import numpy as np
import pytest
import torch
from torch import float64

from grader.judging import Hard, agree, check, rejects, untouched
from reference import ex00_plain_python as reference

PRODUCTS = [(2, 3, 4), (1, 1, 1), (4, 4, 4), (3, 1, 5), (1, 7, 2), (17, 5, 3)]  # n, m, p
MISFITS = [
    (2, 3, 2, 4),
    (2, 2, 3, 4),
    (1, 1, 2, 1),
    (3, 4, 3, 4),
    (2, 3, 1, 4),
]  # rows and width of a, of b
SIZES = [(2, 3), (1, 1), (4, 4), (3, 1), (1, 17), (17, 3)]
ATTENTIONS = [  # Lq, Lk, D, Dv
    *[(3, 5, 4, 2), (1, 1, 1, 3), (2, 17, 3, 1), (9, 2, 1, 4), (4, 4, 4, 4), (5, 3, 8, 6)],
]
HARD = [Hard.ONE, Hard.LONG]
GARBAGE = [math.nan, math.inf, -math.inf, 1e30, -1e30]


def calls(draw, case, **usual):
    """The sizes of a case: those of a hard kind, or its own."""
    if isinstance(case, Hard):
        return [tuple(sizes.values()) for sizes in draw.hard(case, **usual)]
    return [case]


@check(points=1)
@pytest.mark.parametrize("case", [*PRODUCTS, *HARD])
def test_matmul(student, draw, case):
    """matmul multiplies each row of `a` with each column of `b`, for ints and floats of any sizes,
    and leaves them as they were."""
    for n, m, p in calls(draw, case, n=2, m=3, p=4):
        pairs = [(rows(draw, n, m), rows(draw, m, p)), (mixed(draw, n, m), mixed(draw, m, p))]
        if case is not Hard.LONG:
            whole = draw.integers(-9, 9, n, m).tolist(), draw.integers(-9, 9, m, p).tolist()
            pairs.insert(1, whole)
        for a, b in pairs:
            product = untouched(lambda a=a, b=b: student.matmul(a, b))
            close(product, reference.matmul(a, b), "product")
        draw.hard(Hard.CHANGED)
        a[-1][0] += 1
        b[0][-1] -= 1
        close(student.matmul(a, b), reference.matmul(a, b), "product of changed matrices")


@check(points=1, needs=[test_matmul])
@pytest.mark.parametrize("n, m, o, p", MISFITS)
def test_matmul_refuses(student, draw, n, m, o, p):
    """matmul raises a ValueError with both numbers if the rows of `a` do not fit those of `b`."""
    some, more = draw.integer(20, 59), draw.integer(60, 99)
    for long, high in (m, o), (some, more), (more, some):
        a, b = rows(draw, n, long), rows(draw, high, p)
        rejects(lambda a=a, b=b: student.matmul(a, b), long, high)


@check(points=1)
@pytest.mark.parametrize("case", [*SIZES, (0, 0), *HARD])
def test_transpose(student, draw, case):
    """transpose turns rows into columns, for any sizes; of no rows at all, or of rows without a
    number, it makes no rows."""
    if case == (0, 0):
        empty = [[] for _ in range(draw.integer(1, 9))]
        says = "rows without a number, transposed"
        close(student.transpose(empty), reference.transpose([]), says)
    for n, m in calls(draw, case, n=2, m=3):
        a = rows(draw, n, m)
        transposed = untouched(lambda a=a: student.transpose(a))
        close(transposed, reference.transpose(a), "transposed")
        draw.hard(Hard.CHANGED)
        for row in a:
            row[0] += 1
        close(student.transpose(a), reference.transpose(a), "changed matrix, transposed")


@check(points=1)
@pytest.mark.parametrize("case", [*SIZES, *HARD])
def test_softmax(student, draw, case):
    """row_softmax gives each row exp(x) / sum(exp(x)), for ints and floats of any sizes."""
    for n, m in calls(draw, case, n=2, m=3):
        for scores in rows(draw, n, m), draw.integers(-9, 9, n, m).tolist():
            weights = untouched(lambda scores=scores: student.row_softmax(scores))
            close(weights, reference.row_softmax(scores), "weights")
        draw.hard(Hard.CHANGED)
        scores[-1][0] += 5
        agree_softmax(student, scores, "changed scores")


@check(points=1, needs=[test_softmax])
@pytest.mark.parametrize("n, m", [(3, 5), (2, 1), (9, 17)])
def test_softmax_extremes(student, draw, n, m):
    """row_softmax takes numbers up to 10,000 either way; -inf has no weight, a row of it zeros."""
    scores = draw.logits(n, m, bound=1e4, dtype=float64)
    some = draw.normal(2, m, dtype=float64).clamp(-9, 9)
    scores[0], scores[-1] = 9991 + some[0], some[1] - 9991  # far from each other
    agree_softmax(student, scores.tolist(), "large scores")
    hidden = torch.where(draw.keep(n, m), scores, -math.inf)
    agree_softmax(student, hidden.tolist(), "scores of which some are -inf")
    hidden[n // 2] = -math.inf
    agree_softmax(student, hidden.tolist(), "scores with a row of -inf")
    for name, some in draw.scores(n, 40, dtype=float64).items():
        agree_softmax(student, some.tolist(), f"{name} scores")
    below = some[:, :2].clamp(-0.2, 0.2) - 9999.8  # a whole row at the lower end
    agree_softmax(student, below.tolist(), "scores near -10,000")
    low = -744.5 + some[:, :2].clamp(-0.5, 0.5)  # their exponentials are hardly more than 0
    agree_softmax(student, low.tolist(), "scores near -744")


@check(points=1)
@pytest.mark.parametrize("case", [*SIZES, (9, 5), *HARD])
def test_mask(student, draw, case):
    """apply_mask leaves what is kept and puts -inf in every other place, whatever stood there."""
    for n, m in calls(draw, case, n=2, m=3):
        scores, keep = rows(draw, n, m), draw.keep(n, m)
        keep[n // 2] = n == 1
        keep = keep.tolist()
        scores[0][0] = scores[-1][-1] = 0.0  # a score like any other
        masked = untouched(lambda a=scores, keep=keep: student.apply_mask(a, keep))
        close(masked, reference.apply_mask(scores, keep), "masked")
        for i, row in enumerate(scores):
            row[:] = [
                x if seen else GARBAGE[(i + j) % 5]
                for j, (x, seen) in enumerate(zip(row, keep[i], strict=True))
            ]
        close(student.apply_mask(scores, keep), reference.apply_mask(scores, keep), "masked")
        draw.hard(Hard.CHANGED)
        scores[-1], keep[-1] = [1] * m, [not seen for seen in keep[-1]]
        expected = reference.apply_mask(scores, keep)
        close(student.apply_mask(scores, keep), expected, "masked (scores and mask changed)")


@check(points=1)
@pytest.mark.parametrize("case", [*ATTENTIONS, *HARD, Hard.SQUARE])
def test_attention(student, draw, case):
    """attention gives the output softmax(q k^T / sqrt(D)) v, and the weights of that softmax, for
    ints and floats of any sizes and for scores up to 10,000 either way."""
    for sizes in calls(draw, case, Lq=3, Lk=5, D=4, Dv=2):
        q, k, v = inputs(draw, *sizes)
        answer = untouched(lambda q=q, k=k, v=v: student.attention(q, k, v))
        both_close(answer, reference.attention(q, k, v))
        if case is Hard.LONG:
            continue
        draw.hard(Hard.CHANGED)
        for x in (q, k, v):
            x[-1][-1] -= 1
            both_close(student.attention(q, k, v), reference.attention(q, k, v))
        large = [[2500 * x for x in row] for row in q]
        both_close(student.attention(large, k, v), reference.attention(large, k, v))
        whole = [draw.integers(-3, 3, len(x), len(x[0])).tolist() for x in (q, k, v)]
        both_close(student.attention(*whole), reference.attention(*whole))
    if case == ATTENTIONS[0]:
        loud = draw.integer(1, 9) * 1e14  # a weight of 3e-10 counts too
        apart = [[1.0]], [[0.0], [-22.0]], [[1.0], [loud]]
        both_close(student.attention(*apart), reference.attention(*apart))
        unit, v = torch.eye(40).tolist(), rows(draw, 40, 2)
        for some in draw.scores(3, 40, dtype=float64).values():
            q = (some * math.sqrt(40)).tolist()
            both_close(student.attention(q, unit, v), reference.attention(q, unit, v))


@check(points=1, needs=[test_attention])
@pytest.mark.parametrize("case", [(9, 5, 4, 3), (1, 4, 1, 2), (4, 4, 4, 4), (3, 17, 2, 1), *HARD])
def test_attention_mask(student, draw, case):
    """attention sees what `keep` marks and nothing else, be it NaN, inf or 1e30; a query that sees
    nothing has weights 0 and output 0."""
    for sizes in calls(draw, case, Lq=3, Lk=5, D=4, Dv=2):
        if case is Hard.LONG:
            hide(student, draw, sizes, [math.nan])
        else:
            mask(student, draw, sizes)
            hide(student, draw, sizes, GARBAGE)


def hide(student, draw, sizes, behind):
    """Masks with empty rows and columns, and anything at all behind them."""
    (q, k, v), (n, m) = inputs(draw, *sizes), sizes[:2]
    keep = draw.keep(n, m)
    keep[:, draw.integer(0, m - 1)] = keep[n // 2] = False
    expected = reference.attention(q, k, v, keep.tolist())
    for garbage in behind:
        for j, seen in enumerate(keep.any(0).tolist()):
            if not seen:
                k[j], v[j] = [garbage] * sizes[2], [garbage] * sizes[3]
        both_close(student.attention(q, k, v, keep=keep.tolist()), expected)


def mask(student, draw, sizes):
    """A mask, an empty row, and one key that the first query alone sees, with a value of NaN."""
    (q, k, v), (n, m) = inputs(draw, *sizes), sizes[:2]
    keep = draw.keep(n, m)
    for _ in range(2):
        answer = untouched(lambda: student.attention(q, k, v, keep.tolist()))
        both_close(answer, reference.attention(q, k, v, keep.tolist()))
        keep[n // 2] = False
    if n > 1 and m > 1:
        (q, k, v), keep = inputs(draw, *sizes), draw.keep(n, m)
        keep[1:, 0], keep[0, 0], keep[:, 1] = False, True, True
        output, _ = reference.attention(q, k, v, keep.tolist())
        v[0] = [math.nan] * sizes[3]
        found, _ = student.attention(q, k, v, keep.tolist())
        right = output._replace(exact=output.exact[1:], plain=output.plain[1:])
        close(found[1:], right, "the output of queries that do not see a value of NaN")


def rows(draw, n, m):
    """n rows of m normal numbers."""
    return draw.normal(n, m, dtype=float64).tolist()


def mixed(draw, n, m):
    """n rows of m numbers, ints and floats in turn."""
    numbers = rows(draw, n, m)
    return [[x if j % 2 else round(x) for j, x in enumerate(row)] for row in numbers]


def inputs(draw, q_len, k_len, dim, value_dim):
    return rows(draw, q_len, dim), rows(draw, k_len, dim), rows(draw, k_len, value_dim)


def close(found, expected, says):
    """Rows agree as an array: that they are rows of numbers, as long as each other, is known."""
    agree(np.array(found, float), expected, says=says)


def both_close(answer, expected):
    """Output and weights."""
    for found, right, says in zip(answer, expected, ("output", "weights"), strict=True):
        close(found, right, says)


def agree_softmax(student, scores, what):
    answer = untouched(lambda: student.row_softmax(scores))
    close(answer, reference.row_softmax(scores), f"weights of {what}")
