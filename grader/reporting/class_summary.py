"""What a class run came to: a small row for each student, and the figures of the class.

The reports are taken from a stream, one after the other, and let go again: of a thousand students
a thousand rows are kept. Nothing depends on the order in which they come.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, median

from grader.records import Exercise, ExerciseReport, Interval, Report, Score, Speed, Verdict
from grader.reporting.worth_a_look import NOT_BEGUN, Reason, line, reasons

_Key = tuple[str, str, str, str]  # slug, id, what it says, how to mend it


@dataclass(frozen=True, slots=True, kw_only=True)
class Adjustment:
    """Points that a person gave or took, and why."""

    points: int  # may be negative
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Graded:
    """What a class run knows of one student."""

    report: Report
    notes: tuple[str, ...] = ()  # sentences about what was handed in
    adjustments: Mapping[str, Adjustment] = field(default_factory=dict)  # by slug
    page: str = ""  # the student's own page, relative to that of the class; not yet encoded


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

    @property
    def begun(self) -> bool:
        return self.state not in NOT_BEGUN

    @property
    def points(self) -> int | None:
        """What it counts: with the adjustment, never below 0; None where there is no score."""
        if self.score is None:
            return None
        return max(0, self.score.earned + (self.adjustment.points if self.adjustment else 0))


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One student: the marks by slug, and of the core track the score and the adjusted total."""

    name: str
    marks: Mapping[str, Mark]
    score: Score
    total: int
    reasons: tuple[Reason, ...]  # why somebody should look
    page: str

    @property
    def handed_in(self) -> bool:
        return any(mark.state != "missing" for mark in self.marks.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """One exercise in the whole class, as it was graded: adjustments change nothing here.

    `maximum` is the highest `possible` of any student's score. It leaves out what nobody could be
    asked in this run: CUDA without a GPU, speed with --no-speed.
    """

    exercise: Exercise
    maximum: int
    begun: int  # students
    right: int
    faults: int
    mean_share: float | None  # of what was possible, over those who began; None if nobody did
    timed: tuple[tuple[Row, Timing], ...]  # the fastest first


@dataclass(frozen=True, slots=True, kw_only=True)
class Frequent:
    """A check that students failed, or a mistake that they made; a check has nothing to mend."""

    slug: str
    id: str
    says: str
    mend: str
    students: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassSummary:
    """The class: students by name, exercises in their order, the most frequent first."""

    rows: tuple[Row, ...]
    core: tuple[Figures, ...]
    further: tuple[Figures, ...]  # no part of any total
    failed: tuple[Frequent, ...]
    mistakes: tuple[Frequent, ...]

    @property
    def maximum(self) -> int:
        """The most that a total can be in this run, before adjustments."""
        return sum(figures.maximum for figures in self.core)

    @property
    def faults(self) -> int:
        """How many exercises of students have no score."""
        return sum(figures.faults for figures in (*self.core, *self.further))

    @property
    def totals(self) -> list[int]:
        """Of those who handed in something."""
        return [row.total for row in self.rows if row.handed_in]

    @property
    def mean(self) -> float | None:
        return fmean(self.totals) if self.totals else None

    @property
    def median(self) -> float | None:
        return median(self.totals) if self.totals else None

    @property
    def full(self) -> int:
        """How many have everything that was to be had."""
        return sum(total >= self.maximum > 0 for total in self.totals)


def summarise(graded: Iterable[Graded], exercises: Sequence[Exercise]) -> ClassSummary:
    """The class in rows and figures; `exercises` are the columns, the core track first."""
    failed, mistakes = Counter[_Key](), Counter[_Key]()
    rows = []
    for one in graded:
        rows.append(_row(one, exercises))
        failed.update(_failed(one.report))
        mistakes.update(_mistakes(one.report))
    rows.sort(key=lambda row: (row.name.casefold(), row.name, row.page))
    figures = [_figures(exercise, rows) for exercise in exercises]
    return ClassSummary(
        rows=tuple(rows),
        core=tuple(f for f in figures if f.exercise.track == "core"),
        further=tuple(f for f in figures if f.exercise.track != "core"),
        failed=_most_frequent(failed),
        mistakes=_most_frequent(mistakes),
    )


def _most_frequent(found: Counter[_Key]) -> tuple[Frequent, ...]:
    ordered = sorted(found.items(), key=lambda pair: (-pair[1], pair[0]))
    return tuple(
        Frequent(slug=slug, id=id, says=says, mend=mend, students=students)
        for (slug, id, says, mend), students in ordered
    )


def _failed(report: Report) -> set[_Key]:
    checks = ((e.slug, c) for e in report.exercises for c in e.checks)
    return {(slug, c.id, c.says, "") for slug, c in checks if c.verdict is Verdict.FAILED}


def _mistakes(report: Report) -> set[_Key]:
    """The mistakes that a student made, each once; not those that one of two may be."""
    known = ((e.slug, c.diagnosis) for e in report.exercises for c in e.checks if c.diagnosis)
    return {
        (slug, named.id, named.says, named.mend)
        for slug, diagnosis in known
        for named in diagnosis.mistakes
        if len(diagnosis.mistakes) == 1
    }


def _row(one: Graded, exercises: Sequence[Exercise]) -> Row:
    reports = {e.slug: e for e in one.report.exercises}
    asked = [(e, reports[e.slug]) for e in exercises if e.slug in reports]
    marks = {e.slug: _mark(report, one.adjustments.get(e.slug)) for e, report in asked}
    core = [marks[e.slug] for e, _ in asked if e.track == "core"]
    scores = (mark.score for mark in core if mark.score is not None)
    total = sum(mark.points or 0 for mark in core)
    return Row(
        name=line(one.report.student) or "?",
        marks=marks,
        score=sum(scores, Score(earned=0, possible=0, not_run=0)),
        total=total,
        reasons=tuple(reasons(asked, one.notes, total)),
        page=one.page,
    )


def _mark(e: ExerciseReport, adjustment: Adjustment | None) -> Mark:
    asked = [c for c in e.checks if c.verdict is not Verdict.NOT_RUN]
    passed = bool(asked) and all(c.verdict is Verdict.PASSED for c in asked)
    too_slow = e.speed is not None and e.speed.verdict == "failed"
    return Mark(
        state=e.state,
        score=e.score,
        right=e.state == "graded" and passed and not too_slow,
        timing=None if e.speed is None else _timing(e.speed),
        adjustment=adjustment and Adjustment(points=adjustment.points, why=line(adjustment.why)),
    )


def _timing(speed: Speed) -> Timing | None:
    if speed.verdict != "scored" or speed.measured is None:
        return None
    ratio = speed.measured.ratio
    return Timing(ratio=ratio, fraction=speed.fraction, earned=speed.earned, points=speed.points)


def _figures(exercise: Exercise, rows: Sequence[Row]) -> Figures:
    slug = exercise.slug
    marks = [row.marks[slug] for row in rows if slug in row.marks]
    scored = [(mark, mark.score) for mark in marks if mark.score is not None]
    shares = [score.earned / score.possible for m, score in scored if m.begun and score.possible]
    timed = [(row, m.timing) for row in rows if (m := row.marks.get(slug)) and m.timing]
    timed.sort(key=lambda pair: (pair[1].ratio.middle, pair[1].ratio.high))  # ties stay by name
    return Figures(
        exercise=exercise,
        maximum=max((score.possible for _, score in scored), default=0),
        begun=sum(mark.begun for mark in marks),
        right=sum(mark.right for mark in marks),
        faults=sum(mark.score is None for mark in marks),
        mean_share=fmean(shares) if shares else None,
        timed=tuple(timed),
    )
