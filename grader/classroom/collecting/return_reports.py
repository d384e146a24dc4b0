"""Returns the reports of a class as a zip for each student, or into the students' repositories.

A report reaches only its own student: if a name may belong to several students, or a report names
another student than its folder does, the report is not returned, and a sentence says so.
"""

import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from grader.classroom.collecting import branches, clones, repositories, roster
from grader.classroom.collecting.clones import Clone
from grader.classroom.collecting.return_to_platforms import (
    PLATFORMS,
    PlatformReturn,
    return_to_platform,
)
from grader.classroom.collecting.returned_report import (
    PAGE_NAME,
    RECORD_NAME,
    ReturnedReport,
    read_reports_to_return,
    write_returned_file,
    zip_returned_files,
)
from grader.classroom.collecting.roster import (
    Roster,
    UnknownStudent,
    find_roster_student,
    normalize_roster_name,
)
from grader.classroom.collecting.source_files import CollectResult
from grader.classroom.run import results_folder
from grader.core.errors import UserError
from grader.core.result_store import does_file_hold_content, write_file_whole
from grader.core.translation import Words
from grader.submission.answer_file import UnreadableFile
from grader.submission.handed_files import clean_submitted_name

RETURN_WAYS = ("zips", *PLATFORMS, "branches", "files")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReturnRequest:
    """The choices for one return of reports."""

    results: Path
    roster: Path | None
    way: str  # one of `RETURN_WAYS`
    output: Path
    source: Path | None  # the platform's download, whose names come back
    repositories: Path | None
    branch: str
    dry: bool
    words: Words


def return_class_reports(asked: ReturnRequest) -> CollectResult:
    """Return every report. Raises `UserError` with a sentence."""
    told = CollectResult()
    known = None
    if asked.roster:
        known, told.open = roster.read_class_roster(asked.roster)
    _check_class_return_request(asked)
    reports = read_reports_to_return(asked.results, asked.words, told)
    found = _keep_students_in_roster(reports, known, told)
    try:
        if asked.way == "zips":
            _return_report_zips(asked, found, told)
        elif asked.way in PLATFORMS:
            assert known is not None and asked.source is not None
            platform = PlatformReturn(
                way=asked.way, source=asked.source, output=asked.output, dry=asked.dry
            )
            return_to_platform(platform, found, known, told)
        else:
            assert known is not None
            _return_reports_to_clones(asked, found, known, told)
    except OSError as error:
        shown = clean_submitted_name(str(error.filename or asked.output))
        raise UserError(f"{shown} cannot be written: {error.strerror}.") from None
    if asked.dry:
        told.facts.append("Nothing was written: this was a dry run.")
    return told


def _check_class_return_request(asked: ReturnRequest) -> None:
    if asked.way in PLATFORMS and not (asked.roster and asked.source):
        raise UserError(
            f"By which names does the platform know the students? `--to {asked.way} --roster "
            "roster.csv --source FILE`, where FILE is what you downloaded of the assignment."
        )
    if asked.way in ("branches", "files") and not (asked.roster and asked.repositories):
        raise UserError(
            f"Whose repository is it? `--to {asked.way} --roster roster.csv --repositories FOLDER`."
        )
    if asked.way == "branches":
        branches.check_returned_branch_name(asked.branch)
    try:
        run = results_folder.read_last_class_run(asked.results)
    except results_folder.NoResults as problem:
        raise UserError(str(problem)) from None
    if not run.finished:
        raise UserError(f"The last run into {asked.results} was not finished: finish it first.")


def _keep_students_in_roster(
    found: Sequence[ReturnedReport], known: Roster | None, told: CollectResult
) -> list[ReturnedReport]:
    """Return the reports on students in the roster; all reports if there is no roster."""
    if known is None:
        return list(found)
    kept = []
    for mine in found:
        try:
            find_roster_student(
                known.known_as(mine.student, "student"), mine.shown, "Add it as a student."
            )
            kept.append(mine)
        except UnknownStudent as problem:
            told.open.append(str(problem))
    without = {normalize_roster_name(p.student): p for p in known.people}.keys() - {
        normalize_roster_name(mine.student) for mine in found
    }
    if without:
        told.facts.append(f"No report on: {', '.join(sorted(map(clean_submitted_name, without)))}.")
    return kept


def _return_report_zips(
    asked: ReturnRequest, found: Sequence[ReturnedReport], told: CollectResult
) -> None:
    changed = 0
    for mine in found:
        path, content = asked.output / f"{mine.student}.zip", zip_returned_files(mine.files)
        changed += write_returned_file(path, content, told, dry=asked.dry)
    told.facts.append(
        f"Zips in {clean_submitted_name(str(asked.output))}: {len(found)}, of which {changed} are "
        "new or "
        "changed."
    )


def _return_reports_to_clones(
    asked: ReturnRequest, found: Sequence[ReturnedReport], known: Roster, told: CollectResult
) -> None:
    assert asked.repositories is not None
    pairs = repositories.match_collected_clone_owners(
        clones.find_collected_clones(asked.repositories), known, told
    )
    theirs = {person.student: clone for person, clone in pairs}
    for mine in found:
        [person] = known.known_as(mine.student, "student")
        clone = theirs.get(person.student)
        if clone is None:
            told.facts.append(f"{mine.shown} has a report, but no repository of their own here.")
            continue
        try:
            written = _return_report_branch if asked.way == "branches" else _return_report_files
            told.facts += written(asked, mine, clone)
        except UnreadableFile as problem:
            told.open.append(str(problem))


def _return_report_branch(
    asked: ReturnRequest, mine: ReturnedReport, clone: Clone
) -> Iterator[str]:
    """Write a report's branch; yield sentences on the result and on how to push the branch."""
    branches.check_returned_branch_writable(clone, asked.branch)
    files = {"README.md": mine.summary, PAGE_NAME: mine.page, RECORD_NAME: mine.record}
    if not asked.dry and not branches.commit_returned_files(
        clone, asked.branch, files, "The report on the answers\n"
    ):
        yield f"{mine.shown}: {clone.shown} has this report already, on {asked.branch}."
        return
    command = ["git", "-C", os.fspath(clone.path), "-c", "core.hooksPath=/dev/null", "push"]
    pushed = shlex.join([*command, "origin", asked.branch])
    yield f"{mine.shown}: on {asked.branch} of {clone.shown}; it is pushed by: {pushed}"


def _return_report_files(asked: ReturnRequest, mine: ReturnedReport, clone: Clone) -> Iterator[str]:
    """Write a report as files into the working tree; commit nothing."""
    if clone.git == clone.path:
        raise UnreadableFile(
            f"{clone.shown} is a bare repository: `--to branches` writes into those."
        )
    named: Mapping[str, bytes] = {"GRADING.html": mine.page, "GRADING.md": mine.summary}
    for name in named:
        path = clone.path / name
        if os.path.lexists(path) and (path.is_symlink() or not path.is_file()):
            raise UnreadableFile(
                f"{clone.shown}/{name} is no file: nothing was written. Remove it."
            )
    for name, content in named.items():
        path = clone.path / name
        if path.exists() and does_file_hold_content(path, content):
            continue
        done = "is replaced" if path.exists() else "is new"
        if not asked.dry:
            write_file_whole(path, content)
        yield f"{mine.shown}: {clone.shown}/{name} {done}."
