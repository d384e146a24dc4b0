"""When students uploaded what, in a table: student (or login, or id), exercise, submitted."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path, PurePosixPath

from grader.classroom.collecting.roster import Person, Roster, UnknownStudent, only
from grader.classroom.table_reader import Line, lines, moment_at
from grader.core import catalog
from grader.core.errors import UserError

_WHO = ("student", "login", "id")


@dataclass(frozen=True, slots=True)
class Times:
    """The last time of each student and exercise; of all exercises where none is named."""

    known: Mapping[tuple[str, str], datetime]

    def of(self, person: Person, name: str) -> datetime | None:
        """When a file of this name was uploaded; None if nobody says."""
        slug = PurePosixPath(name).stem
        return self.known.get((person.student, slug), self.known.get((person.student, "")))


def read(path: Path, roster: Roster) -> tuple[Times, list[str]]:
    """The times in a table, and a sentence on each that is of nobody. Raises `UserError`."""
    found: dict[tuple[str, str], list[datetime]] = defaultdict(list)
    problems = []
    for line in lines(path, ["submitted"]):
        submitted = moment_at(line.get("submitted"), line.at)
        try:
            found[_person(line, roster).student, _slug(line)].append(submitted)
        except UnknownStudent as problem:
            problems.append(str(problem))
    return Times({key: max(times) for key, times in found.items()}), problems


def _person(line: Line, roster: Roster) -> Person:
    column = next((name for name in _WHO if line.get(name)), "student")
    return only(roster.known_as(line.get(column), column), line.at, "Write a name of the roster.")


def _slug(line: Line) -> str:
    try:
        return catalog.find(line.get("exercise")).slug if line.get("exercise") else ""
    except catalog.UnknownExercise as problem:
        raise UserError(f"{line.at}: {problem}") from None
