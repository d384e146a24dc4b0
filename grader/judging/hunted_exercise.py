"""Runs the checks of another exercise on a submission: for a suite about other suites."""

import inspect
import itertools
from collections.abc import Iterator
from typing import Any

import torch

from grader.core.records import Exercise
from grader.judging import drills, suite_runner
from grader.judging.case import CURRENT_CASE, Case, StudentFault
from grader.judging.draw import Draw
from grader.judging.marks import Check
from grader.judging.student import Student
from grader.judging.student_file import find_file_of_student, judge_student_as
from grader.submission import admission
from grader.submission.definition_digests import digest_submitted_definitions
from grader.submission.reader_client import ask_submission_reader

_CHANGED_DRILL = "`drill` returns a drill that is not written in it: leave it as it was."
_NOT_THE_DRILL = (
    "{name} had no mistake in it, and is not as `make drill` wrote it. The answer to a drill is "
    "the drill itself, mended where it is wrong."
)


def passes(student: Student, exercise: Exercise, draw: Draw, device: torch.device) -> None:
    """Pass if the submission earns every check of `exercise`; the first failure is the fault."""
    other = _judge_as_hunted_exercise(student, exercise)
    seed = str(draw.integer(0, 2**62))
    for function in suite_runner.list_check_functions(exercise):
        mark: Check = function.__mark__
        if mark.cuda and device.type != "cuda":
            continue
        for number, params in enumerate(_list_parametrized_cases(function)):
            at_hand = {
                "student": other,
                "draw": Draw(seed, mark.id, str(number), device=str(device)),
                "device": device,
                **params,
            }
            names = inspect.signature(function).parameters
            CURRENT_CASE.set(Case())
            other.begin_case()
            function(**{name: at_hand[name] for name in names})


def mended_in_place(student: Student, drawn: drills.Drill) -> None:
    """Pass if the submission differs from the drill only in functions with the mistake or new ones.

    Nothing is compared where there is no solution, as in the bundle of a course.
    """
    answer = find_file_of_student(student)
    if answer is None or not drawn.exercise.solution.is_file():
        return
    right = drawn.exercise.solution.read_text(encoding="utf-8")
    wrong = digest_submitted_definitions(drawn.applied(right))
    found = ask_submission_reader("definitions", answer.source)
    for name, digest in digest_submitted_definitions(right).items():
        if digest and digest == wrong[name] and digest != found.get(name):
            raise StudentFault(_NOT_THE_DRILL.format(name=name))


def _judge_as_hunted_exercise(student: Student, exercise: Exercise) -> Student:
    """Hold the same submission to what the other exercise declares and does not allow."""
    answer = find_file_of_student(student)
    if answer is None:  # a module of ours
        return judge_student_as(student, exercise, {})
    # The worker was started for the exercise that the answer names, or for none.
    written = drills.find_judged_hunt(answer.source)
    if written != exercise and (written is not None or exercise.prelude):
        raise StudentFault(_CHANGED_DRILL)
    try:
        found = admission.read_submission_outline(answer, exercise)
    except admission.NotGraded as refused:
        raise StudentFault(str(refused)) from None
    return judge_student_as(student, exercise, found["problems"])


def _list_parametrized_cases(function: Any) -> Iterator[dict[str, Any]]:
    """Yield the parameters of each case that `pytest.mark.parametrize` makes of a check."""
    tables = [m.args for m in getattr(function, "pytestmark", []) if m.name == "parametrize"]
    rows = []
    for names, values in tables:
        keys = [n.strip() for n in names.split(",")] if isinstance(names, str) else list(names)
        rows.append([dict(zip(keys, v if len(keys) > 1 else [v], strict=True)) for v in values])
    for combined in itertools.product(*rows):
        yield {name: value for row in combined for name, value in row.items()}
