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
from grader.diagnosis.right_values import (
    Explained,
    Explanation,
    RightValues,
    is_traced_value_plain_number,
)
from grader.diagnosis.time_limit import is_diagnosis_time_left
from grader.diagnosis.traced_values import (
    CLOSE,
    Trace,
    TracedValue,
    are_traced_values_equal,
    read_trace,
)
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
        if not _has_trace_an_answer(wanted):  # an exception: what an answer lacks then is no value
            if _has_trace_an_answer(trace):
                return None
        elif not _have_traces_equal_answers(trace, wanted):
            if not _have_equal_inputs(trace, wanted) or any(x.close > CLOSE for x in wanted):
                return None  # in half precision values on the way differ among right answers
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


def _has_trace_an_answer(trace: Trace) -> bool:
    """Return whether a call returned something; else it raised."""
    return any(one.kind == "answer" for one in trace)


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


def pin_wrong_value_in_trace(trace: Trace, known: RightValues, wanted: Trace) -> PinnedLine | None:
    """Return the line of the first wrong value in a trace with a wrong answer, or without one."""
    raised = not _has_trace_an_answer(trace)  # an axis too many or too few is a likely cause
    explanations = known.explain_trace(trace, by_shape=raised)
    explained = [x.explained for x in explanations]
    users: list[list[int]] = [[] for _ in trace]
    for at, one in enumerate(trace):
        for source in one.sources:
            users[source].append(at)
    wrong = _list_wrong_answers_in_trace(trace, wanted)
    # A variable that is returned as it is is as surely wrong as what is returned.
    sure = {
        at
        for at, x in enumerate(trace)
        if any(_is_traced_value_returned(x, trace[one]) for one in wrong)
    }
    found = [
        at
        for at, one in enumerate(trace)
        if explained[at] < (Explained.YES if at in sure else Explained.PERHAPS)
        and (at in sure or _is_surely_other(one, explanations[at]))
        and explanations[at].instead
        and _does_traced_value_lead_only_to_wrong(
            at, users, [x.known for x in explanations], wrong, raised
        )
    ]
    if not found or len({trace[at].line for at in found}) > 1:
        return None
    one, instead = trace[found[0]], explanations[found[0]].instead
    if found[0] in sure:
        instead = _find_wanted_answer(one, trace, wanted) or instead
    got = () if one.value is None else one.value.shape
    return PinnedLine(line=one.line, name=one.name, got=got, right=_choose_shape(got, instead))


def _is_surely_other(one: TracedValue, explanation: Explanation) -> bool:
    """Return whether a value is almost surely wrong: not a right step that our answers lack.

    From a single value, many right steps lead to a value of the same shape.
    """
    if is_traced_value_plain_number(one) or one.value is None:
        return False
    shapes = {x.value.shape for x in explanation.instead if x.value is not None}
    if one.kind == "argument":
        return explanation.named
    if explanation.named:
        return explanation.sources > 1 or one.value.shape not in shapes
    return explanation.sources > 1 and one.value.shape in shapes


def _find_wanted_answer(one: TracedValue, trace: Trace, wanted: Trace) -> Trace:
    """Return what should have been returned in the place of a value; () if that is not known."""
    ours, theirs = ([x for x in y if x.kind == "answer"] for y in (trace, wanted))
    pairs = zip(ours, theirs, strict=False)
    return next(((x,) for mine, x in pairs if _is_traced_value_returned(one, mine)), ())


def _choose_shape(got: tuple[int, ...], instead: Trace) -> tuple[int, ...] | None:
    """Return the right shape: the one that is there, if it may be, else the only one."""
    shapes = {x.value.shape for x in instead if x.value is not None}
    return got if got in shapes else shapes.pop() if len(shapes) == 1 else None


def _list_wrong_answers_in_trace(trace: Trace, wanted: Trace) -> list[int]:
    """Return the places of the answers in a trace that are not those wanted."""
    ours = [at for at, x in enumerate(trace) if x.kind == "answer"]
    theirs = [x for x in wanted if x.kind == "answer"]
    if len(ours) != len(theirs):
        return ours
    pairs = zip(ours, theirs, strict=True)
    return [at for at, x in pairs if not are_traced_values_equal(trace[at], x)]


def _is_traced_value_returned(one: TracedValue, answer: TracedValue) -> bool:
    """Return whether a value is the one that is returned, in its shape too."""
    if one.value is None or answer.value is None:
        return False
    return one.value.shape == answer.value.shape and are_traced_values_equal(one, answer)


def _does_traced_value_lead_only_to_wrong(
    at: int, users: Sequence[Sequence[int]], known: Sequence[bool], wrong: Sequence[int],
    raised: bool,
) -> bool:  # fmt: skip
    """Return whether a wrong answer is computed from a value, and nothing that is right is.

    raised  an exception stands in the place of an answer
    """
    seen, waiting = {at}, [at]
    while waiting:
        for user in users[waiting.pop()]:
            if user not in seen:
                if known[user] and user not in wrong:
                    return False
                seen.add(user)
                waiting.append(user)
    return raised or bool(seen & set(wrong))
