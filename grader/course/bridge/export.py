"""Grades as CSV that spreadsheets read as it was meant."""

from nbgrader.api import Gradebook, MissingEntry
from nbgrader.plugins import ExportPlugin

from grader.reporting.table import to_csv

COLUMNS = (
    "assignment", "duedate", "timestamp", "student_id", "last_name", "first_name", "email",
    "raw_score", "late_submission_penalty", "score", "max_score",
)  # fmt: skip


class SafeCsv(ExportPlugin):  # type: ignore[misc]
    """nbgrader's columns; names with commas are quoted, and formulas are text."""

    def export(self, gradebook: Gradebook) -> None:
        wanted = [
            a for a in gradebook.assignments if not self.assignment or a.name in self.assignment
        ]
        students = [s for s in gradebook.students if not self.student or s.id in self.student]
        rows = [_row(gradebook, a, s) for a in wanted for s in students]
        path = self.to or "grades.csv"
        with open(path, "w", encoding="utf-8", newline="") as file:
            file.write(to_csv([COLUMNS, *rows]))
        self.log.info("Exporting grades to %s", path)


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
