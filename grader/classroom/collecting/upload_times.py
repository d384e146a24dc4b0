"""Reads upload times from a table: student (or login, or id), exercise, submitted."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path, PurePosixPath

from grader.classroom.collecting.roster import Person, Roster, UnknownStudent, find_roster_student
from grader.classroom.course.table_reader import (
    TableLine,
    find_class_table_slug,
    read_class_table_lines,
    read_class_table_moment,
)
from grader.classroom.run.submission_times import describe_second_time
from grader.core.errors import UserError

_STUDENT_COLUMNS = ("student", "login", "id")


@dataclass(frozen=True, slots=True)
class UploadTimes:
    """The time of each student and exercise; exercise '' stands for all exercises."""

    known: Mapping[tuple[str, str], datetime]

    def upload_time(self, person: Person, name: str) -> datetime | None:
        """Return when a person uploaded a file of this name; None if the table does not say."""
        slug = PurePosixPath(name).stem
        return self.known.get((person.student, slug), self.known.get((person.student, "")))


def read_collected_upload_times(path: Path, roster: Roster) -> tuple[UploadTimes, list[str]]:
    """Read the times in a table, with a sentence for each unknown student. Raises `UserError`."""
    found: dict[tuple[str, str], datetime] = {}
    problems = []
    for line in read_class_table_lines(path, ["submitted"]):
        submitted = read_class_table_moment(line.get("submitted"), line.at)
        try:
            key = _find_student_of_upload(line, roster).student, _find_slug_of_upload(line)
        except UnknownStudent as problem:
            problems.append(str(problem))
            continue
        if found.setdefault(key, submitted) != submitted:
            raise UserError(describe_second_time(line.at, *key))
    return UploadTimes(found), problems


def _find_student_of_upload(line: TableLine, roster: Roster) -> Person:
    column = next((name for name in _STUDENT_COLUMNS if line.get(name)), "student")
    return find_roster_student(
        roster.known_as(line.get(column), column), line.at, "Write a name of the roster."
    )


def _find_slug_of_upload(line: TableLine) -> str:
    name = line.get("exercise")
    return find_class_table_slug(name, line.at) if name else ""
