"""Writes rows as CSV (RFC 4180) in which nothing is a formula to a spreadsheet."""

import csv
import io
from collections.abc import Iterable, Sequence

_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


def render_csv_report(rows: Iterable[Sequence[object]]) -> str:
    """Return the rows as CSV text; None is an empty field."""
    file = io.StringIO()
    csv.writer(file).writerows([_escape_csv_formula(value) for value in row] for row in rows)
    return file.getvalue()


def _escape_csv_formula(value: object) -> object:
    """Put an apostrophe before a text that a spreadsheet would run as a formula."""
    if isinstance(value, str) and value.startswith(_FORMULA_STARTS):
        return f"'{value}"
    return value
