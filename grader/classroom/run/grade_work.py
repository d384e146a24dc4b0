"""Runs a task in a process that grades, the same on this machine and on others."""

import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from grader.classroom.run.grade_task import SPEED, ClassTask, GradeTerms
from grader.core import catalog
from grader.core.records import Exercise, ExerciseReport
from grader.grading import source_digest
from grader.grading.installed_versions import list_grading_versions, read_grading_tf32_setting
from grader.grading.official_grader import OfficialGrader
from grader.grading.process_pool import AT_THE_END
from grader.reporting import as_json, from_json
from grader.worker.parent import traces, walls

_GRADING_LOCK = threading.Lock()  # a nursery serves one grading


class EnvironmentMismatch(Exception):
    """Raised when this worker's versions or code differ from the run's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GradingEnvironment:
    """Return the versions, wall and device that determine a verdict."""

    wall: str
    versions: dict[str, str]
    codes: dict[str, str]  # of the code that judges, by slug

    def unlike(self, terms: GradeTerms, codes: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
        """Yield what differs from the run's environment: what, the value here, the value there."""
        pairs = {
            "the wall": (self.wall, terms.wall),
            **{name: (self.versions[name], v) for name, v in terms.versions.items()},
            **{f"the grader's code for {s}": (self.codes[s], c) for s, c in codes.items()},
        }
        yield from ((what, found, wanted) for what, (found, wanted) in pairs.items()
                    if found != wanted)  # fmt: skip


@cache
def _probe_class_wall(name: str, on_cuda: bool) -> str:
    return walls.choose_wall(name, on_cuda=on_cuda).name


def read_class_environment(slugs: Sequence[str], wall: str, device: str) -> GradingEnvironment:
    """Return what this process would grade with."""
    codes = {slug: source_digest.digest_grading_code(slug) for slug in slugs}
    return GradingEnvironment(
        wall=_probe_class_wall(wall, device == "cuda"),
        versions=list_grading_versions(read_grading_tf32_setting()),
        codes=codes,
    )


def perform_class_task(task: ClassTask, secret: str) -> dict[str, Any]:
    """Grade one answer and return its JSON report. No answer makes this raise.

    Raises `EnvironmentMismatch` if this process has other code or versions than the run.
    """
    with _GRADING_LOCK:
        exercise = _find_class_task_exercise(task)
        grader = _open_class_grader(secret, task.terms.wall, task.terms.device)
        file = _find_class_answer_folder() / task.name
        try:
            if task.state == "graded":
                file.write_bytes(task.content)
            done = _time_class_task if task.lane == SPEED else _judge_class_task
            return as_json.convert_exercise_report(done(task, exercise, file, grader))
        finally:
            file.unlink(missing_ok=True)


def _find_class_task_exercise(task: ClassTask) -> Exercise:
    """Return the exercise, if this process has the code and the versions of the run."""
    found = read_class_environment([task.slug], task.terms.wall, task.terms.device)
    for what, is_so, wanted in found.unlike(task.terms, {task.slug: task.code}):
        raise EnvironmentMismatch(f"{what} is {is_so}, and should be {wanted}")
    return catalog.find_catalog_exercise(task.slug)


def _judge_class_task(
    task: ClassTask, exercise: Exercise, file: Path, grader: OfficialGrader
) -> ExerciseReport:
    from grader.submission.admission import NotGraded

    problem = None if task.state == "graded" else NotGraded(task.state, task.sentence)
    return grader.grade(exercise, file, task.student, speed=True, later=True, problem=problem)


def _time_class_task(
    task: ClassTask, exercise: Exercise, file: Path, grader: OfficialGrader
) -> ExerciseReport:
    assert task.judged is not None
    before = from_json.parse_exercise_report(task.judged, exercise.track)
    return grader.time(exercise, file, task.student, before)


@cache
def _open_class_grader(secret: str, wall: str, device: str) -> OfficialGrader:
    made = OfficialGrader(secret, wall, device)
    AT_THE_END.callback(made.close)
    return made


@cache
def _find_class_answer_folder() -> Path:
    """Return the folder in which this process puts the answer that it grades."""
    return Path(
        AT_THE_END.enter_context(
            tempfile.TemporaryDirectory(prefix=traces.build_worker_trace_prefix())
        )
    )
