"""What nbgrader collected, `submitted/<student>/<assignment>/`, or an exchange's `inbound/`.

`timestamp.txt` is what nbgrader itself goes by. `nbgrader submit` writes it on the student's side.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path

from grader.classroom.collecting import source_files
from grader.classroom.collecting.roster import Person, Roster, only
from grader.classroom.collecting.source_files import CollectResult, Parcel, folders
from grader.classroom.run import answer_files
from grader.classroom.run.answer_contents import Contents
from grader.classroom.run.answer_files import File, is_folder
from grader.classroom.table_reader import moment
from grader.submission.answer_file import Unreadable
from grader.submission.handed_files import printable

STAMP = "timestamp.txt"
_CURE = "Write the name into the roster: as student, login or id."


@dataclass(frozen=True, slots=True, kw_only=True)
class Handed:
    """One assignment as one student handed it in."""

    folder: Path
    shown: str
    student: str  # as nbgrader calls them
    assignment: str
    time: datetime | None


def read(
    folder: Path, roster: Roster, until: datetime | None, told: CollectResult
) -> Iterator[Parcel]:
    """What each student handed in, of every assignment the last time, or the last one `until`."""
    by_name: dict[str, list[Handed]] = defaultdict(list)
    for handed in handings(folder):
        by_name[handed.student].append(handed)
    found = source_files.owned(by_name, partial(_owner, roster), printable, told)
    return _parcels([(person, by_name[name]) for person, name in found], until, told)


def _parcels(
    found: Sequence[tuple[Person, Sequence[Handed]]], until: datetime | None, told: CollectResult
) -> Iterator[Parcel]:
    for person, handed in found:
        if last := _last(handed, until, told):
            with ExitStack() as stack:
                yield _parcel(person, last, stack, told)


def _owner(roster: Roster, name: str) -> Person:
    return only(roster.known_as(name, "student", "login", "id"), printable(name), _CURE)


def handings(folder: Path) -> list[Handed]:
    """All that lies in a course, in its `submitted`, or in an exchange's `inbound`."""
    for inner in ("submitted", "inbound"):
        if is_folder(folder / inner):
            folder = folder / inner
            break
    found = []
    for path in folders(folder):
        named = path.name.split("+")
        if len(named) >= 3:
            found.append(_handed(path, named[0], named[1], path.name))
        else:
            found += [
                _handed(inner, path.name, inner.name, f"{path.name}/{inner.name}")
                for inner in folders(path)
            ]
    return found


def _handed(folder: Path, student: str, assignment: str, shown: str) -> Handed:
    return Handed(
        folder=folder, shown=printable(shown), student=student, assignment=assignment,
        time=_time(folder),
    )  # fmt: skip


def _time(folder: Path) -> datetime | None:
    """What the time stamp says; None if there is none that can be read."""
    try:
        with answer_files.opened(folder, "") as handle:
            text = answer_files.read(STAMP, STAMP, handle).decode("utf-8", "replace").strip()
    except Unreadable:
        return None
    return moment(text) or moment(f"{text} UTC")  # nbgrader takes what names no zone for UTC


def _last(found: Sequence[Handed], until: datetime | None, told: CollectResult) -> list[Handed]:
    """Of each assignment the one that counts; a sentence where that is not known."""
    chosen = []
    by_assignment: dict[str, list[Handed]] = defaultdict(list)
    for handed in found:
        by_assignment[handed.assignment].append(handed)
    for several in by_assignment.values():
        timed = [h for h in several if h.time and (until is None or h.time <= until)]
        without = [h for h in several if h.time is None]
        if without and (until or len(several) > 1):
            told.open.append(f"{without[0].shown} has no {STAMP} with a time: it was left alone.")
        elif without:
            told.open.append(f"{without[0].shown} has no {STAMP} with a time: it is not known.")
            chosen.append(without[0])
        elif timed:
            chosen.append(max(timed, key=lambda h: (h.time, h.shown)))
        else:
            told.open.append(f"{several[0].shown} was handed in after {until}: it was left alone.")
    return chosen


def _parcel(
    person: Person, found: Sequence[Handed], stack: ExitStack, told: CollectResult
) -> Parcel:
    all_files: list[File] = []
    submitted: dict[str, datetime] = {}
    for handed in found:
        try:
            opened = stack.enter_context(answer_files.opened(handed.folder, handed.shown))
            listed = answer_files.listed(opened, handed.shown)
        except Unreadable as problem:
            told.open.append(str(problem))
            continue
        mine = [replace(file, path=f"{handed.shown}/{file.path}") for file in listed]
        all_files += mine
        if handed.time:
            submitted |= {file.path: handed.time for file in mine}
    return Parcel(
        person=person, contents=Contents(place=printable(found[0].student), files=all_files),
        submitted=submitted,
    )  # fmt: skip
