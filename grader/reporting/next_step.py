"""Chooses the first thing that a student should do after a report."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from grader.core.catalog import ANSWERS_FOLDER
from grader.core.records import CheckResult, ExerciseReport, Report, Verdict
from grader.core.translation import Words
from grader.reporting.redact import RECEIVED_STATE


class StepKind(StrEnum):
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
class NextStep:
    """One next step, and the exercise and the check that call for it."""

    kind: StepKind
    exercise: ExerciseReport | None = None
    check: CheckResult | None = None


def choose_reported_next_step(report: Report) -> NextStep:
    """Choose the next step: begun exercises before others, values before speed, then by order.

    Only the author of a draft works on it, so drafts count only if the report has nothing else.
    """
    if report.faulted:
        return NextStep(kind=StepKind.REPORT_FAULT)
    exercises = [e for e in report.exercises if e.track != "draft"] or report.exercises
    values = [step for e in exercises if (step := _report_value_step(e)) is not None]
    begun = [step for step in values if not _is_reported_unwritten(step)]
    speed = [step for e in exercises if (step := _report_speed_step(e)) is not None]
    return next(
        iter([*begun, *values, *speed]), NextStep(kind=_choose_reported_step_kind(exercises))
    )


def _choose_reported_step_kind(exercises: Sequence[ExerciseReport]) -> StepKind:
    """Return the kind of step where nothing is left to mend."""
    if any(e.state == RECEIVED_STATE for e in exercises):
        return StepKind.WAIT
    asked = any(c.verdict is not Verdict.NOT_RUN for e in exercises for c in e.checks)
    return StepKind.NOTHING if asked else StepKind.NOT_RUN


def find_failure_to_mend(e: ExerciseReport) -> CheckResult | None:
    """Return the first failed check; if nothing is known of it, the first with a known mistake."""
    failed = [c for c in e.checks if c.verdict is Verdict.FAILED]
    if not failed or failed[0].diagnosis or failed[0].line:
        return failed[0] if failed else None
    return next((c for c in failed if c.diagnosis and c.diagnosis.mistakes), failed[0])


def _is_reported_unwritten(step: NextStep) -> bool:
    return step.exercise is not None and step.exercise.state in ("not_started", "missing")


def _report_value_step(e: ExerciseReport) -> NextStep | None:
    if e.state == RECEIVED_STATE:
        return None
    if e.state != "graded":
        kind = StepKind.START if e.state == "not_started" else StepKind.MEND_FILE
        return NextStep(kind=kind, exercise=e)
    failed = find_failure_to_mend(e)
    return None if failed is None else NextStep(kind=StepKind.MEND_CHECK, exercise=e, check=failed)


def _report_speed_step(e: ExerciseReport) -> NextStep | None:
    if e.speed is None or not e.speed.counts or e.speed.earned == e.speed.points:
        return None
    kind = StepKind.MEND_SPEED if e.speed.verdict == "failed" else StepKind.FASTER
    return NextStep(kind=kind, exercise=e)


def point_to_hint(e: ExerciseReport, words: Words) -> str:
    """Say which command gives a hint on the file that was graded."""
    if Path(e.path).parent == ANSWERS_FOLDER:
        return words("`make hint EX={slug}` gives a hint.", slug=e.slug)
    told = "`make hint EX={slug} SUBMISSION={path}` gives a hint."
    return words(told, slug=e.slug, path=shlex.quote(e.path))
