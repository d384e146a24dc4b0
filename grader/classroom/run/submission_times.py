"""Reads when each answer was handed in, from a platform's table beside the students.

Never the time of a file or of the clock: those say when something was copied.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path

from grader.classroom.run.gather_answers import TIMES_TABLE_NAME
from grader.classroom.table_reader import read_class_table_lines, read_class_table_moment
from grader.core import catalog
from grader.core.errors import UserError

TIMES_COLUMNS = ("student", "exercise", "submitted")

SubmissionTimes = Mapping[tuple[str, str], datetime]  # by student and slug


def read_class_submission_times(
    submissions: Path, students: Sequence[str]
) -> tuple[SubmissionTimes, list[str]]:
    """Return the times in a folder of submissions, and a sentence on each unknown student.

    Raises `UserError`, naming the line, for a time that cannot be read.
    """
    path = submissions / TIMES_TABLE_NAME
    if not path.exists():
        return {}, []
    found: dict[tuple[str, str], datetime] = {}
    unused: list[str] = []
    for line in read_class_table_lines(path, TIMES_COLUMNS):
        student = line.get("student")
        if student not in students:
            close = catalog.suggest_close_name(student, students)
            unused.append(f"{line.at}: there is no student {student!r}.{close}")
            continue
        try:
            key = student, catalog.find_catalog_exercise(line.get("exercise")).slug
        except catalog.UnknownExercise as problem:
            raise UserError(f"{line.at}: {problem}") from None
        if key in found:
            raise UserError(
                f"{line.at}: {student} has a time for {key[1]} already: keep one of the two."
            )
        if submitted := line.get("submitted"):
            found[key] = read_class_table_moment(submitted, line.at)
    return found, unused
