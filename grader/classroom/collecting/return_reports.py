"""Returns the reports of a class as a zip for each student, or into the students' repositories.

A report reaches only its own student: if a name may be of several students, or a report names
another student than its folder does, that report is not returned, with a sentence.
"""

import io
import os
import shlex
import zipfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from grader.classroom.collecting import branches, clones, repositories, roster
from grader.classroom.collecting.clones import Clone
from grader.classroom.collecting.roster import (
    Roster,
    UnknownStudent,
    find_roster_student,
    normalize_roster_name,
)
from grader.classroom.collecting.source_files import CollectResult, list_collected_folders
from grader.classroom.run import results_folder
from grader.classroom.run.results_folder import STUDENTS
from grader.core.errors import UserError
from grader.core.result_store import is_file_written, write_file_whole
from grader.core.translation import Words
from grader.reporting import github
from grader.reporting.from_json import NoReport, parse_report_json
from grader.submission.answer_file import UnreadableFile
from grader.submission.handed_files import clean_submitted_name

PAGE_NAME, RECORD_NAME = "report.html", "report.json"
RETURN_WAYS = ("zips", "branches", "files")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReturnRequest:
    """The choices for one return of reports."""

    results: Path
    roster: Path | None
    way: str  # one of `RETURN_WAYS`
    output: Path
    repositories: Path | None
    branch: str
    dry: bool
    words: Words


@dataclass(frozen=True, slots=True, kw_only=True)
class ReturnedReport:
    """The report that one student gets back."""

    student: str  # the name of the folder of results
    page: bytes
    record: bytes
    summary: bytes  # the report as Markdown

    @property
    def shown(self) -> str:
        return clean_submitted_name(self.student)


def return_class_reports(asked: ReturnRequest) -> CollectResult:
    """Return every report. Raises `UserError` with a sentence."""
    told = CollectResult()
    known = None
    if asked.roster:
        known, told.open = roster.read_class_roster(asked.roster)
    _check_class_return_request(asked)
    found = _keep_students_in_roster(_read_reports_to_return(asked, told), known, told)
    try:
        if asked.way == "zips":
            _return_report_zips(asked, found, told)
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
    if asked.way != "zips" and not (asked.roster and asked.repositories):
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


def _read_reports_to_return(asked: ReturnRequest, told: CollectResult) -> list[ReturnedReport]:
    """Read the reports in a folder of results; leave out those about another student."""
    alike: dict[str, list[Path]] = defaultdict(list)
    for path in list_collected_folders(asked.results / STUDENTS):
        alike[normalize_roster_name(path.name)].append(path)
    found = []
    for paths in alike.values():
        try:
            if len(paths) > 1:
                names = " and ".join(clean_submitted_name(path.name) for path in paths)
                raise UnreadableFile(
                    f"{names} read alike: none was returned. Rename one, grade again."
                )
            found.append(_read_report_to_return(paths[0], asked.words))
        except UnreadableFile as problem:
            told.open.append(str(problem))
    return found


def _read_report_to_return(place: Path, words: Words) -> ReturnedReport:
    shown = clean_submitted_name(place.name)
    try:
        page, record = (place / PAGE_NAME).read_bytes(), (place / RECORD_NAME).read_bytes()
        report = parse_report_json(record.decode("utf-8"))
    except (OSError, UnicodeDecodeError, NoReport):
        raise UnreadableFile(f"{shown} has no whole report in the results: grade again.") from None
    if report.student != shown:
        raise UnreadableFile(
            f"The report in {shown}'s folder is about "
            f"{clean_submitted_name(str(report.student))}: it was not "
            "returned. Grade again."
        )
    summary = github.render_github_summary(report, words).encode()
    return ReturnedReport(student=place.name, page=page, record=record, summary=summary)


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
        path, content = asked.output / f"{mine.student}.zip", _zip_report_to_return(mine)
        if path.is_file() and is_file_written(path, content):
            continue
        changed += 1
        if path.exists():
            told.facts.append(f"{clean_submitted_name(path.name)} was there, and is replaced.")
        if not asked.dry:
            write_file_whole(path, content)
    told.facts.append(
        f"Zips in {clean_submitted_name(str(asked.output))}: {len(found)}, of which {changed} are "
        "new or "
        "changed."
    )


def _zip_report_to_return(mine: ReturnedReport) -> bytes:
    """Pack a report into a zip; the same report gives the same bytes at any time."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in ((PAGE_NAME, mine.page), (RECORD_NAME, mine.record)):
            entry = zipfile.ZipInfo(name)  # dated 1980, always
            entry.external_attr, entry.compress_type = 0o644 << 16, zipfile.ZIP_DEFLATED
            archive.writestr(entry, content)
    return file.getvalue()


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
        if path.exists() and is_file_written(path, content):
            continue
        done = "is replaced" if path.exists() else "is new"
        if not asked.dry:
            write_file_whole(path, content)
        yield f"{mine.shown}: {clone.shown}/{name} {done}."
