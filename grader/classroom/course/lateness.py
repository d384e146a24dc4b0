"""Computes what an answer loses because it came late. Reads no clock."""

import math
from dataclasses import dataclass
from datetime import datetime, timedelta

_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class LatenessTerms:
    """The loss of a late answer: a share of the points that its exercise is worth."""

    penalty_per_day: float = 0  # percent, for each day that has begun
    at_most: float = 100  # percent
    grace_minutes: float = 0  # so late is not late yet


NO_PENALTY = LatenessTerms()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadlineExtension:
    """More time: until a moment, or so many days after the deadline."""

    student: str
    slug: str | None = None  # None: every exercise that has a deadline
    until: datetime | None = None
    days: float = 0

    def after(self, deadline: datetime) -> timedelta:
        """Return how long after the deadline this extension allows."""
        more = timedelta(days=self.days) if self.until is None else self.until - deadline
        return max(more, timedelta(0))


@dataclass(frozen=True, slots=True, kw_only=True)
class Lateness:
    """How late an answer came, and what that costs; `says` is empty if it was on time."""

    points: int = 0
    says: str = ""


ON_TIME = Lateness()


def compute_class_lateness(
    submitted: datetime,
    deadline: datetime,
    extension: timedelta,
    terms: LatenessTerms,
    maximum: int,
    earned: int | None = None,
) -> Lateness:
    """Return the points taken off, and why. Every moment has its offset from UTC.

    extension  how much later than the deadline is on time for this student
    maximum    points that the exercise is worth; halves are rounded up
    earned     points that the student has, and so the most to lose; None if not known
    """
    late = submitted - deadline - extension
    if late <= timedelta(minutes=terms.grace_minutes):
        return ON_TIME
    days = math.ceil(late / _DAY)
    percent = min(days * terms.penalty_per_day, terms.at_most)
    points = math.floor(percent * maximum / 100 + 0.5)
    lost = points if earned is None else min(points, earned)
    of_all = "" if lost == points else f", of which there were {lost}"
    due = _format_class_moment(deadline)
    if terms.grace_minutes:
        due += f" (grace period: {terms.grace_minutes:g} min)"
    extended = " with an extension" if extension else ""
    return Lateness(
        points=lost,
        says=f"Handed in at {_format_class_moment(submitted)}, "
        f"due at {due}{extended}. "
        f"Days late, begun ones counted: {days}. "
        f"That costs {percent:g} % of {maximum} points: {points}{of_all}.",
    )


def _format_class_moment(moment: datetime) -> str:
    whole = not (moment.second or moment.microsecond)
    return moment.isoformat(sep=" ", timespec="minutes" if whole else "auto")
