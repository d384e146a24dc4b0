"""Runs a trial on one answer, as far as its values are needed."""

import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextvars import copy_context
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

import torch

from grader.diagnosis.coarse_values import compare_numbers_coarsely
from grader.diagnosis.copied_values import Items, copy_value
from grader.diagnosis.time_limit import check_diagnosis_time
from grader.judging.case import CURRENT_CASE, Case, MetaLeftOut
from grader.judging.judge import Judge
from grader.judging.marks import Trial
from grader.judging.student import Student
from grader.judging.trials import RAISES, name_raised_kind

LEFT_OUT = "the rest is left out"  # the last value where a call on the device meta is
_END = object()
TrialInput = tuple[Trial, int]  # and the number of the draw


@dataclass(frozen=True, slots=True)
class WantedInput:
    """An input of a trial with its right values."""

    input: TrialInput
    values: list[Any]
    needed: int  # how many of them show that the student's answer is wrong; 0 if it is right

    @property
    def wrong(self) -> bool:
        """Whether the student's answer is wrong."""
        return self.needed > 0

    def compare(self, judge: Judge, student: Student) -> str:
        """Return "" if a student has the right values, else the exception raised, or "wrong"."""
        came = run_trial(judge, student, *self.input, self.values, len(self.values))
        if find_difference(self.values, came) is None:
            return ""
        return next(map(_find_raised_kind, came[-1:]), "") or "wrong"


def run_trial(
    judge: Judge, student: Student, trial: Trial, number: int,
    like: Iterable[Any] | None = None, most: int | None = None,
) -> list[Any]:  # fmt: skip
    """Return copies of a trial's values; if an exception ends it, its kind is the last value.

    number  of the input, whose draws are dealt
    like    the values of another answer: the trial ends after the first that differs, and before
            one that is left out
    most    how many values are needed; None if all are
    """
    check_diagnosis_time()
    judge.before_case()
    found: list[Any] = []
    values, others = iterate_trial(judge, student, trial, number), iter(like or ())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what a library warns of is told apart by its values
        while len(found) != most:
            other = next(others, None)
            if is_left_out(other) or (value := next(values, _END)) is _END:
                break
            found.append(value)
            if like is not None and compare_numbers_coarsely(other, value):
                break
    return found


def iterate_trial(judge: Judge, student: Student, trial: Trial, number: int) -> Iterator[Any]:
    """Yield what `run_trial` returns, each value when it is asked for.

    The calls have a case of their own: the trials of two answers may run by turns.
    """
    context, learns = copy_context(), torch.is_grad_enabled()
    context.run(_begin_trial, student)
    script = trial.script(student, judge.deal_for(f"trial {trial.id}", number))
    value = None
    try:
        while value is not _END:
            with torch.set_grad_enabled(learns):  # a script may wait within `torch.no_grad()`
                value = context.run(_find_next_value, script)
                learns = torch.is_grad_enabled()
            if value is not _END:
                yield value
    finally:
        with torch.set_grad_enabled(learns):
            script.close()


def _begin_trial(student: Student) -> None:
    CURRENT_CASE.set(Case(takes_any_form=True))  # of two mistakes one is often of the values
    student.begin_case()


def _find_next_value(script: Iterator[Any]) -> Any:
    try:
        value = next(script, _END)
        return value if value is _END else copy_value(value)
    except MetaLeftOut:
        return LEFT_OUT
    except Exception as error:  # a script may ask what only a module in this process can do
        return RAISES + name_raised_kind(error)


def is_left_out(value: Any) -> bool:
    """Return whether this value, and all after it, are left out."""
    return isinstance(value, str) and value == LEFT_OUT


def find_difference(one: Sequence[Any], other: Sequence[Any]) -> int | None:
    """Return the first place at which two answers have other values; None if there is none."""
    pairs = enumerate(zip_longest(one, other))
    return next((n for n, (a, b) in pairs if compare_numbers_coarsely(a, b)), None)


def _find_raised_kind(value: Any) -> str:
    """Return the kind of the exception that a value, or a part of it, stands for; else ""."""
    if isinstance(value, Items):
        return next(filter(None, map(_find_raised_kind, value.items)), "")
    raised = isinstance(value, str) and value.startswith(RAISES)
    return value.removeprefix(RAISES) if raised else ""


def has_raised(values: Sequence[Any]) -> bool:
    """Return whether an exception is the last value."""
    return bool(values) and isinstance(values[-1], str) and values[-1].startswith(RAISES)


def has_last_of(values: Sequence[Any], like: Sequence[Any]) -> bool:
    """Return whether the last value is that of another answer at the same place."""
    return bool(like) and not compare_numbers_coarsely(_last_of(like, values), values[-1])


def _last_of(like: Sequence[Any], found: Sequence[Any]) -> Any:
    return like[len(found) - 1] if len(found) <= len(like) else None
