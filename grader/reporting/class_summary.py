"""Sums up a class run: a small row for each student, and the figures of the class.

The reports come from a stream, one after the other, and are not kept: a thousand students take the
memory of a thousand rows. The order of the reports changes nothing.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, median
from types import MappingProxyType

from grader.core.records import Exercise, ExerciseReport, Report, Score, Speed, Verdict
from grader.reporting.course_mark import (
    build_course_mark,
    describe_odd_adjustments,
    round_reported_points,
)
from grader.reporting.exercise_mark import Adjustment, AnswerTiming, ExerciseMark, LateMark
from grader.reporting.review_flags import (
    ReviewReason,
    flatten_reported_line,
    report_reasons_for_review,
)

_Key = tuple[str, str, str, str]  # slug, id, what it says, how to mend it


@dataclass(frozen=True, slots=True, kw_only=True)
class GradedStudent:
    """One student's report, and what a class run adds to it."""

    report: Report
    notes: tuple[str, ...] = ()  # sentences about what was handed in
    adjustments: Mapping[str, Adjustment] = field(default_factory=dict)  # by slug
    late: Mapping[str, LateMark] = field(default_factory=dict)  # by slug
    page: str = ""  # the student's own page, relative to that of the class; not yet encoded


@dataclass(frozen=True, slots=True, kw_only=True)
class StudentRow:
    """One student's marks by slug, with the score and adjusted total of the exercises that count.

    The score is without weights, the total is with them.
    """

    name: str
    marks: Mapping[str, ExerciseMark]
    score: Score
    total: float
    reasons: tuple[ReviewReason, ...]  # why somebody should look
    page: str

    @property
    def handed_in(self) -> bool:
        return any(mark.state != "missing" for mark in self.marks.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class ExerciseFigures:
    """One exercise in the whole class, as it was graded: adjustments change nothing here.

    `maximum` is the highest `possible` of any student's score. It leaves out checks that
    could not run for anybody: CUDA without a GPU, speed with --no-speed.
    """

    exercise: Exercise
    maximum: int
    begun: int  # students
    right: int
    faults: int
    weight: float  # times the points is what counts; 0 for what is no part of the total
    mean_share: float | None  # of what was possible, over those who began; None if nobody did
    timed: tuple[tuple[StudentRow, AnswerTiming], ...]  # the fastest first


@dataclass(frozen=True, slots=True, kw_only=True)
class FrequentFailure:
    """A check that students failed, or a mistake that they made; a check has nothing to mend."""

    slug: str
    id: str
    says: str
    mend: str
    students: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassSummary:
    """The class: students by name, exercises in their order, the most frequent first."""

    rows: tuple[StudentRow, ...]
    core: tuple[ExerciseFigures, ...]  # what the total is made of
    further: tuple[ExerciseFigures, ...]  # no part of any total
    failed: tuple[FrequentFailure, ...]
    mistakes: tuple[FrequentFailure, ...]
    deadlines: bool = False  # whether coming late costs points

    @property
    def maximum(self) -> float:
        """Return the largest total of this run, before adjustments."""
        return round_reported_points(sum(figures.weight * figures.maximum for figures in self.core))

    @property
    def weighted(self) -> bool:
        """Return whether an exercise that counts has a weight other than 1."""
        return any(figures.weight != 1 for figures in self.core)

    @property
    def faults(self) -> int:
        """Count the exercises of all students that have no score."""
        return sum(figures.faults for figures in (*self.core, *self.further))

    @property
    def totals(self) -> list[float]:
        """Return the totals of the students who handed in something."""
        return [row.total for row in self.rows if row.handed_in]

    @property
    def mean(self) -> float | None:
        return fmean(self.totals) if self.totals else None

    @property
    def median(self) -> float | None:
        return median(self.totals) if self.totals else None

    @property
    def full(self) -> int:
        """Count the students with full marks."""
        return sum(total >= self.maximum > 0 for total in self.totals)


def find_counted_weights(
    exercises: Sequence[Exercise], weights: Mapping[str, float]
) -> dict[str, float]:
    """Return the weight of each exercise: 0 for a draft, and for a further one without an entry."""
    return {
        e.slug: 0 if e.draft else weights.get(e.slug, 1 if e.track == "core" else 0)
        for e in exercises
    }


def summarise_class_reports(
    graded: Iterable[GradedStudent],
    exercises: Sequence[Exercise],
    weights: Mapping[str, float] = MappingProxyType({}),
    deadlines: bool = False,
) -> ClassSummary:
    """Sum up the class in rows and figures; `exercises` are the columns, the core track first."""
    counts = find_counted_weights(exercises, weights)
    failed, mistakes = Counter[_Key](), Counter[_Key]()
    rows = []
    for one in graded:
        rows.append(_build_summary_row_of_student(one, exercises, counts))
        failed.update(_list_reported_failures(one.report))
        mistakes.update(_list_reported_mistakes(one.report))
    rows.sort(key=lambda row: (row.name.casefold(), row.name, row.page))
    figures = [
        _report_exercise_figures(exercise, rows, counts[exercise.slug]) for exercise in exercises
    ]
    return ClassSummary(
        rows=tuple(rows),
        core=tuple(f for f in figures if f.weight),
        further=tuple(f for f in figures if not f.weight),
        failed=_sort_reported_failures(failed),
        mistakes=_sort_reported_failures(mistakes),
        deadlines=deadlines,
    )


def _sort_reported_failures(found: Counter[_Key]) -> tuple[FrequentFailure, ...]:
    ordered = sorted(found.items(), key=lambda pair: (-pair[1], pair[0]))
    return tuple(
        FrequentFailure(slug=slug, id=id, says=says, mend=mend, students=students)
        for (slug, id, says, mend), students in ordered
    )


def _list_reported_failures(report: Report) -> set[_Key]:
    checks = ((e.slug, c) for e in report.exercises for c in e.checks)
    return {(slug, c.id, c.says, "") for slug, c in checks if c.verdict is Verdict.FAILED}


def _list_reported_mistakes(report: Report) -> set[_Key]:
    """Return each mistake once that a student certainly made, not those that one of two may be."""
    known = ((e.slug, c.diagnosis) for e in report.exercises for c in e.checks if c.diagnosis)
    return {
        (slug, named.id, named.says, named.mend)
        for slug, diagnosis in known
        for named in diagnosis.mistakes
        if len(diagnosis.mistakes) == 1 or diagnosis.together
    }


def _build_summary_row_of_student(
    one: GradedStudent, exercises: Sequence[Exercise], weights: Mapping[str, float]
) -> StudentRow:
    reports = {e.slug: e for e in one.report.exercises}
    asked = [(e, reports[e.slug]) for e in exercises if e.slug in reports]
    marks = {e.slug: build_exercise_mark(r, one.adjustments, one.late) for e, r in asked}
    scores = (m.score for slug, m in marks.items() if weights[slug] and m.score is not None)
    total = build_course_mark("", marks, weights).total
    odd = [ReviewReason(slug=slug, says=says) for slug, says in describe_odd_adjustments(marks)]
    return StudentRow(
        name=flatten_reported_line(one.report.student) or "?",
        marks=marks,
        score=sum(scores, Score(earned=0, possible=0, not_run=0)),
        total=total,
        reasons=(*odd, *report_reasons_for_review(asked, one.notes, total, weights)),
        page=one.page,
    )


def build_exercise_mark(
    e: ExerciseReport, adjustments: Mapping[str, Adjustment], lates: Mapping[str, LateMark]
) -> ExerciseMark:
    """Return the mark for one exercise, with what was adjusted and what came late."""
    adjustment, late = adjustments.get(e.slug), lates.get(e.slug)
    asked = [c for c in e.checks if c.verdict is not Verdict.NOT_RUN]
    passed = bool(asked) and all(c.verdict is Verdict.PASSED for c in asked)
    too_slow = e.speed is not None and e.speed.verdict == "failed"
    return ExerciseMark(
        state=e.state,
        score=e.score,
        right=e.state == "graded" and passed and not too_slow,
        timing=None if e.speed is None else _report_answer_timing(e.speed),
        adjustment=adjustment
        and Adjustment(points=adjustment.points, why=flatten_reported_line(adjustment.why)),
        late=late and LateMark(points=late.points, why=flatten_reported_line(late.why)),
    )


def _report_answer_timing(speed: Speed) -> AnswerTiming | None:
    if speed.verdict != "scored" or speed.measured is None:
        return None
    ratio = speed.measured.ratio
    return AnswerTiming(
        ratio=ratio, fraction=speed.fraction, earned=speed.earned, points=speed.points
    )


def _report_exercise_figures(
    exercise: Exercise, rows: Sequence[StudentRow], weight: float
) -> ExerciseFigures:
    slug = exercise.slug
    marks = [row.marks[slug] for row in rows if slug in row.marks]
    scored = [(mark, mark.score) for mark in marks if mark.score is not None]
    shares = [score.earned / score.possible for m, score in scored if m.begun and score.possible]
    timed = [(row, m.timing) for row in rows if (m := row.marks.get(slug)) and m.timing]
    timed.sort(key=lambda pair: (pair[1].ratio.middle, pair[1].ratio.high))  # ties stay by name
    return ExerciseFigures(
        exercise=exercise,
        maximum=max((score.possible for _, score in scored), default=0),
        begun=sum(mark.begun for mark in marks),
        right=sum(mark.right for mark in marks),
        faults=sum(mark.score is None for mark in marks),
        weight=weight,
        mean_share=fmean(shares) if shares else None,
        timed=tuple(timed),
    )
