"""Collects answers into `submissions/<student>/<slug>.py`, and their times into `submitted.csv`.

An answer found now replaces the one collected before, and a sentence says so; if none is found
now, the earlier one stays. An answer that may belong to several students is not collected, and a
sentence says so.
"""

import os
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path, PurePosixPath

from grader.classroom.collecting import (
    nbgrader_exchange,
    pushes,
    roster,
    source_kinds,
    submitted_times,
)
from grader.classroom.collecting.roster import Person, Roster
from grader.classroom.collecting.source_files import (
    CollectResult,
    Parcel,
    has_collected_answer_suffix,
    list_collected_folders,
)
from grader.classroom.run.answer_contents import is_student_answer, list_student_answer_names
from grader.classroom.run.answer_files import is_student_folder
from grader.classroom.run.gather_answers import (
    MAX_STUDENT_NOTES,
    TIMES_TABLE_NAME,
    describe_student_file_problem,
)
from grader.core.errors import UserError
from grader.core.result_store import does_file_hold_content, write_file_whole
from grader.submission.answer_file import UnreadableFile
from grader.submission.handed_files import clean_submitted_name, is_submitted_other_archive


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectRequest:
    """The choices for one collection of answers."""

    roster: Path
    source: Path
    output: Path
    kind: str  # "auto" or one of `KINDS`
    times: Path | None
    until: datetime | None


@dataclass(slots=True, kw_only=True)
class _Collection:
    """The folder of submissions, while answers are written into the folder."""

    folder: Path
    told: CollectResult
    times: submitted_times.SubmittedTimes
    counts: Counter[str] = field(default_factory=Counter)
    found: dict[str, set[str]] = field(default_factory=dict)  # names of answers, by student

    def store_parcel(self, parcel: Parcel) -> None:
        """Write the answers that one student handed in."""
        student = parcel.person.student
        if not self._ensure_student_folder(student):
            return
        mine = self.found.setdefault(student, set())
        before = len(self.told.open)
        taken: dict[str, str] = {}  # by its path, a file with a copy's name: the answer it is
        for name in sorted(list_student_answer_names()):
            file = parcel.contents.called(name)
            if file is None:
                continue
            try:
                content = file.content()
            except UnreadableFile as problem:
                self.told.open.append(f"{clean_submitted_name(student)}: {problem}")
                continue
            mine.add(name)
            if file.name != name:
                taken[file.path] = name
            self._write_answer(student, name, content, parcel.submitted.get(file.path))
        self._remove_other_format(student, mine)
        notes = [*parcel.contents.notes, *_describe_collected_names(parcel, taken)]
        if not mine and not notes and len(self.told.open) == before:
            notes = [
                f"{clean_submitted_name(parcel.contents.place)} holds no answer that can be read."
            ]
        self.told.open += [
            f"{clean_submitted_name(student)}: {note}" for note in notes[:MAX_STUDENT_NOTES]
        ]

    def report_uncollected(self, people: list[Person]) -> None:
        """Make folders for students without answers, and note who and what was not collected."""
        without = [p.student for p in people if not self.found.get(p.student)]
        for student in without:
            self._ensure_student_folder(student)
        if without:
            names = ", ".join(map(clean_submitted_name, without))
            self.told.facts.append(f"Nothing was collected from: {names}.")
        students = {person.student for person in people}
        for path in list_collected_folders(self.folder):
            if path.name not in students:
                shown = clean_submitted_name(path.name)
                self.told.facts.append(f"{shown} is in the submissions, but not in the roster.")
            there = {p.name for p in path.iterdir() if is_student_answer(p.name)}
            self.counts["kept"] += len(there - self.found.get(path.name, set()))
        if kept := self.counts["kept"]:
            says = f"Answers kept from earlier, which this source does not hold: {kept}."
            self.told.facts.append(says)

    def _ensure_student_folder(self, student: str) -> bool:
        """Make a student's folder if it is missing; return False if a file stands in its place."""
        path = self.folder / student
        if not os.path.lexists(path):
            path.mkdir()
        elif not is_student_folder(path):
            self.told.open.append(
                f"{clean_submitted_name(str(path))} is no folder: put it elsewhere."
            )
            return False
        return True

    def _write_answer(self, student: str, name: str, content: bytes, time: datetime | None) -> None:
        path, key = self.folder / student / name, (student, PurePosixPath(name).stem)
        shown = f"{clean_submitted_name(student)}: {name}"
        if os.path.lexists(path) and (path.is_symlink() or not path.is_file()):
            self.told.open.append(f"{shown} is no file in the submissions: put it elsewhere.")
            return
        if path.exists() and does_file_hold_content(path, content):
            self.counts["unchanged"] += 1
            self.times |= {key: time} if time else {}
            return
        is_new, before = not path.exists(), self.times.pop(key, None)
        write_file_whole(path, content)
        self.counts["new" if is_new else "replaced"] += 1
        if not is_new:
            when = f", of {before} before and {time} now" if before and time else ""
            self.told.facts.append(f"{shown} was replaced: it was changed{when}.")
        self.times |= {key: time} if time else {}

    def _remove_other_format(self, student: str, mine: set[str]) -> None:
        """Remove a student's plain file that a notebook answers now, and the other way round."""
        slugs = {PurePosixPath(name).stem for name in mine}
        for name in sorted(list_student_answer_names() - mine):
            path = self.folder / student / name
            if PurePosixPath(name).stem in slugs and path.is_file():
                path.unlink()
                self.told.facts.append(
                    f"{clean_submitted_name(student)}: {name} was removed: another file answers "
                    "it now."
                )


def collect_class_answers(asked: CollectRequest) -> CollectResult:
    """Collect the answers of a class. Raises `UserError` with a sentence."""
    told = CollectResult()
    people, told.open = roster.read_class_roster(asked.roster)
    kind = source_kinds.choose_collected_source_kind(asked.source, asked.kind)
    told.facts.append(
        f"{clean_submitted_name(str(asked.source))} is read as {source_kinds.SOURCE_KINDS[kind]}."
    )
    _check_collected_folders_apart(asked)
    parcels = source_kinds.collect_parcels(
        asked.source, kind, people, asked.times, asked.until, told
    )
    try:
        asked.output.mkdir(parents=True, exist_ok=True)
        _store_collected_parcels(parcels, people, asked.output, kind, told)
    except OSError as error:
        shown = clean_submitted_name(str(error.filename or asked.output))
        raise UserError(f"{shown} cannot be written: {error.strerror}.") from None
    return told


def _store_collected_parcels(
    parcels: Iterator[Parcel], people: Roster, folder: Path, kind: str, told: CollectResult
) -> None:
    made = _Collection(folder=folder, told=told, times=submitted_times.read_collected_times(folder))
    try:
        for parcel in parcels:
            made.store_parcel(parcel)
        made.report_uncollected(list(people.people))
    finally:
        submitted_times.write_collected_times(folder, made.times)
    count = made.counts
    told.facts.append(
        f"Answers in {clean_submitted_name(str(folder))}: {count['new']} new, {count['replaced']} "
        "replaced, "
        f"{count['unchanged']} as before. "
        f"{_describe_collected_times(folder, made.times, kind)}"
    )


def _describe_collected_times(
    folder: Path, times: submitted_times.SubmittedTimes, kind: str
) -> str:
    """Say where the times of submission are; if none is known, what would name them."""
    if times:
        return f"Times of submission: {clean_submitted_name(str(folder / TIMES_TABLE_NAME))}"
    names = {
        "nbgrader": f"nbgrader's {nbgrader_exchange.TIME_STAMP_NAME} would name them.",
        "repositories": f"{pushes.PUSHES_NAME} in the folder of clones would name them.",
    }
    cure = names.get(kind, "ARGS='--times TABLE' names them.")
    return f"No times of submission are known: {cure}"


def _check_collected_folders_apart(asked: CollectRequest) -> None:
    source, output = (Path(os.path.realpath(path)) for path in (asked.source, asked.output))
    if output.is_relative_to(source) or source.is_relative_to(output):
        named = " and ".join(
            clean_submitted_name(str(path)) for path in (asked.source, asked.output)
        )
        raise UserError(f"Of {named} one lies in the other: name another folder of submissions.")


def _describe_collected_names(parcel: Parcel, taken: Mapping[str, str]) -> list[str]:
    """Return a sentence for each file that was taken as an answer, or whose name is close to one's.

    taken  by the path of a file with a copy's name: the name of the answer that it was taken as
    """
    sentences, copies = [], parcel.contents.list_all_copies()
    for file in parcel.contents.files:
        if file.path in taken:
            sentences.append(
                f"{file.shown} was taken as {taken[file.path]}: look whether that is right."
            )
        elif file.path in copies or is_student_answer(file.name):
            continue
        elif is_submitted_other_archive(file.name):
            sentences.append(describe_student_file_problem(file))
        elif has_collected_answer_suffix(file.name):
            problem = describe_student_file_problem(file)
            sentences += [problem] if problem.endswith("?") else []
    return sentences
