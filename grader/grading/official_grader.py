"""Grading that counts: with the course's secret, behind a wall, one nursery for all answers."""

import os
import secrets
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from grader.core.records import Exercise, ExerciseReport
from grader.worker.parent import walls
from grader.worker.parent.nursery import Nursery
from grader.worker.parent.walls import hide_grader_from_workers

if TYPE_CHECKING:
    from grader.grading.exercise import Run
    from grader.submission.admission import NotGraded

SECRET_FILE = ".secret"


class BadGradingSecret(Exception):
    """A secret that cannot be used; the message says why, and how to fix it."""


def load_grading_secret(folder: Path) -> str:
    """Return the secret of a course, from which all its draws come; make it if there is none."""
    path = folder / SECRET_FILE
    if not path.exists():
        made = folder / f".writing-{secrets.token_hex(4)}"
        handle = os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w") as file:
            file.write(secrets.token_hex(16))
        with suppress(FileExistsError):
            os.link(made, path)  # whole or not at all, and never over another
        made.unlink()
    found = path.read_text(encoding="utf-8", errors="replace").strip()
    if not found:
        raise BadGradingSecret(f"{path} is empty: put the secret of the course into it.")
    return found


@dataclass(slots=True)
class OfficialGrader:
    """Grades one answer after another. The nursery starts with the first."""

    secret: str
    wall: str = "auto"
    device: str = "cpu"
    weakest: str = "process"  # the wall that is demanded
    _nursery: Nursery | None = field(default=None, init=False)

    def grade(
        self, exercise: Exercise, file: Path, student: str, *, speed: bool, later: bool = False,
        problem: "NotGraded | None" = None,
    ) -> ExerciseReport:  # fmt: skip
        """Return the report on a student's answer in `file`, with inputs drawn for this course.

        later    whether the speed is measured later, by a call of `time`
        problem  why there is nothing to read, if that is known beforehand
        """
        run = self._begin_run(student, speed=speed, later=later)
        from grader.grading.exercise import grade_answer

        return grade_answer(exercise, file, run, problem)

    def time(
        self, exercise: Exercise, file: Path, student: str, report: ExerciseReport
    ) -> ExerciseReport:
        """Return a report that was made with `later`, with its speed."""
        run = self._begin_run(student, speed=True, later=False)
        from grader.grading.exercise import grade_answer_speed

        return grade_answer_speed(exercise, file, run, report)

    def _begin_run(self, student: str, *, speed: bool, later: bool) -> "Run":
        if self._nursery is None:
            hide_grader_from_workers()  # it holds the secret and the expected values
            on_cuda = self.device == "cuda"
            wall = walls.choose_wall(self.wall, on_cuda=on_cuda, weakest=self.weakest)
            self._nursery = Nursery(wall)
        from grader.grading.exercise import Run  # imports torch while the nursery does

        return Run(
            nursery=self._nursery, student=student, secret=self.secret, own=False,
            device=self.device, speed=speed, later=later,
        )  # fmt: skip

    def close(self) -> None:
        if self._nursery is not None:
            self._nursery.close()
            self._nursery = None
