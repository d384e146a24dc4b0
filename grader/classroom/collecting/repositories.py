"""Reads a folder of clones, one for each student; their names end in the login: hw1-ada."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path

from grader.classroom.collecting import clones, git_objects, pushes, source_files
from grader.classroom.collecting.clones import Clone
from grader.classroom.collecting.git_objects import CloneObjects
from grader.classroom.collecting.pushes import Push, Pushes
from grader.classroom.collecting.roster import (
    Person,
    Roster,
    UnknownStudent,
    find_roster_student,
    normalize_roster_name,
)
from grader.classroom.collecting.source_files import CollectResult, Parcel
from grader.classroom.run.answer_contents import Contents
from grader.classroom.run.answer_files import StudentFile
from grader.submission.answer_file import UnreadableFile
from grader.submission.handed_files import clean_submitted_name

_ROSTER_CURE = "Write the repository's name into a column `repository` of the roster."


def collect_repository_parcels(
    folder: Path, roster: Roster, times: Path | None, until: datetime | None, told: CollectResult
) -> Iterator[Parcel]:
    """Yield the files in each student's repository: of the last push, or the last by `until`."""
    known = _read_collected_push_list(folder, times, told)
    found = clones.find_collected_clones(folder)
    for other in sorted(
        set(source_files.list_collected_folders(folder)) - {clone.path for clone in found}
    ):
        told.open.append(
            f"{clean_submitted_name(other.name)} is no repository: it was left alone. Clone it "
            "again, or move it elsewhere."
        )
    return _collect_found_repositories(
        match_collected_clone_owners(found, roster, told), known, until, told
    )


def _collect_found_repositories(
    found: Sequence[tuple[Person, Clone]],
    known: Pushes,
    until: datetime | None,
    told: CollectResult,
) -> Iterator[Parcel]:
    for person, clone in found:
        try:
            listed = known.get(normalize_roster_name(clone.name), ())
            push = pushes.choose_collected_push(listed, clone.shown, until)
            if push is None:
                told.open.append(f"{clone.shown} has no push in the list: its time is not known.")
            with git_objects.open_collected_objects(clone) as kept:
                files = kept.files(_find_collected_commit(clone, push))
                yield Parcel(
                    person=person, contents=Contents(place=clone.shown, files=files),
                    submitted=_find_collected_times(kept, files, push, listed) if push else {},
                )  # fmt: skip
        except UnreadableFile as problem:
            told.open.append(str(problem))


def _find_collected_times(
    kept: CloneObjects, files: Sequence[StudentFile], push: Push, listed: Sequence[Push]
) -> dict[str, datetime]:
    """Return, for each file, the time of the push since which it has not changed.

    Thus no answer becomes late because another exercise is pushed later.
    """
    found = {file.path: push.pushed for file in files}
    same = {file.path: file.id for file in files}
    for earlier in pushes.list_pushes_before(listed, push):
        try:
            there = {file.path: file.id for file in kept.files(earlier.commit)}
        except UnreadableFile:  # the clone does not hold it any more
            break
        same = {path: id for path, id in same.items() if there.get(path) == id}
        if not same:
            break
        found |= dict.fromkeys(same, earlier.pushed)
    return found


def match_collected_clone_owners(
    found: Sequence[Clone], roster: Roster, told: CollectResult
) -> list[tuple[Person, Clone]]:
    """Return each clone with its owner in the roster."""
    return source_files.match_collected_owners(
        found, partial(_find_clone_owner, roster), lambda clone: clone.shown, told
    )


def _find_clone_owner(roster: Roster, clone: Clone) -> Person:
    """Return the clone's owner by the roster, else the person whose login ends the clone's name."""
    if found := roster.known_as(clone.name, "repository"):
        return find_roster_student(found, clone.shown, _ROSTER_CURE)
    name = normalize_roster_name(clone.name)
    logins = [p for p in roster.people if p.login and f"-{name}".endswith(f"-{p.login}")]
    person = find_roster_student(logins, clone.shown, _ROSTER_CURE)
    if person.repository:
        raise UnknownStudent(
            f"{clone.shown} was left alone: the roster names "
            f"{clean_submitted_name(person.repository)} as "
            f"{clean_submitted_name(person.student)}'s repository."
        )
    return person


def _read_collected_push_list(folder: Path, times: Path | None, told: CollectResult) -> Pushes:
    path = times or folder / pushes.PUSHES_NAME
    if times is None and not path.exists():
        told.open.append(
            f"{clean_submitted_name(str(path))} is not there: no time of submission is known. "
            "Write the "
            "platform's push times into it, below repository,pushed,commit."
        )
        return {}
    return pushes.read_collected_pushes(path)


def _find_collected_commit(clone: Clone, push: Push | None) -> str:
    """Return the commit of a push; the clone's HEAD if the list names no commit."""
    if push and push.commit:
        return push.commit
    clones.check_collected_clone(clone)
    if (found := clones.read_clone_reference(clone, "HEAD")) is None:
        raise UnreadableFile(
            f"{clone.shown} is empty, or its HEAD cannot be read: write the commit into the "
            "list of pushes."
        )
    return found
