"""What one exercise came to for one student of a class."""

from dataclasses import dataclass

from grader.core.records import Interval, Score
from grader.reporting.review_flags import NOT_BEGUN


@dataclass(frozen=True, slots=True, kw_only=True)
class Adjustment:
    """Points that a person gave or took, and why."""

    points: int  # may be negative
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Late:
    """Points that an answer loses because it came late, and why; 0 where it costs nothing."""

    points: int
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """How fast one answer is: its ratio to the reference, and what that earned."""

    ratio: Interval
    fraction: float | None
    earned: int
    points: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """What one exercise came to for one student. `score` is None after a grader fault."""

    state: str
    score: Score | None
    right: bool  # nothing that was asked is wrong
    timing: Timing | None = None
    adjustment: Adjustment | None = None
    late: Late | None = None

    @property
    def begun(self) -> bool:
        return self.state not in NOT_BEGUN

    @property
    def lost(self) -> int:
        """What coming late costs, 0 or less: no more than was earned."""
        if self.score is None or self.late is None:
            return 0
        return -min(self.late.points, self.score.earned)

    @property
    def adjusted(self) -> int:
        """What the adjustment comes to: it makes no points less than 0."""
        if self.score is None or self.adjustment is None:
            return 0
        return max(self.adjustment.points, -(self.score.earned + self.lost))

    @property
    def points(self) -> int | None:
        """What it counts: with lateness and adjustment; None where there is no score."""
        return None if self.score is None else self.score.earned + self.lost + self.adjusted
