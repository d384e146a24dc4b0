"""What the verdicts on an exercise add up to."""

from collections.abc import Sequence

from grader.core.records import CheckResult, Score, Speed, Verdict

LEFT_OUT = "left out with --no-speed"
TO_COME = "not timed yet"
MARGIN = 1.2  # times what the reference takes: who takes no more earns everything for speed


def sum_points(checks: Sequence[CheckResult], speed: Speed | None) -> Score:
    """Return the points earned and possible; a check that was not run counts for neither."""
    ran = [c for c in checks if c.verdict is not Verdict.NOT_RUN]
    left_out = [c.points for c in checks if c.verdict is Verdict.NOT_RUN]
    earned, possible = sum(c.earned for c in ran), sum(c.points for c in ran)
    if speed is not None and speed.counts:
        earned, possible = earned + speed.earned, possible + speed.points
    elif speed is not None:
        left_out.append(speed.points)
    return Score(earned=earned, possible=possible, not_run=sum(left_out))
