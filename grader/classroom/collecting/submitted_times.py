"""Reads and writes `submitted.csv`: when each answer was handed in, by the platform's word."""

import csv
import io
from datetime import datetime
from pathlib import Path

from grader.classroom.run.gather_answers import TIMES_TABLE_NAME
from grader.classroom.table_reader import read_class_table_lines, read_class_table_moment
from grader.core import catalog
from grader.core.result_store import write_file_whole

SUBMITTED_COLUMNS = ("student", "exercise", "submitted")

SubmittedTimes = dict[tuple[str, str], datetime]  # by student and slug


def read_collected_times(folder: Path) -> SubmittedTimes:
    """Read the times of earlier collections. Raises `UserError` for a malformed table."""
    path = folder / TIMES_TABLE_NAME
    if not path.exists():
        return {}
    return {
        (line.get("student"), _find_collected_slug(line.get("exercise"))): read_class_table_moment(
            line.get("submitted"), line.at
        )
        for line in read_class_table_lines(path, SUBMITTED_COLUMNS)
    }


def write_collected_times(folder: Path, known: SubmittedTimes) -> None:
    """Write the known times, sorted by student and exercise."""
    file = io.StringIO()
    table = csv.writer(file, lineterminator="\n")
    table.writerow(SUBMITTED_COLUMNS)
    table.writerows((*key, known[key].isoformat()) for key in sorted(known))
    write_file_whole(folder / TIMES_TABLE_NAME, file.getvalue())


def _find_collected_slug(name: str) -> str:
    try:
        return catalog.find_catalog_exercise(name).slug
    except catalog.UnknownExercise:
        return name
