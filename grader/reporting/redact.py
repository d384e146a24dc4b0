"""Takes out of a report what a course does not show its students."""

from dataclasses import replace

from grader.core.diagnosis_records import Diagnosis
from grader.core.records import CheckResult, ExerciseReport, Report, Score, Speed, Verdict

RECEIVED_STATE = "received"  # the state of an answer that can be graded, where no more is shown
_READ_SENTENCE = "The file was read and can be graded. No more is shown."


def redact_report(report: Report, shows: str) -> Report:
    """Return the report without what a student is not shown.

    open      everything
    hints     all but the names of mistakes: the checks that fail, why, and where
    verdicts  each check's verdict, and the points
    nothing   whether the file was read, and if not why
    """
    exercises = tuple(redact_exercise_report(e, shows) for e in report.exercises)
    seconds = 0.0 if shows == "nothing" else report.seconds  # how long it ran tells something
    mark = None if shows == "nothing" else report.mark
    return replace(report, exercises=exercises, seconds=seconds, mark=mark)


def redact_exercise_report(e: ExerciseReport, shows: str) -> ExerciseReport:
    """Return the report on one exercise without what `shows` hides (see `redact_report`)."""
    match shows:
        case "open":
            return e
        case "hints":
            return replace(e, checks=tuple(map(_redact_reported_mistakes, e.checks)))
        case "verdicts":
            checks = tuple(map(_redact_reported_check, e.checks))
            return replace(
                e, checks=checks, speed=e.speed and _redact_reported_timing(e.speed), output=""
            )
    return _redact_reported_marks(e)


def _redact_reported_mistakes(c: CheckResult) -> CheckResult:
    """Take mistakes, stage and line out of a check; where it is wrong, and the facts, stay."""
    if c.diagnosis is None:
        return c
    d = c.diagnosis
    known = Diagnosis(places=d.places, facts=d.facts, example=d.example)
    return replace(c, diagnosis=None if known == Diagnosis() else known)


def _redact_reported_check(c: CheckResult) -> CheckResult:
    why = c.why if c.verdict in (Verdict.NOT_RUN, Verdict.BLOCKED) else ""
    return replace(
        c, why=why, where="", diagnosis=None, calls=frozenset(), hard=frozenset(), line=0
    )


def _redact_reported_timing(s: Speed) -> Speed:
    return replace(s, why="" if s.counts else s.why, fraction=None, measured=None)


def _redact_reported_marks(e: ExerciseReport) -> ExerciseReport:
    graded = e.state == "graded"
    return replace(
        e, state=RECEIVED_STATE if graded else e.state,
        sentence=_READ_SENTENCE if graded else e.sentence,
        score=None if e.score is None else Score(earned=0, possible=0, not_run=0),
        checks=(), speed=None, output="", seconds=0.0,
    )  # fmt: skip
