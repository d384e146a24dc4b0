"""What every source is read as: the files of one student, and when they were handed in."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import TypeVar

from grader.classroom.collecting.roster import Person, UnknownStudent
from grader.classroom.run.answer_contents import Contents
from grader.classroom.run.answer_files import is_folder
from grader.core.errors import UserError
from grader.submission.handed_files import is_passed_over, printable

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Parcel:
    """What a source holds of one student. Its files can be read until the next one is asked for."""

    person: Person
    contents: Contents
    submitted: Mapping[str, datetime]  # by a file's path; what is not known is missing


@dataclass(slots=True)
class CollectResult:
    """What is said at the end: how it is, and what a person has to settle."""

    facts: list[str] = field(default_factory=list)
    open: list[str] = field(default_factory=list)


def may_be(name: str) -> bool:
    """Return whether the name may be that of a misspelt answer file."""
    return PurePosixPath(name).suffix.lower() in (".py", ".ipynb", ".cu")


def folders(folder: Path) -> list[Path]:
    """The folders in a folder, by name; no link is followed."""
    try:
        return sorted(p for p in folder.iterdir() if is_folder(p) and not is_passed_over(p.name))
    except OSError as error:
        raise UserError(f"{printable(str(folder))} cannot be read: {error.strerror}.") from None


def owned(
    found: Iterable[T], owner: Callable[[T], Person], shown: Callable[[T], str], told: CollectResult
) -> list[tuple[Person, T]]:
    """Whose each of these is; a sentence on what is nobody's, or one of several."""
    by_student: dict[str, list[tuple[Person, T]]] = defaultdict(list)
    for thing in found:
        try:
            person = owner(thing)
        except UnknownStudent as problem:
            told.open.append(str(problem))
        else:
            by_student[person.student].append((person, thing))
    for student, pairs in by_student.items():
        if len(pairs) > 1:
            names = " and ".join(shown(thing) for _, thing in pairs)
            told.open.append(
                f"{names} are of one student, {printable(student)}: they were left alone. Leave "
                "the one that counts."
            )
    return [pairs[0] for pairs in by_student.values() if len(pairs) == 1]
