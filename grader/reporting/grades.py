"""Writes a class's grades as CSV: a table for people, and the files that platforms import.

An exercise that the grader failed on has an empty field, because its points are unknown.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from grader.reporting.class_summary import ClassSummary, StudentRow
from grader.reporting.course_mark import round_reported_points
from grader.reporting.csv_table import render_csv_report
from grader.reporting.exercise_mark import ExerciseMark

# At worst a name to a spreadsheet: such a formula shows an error, or another field.
_HARMLESS_FORMULA = re.compile(r"[-+@][\w.@-]+")
# A number that Canvas would write otherwise: it takes "17." and "1,7" for "17" and "1.7".
_REWRITTEN_NUMBER = re.compile(r"-?(?![0-9]*\.[0-9]+%?$)[0-9.,]*[.,][0-9.,]*%?")
_POSSIBLE = "Points Possible"
_STUDENT_COLUMNS = ("Student", "ID", "SIS User ID", "SIS Login ID", "Section")


@dataclass(frozen=True, slots=True)
class _Exact:
    """A text that is written to its CSV field unchanged."""

    text: str

    def __str__(self) -> str:
        return self.text


def render_grades_csv(summary: ClassSummary) -> str:
    """Return CSV text with a row for each student.

    The fields of exercises hold the grader's points, without weights; the fields after them include
    weights. `adjustment` sums the adjustments of the exercises that count, and `why` lists them:
    `adjustment` and those exercises add up to `total`. In a course with deadlines `late` is the
    third summand.
    """
    weights = {figures.exercise.slug: figures.weight for figures in summary.core}
    core = [figures.exercise.slug for figures in summary.core]
    further = [figures.exercise.slug for figures in summary.further]
    late = ("late",) if summary.deadlines else ()
    more = (*late, "adjustment", "why", "total", "possible", "not_run", "remarks")
    rows = (
        (
            *(row.name, *_report_earned_points(row, core), *_report_earned_points(row, further)),
            *(_sum_reported_marks(row, weights, lambda mark: mark.lost) for _ in late),
            *(_sum_reported_marks(row, weights, lambda mark: mark.adjusted),),
            *("; ".join(_report_grade_changes(row)), row.total),
            *(
                _sum_reported_marks(
                    row, weights, lambda mark: mark.score.possible if mark.score else 0
                ),
            ),
            *(
                _sum_reported_marks(
                    row, weights, lambda mark: mark.score.not_run if mark.score else 0
                ),
            ),
            _join_reported_remarks([*_report_review_remarks(row)]),
        )
        for row in summary.rows
    )
    return render_csv_report([("student", *core, *further, *more), *rows])


def _report_earned_points(row: StudentRow, slugs: list[str]) -> Iterator[int | None]:
    for slug in slugs:
        mark = row.marks.get(slug)
        yield mark.score.earned if mark and mark.score else None


def _sum_reported_marks(
    row: StudentRow, weights: Mapping[str, float], of: Callable[[ExerciseMark], int]
) -> float:
    """Sum a number over the marks that count, times their weights."""
    return round_reported_points(
        sum(weights[slug] * of(m) for slug, m in row.marks.items() if slug in weights)
    )


def _report_grade_changes(row: StudentRow) -> Iterator[str]:
    """Yield why a student's points differ from the grader's."""
    for slug, mark in row.marks.items():
        if mark.late:
            yield f"{slug} -{mark.late.points}: {mark.late.why}"
        if mark.adjustment:
            yield f"{slug} {mark.adjustment.points:+d}: {mark.adjustment.why}"


def _report_review_remarks(row: StudentRow) -> Iterator[str]:
    for reason in row.reasons:
        yield f"{reason.slug}: {reason.says}" if reason.slug else reason.says


def _join_reported_remarks(remarks: Sequence[str]) -> str:
    """Return the remarks with semicolons between them, and no full stop before a semicolon."""
    return "; ".join([*(one.removesuffix(".") for one in remarks[:-1]), *remarks[-1:]])


def render_canvas_csv(summary: ClassSummary) -> str:
    """Return the CSV text for Canvas's gradebook: points with weights, lateness and adjustments.

    Canvas's importer, lib/gradebook_importer.rb of https://github.com/instructure/canvas-lms, finds
    a student by the login, else by the name (both are the name of the folder here), and an exercise
    by the title of its assignment. It asks for those that it does not find. The maximum is that of
    this run (`Figures.maximum`).

    Canvas compares logins character by character. A login such as "-x" or "@x" is written
    unchanged, because as a formula it has no effect in a spreadsheet. Any other formula gets an
    apostrophe before it, and Canvas asks whose row it is.
    """
    weights = {figures.exercise.slug: figures.weight for figures in summary.core}
    # A maximum of 0 may be one that nobody knows: Canvas keeps its own where the field is empty.
    most = [
        round_reported_points(figures.weight * figures.maximum) or None for figures in summary.core
    ]
    head = [(*_STUDENT_COLUMNS, *weights), (f"    {_POSSIBLE}", None, None, None, None, *most)]
    return render_csv_report([*head, *(_render_canvas_row(row, weights) for row in summary.rows)])


def _render_canvas_row(row: StudentRow, weights: Mapping[str, float]) -> tuple[object, ...]:
    name = f"'{row.name}" if _REWRITTEN_NUMBER.fullmatch(row.name) else row.name
    shown = None if _POSSIBLE in name else name  # there it would be another second row
    return shown, None, None, _write_login(name), None, *_list_counted_points(row, weights)


def _write_login(name: str) -> str | _Exact:
    return _Exact(name) if _HARMLESS_FORMULA.fullmatch(name) else name


def _list_counted_points(row: StudentRow, weights: Mapping[str, float]) -> Iterator[float | None]:
    """Yield what each exercise that counts brings, with its weight; None if nobody knows."""
    for slug, weight in weights.items():
        points = mark.points if (mark := row.marks.get(slug)) else None
        yield None if points is None else round_reported_points(weight * points)


def render_moodle_csv(summary: ClassSummary) -> str:
    """Return the CSV text for the import of Moodle's gradebook, with the points of canvas.csv.

    Moodle (grade/import/csv/classes/load_data.php) asks in which column the students are, and which
    grade item each other column is; a row of an unknown user ends the import. So there is no row
    but those of students. An empty field is no grade.
    """
    weights = {figures.exercise.slug: figures.weight for figures in summary.core}
    rows = (
        (_write_login(row.name), *_list_counted_points(row, weights), row.total)
        for row in summary.rows
    )
    return render_csv_report([("username", *weights, "total"), *rows])
