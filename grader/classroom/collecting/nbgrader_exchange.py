"""Reads nbgrader's `submitted/<student>/<assignment>/`, or an exchange's `inbound/`.

nbgrader takes its times from `timestamp.txt`, which `nbgrader submit` writes on the student's side.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path

from grader.classroom.collecting import source_files
from grader.classroom.collecting.roster import Person, Roster, find_roster_student
from grader.classroom.collecting.source_files import CollectResult, Parcel, list_collected_folders
from grader.classroom.course.table_reader import parse_class_moment
from grader.classroom.run import answer_files
from grader.classroom.run.answer_contents import Contents
from grader.classroom.run.answer_files import StudentFile, is_student_folder
from grader.submission.answer_file import UnreadableFile
from grader.submission.handed_files import clean_submitted_name

TIME_STAMP_NAME = "timestamp.txt"
_ROSTER_CURE = "Write the name into the roster: as student, login or id."


@dataclass(frozen=True, slots=True, kw_only=True)
class HandedAssignment:
    """One assignment as one student handed it in."""

    folder: Path
    shown: str
    student: str  # nbgrader's name of the student
    assignment: str
    time: datetime | None


def collect_nbgrader_parcels(
    folder: Path, roster: Roster, until: datetime | None, told: CollectResult
) -> Iterator[Parcel]:
    """Yield each student's files: every assignment's last hand-in, or the last one by `until`."""
    by_name: dict[str, list[HandedAssignment]] = defaultdict(list)
    for handed in find_collected_assignments(folder):
        by_name[handed.student].append(handed)
    found = source_files.match_collected_owners(
        by_name, partial(_find_collected_student, roster), clean_submitted_name, told
    )
    return _collect_found_assignments(
        [(person, by_name[name]) for person, name in found], until, told
    )


def _collect_found_assignments(
    found: Sequence[tuple[Person, Sequence[HandedAssignment]]],
    until: datetime | None,
    told: CollectResult,
) -> Iterator[Parcel]:
    for person, handed in found:
        if last := _choose_collected_assignments(handed, until, told):
            with ExitStack() as stack:
                yield _open_collected_parcel(person, last, stack, told)


def _find_collected_student(roster: Roster, name: str) -> Person:
    return find_roster_student(
        roster.known_as(name, "student", "login", "id"),
        clean_submitted_name(name),
        _ROSTER_CURE,
        f"Let only one of them have {clean_submitted_name(name)} in the roster.",
    )


def find_collected_assignments(folder: Path) -> list[HandedAssignment]:
    """Return the assignments handed in to a course's `submitted`, or an exchange's `inbound`."""
    for inner in ("submitted", "inbound"):
        if is_student_folder(folder / inner):
            folder = folder / inner
            break
    found = []
    for path in list_collected_folders(folder):
        named = path.name.split("+")
        if len(named) >= 3:
            found.append(_find_collected_assignment(path, named[0], named[1], path.name))
        else:
            found += [
                _find_collected_assignment(
                    inner, path.name, inner.name, f"{path.name}/{inner.name}"
                )
                for inner in list_collected_folders(path)
            ]
    return found


def _find_collected_assignment(
    folder: Path, student: str, assignment: str, shown: str
) -> HandedAssignment:
    return HandedAssignment(
        folder=folder, shown=clean_submitted_name(shown), student=student, assignment=assignment,
        time=_read_collected_time_stamp(folder),
    )  # fmt: skip


def _read_collected_time_stamp(folder: Path) -> datetime | None:
    """Return the time in an assignment's time stamp; None if the file cannot be read."""
    try:
        with answer_files.open_student_folder(folder, "") as handle:
            text = (
                answer_files.read_student_file(TIME_STAMP_NAME, TIME_STAMP_NAME, handle)
                .decode("utf-8", "replace")
                .strip()
            )
    except UnreadableFile:
        return None
    return parse_class_moment(text) or parse_class_moment(
        f"{text} UTC"
    )  # a time without a zone is UTC to nbgrader


def _choose_collected_assignments(
    found: Sequence[HandedAssignment], until: datetime | None, told: CollectResult
) -> list[HandedAssignment]:
    """Return the hand-in of each assignment that counts; note assignments without a time."""
    chosen = []
    by_assignment: dict[str, list[HandedAssignment]] = defaultdict(list)
    for handed in found:
        by_assignment[handed.assignment].append(handed)
    for several in by_assignment.values():
        timed = [h for h in several if h.time and (until is None or h.time <= until)]
        without = [h for h in several if h.time is None]
        if without and (until or len(several) > 1):
            told.open.append(
                f"{without[0].shown} has no {TIME_STAMP_NAME} with a time: it was left alone."
            )
        elif without:
            told.open.append(
                f"{without[0].shown} has no {TIME_STAMP_NAME} with a time: it is not known."
            )
            chosen.append(without[0])
        elif timed:
            chosen.append(max(timed, key=lambda h: (h.time, h.shown)))
        else:
            told.open.append(f"{several[0].shown} was handed in after {until}: it was left alone.")
    return chosen


def _open_collected_parcel(
    person: Person, found: Sequence[HandedAssignment], stack: ExitStack, told: CollectResult
) -> Parcel:
    all_files: list[StudentFile] = []
    submitted: dict[str, datetime] = {}
    for handed in found:
        try:
            opened = stack.enter_context(
                answer_files.open_student_folder(handed.folder, handed.shown)
            )
            listed = answer_files.list_student_folder(opened, handed.shown)
        except UnreadableFile as problem:
            told.open.append(str(problem))
            continue
        mine = [replace(file, path=f"{handed.shown}/{file.path}") for file in listed]
        all_files += mine
        if handed.time:
            submitted |= {file.path: handed.time for file in mine}
    return Parcel(
        person=person,
        contents=Contents(place=clean_submitted_name(found[0].student), files=all_files),
        submitted=submitted,
    )
