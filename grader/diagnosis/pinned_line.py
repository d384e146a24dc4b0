"""Finds the line of an answer that computes the first wrong value.

The case that failed runs once more, traced, and so do right answers: the solution and the variants
of what the case calls, in this process. A student's value is explained if a right answer has it
too. The line that is pinned computes an unexplained value from values that are all explained; the
wrong result of the call is computed from that value, and nothing on the way there is explained.
If there is doubt, no line is pinned: a wrong line costs more than none.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from types import MappingProxyType, ModuleType

from grader.core.diagnosis_records import Diagnosis, PinnedLine
from grader.core.records import CheckResult, Exercise, Submission
from grader.diagnosis import solution_modules
from grader.diagnosis.right_values import RightValues
from grader.diagnosis.time_limit import is_diagnosis_time_left
from grader.diagnosis.traced_values import (
    CLOSE,
    Trace,
    are_traced_values_equal,
    read_trace,
)
from grader.diagnosis.wrong_value import has_trace_an_answer, pin_wrong_value_in_trace
from grader.judging import suite_runner
from grader.judging.case import StudentFault
from grader.judging.judge import CheckFailure, Judge
from grader.judging.marks import CheckCase
from grader.judging.student import Student
from grader.judging.student_file import find_file_of_student, trace_student_calls
from grader.worker.parent.client import MAX_LINE_NUMBER
from grader.worker.parent.in_process import call_without_wall

MAX_RIGHT_ANSWERS = 8
MAX_TRACED_CASES = 2  # of an exercise
MAX_TRACED_CALLS = 6  # of a case
_EMPTY = re.compile(r"\b(new_)?empty(_like|_strided)?\(")


def add_pinned_lines(
    exercise: Exercise, checks: Sequence[CheckResult], plainest: Mapping[str, CheckFailure],
    judge: Judge, mended: Mapping[str, PinnedLine] = MappingProxyType({}),
) -> tuple[CheckResult, ...]:  # fmt: skip
    """Return the checks, with the first line that can be pinned added to the check that shows it.

    A check's first case is tried before its plainest: in a small case many values are the same.

    mended  the lines that mend checks, by check: if there is any, no other line is looked for
    """
    told = {line: check for check, line in reversed(list(mended.items()))}
    for line, check in told.items():
        checks = [_add_to_check(c, line) if c.id == check else c for c in checks]
    if mended:
        return tuple(checks)
    tried = [
        f
        for one in judge.failures
        for f in (one, plainest[one.check])
        if _has_traced_call_returned(f.fault)
    ]
    for failure in list({f.case.name: f for f in tried}.values())[:MAX_TRACED_CASES]:
        if not is_diagnosis_time_left():
            break
        if pinned := find_pinned_line(exercise, failure, judge):
            if failure is not plainest[failure.check]:  # not the call that is shown
                pinned = replace(pinned, name="", got=(), right=None)
            return tuple(_add_to_check(c, pinned) if c.id == failure.check else c for c in checks)
    return tuple(checks)


def _has_traced_call_returned(fault: StudentFault) -> bool:
    """Return whether the call returned or raised; else its worker ended."""
    return fault.returned or bool(fault.kind)


def _add_to_check(check: CheckResult, pinned: PinnedLine) -> CheckResult:
    found = check.diagnosis or Diagnosis()
    return replace(check, diagnosis=replace(found, pinned=pinned))


def find_pinned_line(exercise: Exercise, failure: CheckFailure, judge: Judge) -> PinnedLine | None:
    """Return the line of the first wrong value in a failed case; None if that is not sure."""
    module = solution_modules.load_solution_for_judging(exercise)
    if module is None or exercise.language != "python" or judge.is_replayed:
        return None
    theirs = trace_case(judge.student, judge, failure.case)
    right = trace_case(_as_student(exercise, module), judge, failure.case, len(theirs))
    for number, (trace, wanted) in enumerate(zip(theirs, right, strict=False)):
        if bool(trace) != bool(wanted):  # both are empty where a call runs no line of the file
            return None
        if not has_trace_an_answer(wanted):  # an exception: what an answer lacks then is no value
            if has_trace_an_answer(trace):
                return None
        elif not _have_traces_equal_answers(trace, wanted):
            if not _have_equal_inputs(trace, wanted) or any(x.close > CLOSE for x in wanted):
                return None  # in half precision values on the way differ among right answers
            if not has_trace_an_answer(trace) and not failure.fault.kind:
                return None  # nothing was returned: what was computed may be right
            others = _list_right_answers_to_trace(exercise, failure.calls)
            traced = [trace_case(s, judge, failure.case, number + 1) for s in others]
            known = RightValues(chain(right, *traced))
            found = pin_wrong_value_in_trace(trace, known, wanted)
            answer = find_file_of_student(judge.student)
            if found and answer and _is_memory_to_write_into(found, answer.source):
                return None
            return found and name_pinned_line(found, answer)
    return None


def _is_memory_to_write_into(found: PinnedLine, source: str) -> bool:
    """Return whether the line makes an empty tensor, in which no number is anybody's mistake."""
    lines = source.split("\n")
    return found.line <= len(lines) and bool(_EMPTY.search(lines[found.line - 1]))


def name_pinned_line(found: PinnedLine, answer: Submission | None) -> PinnedLine | None:
    """Return the line as the writer knows it; None if the answer has no such line."""
    if answer is None or not answer.lines:
        lines = MAX_LINE_NUMBER if answer is None else answer.source.count("\n") + 1
        return found if found.line <= lines else None
    if found.line > len(answer.lines):
        return None
    cell, line = answer.lines[found.line - 1]
    return replace(found, line=line, cell=cell)


def trace_case(
    student: Student, judge: Judge, case: CheckCase, calls: int = MAX_TRACED_CALLS
) -> list[Trace]:
    """Run a case, traced; return the trace of each call, of the first `calls` at most.

    No call is begun when no time is left.
    """
    found: list[Trace] = []

    def receive(sent: object) -> None:
        found.append(read_trace(sent))
        if len(found) == calls or not is_diagnosis_time_left():
            raise StudentFault("enough calls were traced")

    with trace_student_calls(student, receive):
        judge.ask(student, case)
    return found


def _as_student(exercise: Exercise, module: ModuleType) -> Student:
    return Student(exercise, call_without_wall(module, exercise.prelude))


def _list_right_answers_to_trace(exercise: Exercise, names: frozenset[str]) -> list[Student]:
    """Return students whose answer is a variant of one of the names."""
    found: list[Student] = []
    for variant in suite_runner.list_suite_variants(exercise):
        if variant.of in names and not variant.edits and len(found) < MAX_RIGHT_ANSWERS:
            module = solution_modules.load_solution_for_judging(exercise)
            assert module is not None
            setattr(module, variant.of, variant.answer)
            found.append(_as_student(exercise, module))
    return found


def _have_traces_equal_answers(one: Trace, other: Trace) -> bool:
    ours, theirs = ([x for x in trace if x.kind == "answer"] for trace in (one, other))
    return len(ours) == len(theirs) and all(map(are_traced_values_equal, ours, theirs))


def _have_equal_inputs(one: Trace, other: Trace) -> bool:
    """Return whether two calls begin with the same arguments, defaults too, and the same state."""
    ours, theirs = ([x for x in trace if x.kind == "input"] for trace in (one, other))
    state = [x for x in ours if x.name.startswith("self.")]
    known = {x.name: x for x in theirs}
    if not all(x.name in known and are_traced_values_equal(x, known[x.name]) for x in state):
        return False
    ours, theirs = ([x for x in y if not x.name.startswith("self.")] for y in (ours, theirs))
    return len(ours) == len(theirs) and all(map(are_traced_values_equal, ours, theirs))
