"""When each answer was handed in: a table beside the students, from the platform that took it.

Never the time of a file or of the clock: those say when something was copied.
"""

import csv
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path

from grader.classroom.run.gather_answers import SUBMITTED
from grader.classroom.run.process_pool import Stopped
from grader.core import catalog
from grader.core.toml_file import MOMENT, YEARS

COLUMNS = ("student", "exercise", "submitted")

Times = Mapping[tuple[str, str], datetime]  # by student and slug


def read(submissions: Path, students: Sequence[str]) -> tuple[Times, list[str]]:
    """The times in a folder of submissions, and a sentence on each that is of nobody here.

    Raises `Stopped`, with the line, for one that cannot be followed.
    """
    path = submissions / SUBMITTED
    if not path.exists():
        return {}, []
    found: dict[tuple[str, str], datetime] = {}
    unused: list[str] = []
    for line, row in _rows(path):
        at = f"{path}, line {line}"
        student = row[0]
        if student not in students:
            close = catalog.did_you_mean(student, students)
            unused.append(f"{at}: there is no student {student!r}.{close}")
            continue
        try:
            key = student, catalog.find(row[1]).slug
        except catalog.UnknownExercise as problem:
            raise Stopped(f"{at}: {problem}") from None
        if key in found:
            raise Stopped(f"{at}: {student} has a time for {key[1]} already: keep one of the two.")
        if row[2].strip():
            found[key] = _moment(row[2].strip(), at)
    return found, unused


def _rows(path: Path) -> Iterator[tuple[int, tuple[str, str, str]]]:
    """The rows with their lines."""
    try:
        rows = csv.DictReader(path.read_text(encoding="utf-8-sig").splitlines())
        if tuple(rows.fieldnames or ()) != COLUMNS:
            raise Stopped(f"{path}: its first line should be {','.join(COLUMNS)}")
        for row in rows:
            student, exercise, submitted = (row[name] or "" for name in COLUMNS)
            yield rows.line_num, (student, exercise, submitted)
    except OSError as error:
        raise Stopped(f"{path} cannot be read: {error.strerror}. Put a CSV file there.") from None
    except UnicodeDecodeError:
        raise Stopped(f"{path} cannot be read: save it as UTF-8 text.") from None
    except csv.Error as error:
        raise Stopped(f"{path} is no table that can be read: {error}.") from None


def _moment(text: str, at: str) -> datetime:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise Stopped(f"{at}: {text!r} is no time: write it as in {MOMENT}.") from None
    if found.tzinfo is None:
        raise Stopped(f"{at}: {text} has no zone: write it as in {MOMENT}.")
    if found.year not in YEARS:
        raise Stopped(f"{at}: {text} is in the year {found.year}: mend the year.")
    return found
