"""Finds the late answers of a class, by the course's current settings.

Lateness is not stored with the verdicts: an extension that is granted later needs no new grading.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from grader.classroom.course.lateness import compute_class_lateness
from grader.classroom.course.settings import NO_COURSE, CourseSettings
from grader.classroom.course.table_reader import read_class_table_lines
from grader.classroom.run.submission_times import SubmissionTimes
from grader.core.catalog import suggest_close_name
from grader.core.errors import UserError
from grader.core.records import ExerciseReport, Report
from grader.reporting.csv_table import render_csv_report
from grader.reporting.exercise_mark import LateMark
from grader.reporting.review_flags import NOT_BEGUN_STATES

LATE_TABLE = "late.csv"  # in the results
LATE_COLUMNS = ("student", "exercise", "points", "why")


@dataclass(frozen=True, slots=True, kw_only=True)
class LatenessReport:
    """When answers were handed in, and what the course's settings make of that."""

    course: CourseSettings = NO_COURSE
    times: SubmissionTimes = field(default_factory=dict)

    def of(self, report: Report) -> dict[str, LateMark]:
        """Return by slug what a student's late answers lose."""
        found = {e.slug: self._lateness_of_exercise(report.student, e) for e in report.exercises}
        return {slug: late for slug, late in found.items() if late is not None}

    def notes(self, report: Report) -> Iterator[str]:
        """Yield a sentence on each answer whose time is not known."""
        for e in report.exercises:
            known = (report.student, e.slug) in self.times
            if e.slug in self.course.deadlines and e.state not in NOT_BEGUN_STATES and not known:
                yield f"{e.slug}: no time of submission is known, so lateness was not judged."

    def for_nobody(self, students: Sequence[str]) -> Iterator[str]:
        """Yield a sentence on each extension of a student who is not in the class."""
        for name in dict.fromkeys(e.student for e in self.course.extensions):
            if name not in students:
                close = suggest_close_name(name, students)
                yield f"{self.course.path}, extensions: there is no student {name!r}.{close}"

    def _lateness_of_exercise(self, student: str, e: ExerciseReport) -> LateMark | None:
        deadline = self.course.deadlines.get(e.slug)
        submitted = self.times.get((student, e.slug))
        if deadline is None or submitted is None or e.state in NOT_BEGUN_STATES:
            return None
        worth, earned = (0, 0) if e.score is None else (e.score.possible, e.score.earned)
        more = self.course.extension(student, e.slug)
        found = compute_class_lateness(submitted, deadline, more, self.course.late, worth, earned)
        return LateMark(points=found.points, why=found.says) if found.says else None


def write_student_lateness(report: Report, late: Mapping[str, LateMark]) -> Report:
    """Return the report for the student, with the sentence on each late answer."""
    return replace(
        report,
        exercises=tuple(
            replace(e, sentence=late[e.slug].why) if e.slug in late and e.state == "graded" else e
            for e in report.exercises
        ),
    )


def write_class_lateness_table(lates: Mapping[str, Mapping[str, LateMark]]) -> str:
    """Return every late answer, by student."""
    rows = [
        (student, slug, one.points, one.why)
        for student, late in sorted(lates.items())
        for slug, one in late.items()
    ]
    return render_csv_report([LATE_COLUMNS, *rows])


def read_last_class_lateness(results: Path) -> dict[tuple[str, str], int]:
    """Return what the last run took off, by student and slug."""
    path = results / LATE_TABLE
    lines = read_class_table_lines(path, LATE_COLUMNS) if path.exists() else []
    try:
        return {(ln.get("student"), ln.get("exercise")): int(ln.get("points")) for ln in lines}
    except ValueError:
        raise UserError(f"{path} cannot be read: grade the class again.") from None
