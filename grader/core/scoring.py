"""What the verdicts on an exercise add up to."""

from collections.abc import Sequence
from dataclasses import replace

from grader.core.records import CheckResult, ExerciseReport, Score, Speed, Verdict

SPEED_LEFT_OUT = "left out with --no-speed"
SPEED_TO_COME = "not timed yet"
CHANGED = "the file was changed during the run: grade again"
MARGIN = 1.2  # times what the reference takes: who takes no more earns everything for speed


def sum_score_points(checks: Sequence[CheckResult], speed: Speed | None) -> Score:
    """Return the points earned and possible; a check that was not run counts for neither."""
    ran = [c for c in checks if c.verdict is not Verdict.NOT_RUN]
    left_out = [c.points for c in checks if c.verdict is Verdict.NOT_RUN]
    earned, possible = sum(c.earned for c in ran), sum(c.points for c in ran)
    if speed is not None and speed.counts:
        earned, possible = earned + speed.earned, possible + speed.points
    elif speed is not None:
        left_out.append(speed.points)
    return Score(earned=earned, possible=possible, not_run=sum(left_out))


def is_speed_score_due(report: ExerciseReport) -> bool:
    """Return whether the speed of an answer is still to be measured."""
    return report.speed is not None and report.speed.why == SPEED_TO_COME


def add_speed_to_score(report: ExerciseReport, speed: Speed | None) -> ExerciseReport:
    """Return a copy of the report with this speed and with its new sum of points."""
    return replace(report, speed=speed, score=sum_score_points(report.checks, speed))


def remove_speed_from_score(report: ExerciseReport) -> ExerciseReport:
    """Return the report without its speed, if that counts or is to come, as --no-speed does."""
    speed = report.speed
    if report.score is None or speed is None or not (speed.counts or speed.why == SPEED_TO_COME):
        return report
    left_out = Speed(says=speed.says, verdict="not_run", points=speed.points, why=SPEED_LEFT_OUT)
    return add_speed_to_score(report, left_out)
