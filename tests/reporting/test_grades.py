"""The grades as CSV: what stands where, and that hostile names do no harm."""

import csv
import io

import pytest

from grader.reporting.class_summary import Adjustment
from grader.reporting.grades import render_canvas_csv, render_grades_csv, render_moodle_csv
from tests.reporting.class_samples import (
    CLASS,
    FOUR,
    ONE,
    THREE,
    TWO,
    fault,
    graded,
    missing,
    of,
    right,
    score,
    wrong,
)
from tests.reporting.samples import HOSTILE

NAMES = (
    HOSTILE, "Smith, Jr", 'a "b" c', "=HYPERLINK(\"x\")", "+1+cmd|' /C calc'!A0", "-x", "@SUM(A1)",
    "a;b", "caf\udce9", "a\nb", "a\r\nb", "\x00", "\x1b[31m", "刘徽", "مريم", " =1", "'quoted'", "",
)  # fmt: skip


def read(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text, newline="")))


def test_the_grades_of_a_class():
    head, *rows = read(render_grades_csv(of(*CLASS)))
    assert head == [
        "student", ONE, TWO, THREE, FOUR, "adjustment", "why", "total", "possible", "not_run",
        "remarks",
    ]  # fmt: skip
    assert rows == [
        ["ada", "10", "4", "10", "0", "0", "", "24", "30", "0", ""],
        ["alan", "", "0", "10", "", "0", "", "10", "20", "0",
         f"{ONE}: grader fault: no score (the suite cannot be run); {TWO}: Line 1: `eval` is not allowed; "
         f"{THREE}: could not be timed: run again"],
        ["emmy", "4", "4", "0", "", "-4", f"{TWO} -7: two days late", "4", "30", "0",
         f"{TWO}: the adjustment takes 7 points, but only 4 were left: the mark is 0; "
         f"not handed in: {THREE}; notes.txt belongs to no exercise."],
        ["grace", "10", "10", "10", "3", "0", "", "30", "30", "0", ""],
        ["mary", "0", "0", "0", "0", "0", "", "0", "30", "0", "handed in nothing"],
    ]  # fmt: skip


def test_the_exercises_and_the_adjustment_add_up_to_the_total():
    for row in csv.DictReader(io.StringIO(render_grades_csv(of(*CLASS)), newline="")):
        parts = (row[ONE], row[TWO], row[THREE], row["adjustment"])
        assert sum(int(part or 0) for part in parts) == int(row["total"])


def test_every_adjustment_says_why_also_that_of_the_further_track():
    given = {
        ONE: Adjustment(points=2, why="oral\nexam"), FOUR: Adjustment(points=-1, why="=late"),
    }  # fmt: skip
    student = graded("ada", right(ONE), right(FOUR, 3), adjustments=given)
    [row] = csv.DictReader(io.StringIO(render_grades_csv(of(student)), newline=""))
    assert (row["adjustment"], row["total"]) == ("2", "12")
    assert row["why"] == f"{ONE} +2: oral\ufffdexam; {FOUR} -1: =late"


def test_what_was_not_run_is_told():
    student = graded("ada", right(ONE), wrong(TWO, score=score(4, 8, 3)))
    [row] = csv.DictReader(io.StringIO(render_grades_csv(of(student)), newline=""))
    assert (row["possible"], row["not_run"]) == ("18", "3")


def test_canvas_gets_its_own_two_rows_and_one_for_each_student():
    assert read(render_canvas_csv(of(*CLASS))) == [
        ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", ONE, TWO, THREE],
        ["    Points Possible", "", "", "", "", "10", "10", "10"],
        ["ada", "", "", "ada", "", "10", "4", "10"],
        ["alan", "", "", "alan", "", "", "0", "10"],
        ["emmy", "", "", "emmy", "", "4", "0", "0"],  # never below 0
        ["grace", "", "", "grace", "", "10", "10", "10"],
        ["mary", "", "", "mary", "", "0", "0", "0"],
    ]


def test_moodle_gets_what_canvas_gets_and_the_total_and_no_row_but_those_of_students():
    canvas, moodle = (read(write(of(*CLASS))) for write in (render_canvas_csv, render_moodle_csv))
    assert moodle[0] == ["username", *canvas[0][5:], "total"]
    assert [row[:-1] for row in moodle[1:]] == [[row[3], *row[5:]] for row in canvas[2:]]
    totals = {row[0]: row[7] for row in read(render_grades_csv(of(*CLASS)))[1:]}
    assert {row[0]: row[-1] for row in moodle[1:]} == totals


def test_canvas_keeps_its_maximum_where_nobody_has_a_score():
    assert read(render_canvas_csv(of(graded("ada", right(ONE), fault(TWO)))))[1][5:] == [
        "10",
        "",
        "",
    ]


@pytest.mark.parametrize(
    "name, student, login",
    [
        ("ada", "ada", "ada"),
        ("Smith, Jr", "Smith, Jr", "Smith, Jr"),
        ("2023.001", "2023.001", "2023.001"),
        ("007", "007", "007"),
        # At worst a name to a spreadsheet: Canvas finds it as it is.
        ("-x", "'-x", "-x"),
        ("@ada.lovelace", "'@ada.lovelace", "@ada.lovelace"),
        ("+49-30", "'+49-30", "+49-30"),
        # More than that.
        ("=x", "'=x", "'=x"),
        ("-cmd|'/C calc'!A0", "'-cmd|'/C calc'!A0", "'-cmd|'/C calc'!A0"),
        ("@SUM(A1)", "'@SUM(A1)", "'@SUM(A1)"),
        # Canvas reads these as 17, 17, 1.7 and 12.3: as somebody else.
        ("17.", "'17.", "'17."),
        ("17,", "'17,", "'17,"),
        ("1,7", "'1,7", "'1,7"),
        ("1.2.3", "'1.2.3", "'1.2.3"),
        # In the first column this would be a row of maxima.
        ("Points Possible", "", "Points Possible"),
        ("ada\x07", "ada\ufffd", "ada\ufffd"),
    ],
)
def test_what_canvas_finds_a_student_by(name, student, login):
    [row] = read(render_canvas_csv(of(graded(name, right(ONE)))))[2:]
    assert (row[0], row[3]) == (student, login)


@pytest.mark.parametrize("write", [render_grades_csv, render_canvas_csv, render_moodle_csv])
def test_whatever_the_names_each_student_has_one_row_of_the_right_length(write):
    summary = of(*(graded(name, right(ONE), notes=(name,)) for name in NAMES))
    text = write(summary)
    text.encode()
    rows = read(text)
    assert len(text.splitlines()) == len(rows)  # nothing breaks a line
    assert len(rows) == len(NAMES) + (2 if write is render_canvas_csv else 1)
    assert {len(row) for row in rows} == {len(rows[0])}


@pytest.mark.parametrize("write", [render_grades_csv, render_canvas_csv, render_moodle_csv])
def test_nothing_that_does_something_is_a_formula(write):
    rows = read(write(of(*(graded(name, right(ONE), notes=(name,)) for name in NAMES))))
    live = [f for row in rows for f in row if f.startswith(("=", "+", "-", "@", "\t", "\r"))]
    assert live == ([] if write is render_grades_csv else ["-x"])


@pytest.mark.parametrize(
    "write, rows", [(render_grades_csv, 1), (render_canvas_csv, 2), (render_moodle_csv, 1)]
)
def test_a_class_of_nobody_has_the_head_only(write, rows):
    assert len(read(write(of()))) == rows


def test_nothing_handed_in_is_zero_and_a_fault_is_empty():
    rows = read(render_canvas_csv(of(graded("ada", missing(ONE), fault(TWO)))))
    assert rows[2][5:] == ["0", "", ""]
