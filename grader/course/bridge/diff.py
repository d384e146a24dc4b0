"""Whose score a newer suite would change, and why: before anything is written."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grader.course.bridge.judge import KEY
from grader.course.naming import SPEED, grade_id
from grader.course.official import Official, secret_of
from grader.course.release import CONFIG, config
from grader.languages import Words
from grader.records import Exercise
from grader.reporting import as_json


class NoCourse(Exception):
    """A folder that is no course; the message is a sentence with the cure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One answer whose score is another than when it was graded."""

    student: str
    slug: str
    before: int
    after: int
    why: tuple[str, ...]


def changes(course: Path, exercises: Sequence[Exercise]) -> Iterator[Change]:
    """Every graded answer whose verdicts a new grading changes. Nothing is written."""
    if not (course / CONFIG).is_file():
        raise NoCourse(f"{course} is no nbgrader course: `make release` builds one.")
    official = _official(course)
    try:
        for exercise in exercises:
            for graded in sorted(
                course.glob(f"autograded/*/{exercise.slug}/{exercise.slug}.ipynb")
            ):
                if (change := _change(course, exercise, graded, official)) is not None:
                    yield change
    finally:
        official.close()


def _official(course: Path) -> Official:
    """The grader as the course's own configuration has it."""
    judge = config(course).Judge
    return Official(
        secret_of(course), str(judge.get("isolation", "auto")), str(judge.get("device", "cpu"))
    )


def _change(course: Path, exercise: Exercise, graded: Path, official: Official) -> Change | None:
    notebook = json.loads(graded.read_text(encoding="utf-8"))
    before = notebook["metadata"].get(KEY)
    student = graded.parts[-3]
    if before is None:  # graded by something else
        return None
    cells = (c["metadata"].get("nbgrader", {}).get("grade_id") for c in notebook["cells"])
    file = course / "submitted" / student / exercise.slug / graded.name
    timed = grade_id(SPEED) in cells
    after = as_json.of_exercise(official.grade(exercise, file, student, speed=timed))
    why = tuple(_reasons(before, after))
    if not why:
        return None
    return Change(
        student=student, slug=exercise.slug, before=_earned(before), after=_earned(after), why=why
    )


def _reasons(before: dict[str, Any], after: dict[str, Any]) -> Iterator[str]:
    """What became of each check whose verdict or points are not what they were."""
    old = {check["id"]: check for check in before["checks"]}
    for check in after["checks"]:
        was = old.pop(check["id"], None)
        if was is None:
            yield f"new check: {check['says']} {check['verdict']}, {check['earned']} points"
        elif (was["verdict"], was["earned"]) != (check["verdict"], check["earned"]):
            why = f": {check['why'].splitlines()[0]}" if check["why"] else ""
            yield f"{check['says']} {was['verdict']} before, {check['verdict']} now{why}"
    yield from (f"no such check any more: {check['says']}" for check in old.values())


def _earned(exercise: dict[str, Any]) -> int:
    return sum(check["earned"] for check in exercise["checks"])


def told(changes: Sequence[Change], words: Words) -> Iterator[str]:
    """The changes in sentences."""
    if not changes:
        yield words("Nobody's score changes.")
    for change in changes:
        yield f"{change.student}  {change.slug}  {change.before} -> {change.after}"
        yield from (f"    {reason}" for reason in change.why)
    if changes:
        yield words("Nothing was written: `nbgrader autograde ASSIGNMENT --force` does that.")
