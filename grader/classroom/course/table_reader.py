"""Reads tables that people and platforms write: CSV with commas, semicolons or tabs, and times."""

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from grader.core import catalog
from grader.core.errors import UserError
from grader.core.toml_file import PLAUSIBLE_YEARS
from grader.submission.handed_files import clean_submitted_name

_MAX_TABLE_BYTES = 10_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TableLine:
    """A line of a table: its fields by column, and where it stands."""

    at: str  # "roster.csv, line 3"
    fields: dict[str, str]

    def get(self, column: str) -> str:
        """Return a field without the blanks around it; "" if there is none."""
        return self.fields.get(column, "")


def read_class_table_lines(path: Path, needed: Sequence[str]) -> list[TableLine]:
    """Yield the lines of a table that has the columns `needed`; skip blank lines.

    Columns may stand in any order, in upper or lower case, and beside others. Raises `UserError`.
    """
    shown = clean_submitted_name(str(path))
    rows = number_class_table_rows(path)
    names = [name.strip().lower() for name in rows[0][1]] if rows else []
    if missing := [column for column in needed if column not in names]:
        what = "a column" if len(missing) == 1 else "the columns"
        columns = ", ".join(f"`{column}`" for column in missing)
        raise UserError(f"{shown}: the first line needs {what} {columns}.")
    if double := [column for column in needed if names.count(column) > 1]:
        raise UserError(
            f"{shown}: the first line has the column `{double[0]}` more than once: rename one."
        )
    return [
        TableLine(
            at=f"{shown}, line {number}",
            fields=dict(zip(names, map(str.strip, row), strict=False)),
        )
        for number, row in rows[1:]
    ]


def find_class_table_slug(name: str, at: str) -> str:
    """Return the slug of the exercise in a line at `at`. Raises `UserError`, naming the line."""
    if not name:
        raise UserError(f"{at}: the cell `exercise` is empty: write an exercise, such as ex01.")
    try:
        return catalog.find_catalog_exercise(name).slug
    except catalog.UnknownExercise as problem:
        raise UserError(f"{at}: {problem}") from None


def number_class_table_rows(path: Path) -> list[tuple[int, list[str]]]:
    """Return the rows that are not blank, as they are, with their numbers. Raises `UserError`."""
    shown = clean_submitted_name(str(path))
    try:
        with path.open("rb") as file:
            content = file.read(_MAX_TABLE_BYTES + 1)
        text = content.decode("utf-8-sig")
    except FileNotFoundError:
        raise UserError(f"{shown} is not there: name a CSV file.") from None
    except OSError as error:
        raise UserError(
            f"{shown} cannot be read: {error.strerror}. Put a CSV file there."
        ) from None
    except UnicodeDecodeError:
        raise UserError(f"{shown} is not UTF-8 text: save it as CSV in UTF-8.") from None
    if len(content) > _MAX_TABLE_BYTES:
        raise UserError(f"{shown} is too large: a table has at most {_MAX_TABLE_BYTES:,} bytes.")
    delimiter = max(",;\t", key=text.partition("\n")[0].count)
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    try:
        return [(rows.line_num, row) for row in rows if any(field.strip() for field in row)]
    except csv.Error as error:
        raise UserError(f"{shown} is no CSV ({error}): save it as CSV in UTF-8.") from None


def parse_class_moment(text: str) -> datetime | None:
    """Return a time with its offset from UTC; None if `text` is no such time."""
    text = text.strip()
    if text.endswith(" UTC"):  # as nbgrader writes it
        text = f"{text.removesuffix(' UTC')}+00:00"
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo else None


def read_class_table_moment(text: str, at: str) -> datetime:
    """Return the time in a field. Raises `UserError` with the expected form."""
    if (found := parse_class_moment(text)) is None:
        raise UserError(
            f"{at}: {clean_submitted_name(text)} is no time with its distance from UTC: write it "
            "as "
            "2026-03-01T18:00:00+01:00 or 2026-03-01T17:00:00Z."
        )
    if found.year not in PLAUSIBLE_YEARS:
        raise UserError(
            f"{at}: {clean_submitted_name(text)} is in the year {found.year}: mend the year."
        )
    return found
