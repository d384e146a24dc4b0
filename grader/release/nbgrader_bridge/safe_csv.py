"""Grades as CSV that spreadsheets read as it was meant."""

from nbgrader.api import Gradebook, MissingEntry
from nbgrader.plugins import ExportPlugin

from grader.classroom.settings import Settings
from grader.core import catalog
from grader.release.nbgrader_bridge.late_penalty import settings_of
from grader.reporting.csv_table import to_csv

COLUMNS = (
    "assignment", "duedate", "timestamp", "student_id", "last_name", "first_name", "email",
    "raw_score", "late_submission_penalty", "score", "max_score",
)  # fmt: skip


OF_COURSE = ("weight", "remark")  # where there is a course.toml
_UNKNOWN = "no time of submission is known, so lateness was not judged"


class SafeCsv(ExportPlugin):  # type: ignore[misc]
    """nbgrader's columns; names with commas are quoted, and formulas are text.

    `score` has no weight: its column says how often it counts.
    """

    def export(self, gradebook: Gradebook) -> None:
        wanted = [
            a for a in gradebook.assignments if not self.assignment or a.name in self.assignment
        ]
        students = [s for s in gradebook.students if not self.student or s.id in self.student]
        rows = [_row(gradebook, a, s) for a in wanted for s in students]
        settings = settings_of(self.parent.coursedir.root)
        if settings.path is not None:
            rows = [(*row, *_of_course(settings, row)) for row in rows]
        columns = COLUMNS if settings.path is None else (*COLUMNS, *OF_COURSE)
        path = self.to or "grades.csv"
        with open(path, "w", encoding="utf-8", newline="") as file:
            file.write(to_csv([columns, *rows]))
        self.log.info("Exporting grades to %s", path)


def _of_course(settings: Settings, row: tuple[object, ...]) -> tuple[object, ...]:
    slug, timestamp, raw = str(row[0]), row[2], row[7]
    tracks = {e.slug: e.track for e in catalog.exercises()}
    weight = settings.weights.get(slug, 1 if tracks.get(slug) == "core" else 0)
    unknown = slug in settings.deadlines and timestamp is None and raw
    return weight, _UNKNOWN if unknown else ""


def _row(gradebook, assignment, student) -> tuple[object, ...]:  # type: ignore[no-untyped-def]
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
