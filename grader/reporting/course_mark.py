"""Computes the mark that counts, of which the class's table, page and reports are views."""

from collections.abc import Iterator, Mapping

from grader.core.mark_records import CountedExercise, CourseMark
from grader.reporting.exercise_mark import ExerciseMark


def round_reported_points(points: float) -> float:
    """Round weighted points to two decimals; a whole number becomes an int."""
    found = round(points, 2)
    return int(found) if found == int(found) else found


def build_course_mark(
    course: str, marks: Mapping[str, ExerciseMark], weights: Mapping[str, float]
) -> CourseMark:
    """Return the mark of one student, from the marks of the exercises that have a weight."""
    counted = tuple(
        _count_exercise(slug, mark, weights[slug])
        for slug, mark in marks.items()
        if weights.get(slug)
    )
    return CourseMark(
        course=course,
        exercises=counted,
        total=round_reported_points(
            sum(weights[slug] * (marks[slug].points or 0) for slug in (c.slug for c in counted))
        ),
        possible=round_reported_points(
            sum(weights[c.slug] * _find_possible_points(marks[c.slug]) for c in counted)
        ),
    )


def _count_exercise(slug: str, mark: ExerciseMark, weight: float) -> CountedExercise:
    by_hand, late = mark.adjustment, mark.late
    return CountedExercise(
        slug=slug, weight=weight, earned=None if mark.score is None else mark.score.earned,
        late=mark.lost, late_why=late.why if late else "",
        adjustment=mark.adjusted, adjustment_why=by_hand.why if by_hand else "",
        points=None if mark.points is None else round_reported_points(weight * mark.points),
        possible=round_reported_points(weight * _find_possible_points(mark)),
    )  # fmt: skip


def _find_possible_points(mark: ExerciseMark) -> int:
    return 0 if mark.score is None else mark.score.possible


def describe_odd_adjustments(marks: Mapping[str, ExerciseMark]) -> Iterator[tuple[str, str]]:
    """Yield a slug and a sentence for each adjustment that leaves the range of the points."""
    for slug, mark in marks.items():
        if mark.score is None or mark.adjustment is None:
            continue
        if mark.adjusted != mark.adjustment.points:
            yield (
                slug,
                f"the adjustment takes {-mark.adjustment.points} points, but only "
                f"{-mark.adjusted} were left: the mark is 0.",
            )
        elif (points := mark.points or 0) > mark.score.possible and mark.adjustment.points > 0:
            yield (
                slug,
                f"with the adjustment it has {points} points, more than the "
                f"{mark.score.possible} that could be reached.",
            )
