"""The file behind a `Student`: itself, as another answer, and with its calls traced."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any

from grader.core.records import Exercise, Submission
from grader.judging.student import Student


def find_judged_submission(student: Student) -> Submission | None:
    """Return the submitted file; None if the student is a module of ours."""
    return student._door.answer


def trace_student_calls(
    student: Student, receive: Callable[[Any], None]
) -> AbstractContextManager[None]:
    """Return a context in which `receive` is given the trace of each call, for a diagnosis."""
    return student._door.client.trace_calls(receive)


def judge_student_as(student: Student, exercise: Exercise, problems: Mapping[str, str]) -> Student:
    """Return the same submission as an answer to another exercise."""
    return Student(exercise, student._door.client, problems, student._door.answer)
