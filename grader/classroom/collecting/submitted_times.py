"""Keeps `submitted.csv` through collections: when each answer was handed in."""

import csv
import io
from datetime import datetime
from pathlib import Path

from grader.classroom.run.gather_answers import TIMES_TABLE_NAME
from grader.classroom.run.submission_times import TIMES_COLUMNS, list_submission_times
from grader.core import catalog
from grader.core.result_store import write_file_whole

SubmittedTimes = dict[tuple[str, str], datetime]  # by student and slug


def read_collected_times(folder: Path) -> SubmittedTimes:
    """Read the times of earlier collections. Raises `UserError` for a malformed table."""
    return {
        (line.student, _find_collected_slug(line.exercise)): line.submitted
        for line in list_submission_times(folder)
        if line.submitted
    }


def write_collected_times(folder: Path, known: SubmittedTimes) -> None:
    """Write the known times, sorted by student and exercise."""
    file = io.StringIO()
    table = csv.writer(file, lineterminator="\n")
    table.writerow(TIMES_COLUMNS)
    table.writerows((*key, known[key].isoformat()) for key in sorted(known))
    write_file_whole(folder / TIMES_TABLE_NAME, file.getvalue())


def _find_collected_slug(name: str) -> str:
    try:
        return catalog.find_catalog_exercise(name).slug
    except catalog.UnknownExercise:
        return name
