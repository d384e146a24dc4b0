"""What a class run came to, in rows and figures."""

import gc
import itertools
import random
from dataclasses import replace

import pytest

from grader.core.records import Report, Verdict
from grader.reporting.class_summary import Adjustment, summarise_class_reports
from tests.reporting.class_samples import (
    CLASS,
    EXERCISES,
    FORGOT,
    FOUR,
    ONE,
    SCALED,
    THREE,
    TWO,
    fault,
    graded,
    inconclusive,
    missing,
    not_started,
    of,
    refused,
    right,
    score,
    timed,
    wrong,
)
from tests.reporting.samples import HOSTILE, SCORED, check


def row(*exercises, **more):
    [found] = of(graded("ada", *exercises, **more)).rows
    return found


@pytest.mark.parametrize(
    "exercises, notes, says",
    [
        ([right(ONE), right(TWO)], (), []),
        ([fault(ONE), right(TWO)], (), [(ONE, "grader fault: no score (the suite cannot be run)")]),
        ([replace(fault(ONE), sentence="", checks=(check("own_f", Verdict.GRADER_FAULT, why="KeyError\n'x'"),))], (),
         [(ONE, "grader fault: no score (KeyError 'x')")]),
        ([replace(fault(ONE), sentence="")], (), [(ONE, "grader fault: no score")]),
        ([refused(ONE), right(TWO)], (), [(ONE, "Line 1: `eval` is not allowed.")]),
        ([replace(refused(ONE), state="unreadable", sentence="It is empty."), right(TWO)], (), [(ONE, "It is empty.")]),
        ([inconclusive(ONE)], (), [(ONE, "could not be timed: run again")]),
        ([timed(ONE, 0.5, why="2.0 times faster than the reference: worth a look")], (),
         [(ONE, "2.0 times faster than the reference: worth a look")]),
        ([timed(ONE, 0.5, verdict="failed", why="faster than physics")], (), [(ONE, "faster than physics")]),
        ([wrong(ONE, speed=replace(SCORED, verdict="failed", why="speed is measured later"))], (), []),
        ([right(ONE), missing(TWO), not_started(THREE)], (), [("", f"not handed in: {TWO}")]),
        ([right(ONE), missing(TWO), missing(THREE)], (), [("", f"not handed in: {TWO}, {THREE}")]),
        ([right(ONE), missing(FOUR)], (), []),  # the further track is not asked for
        ([missing(ONE), missing(FOUR)], (), [("", "handed in nothing")]),
        ([], (), [("", "handed in nothing")]),
        ([missing(ONE), not_started(TWO)], (), [("", "handed in nothing but skeletons")]),
        ([missing(ONE)], ["ada.zip is no zip."], [("", "handed in nothing"), ("", "ada.zip is no zip.")]),
        ([wrong(ONE, 0)], (), [("", "a total of 0, though something was begun")]),
        ([fault(ONE), not_started(TWO)], (), [(ONE, "grader fault: no score (the suite cannot be run)")]),
        ([right(ONE)], ["a\nb\x00c"], [("", "a b\ufffdc")]),
    ],
)  # fmt: skip
def test_who_needs_a_look_and_why(exercises, notes, says):
    assert [(r.slug, r.says) for r in row(*exercises, notes=tuple(notes)).reasons] == says


def test_nothing_to_be_had_is_no_total_of_zero():
    assert row(wrong(ONE, score=score(0, 0, 10))).reasons == ()


def test_of_many_notes_and_of_a_long_one_there_is_a_beginning():
    told = [r.says for r in row(right(ONE), notes=tuple(f"Note {n}." for n in range(30))).reasons]
    assert told == [*(f"Note {n}." for n in range(10)), "20 more notes on what was handed in."]
    eleven = tuple(f"Note {n}." for n in range(11))
    assert [r.says for r in row(right(ONE), notes=eleven).reasons] == list(eleven)
    [long] = row(right(ONE), notes=("x" * 9999,)).reasons
    assert len(long.says) == 501


@pytest.mark.parametrize(
    "adjustments, points, total",
    [
        ({}, 4, 14),
        ({TWO: -3}, 1, 11),
        ({TWO: -7}, 0, 10),  # not below 0
        ({TWO: 9}, 13, 23),  # a bonus may go beyond the maximum
        ({THREE: 5}, 4, 14),  # a fault has no points to add to
        ({FOUR: 5}, 4, 14),  # the further track is no part of the total
    ],
)
def test_what_an_adjustment_does(adjustments, points, total):
    given = {slug: Adjustment(points=n, why="") for slug, n in adjustments.items()}
    found = row(right(ONE), wrong(TWO), fault(THREE), right(FOUR, 3), adjustments=given)
    assert (found.marks[TWO].points, found.total) == (points, total)
    assert (found.marks[THREE].points, found.score) == (None, score(14, 20))


def test_the_maximum_leaves_out_what_nobody_could_be_asked():
    cpu, timed_too = score(6, 8, 4), score(9, 11, 1)
    found = of(graded("ada", wrong(ONE, score=cpu)), graded("bob", wrong(ONE, score=timed_too)))
    assert [figures.maximum for figures in found.core] == [11, 0, 0]
    assert found.maximum == 11


def test_the_figures_of_an_exercise():
    first, second, third = of(*CLASS).core
    assert (first.begun, first.right, first.faults) == (4, 2, 1)
    assert (second.begun, second.right, second.faults) == (4, 1, 0)
    assert [f.mean_share for f in (first, second, third)] == pytest.approx([0.8, 0.45, 1.0])
    assert [(row.name, t.ratio.middle) for row, t in third.timed] == [("grace", 0.9), ("ada", 1.5)]
    assert (third.begun, third.right) == (3, 3)


def test_the_figures_of_the_class():
    found = of(*CLASS)
    assert [(row.name, row.total) for row in found.rows] == [
        ("ada", 24), ("alan", 10), ("emmy", 4), ("grace", 30), ("mary", 0),
    ]  # fmt: skip
    assert (found.totals, found.mean, found.median) == ([24, 10, 4, 30], 17, 17)
    assert (found.maximum, found.full, found.faults) == (30, 1, 1)
    assert [f.exercise.slug for f in found.further] == [FOUR]


@pytest.mark.parametrize("taken, full", [(0, 1), (-1, 0), (5, 1)])
def test_full_marks_are_those_after_adjustments(taken, full):
    given = {ONE: Adjustment(points=taken, why="late")}
    assert of(graded("ada", right(ONE), adjustments=given)).full == full


def test_where_nothing_was_to_be_had_nobody_has_full_marks():
    assert of(graded("ada", wrong(ONE, score=score(0, 0, 10)))).full == 0


def test_an_answer_whose_speed_failed_is_not_all_right():
    too_fast = timed(ONE, 0.1, verdict="failed", why="faster than physics")
    assert [of(graded("ada", e)).core[0].right for e in (right(ONE), too_fast)] == [1, 0]


def test_what_is_frequent_counts_students_and_comes_first():
    found = of(*CLASS)
    assert [(f.slug, f.id, f.students) for f in found.failed] == [
        (TWO, "own_b", 2), (TWO, "own_c", 2), (ONE, "own_b", 1), (ONE, "own_c", 1),
    ]  # fmt: skip


def test_a_mistake_counts_where_it_is_the_only_one_that_it_may_be():
    found = of(
        graded("ada", wrong(ONE, mistakes=[SCALED, FORGOT])), graded("bob", wrong(ONE, mistakes=[FORGOT])),
        graded("cy", wrong(ONE, mistakes=[])), graded("dee", wrong(TWO, mistakes=[FORGOT])),
    )  # fmt: skip
    assert [(m.slug, m.id, m.mend, m.students) for m in found.mistakes] == [
        (ONE, "own_2", "Divide.", 1), (TWO, "own_2", "Divide.", 1),
    ]  # fmt: skip


def test_equal_speeds_stand_by_name_and_what_was_not_scored_does_not_stand():
    found = of(
        graded("cy", timed(ONE, 1.0)), graded("ada", timed(ONE, 1.0)), graded("bob", timed(ONE, 1.0, 0.05)),
        graded("dee", inconclusive(ONE)), graded("eve", right(ONE)),
        graded("fay", timed(ONE, 0.2, verdict="failed", earned=0)),
    )  # fmt: skip
    assert [row.name for row, _ in found.core[0].timed] == ["bob", "ada", "cy"]


def test_the_order_of_the_stream_changes_nothing():
    shuffled = list(CLASS)
    random.Random(3).shuffle(shuffled)
    assert of(*shuffled) == of(*CLASS)


def test_an_exercise_that_is_no_column_is_left_out():
    [found] = summarise_class_reports(
        [graded("ada", right(ONE), right("ex07_mqa_gqa"))], EXERCISES[:1]
    ).rows
    assert (list(found.marks), found.total, found.score) == ([ONE], 10, score(10))


def test_a_class_of_nobody():
    found = of()
    assert (found.rows, found.totals, found.mean, found.median) == ((), [], None, None)
    assert (found.maximum, found.full, found.faults) == (0, 0, 0)
    assert [figures.mean_share for figures in found.core] == [None] * 3


@pytest.mark.parametrize(
    "name, shown",
    [
        (HOSTILE, HOSTILE),
        ("ada\x07", "ada\ufffd"),  # never "ada", which is somebody else
        ("a\r\nb\tc", "a\ufffd\ufffdb\ufffdc"),
        ("caf\udce9\ud800\u2028", "caf\ufffd\ufffd\ufffd"),
        ("", "?"),
    ],
)
def test_a_name_is_one_line_that_can_be_written(name, shown):
    [found] = of(graded(name, right(ONE))).rows
    assert found.name == shown
    found.name.encode()


def alive() -> int:
    gc.collect()
    return sum(type(thing) is Report for thing in gc.get_objects())


@pytest.fixture
def nothing_older():
    """Only what is made from now on is looked through: not all that was imported, again and again."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


def test_of_a_stream_of_students_no_report_is_kept(nothing_older):
    most = 0

    def stream():
        nonlocal most
        for number in range(60):
            if number % 20 == 19:
                most = max(most, alive())
            yield graded(f"s{number}", wrong(ONE, mistakes=[SCALED]), timed(TWO, 1.0))

    found = summarise_class_reports(stream(), EXERCISES)
    assert len(found.rows) == 60
    assert most <= 2
    assert alive() == 0


def test_a_stream_is_read_once():
    assert len(summarise_class_reports(itertools.chain(CLASS), EXERCISES).rows) == len(CLASS)
