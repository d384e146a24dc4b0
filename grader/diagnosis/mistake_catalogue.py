"""Binds the mistakes of an exercise in the place of its solution's own functions and classes."""

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import replace
from functools import cache, cached_property
from itertools import groupby
from types import FunctionType, ModuleType
from typing import Any

from grader.core import catalog
from grader.core.records import Exercise
from grader.diagnosis import solution_modules
from grader.diagnosis.mistake_pairs import combine_mistakes
from grader.diagnosis.time_limit import check_diagnosis_time
from grader.judging import suite_runner
from grader.judging.case import StudentFault
from grader.judging.judge import Judge
from grader.judging.marks import CheckCase, Mistake
from grader.judging.student import Student
from grader.worker.parent.in_process import call_without_wall

Outcome = tuple[str, bool]  # a check, and whether it failed where it called the name of a mistake


class MistakeCatalogue:
    """The mistakes of one exercise, each bound in the place of the solution's own name.

    With `remember` the catalogue keeps the fault of each mistake in each case: for a proof, whose
    inputs are drawn from one seed, so that the same cases run again and again.
    """

    def __init__(self, exercise: Exercise, *, remember: bool = False) -> None:
        self._exercise = exercise
        self._faults: dict[tuple[str, ...], StudentFault | None] | None = {} if remember else None
        self.mistakes = suite_runner.list_suite_mistakes(exercise)
        self.trials = suite_runner.list_suite_trials(exercise) if self.mistakes else []
        self.leaves_out_meta = False  # as `Student` does
        self._modules: dict[str, ModuleType] = {}
        self._pairs: dict[str, tuple[Mistake, ...]] = {}  # of two names: the mistake in the second
        self._pair_module: ModuleType | None = None
        self._right_names: dict[str, Any] = {}
        self._outcomes: dict[
            tuple[str, frozenset[str]], tuple[list[Outcome], Iterator[Outcome]]
        ] = {}

    def module(self, mistake: Mistake) -> ModuleType:
        """Return the solution with this mistake in it, without memory of earlier uses."""
        if mistake.id in self._pairs:
            return self._bind_pair(mistake)
        if mistake.id not in self._modules:
            if mistake.edits:
                found = solution_modules.load_mistaken_solution(self._exercise, mistake)
            else:
                found = solution_modules.load_solution_for_judging(self._exercise)
            self._modules[mistake.id] = found or ModuleType(self._exercise.slug)
        if not mistake.edits:
            setattr(self._modules[mistake.id], mistake.of, _copy_diagnosed_function(mistake.answer))
        return self._modules[mistake.id]

    def pair(self, one: Mistake, other: Mistake) -> Mistake | None:
        """Return a mistake that is two at once; None if they cannot be made together."""
        if one.edits or other.edits:
            return None
        name = f"{one.id} + {other.id}"
        answer = one.answer if one.of != other.of else combine_mistakes(one, other)
        if answer is None:
            return None
        self._pairs[name] = (other,) if one.of != other.of else ()
        return replace(one, id=name, answer=answer)

    def is_pair(self, mistake: Mistake) -> bool:
        """Return whether a mistake is two at once."""
        return mistake.id in self._pairs

    def names(self, mistake: Mistake) -> tuple[str, ...]:
        """Return the student's names that a mistake, or a pair, stands in the place of."""
        return mistake.of, *(other.of for other in self._pairs.get(mistake.id, ()))

    def _bind_pair(self, pair: Mistake) -> ModuleType:
        """Return the one module of all pairs, in which nothing is left of another pair."""
        if self._pair_module is None:
            self._pair_module = solution_modules.load_solution_for_judging(
                self._exercise
            ) or ModuleType(self._exercise.slug)
            self._right_names = dict(vars(self._pair_module))
        vars(self._pair_module).update(self._right_names)
        for one in (pair, *self._pairs[pair.id]):
            setattr(self._pair_module, one.of, _copy_diagnosed_function(one.answer))
        return self._pair_module

    def student(self, mistake: Mistake) -> Student:
        """Return a student who makes this mistake, and no other."""
        return self._as_student(self.module(mistake))

    @property
    def right(self) -> Student | None:
        """Return a student who makes no mistake; None if there is no solution."""
        module = self._right_module
        return None if module is None else self._as_student(module)

    @cached_property
    def _right_module(self) -> ModuleType | None:
        return solution_modules.load_solution_for_judging(self._exercise)

    def _as_student(self, module: ModuleType) -> Student:
        client = call_without_wall(module, self._exercise.prelude)
        return Student(self._exercise, client, leaves_out_meta=self.leaves_out_meta)

    def fault(
        self, mistake: Mistake, judge: Judge, case: CheckCase, *again: str
    ) -> StudentFault | None:
        """Run one case on a mistake; return the fault, or None.

        Raises `OutOfTime` if no time is left. A call that is left out ends a case without a fault.
        """
        check_diagnosis_time()
        if self._faults is None:
            return judge.ask(self.student(mistake), case, *again)
        key = mistake.id, case.name, *again
        if key not in self._faults:
            self._faults[key] = fault = judge.ask(self.student(mistake), case, *again)
            if fault is not None:
                fault.raised_by = None  # it holds what the call was given
        return self._faults[key]

    def fails(self, mistake: Mistake, checks: frozenset[str], only: frozenset[str]) -> bool:
        """Return whether a mistake fails these checks and passes the others.

        only  the checks that are asked; all if it is empty

        No check runs that cannot change the result, and none runs twice.
        """
        came = self._check_outcomes(mistake, only)
        return all(failed == (check in checks) for check, failed in came)

    def _check_outcomes(self, mistake: Mistake, only: frozenset[str]) -> Iterator[Outcome]:
        """Yield the outcome of each check; a check runs when its outcome is read, and once."""
        if mistake.id in self._pairs:  # their module is that of the next pair soon
            yield from self._run_checks(mistake, only)
            return
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
            check_diagnosis_time()
            judge.run(tuple(some))
            yield check, check in list_failed_checks(self.names(mistake), judge)


def list_failed_checks(names: tuple[str, ...], judge: Judge) -> frozenset[str]:
    """Return the failed checks that called one of `names`; others may have their own mistakes."""
    return frozenset(f.check for f in judge.failures if not f.calls.isdisjoint(names))


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
