"""Who is in the class, and by which names the platforms know them. Nothing is guessed."""

import unicodedata
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from grader.classroom.run.gather_answers import SUBMITTED
from grader.classroom.table_reader import lines
from grader.core.errors import UserError
from grader.submission.handed_files import is_passed_over, printable

_OTHERS = ("login", "id", "name", "repository")
_MAX_NAME = 200  # bytes; file systems take 255, and `.zip` may come to it


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """A student, and the names under which a platform knows them; empty where it does not."""

    student: str  # names the folder of submissions
    login: str  # this and what follows: as `read_as` has it
    id: str
    name: str
    repository: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Roster:
    """The students of a class, each with a folder's name of their own."""

    people: Sequence[Person]

    def known_as(self, value: str, *columns: str) -> list[Person]:
        """Everybody who has this name in one of these columns."""
        wanted = read_as(value)
        return [p for p in self.people if wanted and wanted in (_named(p, c) for c in columns)]


class UnknownStudent(Exception):
    """A name that belongs to no student, or to several; the message is a sentence."""


def only(found: Sequence[Person], what: str, cure: str) -> Person:
    """Return the single match; raise `UnknownStudent` with the reason otherwise."""
    if len(found) > 1:
        names = ", ".join(printable(person.student) for person in found)
        raise UnknownStudent(f"{what} may be of {names}: it was left alone. {cure}")
    if not found:
        raise UnknownStudent(f"{what} belongs to nobody in the roster: it was left alone. {cure}")
    return found[0]


def read(path: Path) -> tuple[Roster, list[str]]:
    """The roster in a CSV, and a sentence on each line that cannot count. Raises `UserError`."""
    problems = []
    alike: dict[str, list[tuple[str, Person]]] = defaultdict(list)
    for line in lines(path, ["student"]):
        student = line.get("student")
        login, id, name, repository = (read_as(line.get(column)) for column in _OTHERS)
        if problem := _problem(student):
            problems.append(f"{line.at}: {problem}")
            continue
        person = Person(student=student, login=login, id=id, name=name, repository=repository)
        alike[read_as(student)].append((line.at, person))
    people = [found[0][1] for found in alike.values() if len(found) == 1]
    problems += [_same(found) for found in alike.values() if len(found) > 1]
    problems += _shared(people)
    if not alike:
        raise UserError(f"{path} names no student: write a line for each, below student,login,id.")
    return Roster(people=people), problems


def _problem(student: str) -> str:
    """Why this cannot be the name of a student's folder; nothing if it can."""
    shown = printable(student)
    if not student:
        return "there is no student in it: fill in the column student."
    if len(student.encode()) > _MAX_NAME:
        return f"{shown} is too long for a folder's name: shorten it."
    if shown != student or "/" in student or "\\" in student:
        return f"{shown} cannot be a folder's name: write another into the column student."
    if is_passed_over(student) or student in (".", "..", SUBMITTED):
        return f"a folder called {shown} is not read: write another into the column student."
    return ""


def read_as(name: str) -> str:
    """What a reader, and some file systems, take a name for."""
    return unicodedata.normalize("NFKC", name).casefold().strip()


def _named(person: Person, column: str) -> str:
    found: str = getattr(person, column)
    return read_as(found) if column == "student" else found


def _same(found: list[tuple[str, Person]]) -> str:
    (first, person), (second, _), *_ = found
    return (
        f"{second}: {printable(person.student)} is in {first} already: neither was collected or "
        "returned. Give each student a name of their own."
    )


def _shared(people: Sequence[Person]) -> Iterator[str]:
    """A sentence on each login, id and repository that several students have."""
    for column in ("login", "id", "repository"):
        having = defaultdict(list)
        for person in people:
            having[getattr(person, column)].append(printable(person.student))
        for value, names in having.items():
            if value and len(names) > 1:
                yield (
                    f"{' and '.join(names)} have the same {column} in the roster, "
                    f"{printable(value)}: nothing of that name was taken for either."
                )
