"""Runs a trial on one answer, as far as its values are needed."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from grader.diagnosis.coarse_values import compare_numbers_coarsely
from grader.diagnosis.copied_values import Items, copy_value
from grader.diagnosis.time_limit import check_diagnosis_time
from grader.judging.case import MetaLeftOut, find_case
from grader.judging.judge import Judge
from grader.judging.marks import Check, CheckCase, Trial
from grader.judging.student import Student
from grader.judging.trials import RAISES, name_raised_kind

LEFT_OUT = "the rest is left out"  # the last value where a call on the device meta is
_TRIAL_CHECK = Check(id="trial", says="", points=0, needs=(), cuda=False)
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
    like: Sequence[Any] | None = None, most: int | None = None,
) -> list[Any]:  # fmt: skip
    """Return copies of a trial's values; if an exception ends it, its kind is the last value.

    number  of the input, whose draws are dealt
    like    the values of another answer: the trial ends after the first that differs
    most    how many values are needed; None if all are
    """
    check_diagnosis_time()
    if most == 0:
        return []
    found: list[Any] = []
    series = f"trial {trial.id}"
    deal = judge.deal_for(series, number)
    given = {"trial": trial, "found": found, "like": like, "most": most, "deal": deal}
    case = CheckCase(
        name=f"{series}, input {number}", check=_TRIAL_CHECK, function=_collect_values, params=given
    )
    try:
        if fault := judge.ask(student, case):
            found.append(RAISES + name_raised_kind(fault))
    except Exception as error:  # a script may ask what only a module in this process can do
        found.append(RAISES + name_raised_kind(error))
    return found


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


def _collect_values(
    trial: Trial, found: list[Any], like: Sequence[Any] | None, most: int | None,
    student: Any, deal: Any,
) -> None:  # fmt: skip
    find_case().takes_any_form = True  # of two mistakes one is often of the values
    try:
        for value in trial.script(student, deal):
            found.append(copy_value(value))
            if len(found) == most:
                return
            if like is not None and compare_numbers_coarsely(_last_of(like, found), found[-1]):
                return
    except MetaLeftOut:
        found.append(LEFT_OUT)


def _last_of(like: Sequence[Any], found: Sequence[Any]) -> Any:
    return like[len(found) - 1] if len(found) <= len(like) else None
