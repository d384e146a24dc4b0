"""Reads the reports that go back to students, and packs them into zips."""

import io
import zipfile
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from grader.classroom.collecting.roster import normalize_roster_name
from grader.classroom.collecting.source_files import CollectResult, list_collected_folders
from grader.classroom.run.regrade import find_full_class_report
from grader.classroom.run.results_folder import STUDENTS
from grader.core.records import Report
from grader.core.result_store import does_file_hold_content, write_file_whole
from grader.core.translation import Words
from grader.reporting import github
from grader.reporting.from_json import NoReport, parse_report_json
from grader.submission.answer_file import UnreadableFile
from grader.submission.handed_files import clean_submitted_name

PAGE_NAME, RECORD_NAME = "report.html", "report.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReturnedReport:
    """The report that one student gets back."""

    student: str  # the name of the folder of results
    page: bytes
    record: bytes
    summary: bytes  # the report as Markdown
    total: float | None  # the mark that counts; None if the grader failed on an exercise

    @property
    def shown(self) -> str:
        return clean_submitted_name(self.student)

    @property
    def files(self) -> Mapping[str, bytes]:
        """Return the report as files, by their names."""
        return {PAGE_NAME: self.page, RECORD_NAME: self.record}


def read_reports_to_return(
    results: Path, words: Words, told: CollectResult
) -> list[ReturnedReport]:
    """Read the reports in a folder of results; leave out those about another student."""
    alike: dict[str, list[Path]] = defaultdict(list)
    for path in list_collected_folders(results / STUDENTS):
        alike[normalize_roster_name(path.name)].append(path)
    found = []
    for paths in alike.values():
        try:
            if len(paths) > 1:
                names = " and ".join(clean_submitted_name(path.name) for path in paths)
                raise UnreadableFile(
                    f"{names} read alike: none was returned. Rename one, grade again."
                )
            found.append(_read_report_to_return(paths[0], words))
        except UnreadableFile as problem:
            told.open.append(str(problem))
    return found


def _read_report_to_return(place: Path, words: Words) -> ReturnedReport:
    shown = clean_submitted_name(place.name)
    try:
        page, record = (place / PAGE_NAME).read_bytes(), (place / RECORD_NAME).read_bytes()
        report = parse_report_json(record.decode("utf-8"))
        full = find_full_class_report(place / RECORD_NAME).read_text(encoding="utf-8")
        total = _find_total_of_mark(parse_report_json(full))
    except (OSError, UnicodeDecodeError, NoReport):
        raise UnreadableFile(f"{shown} has no whole report in the results: grade again.") from None
    if report.student != shown:
        raise UnreadableFile(
            f"The report in {shown}'s folder is about "
            f"{clean_submitted_name(str(report.student))}: it was not "
            "returned. Grade again."
        )
    summary = github.render_github_summary(report, words).encode()
    return ReturnedReport(
        student=place.name, page=page, record=record, summary=summary, total=total
    )


def _find_total_of_mark(report: Report) -> float | None:
    if report.faulted:
        return None
    return report.score.earned if report.mark is None else report.mark.total


def zip_returned_files(files: Mapping[str, bytes]) -> bytes:
    """Pack files into a zip; the same files give the same bytes at any time."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            entry = zipfile.ZipInfo(name)  # dated 1980, always
            entry.external_attr, entry.compress_type = 0o644 << 16, zipfile.ZIP_DEFLATED
            archive.writestr(entry, content)
    return file.getvalue()


def write_returned_file(path: Path, content: bytes, told: CollectResult, *, dry: bool) -> bool:
    """Write a file unless it is there as it is, and say if it replaces one; True if it changed."""
    if path.is_file() and does_file_hold_content(path, content):
        return False
    if path.exists():
        told.facts.append(f"{clean_submitted_name(path.name)} was there, and is replaced.")
    if not dry:
        write_file_whole(path, content)
    return True
