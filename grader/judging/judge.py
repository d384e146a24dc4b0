"""Judges one exercise: a pytest plugin that asks the checks and writes down the verdicts."""

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import pytest
import torch

from grader.judging.case import CASE, Asked, Case, StudentFault
from grader.judging.check import Check
from grader.judging.draw import Draw
from grader.judging.student import Student
from grader.records import CheckResult, Verdict

NEEDS_CUDA = "needs CUDA"


class Tape(Protocol):
    """Where cases are stored, or played back."""

    def begin(self, case: str, check: str) -> str:
        """Go to a case; why it cannot be asked, if it cannot."""

    def draws(self, case: str) -> Any:
        """The inputs of a case."""


@dataclass(slots=True)
class _Tally:
    """What has become of one check so far."""

    check: Check
    passed: int = 0
    failure: str = ""
    where: str = ""
    grader_fault: str = ""
    not_run: str = "no case of it could be asked"  # why, if none was
    calls: set[str] = field(default_factory=set)
    seconds: float = 0.0
    items: list[pytest.Function] = field(default_factory=list)
    failed: "Failure | None" = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """The case in which a check failed, and how: what a diagnosis starts from."""

    check: str
    item: pytest.Function
    more: tuple[pytest.Function, ...]  # the cases of the check that were not asked
    fault: StudentFault
    calls: frozenset[str]
    asked: Asked | None


class Judge:
    """One run of one suite against one student.

    A check earns its points if every case that ran passed. After its first failure the rest of its
    cases are not asked; after a failed check, those that need it are blocked.
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
        self.errors: list[str] = []  # faults of the suite itself

    def draw_for(self, item: pytest.Item, *again: str) -> Draw:
        """The draws of one case; order, selection and restarts do not change them."""
        if self._tape is not None:
            drawn: Draw = self._tape.draws(item.name)  # under the same names
            return drawn
        return Draw(*self._seed, item.name, *again, device=self.device)

    @property
    def failures(self) -> tuple[Failure, ...]:
        """The failed checks, in the order of the suite."""
        return tuple(t.failed for t in self._tallies.values() if t.failed is not None)

    def ask(self, student: Student, item: pytest.Function, *again: str) -> StudentFault | None:
        """Ask a case of any student, outside pytest: the fault, or None."""
        at_hand = {
            "student": student,
            "draw": self.draw_for(item, *again),
            "device": torch.device(self.device),
            **(item.callspec.params if hasattr(item, "callspec") else {}),
        }
        names = inspect.signature(item.function).parameters
        CASE.set(Case())
        student.begin_case()
        try:
            item.function(**{name: at_hand[name] for name in names})
        except StudentFault as fault:
            return fault
        except pytest.skip.Exception:
            return None  # it cannot be asked of this one
        return None

    def results(self) -> tuple[CheckResult, ...]:
        """One verdict per check, in the order of the suite."""
        verdicts: dict[str, CheckResult] = {}
        for tally in self._tallies.values():
            verdicts[tally.check.id] = self._verdict(tally, verdicts)
        return tuple(verdicts.values())

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Function]) -> None:
        for item in items:
            check = _check_of(item)
            if check is None:
                self.errors.append(f"{item.nodeid} has no @check")
            else:
                self._tallies.setdefault(check.id, _Tally(check=check)).items.append(item)
        for tally in self._tallies.values():
            for name in tally.check.needs:
                if name not in self._tallies:
                    self.errors.append(f"{tally.check.id} needs {name}, which is no check")

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.errors.append(str(report.longrepr).strip().splitlines()[-1])

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        check = _check_of(item)
        if check is None:
            pytest.skip(reason="it has no @check")
        tally = self._tallies[check.id]
        if check.cuda and not self.device.startswith("cuda"):
            pytest.skip(reason=NEEDS_CUDA)
        if tally.failure or tally.grader_fault:
            pytest.skip(reason="an earlier case of this check failed")
        if blocker := self._blocker(check):
            pytest.skip(reason=f"blocked by {blocker}")
        if self._tape is not None and (why := self._tape.begin(item.name, check.id)):
            tally.not_run = why
            pytest.skip(reason=why)
        CASE.set(Case())
        self.student.begin_case()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Function, call: pytest.CallInfo[None]
    ) -> "object":
        report = yield
        check = _check_of(item)
        if check is None:
            return report
        tally = self._tallies[check.id]
        tally.seconds += call.duration
        if call.when == "call":
            tally.calls |= CASE.get().called
            tally.passed += call.excinfo is None
        if call.excinfo is not None:
            self._write_down(tally, item, call.excinfo)
        return report

    def _write_down(
        self, tally: _Tally, item: pytest.Function, excinfo: pytest.ExceptionInfo[BaseException]
    ) -> None:
        error = excinfo.value
        if isinstance(error, StudentFault):
            tally.failure, tally.where = str(error), item.name.partition("[")[2].rstrip("]")
            number = tally.items.index(item) if item in tally.items else len(tally.items)
            tally.failed = Failure(
                check=tally.check.id, item=item, more=tuple(tally.items[number + 1 :]), fault=error,
                calls=frozenset(CASE.get().called), asked=CASE.get().asked,
            )  # fmt: skip
        elif not isinstance(error, pytest.skip.Exception):
            place = excinfo.traceback[-1]
            where = f"{Path(place.path).name}:{place.lineno + 1}"
            tally.grader_fault = f"{type(error).__name__}: {error} ({item.name}, {where})"

    def _blocker(self, check: Check) -> str | None:
        """The first check that this one needs and that is known not to have passed."""
        for name in check.needs:
            tally = self._tallies.get(name)
            if tally is not None and (
                tally.failure or tally.grader_fault or self._blocker(tally.check)
            ):
                return name
        return None

    def _verdict(self, tally: _Tally, verdicts: Mapping[str, CheckResult]) -> CheckResult:
        check = tally.check
        verdict, why = Verdict.PASSED, ""
        if tally.grader_fault:
            verdict, why = Verdict.GRADER_FAULT, tally.grader_fault
        elif tally.failure:
            verdict, why = Verdict.FAILED, tally.failure
        elif check.cuda and not self.device.startswith("cuda"):
            verdict, why = Verdict.NOT_RUN, NEEDS_CUDA
        elif blocker := self._blocker(check):
            verdict, why = Verdict.BLOCKED, verdicts[blocker].says if blocker in verdicts else ""
        elif not tally.passed:
            verdict, why = Verdict.NOT_RUN, tally.not_run
        return CheckResult(
            id=check.id, says=check.says, verdict=verdict, points=check.points, why=why,
            where=tally.where, calls=frozenset(tally.calls), seconds=tally.seconds,
            line=tally.failed.fault.line if tally.failed else 0,
        )  # fmt: skip


def _check_of(item: pytest.Item) -> Check | None:
    mark = getattr(getattr(item, "function", None), "__mark__", None)
    return mark if isinstance(mark, Check) else None
