"""Rows as CSV (RFC 4180) in which nothing is a formula to a spreadsheet."""

import csv
import io
from collections.abc import Iterable, Sequence

_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def to_csv(rows: Iterable[Sequence[object]]) -> str:
    """The rows as CSV text; None is an empty field."""
    file = io.StringIO()
    csv.writer(file).writerows([_field(value) for value in row] for row in rows)
    return file.getvalue()


def _field(value: object) -> object:
    """A text that a spreadsheet would run as a formula gets an apostrophe before it."""
    if isinstance(value, str) and value.startswith(_FORMULA):
        return f"'{value}"
    return value
