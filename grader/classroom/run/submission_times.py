"""Reads `submitted.csv`: when each answer was handed in, according to the platform.

Times of files and of the clock are never used: they say when something was copied.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from grader.classroom.course.table_reader import (
    find_class_table_slug,
    read_class_table_lines,
    read_class_table_moment,
)
from grader.classroom.run.gather_answers import TIMES_TABLE_NAME
from grader.core import catalog
from grader.core.errors import UserError

TIMES_COLUMNS = ("student", "exercise", "submitted")


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmittedLine:
    """A line of the table."""

    at: str  # "submitted.csv, line 3"
    student: str
    exercise: str  # as it stands there
    submitted: datetime | None  # None if the field is empty: no time is known


SubmissionTimes = Mapping[tuple[str, str], datetime]  # by student and slug


def list_submission_times(submissions: Path) -> Iterator[SubmittedLine]:
    """Yield the lines of the table in a folder of submissions; none if there is no table.

    Raises `UserError`, naming the line, for a time that cannot be read.
    """
    path = submissions / TIMES_TABLE_NAME
    for line in read_class_table_lines(path, TIMES_COLUMNS) if path.exists() else ():
        text = line.get("submitted")
        yield SubmittedLine(
            at=line.at, student=line.get("student"), exercise=line.get("exercise"),
            submitted=read_class_table_moment(text, line.at) if text else None,
        )  # fmt: skip


def read_class_submission_times(
    submissions: Path, students: Sequence[str]
) -> tuple[SubmissionTimes, list[str]]:
    """Return the times in a folder of submissions, and a sentence on each unknown student.

    Raises `UserError`, naming the line, for a time that cannot be read, or that is there twice.
    """
    found: dict[tuple[str, str], datetime] = {}
    unused: list[str] = []
    for line in list_submission_times(submissions):
        student = line.student
        if student not in students:
            close = catalog.suggest_close_name(student, students)
            unused.append(f"{line.at}: there is no student {student!r}.{close}")
            continue
        key = student, find_class_table_slug(line.exercise, line.at)
        if key in found:
            raise UserError(describe_second_time(line.at, *key))
        if line.submitted:
            found[key] = line.submitted
    return found, unused


def describe_second_time(at: str, student: str, slug: str) -> str:
    """Return the sentence on a line with another time for the same answer; '' is every exercise."""
    return f"{at}: {student} has a time for {slug or 'all exercises'} already: keep one of the two."
