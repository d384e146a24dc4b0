"""The file behind a `Student`: itself, as another answer, and with its calls traced."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from grader.core.records import Exercise, Submission
from grader.judging.student import Student
from grader.worker.parent.client import ChangeableText


def find_file_of_student(student: Student) -> Submission | None:
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


def find_changeable_text(student: Student) -> ChangeableText | None:
    """Return the text of an answer, in whose place others can run; None if there is none."""
    return student._door.client.text


@contextmanager
def leave_out_meta(student: Student, leaves_out: bool) -> Iterator[None]:
    """Have a student call nothing with tensors on the device meta, if `leaves_out`."""
    before, student._door.leaves_out_meta = student._door.leaves_out_meta, leaves_out
    try:
        yield
    finally:
        student._door.leaves_out_meta = before
