"""Measures how near right answers come to being rejected: error / allowance over many seeds."""

import math
import os
import tempfile
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from types import ModuleType

import torch

from grader.authoring.mutants import (
    load_solution_to_prove,
    run_suite_on_mutant,
    write_variant_to_prove,
)
from grader.authoring.touched_checks import Calls, list_touched_checks
from grader.core import catalog
from grader.core.records import Exercise, Verdict
from grader.cuda import compiled_answer as cuda
from grader.judging import suite_runner
from grader.judging.author_error import tell_author_errors
from grader.judging.case import CURRENT_CASE, Rule
from grader.judging.judge import Judge
from grader.judging.marks import CheckCase
from grader.judging.student import Student
from grader.worker.parent.in_process import call_without_wall, load_file_without_wall

SOLUTION = "solution"
SEEDS_PER_TASK = 10
# The largest allowed error / allowance. A mean error has less room: an answer that rounds once has
# the mean error of the yardstick, which is half of what the rule allows.
LARGEST_RATIOS = {"solution": 0.5, "variant": 0.7, "mean error": 0.75}


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadroomPlace:
    """One case of a check, run with one seed on one right answer."""

    slug: str
    answer: str  # "solution", or the name of a variant
    check: str
    case: str
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Headroom:
    """The largest error / allowance of one check and one right answer, over all cases and seeds."""

    place: HeadroomPlace
    subject: str  # the value that was compared: "out", "gradient of x"
    measure: str
    ratio: float

    @property
    def limit(self) -> float:
        """The largest ratio that is allowed for this result."""
        if self.measure == "mean error":
            return LARGEST_RATIOS["mean error"]
        return LARGEST_RATIOS["solution" if self.place.answer == SOLUTION else "variant"]

    @property
    def within(self) -> bool:
        """Whether the ratio is within its limit."""
        return self.ratio <= self.limit


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejection:
    """A right answer on which a check fails."""

    place: HeadroomPlace
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredHeadroom:
    """The result for some exercises: the least headroom of each check, and the rejections."""

    least: tuple[Headroom, ...]  # sorted, the largest share of its limit first
    rejections: tuple[Rejection, ...]
    cases: int  # that were run, over all seeds and answers

    @property
    def right(self) -> bool:
        """Whether nothing was rejected, and every check keeps within its limit."""
        return not self.rejections and all(one.within for one in self.least)


def measure_headroom(
    exercises: Sequence[Exercise], seeds: int, *, solutions: bool = True, variants: bool = True,
    processes: int | None = None,
) -> MeasuredHeadroom:  # fmt: skip
    """Run every check on right answers with seeds 0, 1, ... on all processors."""
    parts = [MeasuredHeadroom(least=(), rejections=(), cases=0)]
    context = get_context("spawn")
    with ProcessPoolExecutor(processes or os.cpu_count(), mp_context=context) as pool:
        tasks = [
            pool.submit(measure_headroom_of_answer, exercise.slug, answer, range(start, end))
            for exercise in exercises
            for answer in list_headroom_answers(exercise, solutions=solutions, variants=variants)
            for start in range(0, seeds, SEEDS_PER_TASK)
            for end in [min(seeds, start + SEEDS_PER_TASK)]
        ]
        parts += [task.result() for task in as_completed(tasks)]
    return join_measured_headroom(parts)


def list_headroom_answers(
    exercise: Exercise, *, solutions: bool = True, variants: bool = True
) -> list[str]:
    """Return the names of the right answers of an exercise."""
    names = [v.id for v in suite_runner.list_suite_variants(exercise)] if variants else []
    return [SOLUTION, *names] if solutions else names


def measure_headroom_of_answer(slug: str, answer: str, seeds: Sequence[int]) -> MeasuredHeadroom:
    """Run every check of an exercise on one right answer with each of the seeds."""
    torch.set_num_threads(1)  # inputs are small, and there is a process for every processor
    exercise = catalog.find_catalog_exercise(slug)
    with tell_author_errors(exercise):
        module = _load_headroom_answer(exercise, answer)
        student = Student(exercise, call_without_wall(module, exercise.prelude))
        cases = _list_headroom_cases(exercise, answer)
        parts = [
            measure_headroom_of_case(student, slug, answer, case, seed)
            for seed in seeds
            for case in cases
        ]
        return join_measured_headroom(parts)


def _list_headroom_cases(exercise: Exercise, answer: str) -> list[CheckCase]:
    """Return the cases of an answer; of a variant in Python those that call what it changes."""
    cases = [case for case in suite_runner.list_suite_cases(exercise) if not case.check.cuda]
    if answer == SOLUTION or exercise.language == "cuda":
        return cases
    touched = list_touched_checks(
        exercise.solution.read_text(encoding="utf-8"),
        _list_headroom_variants(exercise)[answer],
        _list_calls_of_checks(exercise.slug),
    )
    return [case for case in cases if case.check.id in touched]


@cache
def _list_calls_of_checks(slug: str) -> Calls:
    """Return what each check calls of the solution, once in a process."""
    exercise = catalog.find_catalog_exercise(slug)
    checks = run_suite_on_mutant(exercise, load_solution_to_prove(exercise))
    # A check that did not pass may have ended before its last call: it is run whatever it called.
    return {c.id: c.calls if c.verdict is Verdict.PASSED else () for c in checks}


def measure_headroom_of_case(
    student: Student, slug: str, answer: str, case: CheckCase, seed: int
) -> MeasuredHeadroom:
    """Run one case with one seed, even if earlier cases failed."""
    place = HeadroomPlace(slug=slug, answer=answer, check=case.check.id, case=case.name, seed=seed)
    judge = Judge(student, ("headroom", str(seed), slug))
    judge.keeps_rules = True
    try:
        fault = judge.ask(student, case)
        why = "" if fault is None else str(fault)
    except (Exception, SystemExit) as error:  # a suite's own fault may be any exception
        why = f"{type(error).__name__}: {error}"
    least = [
        Headroom(
            place=place, subject=subject, measure=rule.measure, ratio=_compute_headroom_share(rule)
        )
        for subject, rule in CURRENT_CASE.get().rules or []
        if rule.allowed  # without an allowance values are compared bit by bit
    ]
    rejections = (Rejection(place=place, why=why),) if why else ()
    return join_measured_headroom(
        [MeasuredHeadroom(least=tuple(least), rejections=rejections, cases=1)]
    )


def _compute_headroom_share(rule: Rule) -> float:
    """Return the used share of the allowance; infinite if the error is not a number."""
    return math.inf if math.isnan(rule.error) else rule.error / rule.allowed


def join_measured_headroom(parts: Sequence[MeasuredHeadroom]) -> MeasuredHeadroom:
    """Join results; keep the largest ratio of each check, answer and limit."""
    worst: dict[tuple[str, str, str, float], Headroom] = {}
    for one in (one for part in parts for one in part.least):
        key = one.place.slug, one.place.answer, one.place.check, one.limit
        if key not in worst or one.ratio > worst[key].ratio:
            worst[key] = one
    return MeasuredHeadroom(
        least=tuple(sorted(worst.values(), key=lambda one: -one.ratio / one.limit)),
        rejections=tuple(one for part in parts for one in part.rejections),
        cases=sum(part.cases for part in parts),
    )


def _load_headroom_answer(exercise: Exercise, answer: str) -> ModuleType:
    """Load a right answer into this process."""
    if exercise.language == "cuda":
        return _compile_headroom_answers(exercise.slug)[answer]
    if answer == SOLUTION:
        return load_file_without_wall(exercise.solution, exercise.slug, exercise.prelude)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / exercise.file
        path.write_text(_list_headroom_variants(exercise)[answer], encoding="utf-8")
        return load_file_without_wall(path, exercise.slug, exercise.prelude)


@cache
def _compile_headroom_answers(slug: str) -> dict[str, ModuleType]:
    """Compile all right answers in CUDA C++ together, once in a process."""
    exercise = catalog.find_catalog_exercise(slug)
    texts = {SOLUTION: exercise.solution.read_text(encoding="utf-8")} | _list_headroom_variants(
        exercise
    )
    only = {variant.id: variant.of for variant in suite_runner.list_suite_variants(exercise)}
    return cuda.build_own_cuda_modules(texts, exercise, only=only)


def _list_headroom_variants(exercise: Exercise) -> dict[str, str]:
    return {
        v.id: write_variant_to_prove(exercise, v)
        for v in suite_runner.list_suite_variants(exercise)
    }
