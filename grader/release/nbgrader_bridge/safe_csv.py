"""Exports grades as CSV in which a spreadsheet runs no formula and splits no name."""

from pathlib import Path

from nbgrader.api import Gradebook, MissingEntry
from nbgrader.plugins import ExportPlugin

from grader.classroom.course.settings import CourseSettings
from grader.core import catalog
from grader.release.nbgrader_bridge.late_penalty import read_nbgrader_course_settings
from grader.release.nbgrader_bridge.nbgrader_judge import read_ungraded_reason
from grader.release.nbgrader_bridge.submitted_answer import find_submitted_answer
from grader.reporting.csv_table import render_csv_report

NBGRADER_COLUMNS = (
    "assignment", "duedate", "timestamp", "student_id", "last_name", "first_name", "email",
    "raw_score", "late_submission_penalty", "score", "max_score",
)  # fmt: skip


COURSE_COLUMNS = ("weight",)  # added where there is a course.toml
_UNKNOWN_TIME_REMARK = "no time of submission is known, so lateness was not judged"


class SafeCsv(ExportPlugin):  # type: ignore[misc]
    """The exporter of nbgrader's columns, with quoted names and with formulas as text.

    `score` is not weighted: the `weight` column says how often a score counts.
    """

    def export(self, gradebook: Gradebook) -> None:
        wanted = [
            a for a in gradebook.assignments if not self.assignment or a.name in self.assignment
        ]
        students = [s for s in gradebook.students if not self.student or s.id in self.student]
        rows = [_export_nbgrader_grade_row(gradebook, a, s) for a in wanted for s in students]
        settings = read_nbgrader_course_settings(self.parent.coursedir.root)
        remarks = [self._write_remark(settings, row) for row in rows]
        columns: tuple[str, ...] = NBGRADER_COLUMNS
        if settings.path is not None:
            rows = [(*row, _find_nbgrader_weight(settings, str(row[0]))) for row in rows]
            columns = (*columns, *COURSE_COLUMNS)
        rows = [(*row, remark) for row, remark in zip(rows, remarks, strict=True)]
        path = self.to or "grades.csv"
        with open(path, "w", encoding="utf-8", newline="") as file:
            file.write(render_csv_report([(*columns, "remark"), *rows]))
        self.log.info("Exporting grades to %s", path)

    def _write_remark(self, settings: CourseSettings, row: tuple[object, ...]) -> str:
        """Return what a person should know of a score: which file was graded, or why none."""
        slug, timestamp, student, raw = str(row[0]), row[2], str(row[3]), row[7]
        course = self.parent.coursedir
        folder = Path(course.format_path(course.submitted_directory, student, slug))
        answer = find_submitted_answer(folder, slug)
        if folder.is_dir() and answer.path is None:
            return answer.why
        said = [f"{answer.path.name} was graded"] if answer.path and answer.is_renamed else []
        graded = Path(course.format_path(course.autograded_directory, student, slug))
        if answer.path and (why := read_ungraded_reason(graded, slug)):
            said.append(f"{answer.path.name} could not be graded: {why}")
        if slug in settings.deadlines and timestamp is None and raw:
            said.append(_UNKNOWN_TIME_REMARK)
        return "; ".join(said)


def _find_nbgrader_weight(settings: CourseSettings, slug: str) -> float:
    tracks = {e.slug: e.track for e in catalog.list_catalog_exercises()}
    return settings.weights.get(slug, 1 if tracks.get(slug) == "core" else 0)


def _export_nbgrader_grade_row(gradebook, assignment, student) -> tuple[object, ...]:  # type: ignore[no-untyped-def]
    try:
        submission = gradebook.find_submission(assignment.name, student.id)
    except MissingEntry:
        timestamp, raw, penalty = None, 0.0, 0.0
    else:
        timestamp, raw = submission.timestamp, submission.score
        penalty = submission.late_submission_penalty or 0.0
    return (
        assignment.name, assignment.duedate, timestamp, student.id, student.last_name,
        student.first_name, student.email, raw, penalty, max(0.0, raw - penalty),
        assignment.max_score,
    )  # fmt: skip
