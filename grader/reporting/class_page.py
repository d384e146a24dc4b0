"""What an instructor sees of a class: one self-contained HTML page.

Like the report of a student it asks the network for nothing and runs no script, and its policy
forbids both. The names of students are hostile, and so is what their files are called.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import quote

from grader.core.records import Interval
from grader.core.translation import Words
from grader.reporting import html
from grader.reporting.class_summary import ClassSummary, Figures, Frequent, Row
from grader.reporting.exercise_mark import Mark
from grader.reporting.review_flags import line

BINS = 10  # of the histogram, or one more
DECADE = 10.0
SHOWN = 10  # of the most frequent, and lines of a speed board: what is longer is folded
OPEN = 40  # students: a longer list is folded
_NO_FILE_NAME = re.compile(r"[\ud800-\udc7f\udd00-\udfff]")


def to_html(summary: ClassSummary, words: Words, *, title: str, facts: Mapping[str, str]) -> str:
    """The page in the language of `words`; `facts` are lines for its foot, each with a label."""
    return html.piece(
        "class.html.j2", words, summary=summary, view=_View(words), title=line(title),
        facts={line(label): line(value) for label, value in facts.items()},
        bins=bins(summary.totals, summary.maximum), shown=SHOWN, open=OPEN,
    )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Bin:
    """Totals that stand together in the histogram."""

    label: str
    students: int
    share: float  # of the tallest


def bins(totals: Sequence[float], most: float) -> list[Bin]:
    """The totals from 0 to the maximum; more than that, by adjustments, stands in the last bin."""
    maximum = math.ceil(most)
    width = max(1, math.ceil(maximum / BINS))
    places = [int(min(total, maximum) // width) for total in totals]
    counts = [places.count(place) for place in range(maximum // width + 1)]
    tallest = max([1, *counts])
    more = any(total > maximum for total in totals)
    return [
        Bin(label=_range(width, place, maximum, more), students=count, share=count / tallest)
        for place, count in enumerate(counts)
    ]


def _range(width: int, place: int, maximum: int, more: bool) -> str:
    first = place * width
    last = min(first + width - 1, maximum)
    if last == maximum and more:
        return f"{first}+"
    return f"{first}" if first == last else f"{first}–{last}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """Where ratios to the reference stand on a line, from 0 to 1.

    It begins at 0, or is logarithmic if the ratios span more than a decade.
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


def scale(ratios: Sequence[float]) -> Scale:
    """The scale on which these ratios and the reference have their places."""
    found = [r for r in (1.0, *ratios) if 0 < r < math.inf]
    low, high = min(found), max(found)
    logarithmic = high / low > DECADE
    return Scale(low=low if logarithmic else 0.0, high=high, logarithmic=logarithmic)


class _View:
    """The parts of the page in its language."""

    def __init__(self, words: Words) -> None:
        self._words = words

    def link(self, page: str) -> str:
        """The address of a page beside this one, whatever its path holds."""
        path = _NO_FILE_NAME.sub("?", page)
        return f"./{quote(path, errors='surrogateescape')}"

    def students(self, count: int) -> str:
        if count == 1:
            return self._words("1 student")
        return self._words("{count} students", count=count)

    def title(self, figures: Figures) -> str:
        return self._words.title(figures.exercise)

    def short(self, slug: str) -> str:
        return slug.partition("_")[0]

    def check(self, failed: Frequent) -> str:
        return self._words.check(failed.slug, failed.id, failed.says)

    def mistake(self, made: Frequent) -> tuple[str, str]:
        """What it is, and how to mend it."""
        return self._words.mistake(made.slug, made.id, made.says, made.mend)

    def number(self, value: float | None) -> str:
        """A mean or a median, with as many digits as it needs."""
        return "–" if value is None else f"{value:.1f}".removesuffix(".0")

    def mark(self, mark: Mark | None) -> tuple[str, str]:
        """What stands in the table, and in words what that means where it is a sign."""
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

    def adjusted(self, rows: Sequence[Row]) -> Iterator[tuple[Row, str, str]]:
        """Every adjustment: whose, of which exercise, and what it says."""
        for row in rows:
            for slug, mark in row.marks.items():
                if mark.adjustment:
                    yield row, slug, f"{mark.adjustment.points:+d}: {mark.adjustment.why}"

    def late(self, rows: Sequence[Row]) -> Iterator[tuple[Row, str, str]]:
        """Every answer that came late: whose, to which exercise, and what that costs."""
        for row in rows:
            for slug, mark in row.marks.items():
                if mark.late:
                    yield row, slug, f"{mark.lost:+d}: {self._words.said(mark.late.why)}"

    def scale(self, figures: Figures) -> Scale:
        ratios = [timing.ratio for _, timing in figures.timed]
        return scale([end for r in ratios for end in (r.low, r.middle, r.high)])

    def scale_told(self, scale: Scale) -> str:
        text = "The scale goes from {low} to {high}."
        told = self._words(text, low=self.ratio(scale.low), high=self.ratio(scale.high))
        more = self._words("It is logarithmic.") if scale.logarithmic else ""
        return self._words.joined(told, more)

    def ratio(self, value: float) -> str:
        """A ratio with two digits at least, such as 0.93 and 0.0041."""
        return f"{value:.2f}" if value >= 0.1 else f"{value:.2g}"

    def interval(self, ratio: Interval) -> str:
        return f"{self.ratio(ratio.low)}–{self.ratio(ratio.high)}"
