"""Judges mechanical changes of a right answer: a check must fail, or all trials must agree."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import ModuleType

import torch

from grader.authoring.changes import MechanicalChange, make_mechanical_changes
from grader.authoring.mutants import write_variant_to_prove
from grader.authoring.process_limits import EndlessCode, limit_seconds_of_proof
from grader.authoring.reached_lines import record_reached_lines
from grader.authoring.side_by_side import Input, SideBySide, TrialValues
from grader.core.errors import GraderFault
from grader.core.records import Exercise
from grader.judging import suite_runner
from grader.judging.case import StudentFault
from grader.judging.judge import Judge
from grader.judging.marks import CheckCase
from grader.judging.student import Student
from grader.submission.reach import list_definition_users
from grader.worker.parent.in_process import call_without_wall, load_text_without_wall

CASE_SECONDS = 10.0  # of the processor, for one case of a check, and for one input of a trial


class ChangeVerdict(StrEnum):
    """The verdict on a change."""

    CAUGHT = "caught"  # a check fails, or the file does not load, or it does not end
    EQUIVALENT = "equivalent"  # it equals the right answer on all inputs
    HOLE = "hole"  # it differs on an input, and no check fails
    UNTRIED = "no trials"  # no check fails, and no trial runs the changed code
    GPU_ONLY = "only on a GPU"  # the same, in an exercise that has checks for a GPU
    FAULT = "fault"  # a check raises an exception that is no verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A change and its verdict."""

    slug: str
    variant: str  # "" for the solution
    where: str
    line: int
    kind: str
    old: str
    new: str
    verdict: ChangeVerdict
    how: str = ""  # the check that fails, or another way to be caught
    inputs: int = 0  # on which it equals the right answer
    told: TrialValues | None = None
    seconds: float = 0.0  # of the processor


def read_mechanical_source(exercise: Exercise, variant: str) -> str:
    """Return the text of the solution or of a right variant."""
    if not variant:
        return exercise.solution.read_text(encoding="utf-8")
    [found] = [v for v in suite_runner.list_suite_variants(exercise) if v.id == variant]
    return write_variant_to_prove(exercise, found)


def list_mechanical_changes(exercise: Exercise, variant: str) -> list[MechanicalChange]:
    """Return every change of the solution, or of the code that a variant replaces."""
    beside = read_mechanical_source(exercise, "") if variant else ""
    return make_mechanical_changes(read_mechanical_source(exercise, variant), beside)


class MechanicalProof:
    """One right answer, with which its changes are compared."""

    def __init__(
        self, exercise: Exercise, variant: str, inputs: int, trials: bool, seconds: float
    ) -> None:
        """Load the answer and run it once.

        inputs   the number of inputs for a change that no check catches
        trials   whether to run the trials on caught changes too
        seconds  the processor time allowed for one case of a check, and for one input
        """
        torch.set_num_threads(1)
        self._exercise, self._variant = exercise, variant
        self._inputs, self._trials, self._seconds = inputs, trials, seconds
        source = read_mechanical_source(exercise, variant)
        self._users = list_definition_users(source)
        with record_reached_lines(f"<{exercise.slug}>") as self._loading:
            right = load_text_without_wall(source, exercise.slug, exercise.prelude)
        self._cases = self._sort_cases_by_cost(right)
        found = (
            suite_runner.list_suite_trials(exercise)
            if list(exercise.folder.glob("trials.py"))
            else []
        )
        self._side_by_side = SideBySide(exercise, right, found, seconds)
        on_gpu = any(case.check.cuda for case in suite_runner.list_suite_cases(exercise))
        self._untried = ChangeVerdict.GPU_ONLY if on_gpu else ChangeVerdict.UNTRIED

    def judge_change(self, change: MechanicalChange) -> Outcome:
        """Run the checks and the trials on a change."""
        started = time.process_time()
        verdict, how, inputs, told = self._find_verdict(change)
        return Outcome(
            slug=self._exercise.slug, variant=self._variant, where=change.where, line=change.line,
            kind=change.kind.value, old=change.old, new=change.new, verdict=verdict, how=how,
            inputs=inputs, told=told, seconds=time.process_time() - started,
        )  # fmt: skip

    def _find_verdict(
        self, change: MechanicalChange
    ) -> tuple[ChangeVerdict, str, int, TrialValues | None]:
        try:
            with limit_seconds_of_proof(self._seconds):
                module = load_text_without_wall(
                    change.source, self._exercise.slug, self._exercise.prelude
                )
        except (Exception, SystemExit, EndlessCode) as error:  # whatever a changed file raises
            return ChangeVerdict.CAUGHT, f"loading it raises {type(error).__name__}", 0, None
        inputs = self._list_telling_inputs(change)
        try:
            how = self._find_failing_check(module)
        except Exception as error:  # the suite's own fault: no verdict on the answer
            return ChangeVerdict.FAULT, f"{type(error).__name__}: {error}", 0, None
        if how:
            told = self._side_by_side.first_difference(module, inputs) if self._trials else None
            return ChangeVerdict.CAUGHT, how, 0 if told else len(inputs), told
        if not inputs:
            return self._untried, "", 0, None
        told = self._side_by_side.least_difference(module, inputs)
        return ChangeVerdict.HOLE if told else ChangeVerdict.EQUIVALENT, "", len(inputs), told

    def _list_telling_inputs(self, change: MechanicalChange) -> list[Input]:
        """Choose inputs of the trials; return those on which the right answer runs what changed.

        On the others the changed answer does the same.
        """
        names = self._users.get(change.definition) or frozenset(self._exercise.names)
        inputs = self._side_by_side.choose_inputs(names, self._inputs)
        if not change.lines or not self._loading.isdisjoint(change.lines):
            return inputs
        return self._side_by_side.list_reaching(inputs, change.lines)

    def _find_failing_check(self, module: ModuleType) -> str:
        """Return the check that fails on a module; "" if all pass."""
        judge = self._make_judge(module)
        for seconds, case in self._cases:
            try:
                with limit_seconds_of_proof(self._seconds + seconds):
                    fault = judge.ask(judge.student, case)
            except EndlessCode:
                return f"{case.check.id} (does not end)"
            except MemoryError:
                return f"{case.check.id} (memory)"
            if fault is not None:
                return case.check.id
        return ""

    def _sort_cases_by_cost(self, right: ModuleType) -> Sequence[tuple[float, CheckCase]]:
        """Time all cases on the right answer; return (seconds, case), the cheapest first."""
        judge, found = self._make_judge(right), []
        for case in suite_runner.list_suite_cases(self._exercise):
            if case.check.cuda:
                continue
            started = time.process_time()
            fault = judge.ask(judge.student, case)
            if fault is not None:
                raise GraderFault(self._rejection_text(case, fault))
            found.append((time.process_time() - started, case))
        return sorted(found, key=lambda pair: pair[0])

    def _rejection_text(self, case: CheckCase, fault: StudentFault) -> str:
        answer = f"variant {self._variant}" if self._variant else "solution"
        return f"{self._exercise.slug}: the {answer} itself fails {case.name}: {fault}"

    def _make_judge(self, module: ModuleType) -> Judge:
        student = Student(self._exercise, call_without_wall(module, self._exercise.prelude))
        return Judge(student, ("mechanical", self._exercise.slug))
