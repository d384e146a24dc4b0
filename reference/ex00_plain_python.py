"""Attention on lists of lists, `softmax(q k^T / sqrt(D)) v`, with nothing but `math`.

The oracle is NumPy in float64. The yardstick goes from number to number as a student does; its
rows come as an array, since that is what answers are compared as.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np

from reference.ex02_masking import exact_masked_softmax
from reference.ex03_sdpa import exact_attention
from reference.expected import Array, Expected, largest

Rows = Sequence[Sequence[float]]
Mask = Sequence[Sequence[bool]]
Matrix = list[list[float]]


def matmul(a: Rows, b: Rows) -> Expected:
    """The product (n, p) of a (n, m) and b (m, p)."""
    exact = array(a) @ array(b)
    size = largest(array(a)) * largest(array(b))
    return Expected(exact, array(plain_matmul(a, b)), size)


def transpose(a: Rows) -> Expected:
    """The columns (m, n) of a (n, m); no rows of no rows."""
    return Expected(array(a).T, array(plain_transpose(a)), largest(array(a)))


def row_softmax(rows: Rows) -> Expected:
    """The softmax of each row of (n, m); zeros for a row of -inf."""
    scores = array(rows)
    exact = exact_masked_softmax(scores, scores > -np.inf)
    return Expected(exact, array(plain_row_softmax(rows)), 1.0)


def apply_mask(scores: Rows, keep: Mask) -> Expected:
    """The scores (n, m), -inf where `keep` (n, m) is False. What is kept is not rounded."""
    exact = np.where(np.array(keep, bool), array(scores), -np.inf)
    return Expected(exact, array(plain_apply_mask(scores, keep)), 1.0)


def attention(q: Rows, k: Rows, v: Rows, keep: Mask | None = None) -> tuple[Expected, Expected]:
    """`(output, weights)` of q (Lq, D), k (Lk, D), v (Lk, Dv), whatever hidden keys may hold."""
    mask = None if keep is None else np.array(keep, bool)
    output, weights = exact_attention(array(q), array(k), array(v), mask)
    plain_output, plain_weights = plain_attention(q, k, v, keep)
    size = largest(array(v))
    return Expected(output, array(plain_output), size), Expected(weights, array(plain_weights), 1.0)


def array(rows: Rows) -> Array:
    """Rows as an array (n, m) of float64; no rows have no width, (0,)."""
    return np.array(rows, dtype=np.float64)


def plain_matmul(a: Rows, b: Rows) -> Matrix:
    """The yardstick: a dot product of each row and each column."""
    if any(len(row) != len(b) for row in a):
        raise ValueError(f"rows of {len(a[0])} and {len(b)} rows")
    return [[dot(row, column) for column in plain_transpose(b)] for row in a]


def plain_transpose(a: Rows) -> Matrix:
    """The yardstick: every column as a list."""
    return [list(column) for column in zip(*a, strict=True)]


def plain_row_softmax(rows: Rows) -> Matrix:
    """The yardstick: row by row."""
    return [plain_softmax(row) for row in rows]


def plain_softmax(row: Sequence[float]) -> list[float]:
    """One row of weights: the largest score is subtracted first."""
    top = max(row)
    powers = [0.0 if x == -math.inf else math.exp(x - top) for x in row]
    total = sum(powers)
    return [power / total if total else 0.0 for power in powers]


def plain_apply_mask(scores: Rows, keep: Mask) -> Matrix:
    """The yardstick: number by number."""
    return [
        [x if seen else -math.inf for x, seen in zip(row, mask, strict=True)]
        for row, mask in zip(scores, keep, strict=True)
    ]


def plain_attention(
    q: Rows,
    k: Rows,
    v: Rows,
    keep: Mask | None = None,
    *,
    scale: float | None = None,
    hide: Callable[[Rows, Mask], Matrix] = plain_apply_mask,
    soften: Callable[[Rows], Matrix] = plain_row_softmax,
) -> tuple[Matrix, Matrix]:
    """The yardstick; a mistake passes another scale, mask or softmax."""
    scale = 1 / math.sqrt(len(k[0])) if scale is None else scale
    scores = [[scale * dot(query, key) for key in k] for query in q]  # (Lq, Lk)
    weights = soften(scores if keep is None else hide(scores, keep))
    return [[dot(row, column, True) for column in plain_transpose(v)] for row in weights], weights


def dot(xs: Sequence[float], ys: Sequence[float], skip: bool = False) -> float:
    """The dot product of two rows; with `skip`, without the places where `xs` is 0."""
    return sum((x * y for x, y in zip(xs, ys, strict=True) if x or not skip), 0.0)
