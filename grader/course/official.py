"""Grading that counts: with the course's secret, behind a wall, one nursery for all answers."""

import os
import secrets
from dataclasses import dataclass, field
from pathlib import Path

from grader.records import Exercise, ExerciseReport
from grader.worker import walls
from grader.worker.nursery import Nursery
from grader.worker.walls import hide_this_process


def secret_of(folder: Path) -> str:
    """The secret of a course, from which all its draws come; made when it is first asked for."""
    path = folder / ".secret"
    if not path.exists():
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w") as file:
            file.write(secrets.token_hex(16))
    return path.read_text().strip()


@dataclass(slots=True)
class Official:
    """Grades one answer after another. The nursery starts with the first."""

    secret: str
    wall: str = "auto"
    device: str = "cpu"
    _nursery: Nursery | None = field(default=None, init=False)

    def grade(self, exercise: Exercise, file: Path, student: str, *, speed: bool) -> ExerciseReport:
        """The report on the answer of `student` in `file`, with the draws of this course."""
        if self._nursery is None:
            hide_this_process()  # it holds the secret and the expected values
            on_cuda = self.device == "cuda"
            self._nursery = Nursery(walls.choose(self.wall, on_cuda=on_cuda))
        from grader.judging.grade import Run, grade  # imports torch while the nursery does

        run = Run(
            nursery=self._nursery, student=student, secret=self.secret, own=False,
            device=self.device, speed=speed,
        )  # fmt: skip
        return grade(exercise, file, run)

    def close(self) -> None:
        if self._nursery is not None:
            self._nursery.close()
            self._nursery = None
