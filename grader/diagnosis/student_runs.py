"""Runs cases of failed checks again on the student's answer: each once in a diagnosis."""

from dataclasses import dataclass

from grader.judging.case import LastCall, StudentFault, find_case
from grader.judging.judge import Judge
from grader.judging.marks import CheckCase


@dataclass(frozen=True, slots=True)
class StudentRun:
    """What a case came to on the student's answer."""

    fault: StudentFault | None  # None if the case passes
    calls: frozenset[str]
    asked: LastCall | None
    last_call: str


class StudentRuns:
    """The cases that ran on the student's answer; those that failed first ran before."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        self._known: dict[tuple[str, ...], StudentRun] = {
            (f.case.name,): StudentRun(f.fault, f.calls, f.asked, f.last_call)
            for f in judge.failures
        }

    def has(self, case: CheckCase) -> bool:
        """Return whether a case has run, so that its outcome costs nothing."""
        return (case.name,) in self._known

    def run(self, case: CheckCase, *again: str) -> StudentRun:
        """Run a case, with other inputs if `again` says which, and remember what it came to."""
        key = case.name, *again
        if key not in self._known:
            fault = self._judge.ask(self._judge.student, case, *again)
            log = find_case()
            self._known[key] = StudentRun(fault, frozenset(log.called), log.asked, log.last_call)
        return self._known[key]
