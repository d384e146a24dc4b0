"""Reads the roster: the students of a class, and their names on platforms. Guesses nothing."""

import unicodedata
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from grader.classroom.course.table_reader import read_class_table_lines
from grader.classroom.run.gather_answers import TIMES_TABLE_NAME
from grader.core.errors import UserError
from grader.submission.handed_files import clean_submitted_name, is_handed_in_accidentally

_PLATFORM_COLUMNS = ("login", "id", "name", "repository")
_MAX_TOLD_LINES = 10  # of a roster of which no line can be taken
_MAX_NAME_BYTES = 200  # file systems take 255, and `.zip` may be added


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """A student, and the student's names on platforms; a name that is not known is empty."""

    student: str  # names the folder of submissions
    login: str  # this and the next three: passed through `normalize_roster_name`
    id: str
    name: str
    repository: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Roster:
    """The students of a class, each with a unique folder name."""

    people: Sequence[Person]

    def known_as(self, value: str, *columns: str) -> list[Person]:
        """Return the students who have this name in one of these columns."""
        wanted = normalize_roster_name(value)
        return [
            p
            for p in self.people
            if wanted and wanted in (_normalize_roster_column(p, c) for c in columns)
        ]


class UnknownStudent(Exception):
    """Raised if a name belongs to no student, or to several; the message is a sentence."""


def find_roster_student(
    found: Sequence[Person], what: str, cure: str, namesakes: str = ""
) -> Person:
    """Return the only student in `found`; raise `UnknownStudent` if there is none, or several.

    namesakes  the cure where there are several, if it is another one
    """
    if len(found) > 1:
        names = ", ".join(clean_submitted_name(person.student) for person in found)
        raise UnknownStudent(f"{what} may be of {names}: it was left alone. {namesakes or cure}")
    if not found:
        raise UnknownStudent(f"{what} belongs to nobody in the roster: it was left alone. {cure}")
    return found[0]


def read_class_roster(path: Path) -> tuple[Roster, list[str]]:
    """Read a roster from a CSV, with a sentence for each rejected line. Raises `UserError`."""
    problems = []
    alike: dict[str, list[tuple[str, Person]]] = defaultdict(list)
    for line in read_class_table_lines(path, ["student"]):
        student = line.get("student")
        login, id, name, repository = (
            normalize_roster_name(line.get(column)) for column in _PLATFORM_COLUMNS
        )
        if problem := _reject_roster_name(student):
            problems.append(f"{line.at}: {problem}")
            continue
        person = Person(student=student, login=login, id=id, name=name, repository=repository)
        alike[normalize_roster_name(student)].append((line.at, person))
    people = [found[0][1] for found in alike.values() if len(found) == 1]
    problems += [_describe_roster_duplicate(found) for found in alike.values() if len(found) > 1]
    problems += _describe_shared_roster_names(people)
    if not alike and problems:
        raise UserError("\n".join(problems[:_MAX_TOLD_LINES]))
    if not alike:
        raise UserError(f"{path} names no student: write a line for each, below student,login,id.")
    return Roster(people=people), problems


def _reject_roster_name(student: str) -> str:
    """Return why a folder cannot have this student's name; '' if a folder can."""
    shown = clean_submitted_name(student)
    if not student:
        return "there is no student in it: fill in the column student."
    if len(student.encode()) > _MAX_NAME_BYTES:
        return f"{shown} is too long for a folder's name: shorten it."
    if shown != student or "/" in student or "\\" in student:
        return f"{shown} cannot be a folder's name: write another into the column student."
    if is_handed_in_accidentally(student) or student in (".", "..", TIMES_TABLE_NAME):
        return f"a folder called {shown} is not read: write another into the column student."
    return ""


def normalize_roster_name(name: str) -> str:
    """Return one spelling for all names that readers, or file systems, cannot tell apart."""
    return unicodedata.normalize("NFKC", name).casefold().strip()


def _normalize_roster_column(person: Person, column: str) -> str:
    found: str = getattr(person, column)
    return normalize_roster_name(found) if column == "student" else found


def _describe_roster_duplicate(found: list[tuple[str, Person]]) -> str:
    (first, person), (second, _), *_ = found
    return (
        f"{second}: {clean_submitted_name(person.student)} is in {first} already: neither was "
        "collected or "
        "returned. Give each student a name of their own."
    )


def _describe_shared_roster_names(people: Sequence[Person]) -> Iterator[str]:
    """Yield a sentence for each login, id and repository that several students have."""
    for column in ("login", "id", "repository"):
        having = defaultdict(list)
        for person in people:
            having[getattr(person, column)].append(clean_submitted_name(person.student))
        for value, names in having.items():
            if value and len(names) > 1:
                yield (
                    f"{' and '.join(names)} have the same {column} in the roster, "
                    f"{clean_submitted_name(value)}: nothing of that name was taken for either."
                )
