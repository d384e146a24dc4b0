"""What a late answer loses: by moments that are given, and by nothing else."""

from datetime import datetime, timedelta
from pathlib import Path

import pytest

from grader.classroom.course import lateness as module
from grader.classroom.course.lateness import (
    ON_TIME,
    DeadlineExtension,
    LatenessTerms,
    compute_class_lateness,
)
from grader.classroom.run.late_students import (
    read_last_class_lateness,
    write_class_lateness_table,
)
from grader.core.translation import Words
from grader.reporting.exercise_mark import LateMark

DUE = datetime.fromisoformat("2027-03-01T23:59:00+01:00")
TERMS = LatenessTerms(penalty_per_day=10, at_most=50)
NONE = timedelta(0)


def lost(
    after: timedelta, terms: LatenessTerms = TERMS, more: timedelta = NONE, maximum: int = 20
) -> int:
    return compute_class_lateness(DUE + after, DUE, more, terms, maximum).points


@pytest.mark.parametrize(
    "late, points",
    [
        (timedelta(days=-3), 0),
        (NONE, 0),
        (timedelta(seconds=1), 2),  # a day that has begun counts
        (timedelta(days=1), 2),
        (timedelta(days=1, seconds=1), 4),
        (timedelta(days=5), 10),
        (timedelta(days=99), 10),  # at most
    ],
)
def test_every_day_that_has_begun_costs(late, points):
    assert lost(late) == points


def test_halves_are_rounded_up():
    assert [lost(timedelta(hours=1), maximum=m) for m in (4, 5, 12, 15)] == [0, 1, 1, 2]


def test_grace_forgives_minutes_and_shifts_no_day():
    terms = LatenessTerms(penalty_per_day=10, grace_minutes=15)
    assert lost(timedelta(minutes=15), terms) == 0
    assert lost(timedelta(minutes=16), terms) == 2
    assert lost(timedelta(days=1, minutes=1), terms) == 4


def test_the_zone_of_a_moment_counts():
    utc = datetime.fromisoformat("2027-03-01T22:59:00Z")
    assert compute_class_lateness(utc, DUE, NONE, TERMS, 20) == ON_TIME
    assert compute_class_lateness(utc + timedelta(minutes=1), DUE, NONE, TERMS, 20).points == 2


@pytest.mark.parametrize(
    "extension, more",
    [
        (DeadlineExtension(student="ada", days=3), timedelta(days=3)),
        (DeadlineExtension(student="ada", until=DUE + timedelta(hours=5)), timedelta(hours=5)),
        (DeadlineExtension(student="ada", until=DUE - timedelta(hours=5)), NONE),
    ],
)
def test_an_extension_only_ever_gives_time(extension, more):
    assert extension.after(DUE) == more


def test_days_count_from_the_end_of_an_extension():
    assert lost(timedelta(days=3), more=timedelta(days=3)) == 0
    assert lost(timedelta(days=3, seconds=1), more=timedelta(days=3)) == 2


def test_it_says_why():
    found = compute_class_lateness(DUE + timedelta(hours=30), DUE, NONE, TERMS, 12)
    assert found.says == (
        "Handed in at 2027-03-03 05:59+01:00, due at 2027-03-01 23:59+01:00. Days late, begun ones "
        "counted: 2. That costs 20 % of 12 points: 2."
    )


def test_it_says_which_second_was_too_late_and_what_grace_there_was():
    due, terms = DUE.replace(hour=18, minute=0), LatenessTerms(penalty_per_day=10, grace_minutes=15)
    late = timedelta(minutes=15, seconds=1)
    assert compute_class_lateness(due + timedelta(minutes=15), due, NONE, terms, 20) == ON_TIME
    says = compute_class_lateness(due + late, due, NONE, terms, 20).says
    assert says.startswith(
        "Handed in at 2027-03-01 18:15:01+01:00, due at 2027-03-01 18:00+01:00 (grace period: "
        "15 min). Days late"
    )
    assert "截止于 2027-03-01 18:00+01:00（宽限期 15 分钟）。迟交天数" in Words("zh").said(says)
    more = compute_class_lateness(due + late + timedelta(days=1), due, timedelta(1), terms, 20).says
    assert "截止于 2027-03-01 18:00+01:00（宽限期 15 分钟），另有延期。" in Words("zh").said(more)


def test_late_without_a_penalty_is_told_and_costs_nothing():
    found = compute_class_lateness(DUE + timedelta(days=1), DUE, NONE, LatenessTerms(), 12)
    assert found.points == 0 and found.says


def test_nothing_in_it_asks_what_time_it_is():
    text = Path(module.__file__).read_text()
    assert not [name for name in ("now(", "today(", "import time", "st_mtime") if name in text]


def test_the_table_of_losses_is_read_as_a_spreadsheet_saves_it(tmp_path):
    lates = {"ada": {"ex03_sdpa": LateMark(points=3, why="a day; late")}, "ben": {}}
    text = write_class_lateness_table(lates)
    read = []
    for saved in (text, "\ufeff" + text.replace(",", ";").replace("day; late", "day late")):
        (tmp_path / "late.csv").write_text(saved, encoding="utf-8", newline="")
        read.append(read_last_class_lateness(tmp_path))
    assert read == [{("ada", "ex03_sdpa"): 3}] * 2
