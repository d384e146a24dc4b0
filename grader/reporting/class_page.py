"""Draws the class as an instructor sees it: one self-contained HTML page.

Like the report of a student the page loads nothing and runs no script; its policy forbids both. The
names of students and of their files may be hostile.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import quote

from grader.core.records import Interval
from grader.core.translation import Words
from grader.reporting import html
from grader.reporting.class_summary import (
    ClassSummary,
    ExerciseFigures,
    FrequentFailure,
    StudentRow,
)
from grader.reporting.exercise_mark import ExerciseMark
from grader.reporting.review_flags import flatten_reported_line

HISTOGRAM_BINS = 10  # or one more
LOGARITHMIC_ABOVE_RATIO = 10.0
UNFOLDED_LINES = 10  # of the most frequent checks or of a speed board: the others are folded
UNFOLDED_STUDENTS = 40  # a longer list is folded
_UNENCODABLE_CHARACTERS = re.compile(r"[\ud800-\udc7f\udd00-\udfff]")


def render_class_page(
    summary: ClassSummary, words: Words, *, title: str, facts: Mapping[str, str]
) -> str:
    """Return the page in the language of `words`; `facts` are labelled lines for its foot."""
    return html.render_report_template(
        "class.html.j2", words, summary=summary, view=_View(words),
        title=flatten_reported_line(title),
        facts={flatten_reported_line(k): flatten_reported_line(v) for k, v in facts.items()},
        bins=count_class_page_bins(summary.totals, summary.maximum),
        shown=UNFOLDED_LINES, open=UNFOLDED_STUDENTS,
    )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class HistogramBin:
    """One column of the histogram: a range of totals."""

    label: str
    students: int
    share: float  # of the tallest


def count_class_page_bins(totals: Sequence[float], most: float) -> list[HistogramBin]:
    """Count the totals in ranges from 0 to `most`; the last bin holds larger totals too."""
    maximum = math.ceil(most)
    width = max(1, math.ceil(maximum / HISTOGRAM_BINS))
    places = [int(min(total, maximum) // width) for total in totals]
    counts = [places.count(place) for place in range(maximum // width + 1)]
    tallest = max([1, *counts])
    more = any(total > maximum for total in totals)
    return [
        HistogramBin(
            label=_label_class_page_bin(width, place, maximum, more),
            students=count,
            share=count / tallest,
        )
        for place, count in enumerate(counts)
    ]


def _label_class_page_bin(width: int, place: int, maximum: int, more: bool) -> str:
    first = place * width
    last = min(first + width - 1, maximum)
    if last == maximum and more:
        return f"{first}+"
    return f"{first}" if first == last else f"{first}–{last}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RatioScale:
    """A line from 0 to 1 on which ratios to the reference have places.

    The line begins at 0, or is logarithmic if the ratios span more than a factor of ten.
    """

    low: float
    high: float
    logarithmic: bool

    def at(self, ratio: float) -> float:
        if not self.logarithmic:
            place = ratio / self.high
        elif ratio > 0:
            place = math.log(ratio / self.low) / math.log(self.high / self.low)
        else:
            place = 0.0
        return min(1.0, max(0.0, place))


def choose_class_page_scale(ratios: Sequence[float]) -> RatioScale:
    """Return the scale that holds these ratios and the reference."""
    found = [r for r in (1.0, *ratios) if 0 < r < math.inf]
    low, high = min(found), max(found)
    logarithmic = high / low > LOGARITHMIC_ABOVE_RATIO
    return RatioScale(low=low if logarithmic else 0.0, high=high, logarithmic=logarithmic)


class _View:
    """The functions of the page's template, in its language."""

    def __init__(self, words: Words) -> None:
        self._words = words

    def link(self, page: str) -> str:
        """Return the address of a page beside this one, whatever its path holds."""
        path = _UNENCODABLE_CHARACTERS.sub("?", page)
        return f"./{quote(path, errors='surrogateescape')}"

    def students(self, count: int) -> str:
        if count == 1:
            return self._words("1 student")
        return self._words("{count} students", count=count)

    def title(self, figures: ExerciseFigures) -> str:
        return self._words.title(figures.exercise)

    def short(self, slug: str) -> str:
        return slug.partition("_")[0]

    def check(self, failed: FrequentFailure) -> str:
        return self._words.check(failed.slug, failed.id, failed.says)

    def mistake(self, made: FrequentFailure) -> tuple[str, str]:
        """Return what the mistake is, and how to mend it."""
        return self._words.mistake(made.slug, made.id, made.says, made.mend)

    def number(self, value: float | None) -> str:
        """Format a mean or a median with as many digits as the value needs."""
        return "–" if value is None else f"{value:.1f}".removesuffix(".0")

    def mark(self, mark: ExerciseMark | None) -> tuple[str, str]:
        """Return a mark's sign in the table, and the sign's meaning in words."""
        if mark is None:
            return "", ""
        if mark.points is None:
            return "!", self._words("grader fault")
        if mark.adjustment:
            return f"{mark.points}*", self._words("adjusted")
        if mark.late:
            return f"{mark.points}†", self._words("late")
        if mark.state == "missing":
            return "–", self._words("not handed in")
        if mark.state == "not_started":
            return "○", self._words("not started yet")
        return f"{mark.points}", ""

    def adjusted(self, rows: Sequence[StudentRow]) -> Iterator[tuple[StudentRow, str, str]]:
        """Yield each adjustment: the student's row, the exercise, the points and the reason."""
        for row in rows:
            for slug, mark in row.marks.items():
                if mark.adjustment:
                    yield row, slug, f"{mark.adjustment.points:+d}: {mark.adjustment.why}"

    def late(self, rows: Sequence[StudentRow]) -> Iterator[tuple[StudentRow, str, str]]:
        """Yield each late answer: the student's row, the exercise, the points lost and why."""
        for row in rows:
            for slug, mark in row.marks.items():
                if mark.late:
                    yield row, slug, f"{mark.lost:+d}: {self._words.said(mark.late.why)}"

    def scale(self, figures: ExerciseFigures) -> RatioScale:
        ratios = [timing.ratio for _, timing in figures.timed]
        return choose_class_page_scale([end for r in ratios for end in (r.low, r.middle, r.high)])

    def scale_sentence(self, scale: RatioScale) -> str:
        text = "The scale goes from {low} to {high}."
        told = self._words(text, low=self.ratio(scale.low), high=self.ratio(scale.high))
        more = self._words("It is logarithmic.") if scale.logarithmic else ""
        return self._words.joined(told, more)

    def ratio(self, value: float) -> str:
        """Format a ratio with at least two digits, such as 0.93 and 0.0041."""
        return f"{value:.2f}" if value >= 0.1 else f"{value:.2g}"

    def interval(self, ratio: Interval) -> str:
        return f"{self.ratio(ratio.low)}–{self.ratio(ratio.high)}"
