# Skeleton ex00_plain_python c527d6b6af806bb0. The lesson: docs/lessons/ex00_plain_python.en.md
"""Attention in plain Python: write the bodies, then run `make grade EX=ex00_plain_python`.

Not allowed: every module but math. Write it with lists, loops and the module math.
"""

import math


def matmul(a: list[list[float]], b: list[list[float]]) -> list[list[float]]:
    """Multiply two matrices: each row of a with each column of b.

    a       n rows of m numbers, int or float; it is not changed
    b       m rows of p numbers; it is not changed
    returns n rows of p numbers
    raises  ValueError if the rows of a are not as long as b has rows, naming both numbers
    """
    raise NotImplementedError("Multiply two matrices: each row of a with each column of b.")


def transpose(a: list[list[float]]) -> list[list[float]]:
    """Turn the rows of a matrix into its columns.

    a       n rows of m numbers; it is not changed
    returns m rows of n numbers; of no rows at all, or of rows without a number, no rows
    """
    raise NotImplementedError("Turn the rows of a matrix into its columns.")


def row_softmax(rows: list[list[float]]) -> list[list[float]]:
    """Turn each row of scores into weights that sum to one.

    rows    n rows of m numbers, up to 10,000 either way, or -math.inf; they are not changed
    returns n rows of m weights: 0 for -math.inf, and in a row of nothing else zeros
    """
    raise NotImplementedError("Turn each row of scores into weights that sum to one.")


def apply_mask(scores: list[list[float]], keep: list[list[bool]]) -> list[list[float]]:
    """Put -math.inf in the place of every score that is not kept.

    scores  n rows of m numbers; where hidden, anything at all; they are not changed
    keep    n rows of m bools, True = may attend; it is not changed
    returns n rows of m numbers
    """
    raise NotImplementedError("Put -math.inf in the place of every score that is not kept.")


def attention(
    q: list[list[float]],
    k: list[list[float]],
    v: list[list[float]],
    keep: list[list[bool]] | None = None,
) -> tuple[list[list[float]], list[list[float]]]:
    """Mix the values, for each query by how well the keys fit it.

    None of the arguments is changed.

    q       Lq rows of D numbers, the queries, with scores up to 10,000 either way
    k       Lk rows of D numbers, the keys
    v       Lk rows of Dv numbers, the values
    keep    None, or Lq rows of Lk bools, True = may attend; what is hidden has no influence,
            be it NaN, inf or 1e30
    returns the output, Lq rows of Dv numbers, and the weights, Lq rows of Lk numbers; both are 0
            for a query that may attend to nothing
    """
    raise NotImplementedError("Mix the values, for each query by how well the keys fit it.")
