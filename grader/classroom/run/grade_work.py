"""What a process that grades does with a task. It is the same on this machine and on others."""

import atexit
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from grader.classroom.run import source_digest
from grader.classroom.run.grade_task import SPEED, GradeTerms, Task
from grader.core import catalog
from grader.core.records import Exercise, ExerciseReport
from grader.grading.official_grader import Official
from grader.grading.session import installed_versions, tf32_setting
from grader.reporting import as_json, from_json
from grader.worker import traces, walls

_at_the_end = ExitStack()
leave = _at_the_end.close  # what a process does last: it ends what it started
atexit.register(leave)
_ONE_AT_A_TIME = threading.Lock()  # a nursery serves one grading


class EnvironmentMismatch(Exception):
    """This worker's versions or code differ from the run's; the message is a sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """Return the versions, wall and device that determine a verdict."""

    wall: str
    versions: dict[str, str]
    codes: dict[str, str]  # of the code that judges, by slug

    def unlike(self, terms: GradeTerms, codes: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
        """What is not as a run wants it: what, how it is here, how it should be."""
        pairs = {
            "the wall": (self.wall, terms.wall),
            **{name: (self.versions[name], v) for name, v in terms.versions.items()},
            **{f"the grader's code for {s}": (self.codes[s], c) for s, c in codes.items()},
        }
        yield from ((what, found, wanted) for what, (found, wanted) in pairs.items()
                    if found != wanted)  # fmt: skip


@cache
def _wall(name: str, on_cuda: bool) -> str:
    return walls.choose(name, on_cuda=on_cuda).name


def here(slugs: Sequence[str], wall: str, device: str) -> Environment:
    """What this process would grade with."""
    codes = {slug: source_digest.digest(slug) for slug in slugs}
    return Environment(
        wall=_wall(wall, device == "cuda"), versions=installed_versions(tf32_setting()), codes=codes
    )


def perform(task: Task, secret: str) -> dict[str, Any]:
    """Grade one answer and return its JSON report. The answer itself makes it raise nothing.

    Raises `EnvironmentMismatch`.
    """
    with _ONE_AT_A_TIME:
        exercise = _exercise(task)
        grader = _official(secret, task.terms.wall, task.terms.device)
        file = _room() / task.name
        try:
            if task.state == "graded":
                file.write_bytes(task.content)
            done = _timed if task.lane == SPEED else _judged
            return as_json.of_exercise(done(task, exercise, file, grader))
        finally:
            file.unlink(missing_ok=True)


def _exercise(task: Task) -> Exercise:
    """The exercise, if this process judges it with the code and the versions of the run."""
    found = here([task.slug], task.terms.wall, task.terms.device)
    for what, is_so, wanted in found.unlike(task.terms, {task.slug: task.code}):
        raise EnvironmentMismatch(f"{what} is {is_so}, and should be {wanted}")
    return catalog.find(task.slug)


def _judged(task: Task, exercise: Exercise, file: Path, grader: Official) -> ExerciseReport:
    from grader.submission.admission import NotGraded

    problem = None if task.state == "graded" else NotGraded(task.state, task.sentence)
    return grader.grade(exercise, file, task.student, speed=True, later=True, problem=problem)


def _timed(task: Task, exercise: Exercise, file: Path, grader: Official) -> ExerciseReport:
    assert task.judged is not None
    before = from_json.exercise(task.judged, exercise.track)
    return grader.time(exercise, file, task.student, before)


@cache
def _official(secret: str, wall: str, device: str) -> Official:
    made = Official(secret, wall, device)
    _at_the_end.callback(made.close)
    return made


@cache
def _room() -> Path:
    """The folder in which this process puts the answer that it grades."""
    return Path(_at_the_end.enter_context(tempfile.TemporaryDirectory(prefix=traces.prefix())))
