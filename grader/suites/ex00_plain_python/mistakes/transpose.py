"""Wrong answers to `transpose`."""

from grader.judging import mistake
from reference.ex00_plain_python import (
    plain_transpose,
)

from ..test_plain_python import (
    test_transpose,
)

# transpose


@mistake(of="transpose", caught_by=test_transpose)
def columns_as_tuples(a):
    """The columns are tuples: `zip` makes no lists.

    [list(column) for column in zip(*a)].
    """
    return list(zip(*a, strict=True))


@mistake(of="transpose", caught_by=test_transpose)
def turned_by_a_quarter(a):
    """The matrix is turned by a quarter: the numbers of each column run from the bottom up.

    Row j of the answer is [row[j] for row in a], with the rows of `a` in their order.
    """
    return plain_transpose(a[::-1])


@mistake(of="transpose", caught_by=test_transpose)
def no_rows_have_no_first_row(a):
    """No rows at all end in an IndexError: there is no a[0] to take the width from.

    zip(*a) needs no width; or answer [] if there are no rows.
    """
    return [[row[j] for row in a] for j in range(len(a[0]))]


@mistake(of="transpose", caught_by=test_transpose)
def rows_without_a_number_as_they_are(a):
    """Rows without a number come back as rows, because a matrix without a number was left alone.

    Of n rows of 0 numbers make 0 rows of n numbers: [].
    """
    return plain_transpose(a) if a and a[0] else list(a)


@mistake(of="transpose", caught_by=test_transpose)
def transposed_in_place(a):
    """The caller's own list is turned: its rows are written over.

    Build a new list of new rows, and leave `a` as it is.
    """
    a[:] = plain_transpose(a)
    return a


@mistake(of="transpose", caught_by=test_transpose, null=True)
def rows_as_they_are(a):
    """The rows come back as rows.

    Row j of the answer is made of what stands at place j of every row.
    """
    return [list(row) for row in a]
