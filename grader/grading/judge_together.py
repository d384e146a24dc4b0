"""Judges the answers to several exercises at the same time, on all processors.

This process judges too: it takes from the end of the list what no other process has begun.
"""

import gc
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Future
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from grader.core.records import Exercise, ExerciseReport
from grader.grading.process_pool import AT_THE_END, ProcessPool
from grader.worker.parent.nursery import Nursery
from grader.worker.parent.walls import Wall

if TYPE_CHECKING:
    from grader.grading.exercise import Run

EXERCISES_PER_PROCESS = 3  # a process takes as long to start as one or two exercises to be judged


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTerms:
    """What a process needs to judge as the run does."""

    place: Path  # of the answers
    wall: Wall
    student: str
    secret: str
    device: str


def count_grading_processes(exercises: int) -> int:
    """Return how many processes should judge so many exercises, this one included."""
    processors = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    return max(1, min(processors, exercises // EXERCISES_PER_PROCESS))


def grade_answers_together(
    exercises: Sequence[Exercise],
    terms: RunTerms,
    processes: int,
    judge_here: Callable[[Exercise], ExerciseReport],
) -> Iterator[tuple[Exercise, ExerciseReport]]:
    """Yield each exercise with its report (speed not measured), as the exercises are judged.

    If one of the other processes dies, its exercises are judged in this process.
    """
    others = ProcessPool(processes - 1)
    try:
        begun = {e.slug: others.call(_judge_graded_answer_here, e, terms) for e in exercises}
        for exercise in reversed(exercises):
            if begun[exercise.slug].cancel():
                yield exercise, judge_here(exercise)
                del begun[exercise.slug]
        for exercise in exercises:
            if exercise.slug in begun:
                yield exercise, _receive_graded_report(begun[exercise.slug]) or judge_here(exercise)
    finally:
        others.close(at_once=True)


def _receive_graded_report(judged: "Future[ExerciseReport]") -> ExerciseReport | None:
    """Return what another process found; None if it ended before."""
    try:
        return judged.result()
    except BrokenExecutor:
        return None


def _judge_graded_answer_here(exercise: Exercise, terms: RunTerms) -> ExerciseReport:
    from grader.grading.exercise import grade_answer

    return grade_answer(exercise, terms.place, _open_grading_run(terms))


@cache
def _open_grading_run(terms: RunTerms) -> "Run":
    nursery = Nursery(terms.wall)
    AT_THE_END.callback(nursery.close)
    return replace(build_grading_run(terms, nursery), later=True)


def build_grading_run(terms: RunTerms, nursery: Nursery) -> "Run":
    """Return the terms with what judges them; this imports torch while the nursery does too."""
    gc.disable()  # an import makes much and drops little, so that a search finds nothing
    try:
        from grader.grading.exercise import Run
    finally:
        gc.enable()
    return Run(nursery=nursery, student=terms.student, secret=terms.secret, device=terms.device)
