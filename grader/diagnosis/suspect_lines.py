"""Finds what a repair of an answer should try first: where its values part from the solution's."""

import ast
import re
from collections.abc import Iterator
from functools import cache

from grader.core import catalog
from grader.core.records import Exercise
from grader.diagnosis import solution_modules
from grader.diagnosis.pinned_line import trace_case
from grader.diagnosis.right_values import Explained, RightValues
from grader.diagnosis.time_limit import limit_diagnosis_time
from grader.diagnosis.traced_values import Trace, TracedValue, are_traced_values_equal
from grader.judging.judge import CheckFailure, Judge
from grader.judging.student import Student
from grader.judging.student_file import find_file_of_student
from grader.submission.file_words import read_file_words
from grader.worker.parent.in_process import call_without_wall

MAX_TRACED_CALLS = 40  # of a failed case, whose last call is mostly the wrong one
MAX_LINE = 300  # characters of a line that are searched
TRACE_SECONDS = 0.1  # for the calls of one answer

_ATTRIBUTE = re.compile(r"\w+\(.*\)\.(\w+)(?:\.\w+)*", re.DOTALL)


def find_suspect_lines(exercise: Exercise, failure: CheckFailure, judge: Judge) -> frozenset[int]:
    """Return the lines that compute, from values that the solution has, one that it has not.

    A whole number, or a value of another shape, counts as one that it has not if the solution has
    only others of that name. The lines are those of the first call of the failed case that has any,
    the line that raised, and those that set the attribute that was read last. Where an answer is
    written in another way, right lines are among them.
    """
    module = solution_modules.load_solution_for_judging(exercise)
    if module is None or judge.is_replayed:
        return frozenset()
    with limit_diagnosis_time(TRACE_SECONDS):
        theirs = trace_case(judge.student, judge, failure.case, MAX_TRACED_CALLS)
    solution = Student(exercise, call_without_wall(module, exercise.prelude))
    with limit_diagnosis_time(TRACE_SECONDS):
        right = trace_case(solution, judge, failure.case, len(theirs))
    known = RightValues(right)
    raised = {failure.fault.line} if failure.fault.line else set()
    raised |= set(_list_lines_that_set_attribute(failure.last_call, judge.student))
    suspected = (
        _list_parting_lines_of_trace(trace, known, wanted)
        for trace, wanted in zip(theirs, right, strict=False)
    )
    return frozenset(raised | next(filter(None, suspected), set()))


def _list_lines_that_set_attribute(read: str, student: Student) -> Iterator[int]:
    """Yield the lines that seem to set an attribute that was read: "Layer(4, 2).w_q.bias"."""
    found, answer = _ATTRIBUTE.fullmatch(read), find_file_of_student(student)
    if found is None or answer is None:
        return
    sets = re.compile(rf"\bself\.{found[1]}\b[^=]*=[^=]")
    for number, line in enumerate(answer.source.splitlines(), 1):
        if sets.search(line[:MAX_LINE]):
            yield number


def _list_parting_lines_of_trace(trace: Trace, known: RightValues, wanted: Trace) -> set[int]:
    named: dict[str, list[TracedValue]] = {}  # the solution's values
    for one in wanted:
        named.setdefault(one.name, []).append(one)
    marks = {name: set(map(_mark_traced_value, values)) for name, values in named.items()}
    explained = [
        found.explained is Explained.YES
        or any(_has_traced_value(one, other) for other in named.get(one.name, ()))
        for one, found in zip(trace, known.explain_trace(trace, by_shape=True), strict=True)
    ]
    return {
        one.line
        for at, one in enumerate(trace)
        if one.kind != "input" and all(explained[source] for source in one.sources)
        if not explained[at]
        or _mark_traced_value(one) not in marks.get(one.name, {_mark_traced_value(one)})
    }


def _has_traced_value(one: TracedValue, other: TracedValue) -> bool:
    """Return whether two values are the same, and have the same shape."""
    if one.value is None or other.value is None or one.value.shape != other.value.shape:
        return False
    return are_traced_values_equal(one, other)


def _mark_traced_value(one: TracedValue) -> object:
    """Return a whole number, or the shape of any other value."""
    if one.value is None:
        return None
    return int(one.value) if one.whole else one.value.shape


def list_solution_calls(exercise: Exercise) -> list[str]:
    """Return every call of the solution whose other arguments are plain, as often as it is made.

    `_` stands for the value that it is given: "_.transpose(1, 2)", "self.norm(_)".
    """
    return list(_list_calls(exercise.slug))


@cache
def _list_calls(slug: str) -> tuple[str, ...]:
    path = catalog.find_catalog_exercise(slug).solution
    if not path.exists():  # in what is handed out to students
        return ()
    return tuple(read_file_words(ast.parse(path.read_text(encoding="utf-8")), ()).counts.elements())
