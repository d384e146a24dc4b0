"""Judges one exercise: runs the cases of its checks and records the verdicts.

`Judge.run` calls the checks directly. Where pytest is started by hand, pytest makes the calls: see
`plugin.py`.
"""

import time
import traceback
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import pytest
import torch

from grader.core.records import CheckResult, Verdict
from grader.judging.case import CURRENT_CASE, Case, LastCall, MetaLeftOut, StudentFault
from grader.judging.draw import DealtDraw, Draw
from grader.judging.marks import Check, CheckCase, list_parameters
from grader.judging.student import Student

NEEDS_CUDA = "needs CUDA"
_DOES_NOT_APPLY = pytest.skip.Exception, MetaLeftOut  # what a case for another student raises


class Tape(Protocol):
    """Where cases are stored, or played back."""

    def begin(self, case: str, check: str) -> str:
        """Go to a case; return the reason if the case cannot be run, else an empty string."""

    def draws(self, case: str) -> Any:
        """Return the inputs of a case."""


@dataclass(slots=True)
class _Tally:
    """The outcomes of one check so far."""

    check: Check
    failure: str = ""
    where: str = ""
    grader_fault: str = ""
    not_run: str = "no case of it could be asked"  # why, if none was
    calls: set[str] = field(default_factory=set)
    hard: set[tuple[str, str]] = field(default_factory=set)
    seconds: float = 0.0
    cases: list[CheckCase] = field(default_factory=list)
    passed: list[CheckCase] = field(default_factory=list)
    failed: "CheckFailure | None" = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckFailure:
    """The case in which a check failed, and its fault: the start of a diagnosis."""

    check: str
    case: CheckCase
    more: tuple[CheckCase, ...]  # the cases of the check that were not run
    fault: StudentFault
    calls: frozenset[str]
    asked: LastCall | None
    last_call: str = ""


class Judge:
    """One run of one suite against one student.

    A check earns its points if every case that ran passed. After a check's first failure its other
    cases do not run; checks that need a failed check are blocked.
    """

    def __init__(
        self, student: Student, seed: tuple[str, ...], device: str = "cpu",
        tape: Tape | None = None,
    ) -> None:  # fmt: skip
        self.student = student
        self.device = device
        self._tape = tape
        self._seed = seed
        self._tallies: dict[str, _Tally] = {}
        self._decided: set[str] = set()  # checks that failed or had their last case
        self.before_case: Callable[[], None] = lambda: None  # may raise, to end between two cases
        self.keeps_rules = False  # whether a case keeps each rule that it applied
        self.errors: list[str] = []  # faults of the suite itself

    def draw_for(self, name: str, *again: str) -> Draw:
        """Return the draws of the case `name`; order, selection and restarts do not change them."""
        if self._tape is not None:
            drawn: Draw = self._tape.draws(name)  # under the same names
            return drawn
        return Draw(*self._seed, name, *again, device=self.device)

    def deal_for(self, name: str, number: int) -> DealtDraw:
        """Return the draws of an input, by its number in the series `name`."""
        return DealtDraw(*self._seed, name, number=number, device=self.device)

    @property
    def is_replayed(self) -> bool:
        """Return whether the inputs are played back, so that no case runs out of turn."""
        return self._tape is not None

    @property
    def failures(self) -> tuple[CheckFailure, ...]:
        """Return the failed checks, in the order of the suite; not those that got no answer."""
        failed = (t.failed for t in self._tallies.values())
        return tuple(f for f in failed if f is not None and not f.fault.timed_out)

    def verdict(self, check: str) -> Verdict | None:
        """Return the verdict on a check; None if it was not asked."""
        tally = self._tallies.get(check)
        return None if tally is None else self._check_result(tally, {}).verdict

    def list_checks(self, names: Iterable[str]) -> frozenset[str]:
        """Return the checks that ran and called one of these names."""
        return frozenset(c for c, t in self._tallies.items() if not t.calls.isdisjoint(names))

    def list_passed_cases(self, name: str, most: int) -> list[CheckCase]:
        """Return passed cases of the checks that call `name`, at most `most` of each check.

        From a passed check take the first, from a failed one the last before it failed.
        """
        called = [t for t in self._tallies.values() if name in t.calls and not t.grader_fault]
        return [
            case for t in called for case in (t.passed[-most:] if t.failed else t.passed[:most])
        ]

    def run(
        self, cases: Sequence[CheckCase],
        decided: Callable[[Sequence[CheckResult]], None] = lambda results: None,
        first: frozenset[str] = frozenset(), known: frozenset[str] = frozenset(),
    ) -> None:  # fmt: skip
        """Run cases in their order; raise nothing, whatever an answer or a suite does.

        decided  is called with the results so far when a check failed or had its last case
        first    checks that run before all others; results keep the order of the suite
        known    checks that are known to pass, and are not run
        """
        self._register_cases(cases)
        cases = sorted(cases, key=lambda case: case.check.id not in first)
        for case, following in zip(cases, [*cases[1:], None], strict=True):
            if case.check.id in known or self._reason_to_skip(case):
                continue
            started, error = time.perf_counter(), None
            try:
                self._run_case(self.student, case)
            except (Exception, SystemExit, *_DOES_NOT_APPLY) as raised:  # judged, not raised
                error = raised
            tally = self._tallies[case.check.id]
            tally.seconds += time.perf_counter() - started
            self._record_outcome(tally, case, error)
            if error is not None or following is None or following.check is not case.check:
                self._decided.add(case.check.id)
                decided(self._list_decided_results())

    def ask(self, student: Student, case: CheckCase, *again: str) -> StudentFault | None:
        """Run a case on any student and record nothing; return the fault, or None."""
        try:
            self._run_case(student, case, *again)
        except StudentFault as fault:
            return _forget_frames(fault)
        except _DOES_NOT_APPLY:
            return None
        return None

    def _run_case(self, student: Student, case: CheckCase, *again: str) -> None:
        at_hand = {
            "student": student,
            "draw": self.draw_for(case.name, *again),
            "device": torch.device(self.device),
            **case.params,
        }
        self.before_case()
        CURRENT_CASE.set(Case(rules=[] if self.keeps_rules else None))
        student.begin_case()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what a library warns of is judged by its values
            case.function(**{name: at_hand[name] for name in list_parameters(case.function)})

    def results(self) -> tuple[CheckResult, ...]:
        """Return one verdict per check, in the order of the suite."""
        verdicts: dict[str, CheckResult] = {}
        for tally in self._tallies.values():
            verdicts[tally.check.id] = self._check_result(tally, verdicts)
        return tuple(verdicts.values())

    def _list_decided_results(self) -> tuple[CheckResult, ...]:
        """Return the results of the checks that are decided, and of those that are blocked."""
        blocked = Verdict.BLOCKED
        return tuple(r for r in self.results() if r.id in self._decided or r.verdict is blocked)

    def _register_cases(self, cases: Sequence[CheckCase]) -> None:
        for case in cases:
            self._tallies.setdefault(case.check.id, _Tally(check=case.check)).cases.append(case)
        for tally in self._tallies.values():
            for name in tally.check.needs:
                if name not in self._tallies:
                    self.errors.append(f"{tally.check.id} needs {name}, which is no check")

    def _reason_to_skip(self, case: CheckCase) -> str:
        """Return the reason why a case is not run; empty if the case runs."""
        check, tally = case.check, self._tallies[case.check.id]
        if check.cuda and not self.device.startswith("cuda"):
            return NEEDS_CUDA
        if tally.failure or tally.grader_fault:
            return "an earlier case of this check failed"
        if blocker := self._blocking_check(check):
            return f"blocked by {blocker}"
        if self._tape is not None and (why := self._tape.begin(case.name, check.id)):
            tally.not_run = why
            return why
        return ""

    def _record_outcome(self, tally: _Tally, case: CheckCase, error: BaseException | None) -> None:
        """Record the outcome of a case that ran."""
        called = CURRENT_CASE.get().called
        tally.calls |= called
        tally.hard |= {(name, kind) for name in called for kind in CURRENT_CASE.get().hard}
        if error is None:
            tally.passed.append(case)
        elif isinstance(error, StudentFault):
            tally.failure, tally.where = str(error), case.name.partition("[")[2].rstrip("]")
            number = tally.cases.index(case) if case in tally.cases else len(tally.cases)
            tally.failed = CheckFailure(
                check=tally.check.id, case=case, more=tuple(tally.cases[number + 1 :]),
                fault=_forget_frames(error),
                calls=frozenset(CURRENT_CASE.get().called), asked=CURRENT_CASE.get().asked,
                last_call=CURRENT_CASE.get().last_call,
            )  # fmt: skip
        elif not isinstance(error, _DOES_NOT_APPLY):
            place = traceback.extract_tb(error.__traceback__)[-1]
            where = f"{Path(place.filename).name}:{place.lineno}"
            tally.grader_fault = f"{type(error).__name__}: {error} ({case.name}, {where})"

    def _blocking_check(self, check: Check) -> str | None:
        """Return the first check that `check` needs and that is known not to have passed."""
        for name in check.needs:
            tally = self._tallies.get(name)
            if tally is not None and (
                tally.failure or tally.grader_fault or self._blocking_check(tally.check)
            ):
                return name
        return None

    def _check_result(self, tally: _Tally, verdicts: Mapping[str, CheckResult]) -> CheckResult:
        check = tally.check
        verdict, why = Verdict.PASSED, ""
        if tally.grader_fault:
            verdict, why = Verdict.GRADER_FAULT, tally.grader_fault
        elif tally.failure:
            verdict, why = Verdict.FAILED, tally.failure
        elif check.cuda and not self.device.startswith("cuda"):
            verdict, why = Verdict.NOT_RUN, NEEDS_CUDA
        elif blocker := self._blocking_check(check):
            verdict, why = Verdict.BLOCKED, verdicts[blocker].says if blocker in verdicts else ""
        elif not tally.passed:
            verdict, why = Verdict.NOT_RUN, tally.not_run
        return CheckResult(
            id=check.id, says=check.says, verdict=verdict, points=check.points, why=why,
            where=tally.where, calls=frozenset(tally.calls), hard=frozenset(tally.hard),
            seconds=tally.seconds, line=tally.failed.fault.line if tally.failed else 0,
        )  # fmt: skip


def _forget_frames(fault: StudentFault) -> StudentFault:
    """Drop what leads to the frames of a case, which hold all of its inputs and values."""
    fault.__traceback__ = fault.__context__ = None
    return fault
