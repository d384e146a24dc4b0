"""Wrong answers to `matmul`."""

from grader.judging import mistake
from reference.ex00_plain_python import (
    dot,
    plain_matmul,
    plain_transpose,
)

from ..test_plain_python import (
    test_matmul,
    test_matmul_refuses,
)


def fit(a, b):
    for row in a:
        if len(row) != len(b):
            raise ValueError(f"{len(row)} and {len(b)}")


# matmul


@mistake(of="matmul", caught_by=test_matmul)
def one_row_repeated(a, b):
    """All rows of the product are one and the same list, so the last one written stands in all.

    `[[0.0] * p] * n` repeats one row n times; `[[0.0] * p for _ in range(n)]` makes n rows.
    """
    fit(a, b)
    product = [[0.0] * len(b[0])] * len(a)
    for i, row in enumerate(a):
        for j, column in enumerate(plain_transpose(b)):
            product[i][j] = dot(row, column)
    return product


@mistake(of="matmul", caught_by=test_matmul)
def one_row_added_up(a, b):
    """All rows of the product are one and the same list, in which the sums of all rows add up.

    `[[0] * p] * n` repeats one row n times; `[[0] * p for _ in range(n)]` makes n rows.
    """
    fit(a, b)
    product = [[0] * len(b[0])] * len(a)
    for i, row in enumerate(a):
        for j, column in enumerate(plain_transpose(b)):
            for x, y in zip(row, column, strict=True):
                product[i][j] += x * y
    return product


@mistake(of="matmul", caught_by=test_matmul)
def whole_because_the_first_is(a, b):
    """A product is cut to a whole number where the first number of its row is an int.

    Ints and floats may stand in one row; what Python adds up needs no `int`.
    """
    fit(a, b)
    product = plain_matmul(a, b)
    return [
        [int(x) if isinstance(row[0], int) else x for x in sums]
        for row, sums in zip(a, product, strict=True)
    ]


@mistake(of="matmul", caught_by=test_matmul)
def rows_times_rows(a, b):
    """The rows of `a` are multiplied with the rows of `b`, where its columns belong.

    Column j of `b` is [row[j] for row in b].
    """
    fit(a, b)
    return [[sum(x * y for x, y in zip(one, other, strict=False)) for other in b] for one in a]


@mistake(of="matmul", caught_by=test_matmul)
def place_by_place(a, b):
    """Each number is multiplied with the one at the same place of the other matrix.

    A product of matrices sums: row i of `a` times column j of `b`.
    """
    fit(a, b)
    return [
        [x * y for x, y in zip(one, other, strict=False)] for one, other in zip(a, b, strict=False)
    ]


@mistake(of="matmul", caught_by=test_matmul)
def factors_swapped(a, b):
    """The product is `b` times `a`.

    The rows come from the first factor, the columns from the second.
    """
    fit(a, b)
    return plain_matmul(b, a)


@mistake(of="matmul", caught_by=test_matmul)
def only_the_last_term(a, b):
    """Each number is the last term of its sum: `=` stands where `+=` should.

    Begin with 0 and add every a[i][t] * b[t][j].
    """
    fit(a, b)
    return [[row[-1] * x for x in b[-1]] for row in a]


@mistake(of="matmul", caught_by=test_matmul)
def last_term_left_out(a, b):
    """The last term of every sum is left out.

    range(n) ends at n - 1 by itself: range(len(b)), not range(len(b) - 1).
    """
    fit(a, b)
    return [[dot(row[:-1], column[:-1]) for column in plain_transpose(b)] for row in a]


@mistake(of="matmul", caught_by=test_matmul)
def sums_cut_to_whole_numbers(a, b):
    """The sums are whole numbers: `int` or `//` cuts off what comes after the point.

    Leave the numbers as they are.
    """
    return [[int(x) for x in row] for row in plain_matmul(a, b)]


@mistake(of="matmul", caught_by=test_matmul_refuses)
def cut_to_the_shorter(a, b):
    """Rows and columns that do not fit are cut to the shorter of the two: `zip` does that silently.

    Compare len(a[0]) with len(b) first, and raise a ValueError that names both.
    """
    columns = plain_transpose(b)
    return [[sum(x * y for x, y in zip(row, c, strict=False)) for c in columns] for row in a]


@mistake(of="matmul", caught_by=test_matmul_refuses)
def single_row_fits_all(a, b):
    """A `b` of a single row is let through, whatever the width of `a` is.

    One row fits only an `a` of one column: compare len(a[0]) with len(b) for every size.
    """
    return cut_to_the_shorter(a, b) if len(b) == 1 else plain_matmul(a, b)


@mistake(of="matmul", caught_by=test_matmul_refuses)
def wrong_numbers_compared(a, b):
    """The number of rows of `a` is compared with that of `b`.

    The rows of `a` must be as long as `b` has rows: len(a[0]) and len(b).
    """
    if len(a) != len(b) and len(a[0]) != len(b):
        raise ValueError(f"{len(a)} rows and {len(b)} rows")
    return cut_to_the_shorter(a, b)


@mistake(of="matmul", caught_by=test_matmul_refuses)
def refusal_lists_numbers(a, b):
    """The ValueError for matrices that do not fit lists numbers, whatever their sizes are.

    Put the two sizes in the message: f"rows of {len(a[0])} numbers, but {len(b)} rows".
    """
    try:
        return plain_matmul(a, b)
    except ValueError:
        raise ValueError(f"one of {list(range(128))} does not fit") from None


@mistake(of="matmul", caught_by=test_matmul, null=True)
def zeros_for_a_product(a, b):
    """The product is all zeros: what is computed never gets into it.

    Write each sum into its place, product[i][j], or build the rows from the sums.
    """
    return [[0.0 for _ in b[0]] for _ in a]
