"""The proof of the suites: everything that must fail fails, and everything right earns its points.

Six kinds of proof. Each result is plain data, so that it can be kept and can cross processes:

    caught    {"verdict", "earned", "faults", "named"} of each named mistake, "named" left empty
    mistakes  the same with the names that a report would give, which takes several times as long
    variants  {"lost"} of each right variant: what it did not earn, or why it was not graded
    solution  {"lost"}
    skeleton  {"lost"}: what a skeleton earned, or was not told, although it should not
    drills    {"fault"} of each drill: the first failure; none would be a drill without a mistake
"""

import atexit
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import cache, partial
from multiprocessing import get_context
from typing import Any

import numpy as np

from grader.authoring import mutants, right_answers
from grader.authoring.proof_store import Store
from grader.core import allowed_tables, catalog
from grader.core.errors import GraderFault
from grader.core.records import Exercise
from grader.judging import drills, suite_runner
from grader.judging.diagnosis import Catalogue
from grader.worker import requirements
from grader.worker.child import operator_list
from grader.worker.nursery import Nursery

BESIDE = "variants", "solution", "skeleton", "drills"  # what is proven beside the mistakes
CHUNK = 12  # names that a process proves at a time
Result = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """Some names of one kind of proof, for one process."""

    kind: str
    slug: str
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """All results of one kind about one exercise; `lacking` says why there are none here."""

    kind: str
    exercise: Exercise
    results: dict[str, Result]
    lacking: str = ""


def prove(
    exercises: Sequence[Exercise],
    kinds: Sequence[str],
    store: Store | None = None,
    progress: Callable[[float], None] = lambda share: None,
) -> list[Proof]:
    """The proofs of these kinds, on all processors; what the store has is not run again.

    store     where results are kept; None keeps none
    progress  is told the share of tasks that are done
    """
    found: dict[tuple[str, str], dict[str, Result]] = {}
    lacking = {
        e.slug: requirements.lacking(requirements.required(e, on_cuda=False)) for e in exercises
    }
    tasks: list[Task] = []
    for exercise in (e for e in exercises if not lacking[e.slug]):
        for kind in kinds:
            kept = store.kept(kind, exercise) if store else {}
            names = NAMES[kind](exercise)
            found[kind, exercise.slug] = {n: kept[n] for n in names if n in kept}
            tasks += _tasks(kind, exercise, [n for n in names if n not in kept])
    for done, (task, results) in enumerate(_run(tasks), 1):
        found[task.kind, task.slug] |= results
        if store:
            store.keep(task.kind, catalog.find(task.slug), found[task.kind, task.slug])
        progress(done / len(tasks))
    return [
        Proof(kind=k, exercise=e, results=_in_order(k, e, found), lacking=lacking[e.slug])
        for e in exercises
        for k in kinds
    ]


def _in_order(
    kind: str, exercise: Exercise, found: dict[tuple[str, str], dict[str, Result]]
) -> dict[str, Result]:
    results = found.get((kind, exercise.slug), {})  # none where a package is missing
    if not results:
        return {}
    return {name: results[name] for name in NAMES[kind](exercise) if name in results}


def _tasks(kind: str, exercise: Exercise, names: Sequence[str]) -> Iterator[Task]:
    # A compiled answer is compiled together with all others, once in a process.
    size = CHUNK if exercise.language == "python" else max(1, len(names))
    for start in range(0, len(names), size):
        chunk = tuple(names[start : start + size])
        yield Task(kind=kind, slug=exercise.slug, names=chunk)


def _run(tasks: Sequence[Task]) -> Iterator[tuple[Task, dict[str, Result]]]:
    if not tasks:
        return
    pool = ProcessPoolExecutor(os.cpu_count(), get_context("spawn"), _as_in_a_worker)
    with pool:
        waiting = {pool.submit(proven, task): task for task in tasks}
        try:
            for done in as_completed(waiting):
                yield waiting[done], done.result()
        finally:
            pool.shutdown(cancel_futures=True)


def _as_in_a_worker() -> None:
    """Have right answers run with the operators that they have in a worker."""
    operator_list.close(*allowed_tables.operators())


def proven(task: Task) -> dict[str, Result]:
    """The results of a task, in this process."""
    exercise = catalog.find(task.slug)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # wrong answers overflow and divide by zero
        return {name: PROOFS[task.kind](exercise, name) for name in task.names}


@cache
def _catalogue(slug: str) -> Catalogue:
    return Catalogue(catalog.find(slug), remember=True)


@cache
def _nursery() -> Nursery:
    nursery = Nursery()
    atexit.register(nursery.close)
    return nursery


def _mistake(exercise: Exercise, name: str, naming: bool = True) -> Result:
    known = _catalogue(exercise.slug)
    mistake = next(m for m in known.mistakes if m.id == name)
    return mutants.caught(mistake, exercise, known, naming=naming).to_dict()


def _variant(exercise: Exercise, name: str) -> Result:
    variant = next(v for v in suite_runner.variants(exercise) if v.id == name)
    source = mutants.variant_source(exercise, variant)
    if exercise.language == "python":
        return {"lost": right_answers.lost_here(exercise, source)}
    return {"lost": right_answers.lost(exercise, source, _nursery(), variant.id)}


def _solution(exercise: Exercise, _: str) -> Result:
    source = exercise.solution.read_text(encoding="utf-8")
    return {"lost": right_answers.lost(exercise, source, _nursery())}


def _skeleton(exercise: Exercise, _: str) -> Result:
    return {"lost": right_answers.wrong_with_skeleton(exercise, _nursery())}


def _drill(exercise: Exercise, name: str) -> Result:
    drill = next(d for d in drills.drills(exercise) if d.mistake == name)
    try:
        return {"fault": right_answers.fault_of_drill(exercise, drill)}
    except GraderFault as problem:  # it does not fit the solution, of which make house tells
        return {"fault": str(problem)}


PROOFS: dict[str, Callable[[Exercise, str], Result]] = {
    "caught": partial(_mistake, naming=False),
    "mistakes": _mistake,
    "variants": _variant,
    "solution": _solution,
    "skeleton": _skeleton,
    "drills": _drill,
}
NAMES: dict[str, Callable[[Exercise], list[str]]] = {
    "caught": lambda e: [m.id for m in suite_runner.mistakes(e)],
    "mistakes": lambda e: [m.id for m in suite_runner.mistakes(e)],
    "variants": lambda e: [v.id for v in suite_runner.variants(e)],
    "solution": lambda e: [e.slug],
    "skeleton": lambda e: [e.slug],
    "drills": lambda e: [d.mistake for d in drills.drills(e)],
}
