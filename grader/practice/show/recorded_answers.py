"""Runs somebody's functions for `example`: behind a wall, or in this process."""

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from grader.core.records import Exercise
from grader.judging.student import Student
from grader.practice.show.sentence import CannotShow
from grader.submission import admission, answer_file
from grader.submission.admission import NotGraded
from grader.worker.parent import requirements
from grader.worker.parent.faults import LoadFailed, UnmetRequirement, WorkerFault
from grader.worker.parent.in_process import call_without_wall
from grader.worker.parent.nursery import Nursery
from grader.worker.parent.supervisor import Supervisor
from grader.worker.parent.walls import Wall


@contextmanager
def show_answer_behind_wall(exercise: Exercise, place: Path, wall: Wall) -> Iterator[Student]:
    """Run the answer to an exercise in `place` in a worker; `CannotShow` says why it cannot run."""
    with Nursery(wall) as nursery, run_answer_to_show(exercise, place, nursery) as student:
        yield student


@contextmanager
def run_answer_to_show(exercise: Exercise, place: Path, nursery: Nursery) -> Iterator[Student]:
    """Do as `show_answer_behind_wall`, with a nursery that is there already."""
    try:
        answer = admission.read_begun_submission(
            answer_file.locate_submission(place, exercise.slug), exercise
        )
        admitted = admission.admit_submission(answer, exercise, nursery.wall)
    except NotGraded as reason:
        raise CannotShow(str(reason)) from None
    except UnmetRequirement as needs:
        raise CannotShow(f"{exercise.slug} cannot be graded here: {needs}") from None
    if lacking := requirements.find_unmet_worker_requirement(
        requirements.list_worker_requirements(exercise, on_cuda=False)
    ):
        raise CannotShow(f"{exercise.slug} cannot be graded here: {lacking}")
    worker = Supervisor(
        nursery, admitted.runs, exercise.limits, refuse=exercise.refused,
        preload=exercise.preload, prelude=exercise.prelude,
    )  # fmt: skip
    with closing(worker):
        try:
            worker.load()
        except LoadFailed as failed:
            raise CannotShow(f"The file cannot be imported: {failed.problem}.") from None
        except WorkerFault as fault:
            raise CannotShow(f"While the file was loaded, {fault}.") from None
        yield Student(exercise, worker.client(), admitted.problems, answer)


def show_answer_in_process(exercise: Exercise, given: dict[str, Callable[..., Any]]) -> Student:
    """Return a student with these functions, by the exercise's names; others count as unwritten."""
    module = ModuleType(exercise.slug)
    for name, function in given.items():
        setattr(module, name, function)
    missing = {n: f"{n} was not given." for n in exercise.names if n not in given}
    return Student(exercise, call_without_wall(module, exercise.prelude), missing)
