"""Proves the suites: what must fail fails, and every right answer earns its points.

There are six kinds of proof. A result is plain data, which can be stored and sent to a process:

    caught    {"verdict", "earned", "faults", "named"} of each named mistake, "named" left empty
    mistakes  the same with the names that a report would give; takes several times as long
    variants  {"lost"} of each right variant: the checks without all points, or why not graded
    solution  {"lost", "calls", "hard"}: `calls` are the names that each check calls, `hard` lists
              these names with the hard kinds of input on which the check calls them
    skeleton  {"lost"}: points that a skeleton earned, or a message that it did not get
    drills    {"fault"} of each drill: the first failure; "" if the drill has no mistake
"""

import atexit
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field, replace
from functools import cache, partial
from multiprocessing import get_context
from typing import Any

import numpy as np

from grader.authoring import mutants, right_answers
from grader.authoring.proof_store import ProofStore
from grader.authoring.touched_checks import Calls
from grader.core import allowed_tables, catalog
from grader.core.errors import GraderFault
from grader.core.records import Exercise, ExerciseReport
from grader.diagnosis.mistake_catalogue import MistakeCatalogue
from grader.judging import drills, suite_runner
from grader.judging.author_error import tell_author_errors
from grader.worker.child import operator_list
from grader.worker.parent import requirements
from grader.worker.parent.nursery import Nursery

KINDS_BESIDE_MISTAKES = "variants", "solution", "skeleton", "drills"
NAMES_PER_TASK = 12
Result = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProofTask:
    """Some names of one kind of proof, which one process proves."""

    kind: str
    slug: str
    names: tuple[str, ...]
    calls: Calls = field(default_factory=dict)  # of the solution's checks, if they are known


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """All results of one kind about one exercise; `lacking` says why the proof cannot run here."""

    kind: str
    exercise: Exercise
    results: dict[str, Result]
    lacking: str = ""


def run_proofs(
    exercises: Sequence[Exercise],
    kinds: Sequence[str],
    store: ProofStore | None = None,
    progress: Callable[[float], None] = lambda share: None,
) -> list[Proof]:
    """Run the proofs of these kinds on all processors; skip results that the store has.

    store     stores the results; None to store none
    progress  called with the share of tasks that are done
    """
    found: dict[tuple[str, str], dict[str, Result]] = {}
    lacking = {
        e.slug: requirements.find_unmet_worker_requirement(
            requirements.list_worker_requirements(e, on_cuda=False)
        )
        for e in exercises
    }
    tasks: list[ProofTask] = []
    for exercise in (e for e in exercises if not lacking[e.slug]):
        for kind in kinds:
            kept = _read_known_results(store, kind, exercise) if store else {}
            names = NAMES_BY_KIND[kind](exercise)
            found[kind, exercise.slug] = {n: kept[n] for n in names if n in kept}
            tasks += _split_into_proof_tasks(kind, exercise, [n for n in names if n not in kept])
    done = 0
    for begun in _split_by_solution(tasks):
        for task, results in _run_proof_tasks([_add_known_calls(t, found) for t in begun]):
            found[task.kind, task.slug] |= results
            if store:
                store.write_results(
                    task.kind, catalog.find_catalog_exercise(task.slug), found[task.kind, task.slug]
                )
            done += 1
            progress(done / len(tasks))
    return [
        Proof(
            kind=k, exercise=e, results=_order_proof_results(k, e, found), lacking=lacking[e.slug]
        )
        for e in exercises
        for k in kinds
    ]


def _read_known_results(store: ProofStore, kind: str, exercise: Exercise) -> dict[str, Result]:
    """Return the stored results of a kind; a mistake that was named was caught as well."""
    named = store.read_results("mistakes", exercise) if kind == "caught" else {}
    return named | store.read_results(kind, exercise)


def _split_by_solution(tasks: Sequence[ProofTask]) -> tuple[list[ProofTask], list[ProofTask]]:
    """Split tasks into those that prove solutions, and the others."""
    return [t for t in tasks if t.kind == "solution"], [t for t in tasks if t.kind != "solution"]


def _add_known_calls(task: ProofTask, found: dict[tuple[str, str], dict[str, Result]]) -> ProofTask:
    """Return a task with what each check calls, if a solution in Python earns all points."""
    if catalog.find_catalog_exercise(task.slug).language != "python":
        return task  # whose answers cannot be compared definition by definition
    solution = found.get(("solution", task.slug), {}).values()
    return replace(task, calls=next((r["calls"] for r in solution if not r["lost"]), {}))


def _order_proof_results(
    kind: str, exercise: Exercise, found: dict[tuple[str, str], dict[str, Result]]
) -> dict[str, Result]:
    results = found.get((kind, exercise.slug), {})  # no results if a package is missing
    if not results:
        return {}
    return {name: results[name] for name in NAMES_BY_KIND[kind](exercise) if name in results}


def _split_into_proof_tasks(
    kind: str, exercise: Exercise, names: Sequence[str]
) -> Iterator[ProofTask]:
    # A process compiles all answers of an exercise together, once.
    size = NAMES_PER_TASK if exercise.language == "python" else max(1, len(names))
    for start in range(0, len(names), size):
        chunk = tuple(names[start : start + size])
        yield ProofTask(kind=kind, slug=exercise.slug, names=chunk)


def _run_proof_tasks(tasks: Sequence[ProofTask]) -> Iterator[tuple[ProofTask, dict[str, Result]]]:
    if not tasks:
        return
    pool = ProcessPoolExecutor(os.cpu_count(), get_context("spawn"), _close_operators_for_proof)
    with pool:
        waiting = {pool.submit(run_proof_task, task): task for task in tasks}
        try:
            for done in as_completed(waiting):
                yield waiting[done], done.result()
        finally:
            pool.shutdown(cancel_futures=True)


def _close_operators_for_proof() -> None:
    """Let right answers call only the PyTorch operators that a worker allows."""
    operator_list.refuse_unlisted_worker_operators(*allowed_tables.load_allowed_operators())


def run_proof_task(task: ProofTask) -> dict[str, Result]:
    """Run a task in this process; return its results by name."""
    exercise = catalog.find_catalog_exercise(task.slug)
    with (
        tell_author_errors(exercise), warnings.catch_warnings(), np.errstate(all="ignore"),
    ):  # fmt: skip
        warnings.simplefilter("ignore")  # wrong answers overflow and divide by zero
        prove = PROVERS_BY_KIND[task.kind]
        return {name: prove(exercise, name, task.calls) for name in task.names}


@cache
def _load_mistakes_to_prove(slug: str) -> MistakeCatalogue:
    return MistakeCatalogue(catalog.find_catalog_exercise(slug), remember=True)


@cache
def _start_nursery_for_proof() -> Nursery:
    nursery = Nursery()
    atexit.register(nursery.close)
    return nursery


def _prove_mistake(exercise: Exercise, name: str, calls: Calls, naming: bool = True) -> Result:
    known = _load_mistakes_to_prove(exercise.slug)
    mistake = next(m for m in known.mistakes if m.id == name)
    return mutants.run_suite_on_mistake(mistake, exercise, known, calls, naming=naming).to_dict()


def _prove_variant(exercise: Exercise, name: str, calls: Calls) -> Result:
    variant = next(v for v in suite_runner.list_suite_variants(exercise) if v.id == name)
    source = mutants.write_variant_to_prove(exercise, variant)
    if exercise.language == "python":
        return {"lost": right_answers.list_lost_points_unwalled(exercise, source, calls)}
    report = _grade_for_proof(exercise, source)
    return {"lost": right_answers.list_lost_proof_points(report, variant.id)}


def _prove_solution(exercise: Exercise, _: str, __: Calls) -> Result:
    report = _grade_for_proof(exercise, exercise.solution.read_text(encoding="utf-8"))
    return {
        "lost": right_answers.list_lost_proof_points(report),
        "calls": {check.id: sorted(check.calls) for check in report.checks},
        "hard": {check.id: sorted(check.hard) for check in report.checks},
    }


def _grade_for_proof(exercise: Exercise, source: str) -> ExerciseReport:
    return right_answers.grade_text_for_proof(exercise, source, _start_nursery_for_proof(), "proof")


def _prove_skeleton(exercise: Exercise, _: str, __: Calls) -> Result:
    return {
        "lost": right_answers.list_skeleton_proof_problems(exercise, _start_nursery_for_proof())
    }


def _prove_drill(exercise: Exercise, name: str, _: Calls) -> Result:
    drill = next(d for d in drills.read_judging_drills(exercise) if d.mistake == name)
    try:
        return {"fault": right_answers.find_drill_proof_failure(exercise, drill)}
    except (
        GraderFault
    ) as problem:  # the drill does not fit the solution; `make house` reports that too
        return {"fault": str(problem)}


PROVERS_BY_KIND: dict[str, Callable[[Exercise, str, Calls], Result]] = {
    "caught": partial(_prove_mistake, naming=False),
    "mistakes": _prove_mistake,
    "variants": _prove_variant,
    "solution": _prove_solution,
    "skeleton": _prove_skeleton,
    "drills": _prove_drill,
}
NAMES_BY_KIND: dict[str, Callable[[Exercise], list[str]]] = {
    "caught": lambda e: [m.id for m in suite_runner.list_suite_mistakes(e)],
    "mistakes": lambda e: [m.id for m in suite_runner.list_suite_mistakes(e)],
    "variants": lambda e: [v.id for v in suite_runner.list_suite_variants(e)],
    "solution": lambda e: [e.slug],
    "skeleton": lambda e: [e.slug],
    "drills": lambda e: [d.mistake for d in drills.read_judging_drills(e)],
}
