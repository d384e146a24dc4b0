"""Reads and writes `submitted.csv`: when each answer was handed in, by the platform's word."""

import csv
import io
from datetime import datetime
from pathlib import Path

from grader.classroom.run.gather_answers import SUBMITTED
from grader.classroom.run.result_store import write
from grader.classroom.table_reader import lines, moment_at
from grader.core import catalog

COLUMNS = ("student", "exercise", "submitted")

Submitted = dict[tuple[str, str], datetime]  # by student and slug


def read_submitted_times(folder: Path) -> Submitted:
    """Read the times of earlier collections. Raises `UserError` for a malformed table."""
    path = folder / SUBMITTED
    if not path.exists():
        return {}
    return {
        (line.get("student"), _exercise_slug(line.get("exercise"))): moment_at(
            line.get("submitted"), line.at
        )
        for line in lines(path, COLUMNS)
    }


def write_submitted_times(folder: Path, known: Submitted) -> None:
    """Write the known times, sorted by student and exercise."""
    file = io.StringIO()
    table = csv.writer(file, lineterminator="\n")
    table.writerow(COLUMNS)
    table.writerows((*key, known[key].isoformat()) for key in sorted(known))
    write(folder / SUBMITTED, file.getvalue())


def _exercise_slug(name: str) -> str:
    try:
        return catalog.find(name).slug
    except catalog.UnknownExercise:
        return name
