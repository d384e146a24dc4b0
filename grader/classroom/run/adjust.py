"""Reads points that a person gives or takes, from a file beside the results."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from grader.classroom.course.table_reader import (
    TableLine,
    find_class_table_slug,
    read_class_table_lines,
)
from grader.core import catalog
from grader.core.errors import UserError
from grader.core.records import Exercise
from grader.reporting.exercise_mark import Adjustment

ADJUSTMENTS_FILE = "adjustments.csv"
_COLUMNS = ("student", "exercise", "points", "why")

Adjustments = Mapping[str, Mapping[str, Adjustment]]  # by student and slug


def read_class_adjustments(
    folder: Path, students: Sequence[str], exercises: Sequence[Exercise]
) -> tuple[Adjustments, list[str]]:
    """Return the adjustments in a folder of results, and a sentence on each unknown student.

    Raises `UserError`, naming the line, for an adjustment that cannot be applied.
    """
    path = folder / ADJUSTMENTS_FILE
    slugs = {exercise.slug for exercise in exercises}
    if not path.exists():
        return {}, []
    unused: list[str] = []
    found: dict[str, dict[str, Adjustment]] = {}
    for line in read_class_table_lines(path, _COLUMNS):
        at = line.at
        student, slug, made = _read_class_adjustment(line)
        if student not in students:
            close = catalog.suggest_close_name(student, students)
            unused.append(f"{at}: there is no student {student!r}.{close}")
            continue
        if slug not in slugs:
            unused.append(f"{at}: {slug} is no part of this run.")
            continue
        if students.count(student) > 1:
            raise UserError(f"{at}: more than one folder's name reads {student!r}: rename them.")
        mine = found.setdefault(student, {})
        mine[slug] = _sum_class_adjustments(mine[slug], made) if slug in mine else made
    return found, unused


def _read_class_adjustment(line: TableLine) -> tuple[str, str, Adjustment]:
    student, exercise, points, why = map(line.get, _COLUMNS)
    slug = find_class_table_slug(exercise, line.at)
    try:
        return student, slug, Adjustment(points=int(points), why=why)
    except ValueError:
        raise UserError(
            f"{line.at}: {points!r} is no whole number of points: write one, such as 2 or -2."
        ) from None


def _sum_class_adjustments(one: Adjustment, other: Adjustment) -> Adjustment:
    return Adjustment(points=one.points + other.points, why=f"{one.why}; {other.why}")
