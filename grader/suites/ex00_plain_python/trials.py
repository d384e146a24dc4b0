"""Random calls that tell two answers apart."""

import math

from torch import float64

from grader.judging import called, trial

GARBAGE = (math.nan, math.inf, -math.inf, 1e30, -1e30)


def sizes(draw, **largest):
    """Ordinary sizes, and once in ten times those of a hard kind, which take longer."""
    if draw.integer(1, 10) == 1:
        return draw.sizes(**largest).values()
    return [draw.integer(1, n) for n in largest.values()]


def matrix(draw, n, m):
    """n rows of m numbers, ints or floats."""
    numbers = draw.choice(draw.normal(n, m, dtype=float64), draw.integers(-9, 9, n, m))
    return numbers.tolist()


def mask(draw, n, m):
    """Any share of keys, and rows that keep none."""
    return (draw.integers(0, 3, n, m) < draw.integer(0, 4)).tolist()


def changed(draw, call, *matrices):
    """A call, and the same call with one number of each matrix changed."""
    yield from called(call, *matrices)
    for a in matrices:
        if a:
            a[draw.integer(0, len(a) - 1)][0] += 1
            yield from called(call, *matrices)


@trial(of="matmul")
def products(student, draw):
    """Matrices of any sizes; once in four times they may not fit."""
    n, m, p = sizes(draw, n=4, m=5, p=4)
    rows = draw.choice(m, m, m, draw.integer(1, 5))
    yield from changed(draw, student.matmul, matrix(draw, n, m), matrix(draw, rows, p))


@trial(of="transpose")
def turned(student, draw):
    """A matrix of any sizes, or of no rows."""
    a = matrix(draw, *sizes(draw, n=5, m=5))
    yield from changed(draw, student.transpose, draw.choice(a, a, a, []))


@trial(of="row_softmax")
def softened(student, draw):
    """Scores of every kind, with -inf among them."""
    n, m = sizes(draw, n=4, m=6)
    hard = [x.tolist() for x in draw.scores(n, m, dtype=float64).values()]
    large = draw.logits(n, m, bound=1e4, dtype=float64).tolist()
    rows = draw.choice(matrix(draw, n, m), large, *hard)
    if draw.integer(0, 1):
        hidden = mask(draw, n, m)
        rows = [
            [x if y else -math.inf for x, y in zip(*r, strict=True)]
            for r in zip(rows, hidden, strict=True)
        ]
    yield from called(student.row_softmax, rows)


@trial(of="apply_mask")
def hidden(student, draw):
    """Any mask, and garbage among the scores."""
    n, m = sizes(draw, n=4, m=6)
    scores = matrix(draw, n, m)
    scores[-1][0] = draw.choice(*GARBAGE, 0.5)
    keep = mask(draw, n, m)
    yield from changed(draw, lambda a: student.apply_mask(a, keep), scores)
    yield from called(student.apply_mask, scores, keep)


@trial(of="attention")
def attended(student, draw):
    """Any sizes and masks, large scores, and keys and values that are no numbers, hidden."""
    Lq, Lk, D, Dv = sizes(draw, Lq=4, Lk=5, D=4, Dv=3)
    q, k, v = matrix(draw, Lq, D), matrix(draw, Lk, D), matrix(draw, Lk, Dv)
    q = draw.choice(q, q, [[2500 * x for x in row] for row in q])
    keep = draw.choice(None, mask(draw, Lq, Lk))
    if keep is None:
        yield from called(student.attention, q, k, v)
        return
    for j in range(Lk):
        if not any(row[j] for row in keep):
            garbage = draw.choice(0.0, *GARBAGE)
            k[j], v[j] = [garbage] * D, [garbage] * Dv
    yield from called(student.attention, q, k, v, keep)
