"""The first thing that a student should do after a report."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from grader.core.records import CheckResult, ExerciseReport, Report, Verdict
from grader.reporting.redact import RECEIVED


class Kind(StrEnum):
    """What there is to do."""

    REPORT_FAULT = "report_fault"  # the grader failed, not the student
    START = "start"  # read the lesson, write the file
    MEND_FILE = "mend_file"  # it cannot be graded as it stands
    MEND_CHECK = "mend_check"
    MEND_SPEED = "mend_speed"  # right until it was timed
    FASTER = "faster"  # right, and some points for speed are left
    NOT_RUN = "not_run"  # no check could be run here
    WAIT = "wait"  # an exam shows no more than that it was read
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What to do, in which exercise, because of which check."""

    kind: Kind
    exercise: ExerciseReport | None = None
    check: CheckResult | None = None


def next_step(report: Report) -> Step:
    """What was begun comes before what was not, values before speed, and earlier before later.

    A draft is worked on by its author: it comes in question only where it is asked alone.
    """
    if report.faulted:
        return Step(kind=Kind.REPORT_FAULT)
    exercises = [e for e in report.exercises if e.track != "draft"] or report.exercises
    values = [step for e in exercises if (step := _values(e)) is not None]
    begun = [step for step in values if not _unwritten(step)]
    speed = [step for e in exercises if (step := _speed(e)) is not None]
    return next(iter([*begun, *values, *speed]), Step(kind=_at_last(exercises)))


def _at_last(exercises: Sequence[ExerciseReport]) -> Kind:
    """Return the kind of step where nothing is left to mend."""
    if any(e.state == RECEIVED for e in exercises):
        return Kind.WAIT
    asked = any(c.verdict is not Verdict.NOT_RUN for e in exercises for c in e.checks)
    return Kind.NOTHING if asked else Kind.NOT_RUN


def _unwritten(step: Step) -> bool:
    return step.exercise is not None and step.exercise.state in ("not_started", "missing")


def _values(e: ExerciseReport) -> Step | None:
    if e.state == RECEIVED:
        return None
    if e.state != "graded":
        kind = Kind.START if e.state == "not_started" else Kind.MEND_FILE
        return Step(kind=kind, exercise=e)
    failed = next((c for c in e.checks if c.verdict is Verdict.FAILED), None)
    return None if failed is None else Step(kind=Kind.MEND_CHECK, exercise=e, check=failed)


def _speed(e: ExerciseReport) -> Step | None:
    if e.speed is None or not e.speed.counts or e.speed.earned == e.speed.points:
        return None
    kind = Kind.MEND_SPEED if e.speed.verdict == "failed" else Kind.FASTER
    return Step(kind=kind, exercise=e)
