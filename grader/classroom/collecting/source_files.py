"""Matches sources to students: the files of each student, and when the files were handed in."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import TypeVar

from grader.classroom.collecting.roster import Person, UnknownStudent
from grader.classroom.run.answer_contents import Contents
from grader.classroom.run.answer_files import is_student_folder
from grader.core.errors import UserError
from grader.submission.handed_files import clean_submitted_name, is_handed_in_accidentally

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Parcel:
    """One student's files in a source; they can be read until the next parcel is requested."""

    person: Person
    contents: Contents
    submitted: Mapping[str, datetime]  # by a file's path; unknown times are left out


@dataclass(slots=True)
class CollectResult:
    """The sentences printed at the end: facts, and open questions for a person to settle."""

    facts: list[str] = field(default_factory=list)
    open: list[str] = field(default_factory=list)


def has_collected_answer_suffix(name: str) -> bool:
    """Return whether a name has an answer file's suffix, and so may be a misspelt one."""
    return PurePosixPath(name).suffix.lower() in (".py", ".ipynb", ".cu")


def list_collected_folders(folder: Path) -> list[Path]:
    """Return the folders in a folder, sorted by name; follow no link."""
    try:
        return sorted(
            p
            for p in folder.iterdir()
            if is_student_folder(p) and not is_handed_in_accidentally(p.name)
        )
    except OSError as error:
        raise UserError(
            f"{clean_submitted_name(str(folder))} cannot be read: {error.strerror}."
        ) from None


def match_collected_owners(
    found: Iterable[T], owner: Callable[[T], Person], shown: Callable[[T], str], told: CollectResult
) -> list[tuple[Person, T]]:
    """Return each thing with its owner; note things without an owner, or several of one owner."""
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
                f"{names} are of one student, {clean_submitted_name(student)}: they were left "
                "alone. Leave "
                "the one that counts."
            )
    return [pairs[0] for pairs in by_student.values() if len(pairs) == 1]
