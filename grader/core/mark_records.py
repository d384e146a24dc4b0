"""The mark that counts in a course: what the grader found, with weight, lateness and adjustment."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedExercise:
    """What one exercise adds to a mark; only `points` and `possible` are multiplied by the weight.

    `earned` and `points` are None if the grader failed.
    """

    slug: str
    weight: float
    earned: int | None
    late: int = 0  # points lost, 0 or less
    late_why: str = ""
    adjustment: int = 0
    adjustment_why: str = ""
    points: float | None
    possible: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CourseMark:
    """A student's mark: the exercises that count, and what they add up to."""

    course: str  # its name
    exercises: tuple[CountedExercise, ...]
    total: float
    possible: float  # what could be reached in this run

    @property
    def is_late(self) -> bool:
        return any(one.late_why for one in self.exercises)

    @property
    def is_adjusted(self) -> bool:
        return any(one.adjustment or one.adjustment_why for one in self.exercises)

    @property
    def is_weighted(self) -> bool:
        return any(one.weight != 1 for one in self.exercises)
