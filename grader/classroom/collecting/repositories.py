"""A folder of clones, one for each student, named by the login or ending in it: hw1-ada."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path

from grader.classroom.collecting import clones, git_objects, pushes, source_files
from grader.classroom.collecting.clones import Clone
from grader.classroom.collecting.git_objects import Objects
from grader.classroom.collecting.pushes import Push, Pushes
from grader.classroom.collecting.roster import Person, Roster, UnknownStudent, only, read_as
from grader.classroom.collecting.source_files import CollectResult, Parcel
from grader.classroom.run.answer_contents import Contents
from grader.classroom.run.answer_files import File
from grader.submission.answer_file import Unreadable
from grader.submission.handed_files import printable

_CURE = "Write the repository's name into a column `repository` of the roster."


def read(
    folder: Path, roster: Roster, times: Path | None, until: datetime | None, told: CollectResult
) -> Iterator[Parcel]:
    """What each student has in their repository: of the last push, or the last one `until`."""
    known = _pushes(folder, times, told)
    found = clones.clones(folder)
    for other in sorted(set(source_files.folders(folder)) - {clone.path for clone in found}):
        told.open.append(f"{printable(other.name)} is no repository: it was left alone.")
    return _parcels(owned(found, roster, told), known, until, told)


def _parcels(
    found: Sequence[tuple[Person, Clone]],
    known: Pushes,
    until: datetime | None,
    told: CollectResult,
) -> Iterator[Parcel]:
    for person, clone in found:
        try:
            listed = known.get(read_as(clone.name), ())
            push = pushes.last(listed, clone.shown, until)
            if push is None:
                told.open.append(f"{clone.shown} has no push in the list: its time is not known.")
            with git_objects.opened(clone) as kept:
                files = kept.files(_commit(clone, push))
                yield Parcel(
                    person=person, contents=Contents(place=clone.shown, files=files),
                    submitted=_submitted(kept, files, push, listed) if push else {},
                )  # fmt: skip
        except Unreadable as problem:
            told.open.append(str(problem))


def _submitted(
    kept: Objects, files: Sequence[File], push: Push, listed: Sequence[Push]
) -> dict[str, datetime]:
    """When each file was handed in as it is: by the push since which it has not changed.

    So a later push of another exercise makes no answer late.
    """
    found = {file.path: push.pushed for file in files}
    same = {file.path: file.id for file in files}
    for earlier in pushes.before(listed, push):
        try:
            there = {file.path: file.id for file in kept.files(earlier.commit)}
        except Unreadable:  # the clone does not hold it any more
            break
        same = {path: id for path, id in same.items() if there.get(path) == id}
        if not same:
            break
        found |= dict.fromkeys(same, earlier.pushed)
    return found


def owned(
    found: Sequence[Clone], roster: Roster, told: CollectResult
) -> list[tuple[Person, Clone]]:
    """Whose each clone is."""
    return source_files.owned(found, partial(_owner, roster), lambda clone: clone.shown, told)


def _owner(roster: Roster, clone: Clone) -> Person:
    """Who is named by the roster as its owner, else whose login its name is or ends in."""
    if found := roster.known_as(clone.name, "repository"):
        return only(found, clone.shown, _CURE)
    name = read_as(clone.name)
    logins = [p for p in roster.people if p.login and f"-{name}".endswith(f"-{p.login}")]
    person = only(logins, clone.shown, _CURE)
    if person.repository:
        raise UnknownStudent(
            f"{clone.shown} was left alone: the roster names {printable(person.repository)} as "
            f"{printable(person.student)}'s repository."
        )
    return person


def _pushes(folder: Path, times: Path | None, told: CollectResult) -> Pushes:
    path = times or folder / pushes.NAME
    if times is None and not path.exists():
        told.open.append(
            f"{printable(str(path))} is not there: no time of submission is known. Write the "
            "platform's push times into it, below repository,pushed,commit."
        )
        return {}
    return pushes.read(path)


def _commit(clone: Clone, push: Push | None) -> str:
    """The commit that was pushed; where nobody says which, the one that the clone was left at."""
    if push and push.commit:
        return push.commit
    clones.check(clone)
    if (found := clones.reference(clone, "HEAD")) is None:
        raise Unreadable(
            f"{clone.shown} is empty, or its HEAD cannot be read: write the commit into the "
            "list of pushes."
        )
    return found
