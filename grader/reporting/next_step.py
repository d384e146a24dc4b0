"""Chooses the first thing that a student should do after a report."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from grader.core.records import CheckResult, ExerciseReport, Report, Verdict
from grader.reporting.redact import RECEIVED


class Kind(StrEnum):
    """The kinds of next steps."""

    REPORT_FAULT = "report_fault"  # the grader failed, not the student
    START = "start"  # read the lesson, write the file
    MEND_FILE = "mend_file"  # the file cannot be graded as it is
    MEND_CHECK = "mend_check"
    MEND_SPEED = "mend_speed"  # right until it was timed
    FASTER = "faster"  # right, and some points for speed are left
    NOT_RUN = "not_run"  # no check could be run here
    WAIT = "wait"  # an exam shows no more than that it was read
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One next step, and the exercise and the check that call for it."""

    kind: Kind
    exercise: ExerciseReport | None = None
    check: CheckResult | None = None


def next_step(report: Report) -> Step:
    """Choose the next step: begun exercises before others, values before speed, then by order.

    Only its author works on a draft: its steps count only if a report has nothing but drafts.
    """
    if report.faulted:
        return Step(kind=Kind.REPORT_FAULT)
    exercises = [e for e in report.exercises if e.track != "draft"] or report.exercises
    values = [step for e in exercises if (step := _value_step(e)) is not None]
    begun = [step for step in values if not _is_unwritten(step)]
    speed = [step for e in exercises if (step := _speed_step(e)) is not None]
    return next(iter([*begun, *values, *speed]), Step(kind=_kind_without_failures(exercises)))


def _kind_without_failures(exercises: Sequence[ExerciseReport]) -> Kind:
    """Return the kind of step where nothing is left to mend."""
    if any(e.state == RECEIVED for e in exercises):
        return Kind.WAIT
    asked = any(c.verdict is not Verdict.NOT_RUN for e in exercises for c in e.checks)
    return Kind.NOTHING if asked else Kind.NOT_RUN


def _is_unwritten(step: Step) -> bool:
    return step.exercise is not None and step.exercise.state in ("not_started", "missing")


def _value_step(e: ExerciseReport) -> Step | None:
    if e.state == RECEIVED:
        return None
    if e.state != "graded":
        kind = Kind.START if e.state == "not_started" else Kind.MEND_FILE
        return Step(kind=kind, exercise=e)
    failed = next((c for c in e.checks if c.verdict is Verdict.FAILED), None)
    return None if failed is None else Step(kind=Kind.MEND_CHECK, exercise=e, check=failed)


def _speed_step(e: ExerciseReport) -> Step | None:
    if e.speed is None or not e.speed.counts or e.speed.earned == e.speed.points:
        return None
    kind = Kind.MEND_SPEED if e.speed.verdict == "failed" else Kind.FASTER
    return Step(kind=kind, exercise=e)
