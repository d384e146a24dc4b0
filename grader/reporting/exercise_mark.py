"""The mark of one student for one exercise."""

from dataclasses import dataclass

from grader.core.records import Interval, Score
from grader.reporting.review_flags import NOT_BEGUN_STATES


@dataclass(frozen=True, slots=True, kw_only=True)
class Adjustment:
    """Points that a person gave or took, and the reason."""

    points: int  # may be negative
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LateMark:
    """Points that an answer loses because it came late, and the reason; 0 if it loses none."""

    points: int
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerTiming:
    """The ratio of one answer's time to the reference, and the points that it earned."""

    ratio: Interval
    fraction: float | None
    earned: int
    points: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ExerciseMark:
    """The mark of one student for one exercise. `score` is None after a grader fault."""

    state: str
    score: Score | None
    right: bool  # nothing that was asked is wrong
    timing: AnswerTiming | None = None
    adjustment: Adjustment | None = None
    late: LateMark | None = None

    @property
    def begun(self) -> bool:
        return self.state not in NOT_BEGUN_STATES

    @property
    def lost(self) -> int:
        """Return the points lost by lateness, 0 or less; never more than were earned."""
        if self.score is None or self.late is None:
            return 0
        return -min(self.late.points, self.score.earned)

    @property
    def adjusted(self) -> int:
        """Return the points that the adjustment changes; it makes no mark less than 0."""
        if self.score is None or self.adjustment is None:
            return 0
        return max(self.adjustment.points, -(self.score.earned + self.lost))

    @property
    def points(self) -> int | None:
        """Return the points with lateness and adjustment; None if there is no score."""
        return None if self.score is None else self.score.earned + self.lost + self.adjusted
