"""Reads and writes `submitted.csv`: when each answer was handed in, by the platform's word."""

import csv
import io
from datetime import datetime
from pathlib import Path

from grader.classroom.run.gather_answers import TIMES_TABLE
from grader.classroom.table_reader import moment_in_field, read_lines
from grader.core import catalog
from grader.core.result_store import write_file_whole

COLUMNS = ("student", "exercise", "submitted")

Submitted = dict[tuple[str, str], datetime]  # by student and slug


def read_submitted_times(folder: Path) -> Submitted:
    """Read the times of earlier collections. Raises `UserError` for a malformed table."""
    path = folder / TIMES_TABLE
    if not path.exists():
        return {}
    return {
        (line.get("student"), _exercise_slug(line.get("exercise"))): moment_in_field(
            line.get("submitted"), line.at
        )
        for line in read_lines(path, COLUMNS)
    }


def write_submitted_times(folder: Path, known: Submitted) -> None:
    """Write the known times, sorted by student and exercise."""
    file = io.StringIO()
    table = csv.writer(file, lineterminator="\n")
    table.writerow(COLUMNS)
    table.writerows((*key, known[key].isoformat()) for key in sorted(known))
    write_file_whole(folder / TIMES_TABLE, file.getvalue())


def _exercise_slug(name: str) -> str:
    try:
        return catalog.find_catalog_exercise(name).slug
    except catalog.UnknownExercise:
        return name
