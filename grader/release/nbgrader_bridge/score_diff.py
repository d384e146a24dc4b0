"""Finds whose score a newer suite would change, and why, without writing anything."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from grader.core.errors import UserError
from grader.core.grade_ids import SPEED, build_core_grade_id
from grader.core.records import Exercise
from grader.grading import report_diff
from grader.grading.official_grader import OfficialGrader, load_grading_secret
from grader.grading.report_diff import GradeChange
from grader.release.course_release import CONFIG, load_nbgrader_config
from grader.release.nbgrader_bridge.nbgrader_judge import METADATA_KEY
from grader.release.nbgrader_bridge.submitted_answer import find_submitted_answer
from grader.reporting import as_json


class NoCourse(UserError):
    """Raised when a folder is no course; the message says why, and how to fix it."""


def list_changed_nbgrader_scores(
    course: Path, exercises: Sequence[Exercise]
) -> Iterator[GradeChange]:
    """Yield a change for each graded answer whose verdicts a new grading changes; write nothing."""
    if not (course / CONFIG).is_file():
        raise NoCourse(f"{course} is no nbgrader course: `make release` builds one.")
    official = _open_nbgrader_grader(course)
    try:
        for exercise in exercises:
            for graded in sorted(
                course.glob(f"autograded/*/{exercise.slug}/{exercise.slug}.ipynb")
            ):
                if (
                    change := _regrade_nbgrader_answer(course, exercise, graded, official)
                ) is not None:
                    yield change
    finally:
        official.close()


def _open_nbgrader_grader(course: Path) -> OfficialGrader:
    """Return the grader with the settings of the course's nbgrader_config.py."""
    judge = load_nbgrader_config(course).Judge
    return OfficialGrader(
        load_grading_secret(course), str(judge.get("isolation", "auto")), str(judge.get("device",
        "cpu")),
        str(judge.get("weakest", "locked")),
    )  # fmt: skip


def _regrade_nbgrader_answer(
    course: Path, exercise: Exercise, graded: Path, official: OfficialGrader
) -> GradeChange | None:
    notebook = json.loads(graded.read_text(encoding="utf-8"))
    before = notebook["metadata"].get(METADATA_KEY)
    student = graded.parts[-3]
    if before is None:  # graded by something else
        return None
    cells = (c["metadata"].get("nbgrader", {}).get("grade_id") for c in notebook["cells"])
    folder = course / "submitted" / student / exercise.slug
    file = find_submitted_answer(folder, exercise.slug).path or folder / graded.name
    timed = build_core_grade_id(SPEED) in cells
    after = as_json.convert_exercise_report(official.grade(exercise, file, student, speed=timed))
    return report_diff.compare_graded_reports(student, before, after)
