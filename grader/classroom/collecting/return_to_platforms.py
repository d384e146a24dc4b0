"""Returns reports as the upload pages of Canvas and Moodle take them: one zip for all students.

    Canvas   adalovelace_1042_7731_ex01_softmax.py   the name of a file in the zip of submissions
    Moodle   Ada Lovelace_57_assignsubmission_file/report.html

Canvas (`infer_comment_context_from_filename` in app/models/abstract_assignment.rb of canvas-lms)
takes a file whose name holds the ids of a student and of a file that this student uploaded, and
shows it under the name of that file. So each file holds the report in the form that its suffix
promises. Moodle (mod/assign/feedback/file/importziplib.php) takes any file in a folder whose name
holds the number of a participant.
"""

import csv
import io
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from grader.classroom.collecting.returned_report import (
    ReturnedReport,
    write_returned_file,
    zip_returned_files,
)
from grader.classroom.collecting.roster import (
    Person,
    Roster,
    UnknownStudent,
    find_roster_student,
    normalize_roster_name,
)
from grader.classroom.collecting.source_files import CollectResult, match_collected_owners
from grader.classroom.collecting.uploads import (
    CANVAS_COLUMNS,
    MOODLE_COLUMNS,
    match_uploads_to_students,
)
from grader.classroom.course.table_reader import number_class_table_rows
from grader.classroom.run.answer_contents import is_student_answer
from grader.core.errors import UserError
from grader.submission.handed_files import clean_submitted_name

PLATFORMS = ("canvas", "moodle")
WORKSHEET_COLUMNS = ("Identifier", "Full name", "Grade", "Last modified (grade)")
_MOST = "maximum grade"  # "Maximum Grade" in some versions: names of columns have any case
_SUBMITTED = "assignsubmission_file"
_LINE_COMMENTS = {".py": "# ", ".cu": "// "}
_UPLOAD_PAGES = {
    "canvas": "On the assignment's page in Canvas, upload it as submissions: each report becomes "
    "a comment.",
    "moodle": "On the assignment's page in Moodle, choose `Upload multiple feedback files in a "
    "zip`.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformReturn:
    """The choices for one return of reports to a platform."""

    way: str  # one of `PLATFORMS`
    source: Path  # the zip of submissions that the platform gave, or Moodle's grading worksheet
    output: Path
    dry: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Participant:
    """A row of a grading worksheet."""

    at: str
    row: list[str]
    fields: Mapping[str, str]

    @property
    def name(self) -> str:
        return self.fields.get("full name", "")

    @property
    def shown(self) -> str:
        return f"{self.at}, {clean_submitted_name(self.name)}"

    @property
    def folder(self) -> str:
        """Return the folder's name; Moodle looks for the number behind the first _."""
        [number] = re.findall(r"\d+$", self.fields["identifier"])
        name = re.sub(r"[^\w .'-]|_", " ", self.name)
        return f"{name}_{number}_{_SUBMITTED}"

    def find_student(self, known: Roster) -> Person:
        """Return the student of this row. Raises `UnknownStudent` with a sentence."""
        if not re.search(r"\d+$", self.fields.get("identifier", "")):
            raise UnknownStudent(f"{self.shown}: there is no number in the column Identifier.")
        name = clean_submitted_name(self.name)
        return find_roster_student(
            known.known_as(self.name, *MOODLE_COLUMNS), self.shown,
            f"Write {name} into the roster: as name.",
            f"Look who it is, and write the roster's `student` in the place of {name} here.",
        )  # fmt: skip


def return_to_platform(
    asked: PlatformReturn, found: Sequence[ReturnedReport], known: Roster, told: CollectResult
) -> None:
    """Write the zip to upload, and from a grading worksheet the worksheet with the marks."""
    reports = {normalize_roster_name(mine.student): mine for mine in found}
    if asked.way == "moodle" and asked.source.suffix.lower() == ".csv":
        named = _fill_worksheet(asked, reports, known, told)
    else:
        named = dict(_list_platform_names(asked, known, told))
    names = {normalize_roster_name(student): name for student, name in named.items()}
    files: dict[str, bytes] = {}
    for student in reports.keys() & names.keys():
        files |= _build_platform_files(asked.way, names[student], reports[student])
    for student in sorted(reports.keys() - names.keys()):
        told.facts.append(
            f"{reports[student].shown} has a report, but nothing in "
            f"{_show_platform_path(asked.source)}: it was left out."
        )
    path = asked.output / f"{asked.way}.zip"
    write_returned_file(path, zip_returned_files(dict(sorted(files.items()))), told, dry=asked.dry)
    count = len(reports.keys() & names.keys())
    noun = "report" if count == 1 else "reports"
    told.facts.append(f"{_show_platform_path(path)} has {count} {noun}. {_UPLOAD_PAGES[asked.way]}")


def _show_platform_path(path: Path) -> str:
    return clean_submitted_name(str(path))


def _list_platform_names(
    asked: PlatformReturn, known: Roster, told: CollectResult
) -> Iterator[tuple[str, str]]:
    """Yield each student, and the platform's name for a file or for the folder of this student."""
    wanted = CANVAS_COLUMNS if asked.way == "canvas" else MOODLE_COLUMNS
    for person, key, files in match_uploads_to_students(asked.source, known, told):
        if key.columns != wanted:
            told.open.append(
                f"{key.shown} is not named as {asked.way.title()} names what it gives: it was "
                "left alone. Name the zip as it was downloaded."
            )
        elif asked.way == "canvas":
            answers = [file for file in files if is_student_answer(file.name)]
            yield person.student, (answers or files)[0].path
        else:
            front = files[0].path.partition("_assignsubmission_")[0]
            yield person.student, f"{front}_{_SUBMITTED}"


def _build_platform_files(way: str, name: str, mine: ReturnedReport) -> Mapping[str, bytes]:
    if way == "moodle":
        return {f"{name}/{file}": content for file, content in mine.files.items()}
    return {name: _write_canvas_report(name, mine)}


def _write_canvas_report(name: str, mine: ReturnedReport) -> bytes:
    """Return a report in the form that the suffix of an uploaded file promises."""
    suffix, text = PurePosixPath(name).suffix.lower(), mine.summary.decode("utf-8")
    if suffix == ".zip":
        return zip_returned_files(mine.files)
    if suffix == ".ipynb":
        cell = {"cell_type": "markdown", "id": "report", "metadata": {}, "source": text}
        notebook = {"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
        return json.dumps(notebook, ensure_ascii=False, indent=1).encode()
    comment = _LINE_COMMENTS.get(suffix, "")
    return "".join(f"{comment}{line}".rstrip() + "\n" for line in text.splitlines()).encode()


def _fill_worksheet(
    asked: PlatformReturn, reports: Mapping[str, ReturnedReport], known: Roster, told: CollectResult
) -> dict[str, str]:
    """Write the worksheet with the marks; return the names of the students' folders.

    Nothing but the marks is changed: Moodle (mod/assign/feedback/offline/importgradeslib.php) finds
    the rows by the identifier, and skips a mark below 0 or above the maximum without a word.
    """
    (_, head), *lines = number_class_table_rows(asked.source) or [(1, [])]
    names = [name.strip().lower() for name in head]
    _check_worksheet_columns(asked.source, names)
    participants = [
        _Participant(
            at=f"{_show_platform_path(asked.source)}, line {number}",
            row=row,
            fields=dict(zip(names, row, strict=False)),
        )
        for number, row in lines
    ]
    owned = match_collected_owners(
        participants, lambda one: one.find_student(known), lambda one: one.shown, told
    )
    for person, one in owned:
        mine = reports.get(normalize_roster_name(person.student))
        if mine and (mark := _choose_mark(mine, one, told)):
            one.row[names.index("grade")] = mark
    table = io.StringIO()
    csv.writer(table).writerows([head, *(row for _, row in lines)])
    path = asked.output / "moodle.csv"
    write_returned_file(path, table.getvalue().encode(), told, dry=asked.dry)
    told.facts.append(
        f"{_show_platform_path(path)} has the marks. Choose `Upload grading worksheet` in Moodle."
    )
    return {person.student: one.folder for person, one in owned}


def _check_worksheet_columns(source: Path, names: Sequence[str]) -> None:
    for column in WORKSHEET_COLUMNS:
        if names.count(column.lower()) != 1:
            raise UserError(
                f"{_show_platform_path(source)} has no column {column}: name a grading "
                "worksheet as Moodle gives it, downloaded with Moodle in English and student names "
                "shown."
            )


def _choose_mark(mine: ReturnedReport, one: _Participant, told: CollectResult) -> str:
    """Return the mark to write; '' with a sentence if Moodle would not take it."""
    if mine.total is None:
        told.open.append(f"{one.at}: the grader failed on an answer of {mine.shown}: no mark yet.")
        return ""
    most = one.fields.get(_MOST, "").replace(",", ".")
    if re.fullmatch(r"\d+(\.\d+)?", most) and mine.total > float(most):
        told.open.append(
            f"{one.at}: {mine.shown} has {mine.total:g} points, more than the assignment's maximum "
            f"of {float(most):g}, so Moodle would skip the mark: it was not written. Raise the "
            "assignment's maximum grade, and download the worksheet again."
        )
        return ""
    return f"{mine.total:.2f}"
