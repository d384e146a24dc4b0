"""A report as a student sees it where a course gives less help than the grader could."""

from dataclasses import replace

from grader.core.records import (
    CheckResult,
    Diagnosis,
    ExerciseReport,
    Report,
    Score,
    Speed,
    Verdict,
)

RECEIVED = "received"  # the state of what can be graded, where no more is shown
_READ = "The file was read and can be graded. No more is shown."


def limited(report: Report, shows: str) -> Report:
    """The report with no more in it than a student is shown.

    open      everything
    hints     no names of mistakes: the checks that fail, why, and where
    verdicts  each check's verdict, and the points
    nothing   that the file was read, or why not
    """
    exercises = tuple(of_exercise(e, shows) for e in report.exercises)
    seconds = 0.0 if shows == "nothing" else report.seconds  # how long it ran tells something
    return replace(report, exercises=exercises, seconds=seconds)


def of_exercise(e: ExerciseReport, shows: str) -> ExerciseReport:
    """The report on one exercise, as `limited` has it."""
    match shows:
        case "open":
            return e
        case "hints":
            return replace(e, checks=tuple(map(_unnamed, e.checks)))
        case "verdicts":
            checks = tuple(map(_verdict, e.checks))
            return replace(e, checks=checks, speed=e.speed and _of_speed(e.speed), output="")
    return _received(e)


def _unnamed(c: CheckResult) -> CheckResult:
    """The check without what names the mistake: where it is wrong stays, the stage does not."""
    if c.diagnosis is None:
        return c
    places = c.diagnosis.places
    return replace(c, diagnosis=Diagnosis(places=places) if places else None)


def _verdict(c: CheckResult) -> CheckResult:
    why = c.why if c.verdict in (Verdict.NOT_RUN, Verdict.BLOCKED) else ""
    return replace(c, why=why, where="", diagnosis=None, calls=frozenset(), line=0)


def _of_speed(s: Speed) -> Speed:
    return replace(s, why="" if s.counts else s.why, fraction=None, measured=None)


def _received(e: ExerciseReport) -> ExerciseReport:
    graded = e.state == "graded"
    return replace(
        e, state=RECEIVED if graded else e.state, sentence=_READ if graded else e.sentence,
        score=None if e.score is None else Score(earned=0, possible=0, not_run=0),
        checks=(), speed=None, output="", seconds=0.0,
    )  # fmt: skip
