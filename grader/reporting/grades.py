"""A class's grades as CSV: a table for people, and the file that Canvas imports.

An exercise that the grader failed on has an empty field: nobody knows what it is worth.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from grader.reporting.class_summary import ClassSummary, Row, rounded
from grader.reporting.csv_table import to_csv
from grader.reporting.exercise_mark import Mark

# At worst a name to a spreadsheet: such a formula shows an error, or another field.
_ONLY_A_NAME = re.compile(r"[-+@][\w.@-]+")
# A number that Canvas would write otherwise: it takes "17." and "1,7" for "17" and "1.7".
_OTHER_NUMBER = re.compile(r"-?(?![0-9]*\.[0-9]+%?$)[0-9.,]*[.,][0-9.,]*%?")
_POINTS = "Points Possible"
_STUDENT = ("Student", "ID", "SIS User ID", "SIS Login ID", "Section")


@dataclass(frozen=True, slots=True)
class _Exact:
    """A text that goes into its field as it is."""

    text: str

    def __str__(self) -> str:
        return self.text


def to_grades(summary: ClassSummary) -> str:
    """A row for each student.

    The exercises stand as the grader has graded them. `adjustment` is what the adjustments of what
    counts come to, and `why` says what they were: the exercises that count and it add up to
    `total`. In a course with deadlines `late` is the third summand. Where exercises have weights,
    they stand without them, and all that follows has them.
    """
    weights = {figures.exercise.slug: figures.weight for figures in summary.core}
    core = [figures.exercise.slug for figures in summary.core]
    further = [figures.exercise.slug for figures in summary.further]
    late = ("late",) if summary.deadlines else ()
    more = (*late, "adjustment", "why", "total", "possible", "not_run", "remarks")
    rows = (
        (
            *(row.name, *_earned(row, core), *_earned(row, further)),
            *(_sum(row, weights, lambda mark: mark.lost) for _ in late),
            *(_sum(row, weights, lambda mark: mark.adjusted), "; ".join(_reasons(row)), row.total),
            *(_sum(row, weights, lambda mark: mark.score.possible if mark.score else 0),),
            *(_sum(row, weights, lambda mark: mark.score.not_run if mark.score else 0),),
            "; ".join(_remarks(row)),
        )
        for row in summary.rows
    )
    return to_csv([("student", *core, *further, *more), *rows])


def _earned(row: Row, slugs: list[str]) -> Iterator[int | None]:
    for slug in slugs:
        mark = row.marks.get(slug)
        yield mark.score.earned if mark and mark.score else None


def _sum(row: Row, weights: Mapping[str, float], of: Callable[[Mark], int]) -> float:
    """What the marks that count come to, with their weights."""
    return rounded(sum(weights[slug] * of(m) for slug, m in row.marks.items() if slug in weights))


def _reasons(row: Row) -> Iterator[str]:
    """Why points are not as graded."""
    for slug, mark in row.marks.items():
        if mark.late:
            yield f"{slug} -{mark.late.points}: {mark.late.why}"
        if mark.adjustment:
            yield f"{slug} {mark.adjustment.points:+d}: {mark.adjustment.why}"


def _remarks(row: Row) -> Iterator[str]:
    for reason in row.reasons:
        yield f"{reason.slug}: {reason.says}" if reason.slug else reason.says


def to_canvas(summary: ClassSummary) -> str:
    """What counts for Canvas's gradebook: with its weights, lateness and adjustments included.

    As Canvas's importer reads it: lib/gradebook_importer.rb of
    https://github.com/instructure/canvas-lms. It finds a student by the login, else by the name
    (both are the name of the folder here), and an exercise by the title of its assignment. What
    it does not find it asks for. The maximum is that of this run (`Figures.maximum`).

    Canvas compares logins character by character. A spreadsheet would take one such as "-x" or
    "@x" for a formula, but one without effect, so that it stays as it is; what could be more than
    that gets an apostrophe all the same, and Canvas asks whose row it is.
    """
    weights = {figures.exercise.slug: figures.weight for figures in summary.core}
    # A maximum of 0 may be one that nobody knows: Canvas keeps its own where the field is empty.
    most = [rounded(figures.weight * figures.maximum) or None for figures in summary.core]
    head = [(*_STUDENT, *weights), (f"    {_POINTS}", None, None, None, None, *most)]
    return to_csv([*head, *(_in_canvas(row, weights) for row in summary.rows)])


def _in_canvas(row: Row, weights: Mapping[str, float]) -> tuple[object, ...]:
    name = f"'{row.name}" if _OTHER_NUMBER.fullmatch(row.name) else row.name
    login = _Exact(name) if _ONLY_A_NAME.fullmatch(name) else name
    shown = None if _POINTS in name else name  # in the first column it would be another second row
    points = ((weight, mark.points if (mark := row.marks.get(slug)) else None)
              for slug, weight in weights.items())  # fmt: skip
    counted = (None if p is None else rounded(weight * p) for weight, p in points)
    return shown, None, None, login, None, *counted
