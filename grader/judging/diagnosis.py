"""Names the mistake behind a wrong answer: the one of the catalogue that gives the same answer.

The failed case runs again, with the same inputs, on every mistake of the exercise, in this trusted
process. A mistake is named if its answer is close to the student's and far from the right one, also
on other cases and on fresh inputs. Where a match may be chance (a shape, a NaN everywhere, an
exception), the mistake must fail the very checks that the student failed. An error about sizes that
do not fit each other shows nothing at all. No match, no guess.
"""

import re
from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import replace
from functools import cache
from itertools import groupby
from types import FunctionType, ModuleType
from typing import Any

from torch import Tensor

from grader.core import catalog
from grader.core.records import CheckResult, Diagnosis, Exercise, NamedMistake, Stage
from grader.judging import (
    facts,
    likeness,
    location,
    pinned_line,
    solution_modules,
    stages,
    suite_runner,
)
from grader.judging.case import LastCall, StudentFault
from grader.judging.judge import CheckFailure, Judge
from grader.judging.marks import CheckCase, Mistake
from grader.judging.plainest import find_plainest_failures, show_plainest_failures
from grader.judging.small_examples import add_small_examples
from grader.judging.student import Student, StudentObject
from grader.worker.in_process import call_without_wall

Outcome = tuple[str, bool]  # a check, and whether it failed where it called the name of a mistake

FRESH_DRAWS = 3  # times that the same case runs again with other inputs
MAX_OTHER_CASES = 4  # further cases of the check that run
MAX_FULLY_RUN_MISTAKES = 12  # mistakes for which it is worth running all their checks
MAX_NAMED_MISTAKES = 2  # mistakes that are named together
_SHAPE_MISMATCH = re.compile(  # what PyTorch and NumPy say of shapes
    "must match|broadcast|cannot be multiplied|is invalid for input|[Ee]xpected size|mismatch"
    "|cannot reshape|not aligned|do not match"
)


class MistakeCatalogue:
    """The mistakes of one exercise, each bound in the place of the solution's own name.

    With `remember` the catalogue keeps the fault of each mistake in each case: for a proof, whose
    inputs are drawn from one seed, so that the same cases run again and again.
    """

    def __init__(self, exercise: Exercise, *, remember: bool = False) -> None:
        self._exercise = exercise
        self._faults: dict[tuple[str, ...], StudentFault | None] | None = {} if remember else None
        self.mistakes = suite_runner.list_suite_mistakes(exercise)
        self._modules: dict[str, ModuleType] = {}
        self._outcomes: dict[
            tuple[str, frozenset[str]], tuple[list[Outcome], Iterator[Outcome]]
        ] = {}

    def module(self, mistake: Mistake) -> ModuleType:
        """Return the solution with this mistake in it, without memory of earlier uses."""
        if mistake.id not in self._modules:
            if mistake.edits:
                found = solution_modules.edit_solution_for_judging(self._exercise, mistake)
            else:
                found = solution_modules.load_solution_for_judging(self._exercise)
            self._modules[mistake.id] = found or ModuleType(self._exercise.slug)
        if not mistake.edits:
            setattr(self._modules[mistake.id], mistake.of, _copy_diagnosed_function(mistake.answer))
        return self._modules[mistake.id]

    def student(self, mistake: Mistake) -> Student:
        """Return a student who makes this mistake, and no other."""
        return Student(
            self._exercise, call_without_wall(self.module(mistake), self._exercise.prelude)
        )

    @property
    def right(self) -> Student | None:
        """Return a student who makes no mistake; None if there is no solution."""
        module = solution_modules.load_solution_for_judging(self._exercise)
        if module is None:
            return None
        return Student(self._exercise, call_without_wall(module, self._exercise.prelude))

    def fault(
        self, mistake: Mistake, judge: Judge, case: CheckCase, *again: str
    ) -> StudentFault | None:
        """Run one case on a mistake; return the fault, or None."""
        if self._faults is None:
            return judge.ask(self.student(mistake), case, *again)
        key = mistake.id, case.name, *again
        if key not in self._faults:
            self._faults[key] = judge.ask(self.student(mistake), case, *again)
        return self._faults[key]

    def fails(self, mistake: Mistake, checks: frozenset[str], only: frozenset[str]) -> bool:
        """Return whether a mistake fails these checks and passes the others, of all or `only` some.

        No check runs that cannot change the result, and none runs twice.
        """
        came = self._check_outcomes(mistake, only)
        return all(failed == (check in checks) for check, failed in came)

    def _check_outcomes(self, mistake: Mistake, only: frozenset[str]) -> Iterator[Outcome]:
        """Yield the outcome of each check; a check runs when its outcome is read, and once."""
        key = mistake.id, only
        known, rest = self._outcomes.setdefault(key, ([], self._run_checks(mistake, only)))
        yield from known
        for one in rest:
            known.append(one)
            yield one

    def _run_checks(self, mistake: Mistake, only: frozenset[str]) -> Iterator[Outcome]:
        judge = Judge(self.student(mistake), ("mutants", self._exercise.slug))
        cases = suite_runner.select_suite_cases(self._exercise, only)
        for check, some in groupby(cases, key=lambda case: case.check.id):
            judge.run(tuple(some))
            yield check, check in _list_diagnosed_checks(mistake.of, judge)


def _copy_diagnosed_function(answer: Any) -> Any:
    """Copy a function with its defaults: to keep something in defaults may be the mistake."""
    if not isinstance(answer, FunctionType):
        return answer
    defaults = deepcopy(answer.__defaults__)
    made = FunctionType(
        answer.__code__, answer.__globals__, answer.__name__, defaults, answer.__closure__
    )
    made.__kwdefaults__ = deepcopy(answer.__kwdefaults__)
    return made


@cache
def bind_mistake_catalogue(slug: str) -> MistakeCatalogue:
    """Return the catalogue of an exercise, which is bound once."""
    return MistakeCatalogue(catalog.find_catalog_exercise(slug))


def diagnose_failed_checks(
    exercise: Exercise, checks: Sequence[CheckResult], judge: Judge
) -> tuple[CheckResult, ...]:
    """Return the checks, with a diagnosis for each failed check that has one."""
    failures = {failure.check: failure for failure in judge.failures}
    if not failures:
        return tuple(checks)
    known = bind_mistake_catalogue(exercise.slug)
    told: set[Stage] = set()

    def once(found: Diagnosis | None) -> Diagnosis | None:
        """Keep a stage only with the first check that shows the stage."""
        if found is None or found.stage is None:
            return found
        again = found.stage in told
        told.add(found.stage)
        return replace(found, stage=None) if again else found

    diagnosed = tuple(
        replace(c, diagnosis=once(_diagnose_failed_check(exercise, failures[c.id], judge, known)))
        if c.id in failures else c
        for c in checks
    )  # fmt: skip
    plainest = find_plainest_failures(judge)
    shown = show_plainest_failures(exercise, diagnosed, plainest)
    shown = pinned_line.add_pinned_lines(exercise, shown, plainest, judge)
    right = known.right
    with_facts = facts.add_judged_facts(exercise, shown, plainest, judge.student, right)
    return add_small_examples(exercise, with_facts, plainest, judge.student, right)


def _diagnose_failed_check(
    exercise: Exercise, failure: CheckFailure, judge: Judge, known: MistakeCatalogue
) -> Diagnosis | None:
    mistakes = tuple(
        NamedMistake(id=m.id, says=m.says, mend=m.mend)
        for m in diagnose_mistake(failure, judge, known)
    )
    differs = failure.fault.differs
    places = () if differs is None else location.locate_judged_errors(
        differs.wrong, location.list_judged_letters(exercise, differs.call, differs.subject)
    )  # fmt: skip
    found = None if differs is None else _diagnose_stage(exercise, differs.call, judge, known)
    nothing = not (mistakes or places or found)
    return None if nothing else Diagnosis(mistakes=mistakes, places=places, stage=found)


def _diagnose_stage(
    exercise: Exercise, call: str, judge: Judge, known: MistakeCatalogue
) -> Stage | None:
    right = known.right
    name = call.partition("(")[0]
    return (
        None
        if right is None
        else stages.diagnose_first_wrong_stage(exercise, name, judge.student, right)
    )


def diagnose_mistake(
    failure: CheckFailure,
    judge: Judge,
    mistakes: MistakeCatalogue,
    only: frozenset[str] = frozenset(),
) -> tuple[Mistake, ...]:
    """Name the mistake that a failure shows, or two that cannot be told apart, or none.

    only  the checks that `judge` has run, with the checks they need; empty if it has run all
    """
    if failure.fault.kind == "NotImplementedError" or _SHAPE_MISMATCH.search(failure.fault.detail):
        return ()
    found = [m for m in mistakes.mistakes if m.of in failure.calls]
    found = [m for m in found if _has_diagnosed_answer(failure.asked, m, mistakes)]
    found = _diagnose_by_same_fault(failure.fault, found, judge, mistakes, failure.case)
    for case, again in _draw_diagnosis_cases(failure):
        if not found:
            break
        fault = judge.ask(judge.student, case, *again)
        found = _diagnose_by_same_fault(fault, found, judge, mistakes, case, *again)
    if not found or len(found) > MAX_FULLY_RUN_MISTAKES:
        return ()
    sure = likeness.is_distinctive_mistake(failure.fault.differs)
    if len(found) > 1 or not sure:
        same = [m for m in found if mistakes.fails(m, _list_diagnosed_checks(m.of, judge), only)]
        found = same or (found if sure else [])
    return tuple(found) if len(found) <= MAX_NAMED_MISTAKES else ()


def _list_diagnosed_checks(name: str, judge: Judge) -> frozenset[str]:
    """Return the failed checks that called `name`; another name may have its own mistake."""
    return frozenset(f.check for f in judge.failures if name in f.calls)


def _has_diagnosed_answer(
    asked: LastCall | None, mistake: Mistake, known: MistakeCatalogue
) -> bool:
    """Return whether a mistake answers the last call as the student did: a quick first filter."""
    if asked is None or any(isinstance(x, StudentObject) for x in asked.args):
        return True
    function = getattr(known.module(mistake), asked.name, None)
    if function is None:
        return False
    try:
        answer = function(*_copy_diagnosed_arguments(asked.args), **asked.kwargs)
    except Exception:  # whatever a wrong answer raises; the student's came back
        return False
    return likeness.are_judged_answers_alike(answer, asked.value)


def _copy_diagnosed_arguments(values: Sequence[Any]) -> list[Any]:
    """Copy the arguments; an object that occurs twice is copied once."""
    made = {id(x): x.detach().clone() if isinstance(x, Tensor) else deepcopy(x) for x in values}
    return [made[id(x)] for x in values]


def _diagnose_by_same_fault(
    fault: StudentFault | None, mistakes: list[Mistake], judge: Judge, known: MistakeCatalogue,
    case: CheckCase, *again: str,
) -> list[Mistake]:  # fmt: skip
    return [
        m
        for m in mistakes
        if likeness.are_judged_faults_alike(fault, known.fault(m, judge, case, *again))
    ]


def _draw_diagnosis_cases(failure: CheckFailure) -> Iterator[tuple[CheckCase, tuple[str, ...]]]:
    """Yield further cases that may tell mistakes apart."""
    yield from ((case, ()) for case in failure.more[:MAX_OTHER_CASES])
    yield from ((failure.case, ("again", str(n))) for n in range(FRESH_DRAWS))
