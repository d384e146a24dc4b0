"""The class page: what stands in it, that it is safe, and that it can be read."""

import re
from dataclasses import replace
from itertools import pairwise

import pytest

from grader.reporting.class_page import choose_class_page_scale, count_class_page_bins
from tests.reporting.class_samples import (
    CLASS,
    FOUR,
    ONE,
    SCALED,
    THREE,
    TWO,
    drawn,
    graded,
    missing,
    not_started,
    of,
    page,
    right,
    timed,
    wrong,
)

SECTIONS = [
    "The class in figures", "Totals", "Who needs a look", "Exercises", "Most frequent mistakes",
    "Most frequent failed checks", "Speed board", "All students",
]  # fmt: skip


def test_the_sections_stand_in_their_order():
    assert page(of(*CLASS)).texts("h2") == SECTIONS


def test_the_class_in_figures():
    [tiles] = page(of(*CLASS)).texts("dl", "tiles")
    assert tiles == "students 5 handed in something 4 mean, of 30 17 median 17 full marks 1"


def test_the_histogram_can_be_read_as_text():
    found = page(of(*CLASS)).texts("li")[:11]
    assert found[1] == "1 1 student 3–5 points"
    assert found[10] == "1 1 student 30 points"
    assert len(found) == 11


@pytest.mark.parametrize(
    "totals, maximum, expected",
    [
        ([0, 9, 10, 100], 100, {"0–9": 2, "10–19": 1, "90–99": 0, "100": 1}),
        ([93, 95], 95, {"0–9": 0, "90–95": 2}),
        ([0, 4, 4], 4, {"0": 1, "1": 0, "2": 0, "3": 0, "4": 2}),
        ([4, 7], 4, {"0": 0, "3": 0, "4+": 2}),
        ([10**12], 95, {"90+": 1}),
        ([0], 1, {"0": 1, "1": 0}),
    ],
)
def test_the_bins_of_the_histogram(totals, maximum, expected):
    found = {bin.label: bin.students for bin in count_class_page_bins(totals, maximum)}
    assert expected.items() <= found.items()
    assert sum(found.values()) == len(totals)
    assert len(found) <= 11


def test_the_tallest_column_is_full_and_the_others_are_in_proportion():
    assert [bin.share for bin in count_class_page_bins([0, 1, 1, 1, 1], 1)] == [0.25, 1.0]


def test_who_needs_a_look_is_told_why():
    found = page(of(*CLASS))
    [looks] = found.texts("ul", "looks")
    assert looks == (
        f"alan {ONE} grader fault: no score (the suite cannot be run) {TWO} Line 1: eval is not allowed. "
        f"{THREE} could not be timed: run again emmy {TWO} the adjustment takes 7 points, but only 4 "
        f"were left: the mark is 0. not handed in: {THREE} "
        "notes.txt belongs to no exercise. mary handed in nothing"
    )
    assert "eval" in found.texts("code")


def test_if_nobody_needs_a_look_that_is_said():
    assert page(of(graded("ada", right(ONE)))).texts("section", "next") == [
        "Who needs a look Nobody."
    ]


def test_the_exercises_have_their_figures():
    assert page(of(*CLASS)).texts("table")[0] == (
        "Exercise Points Begun All right Mean "
        "Softmax ex01_softmax ! grader fault: 1 student 10 4 2 80% "
        "Masking ex02_masking 10 4 1 45% "
        "Scaled dot-product attention ex03_sdpa 10 3 3 100% "
        "Optional exercises, not counted in the total "
        "Multi-head attention ex04_heads 10 1 1 30%"
    )


def test_the_most_frequent_is_told_with_its_count_and_how_to_mend_it():
    mistakes, failed = page(of(*CLASS)).texts("ol", "frequent")
    assert mistakes == f"2 students Divided by D. {TWO} Divide by sqrt(D)."
    assert failed.startswith(f"2 students What own_b asks. {TWO} 2 students What own_c asks. {TWO}")


def test_what_is_less_frequent_is_folded():
    many = [replace(SCALED, id=f"own_{n:02}") for n in range(12)]
    students = [graded(f"s{n}", wrong(ONE, mistakes=[m])) for n, m in enumerate(many)]
    found = page(of(*students))
    assert "and 2 more" in found.texts("summary")
    assert [text.count("Divided") for text in found.texts("ol", "frequent")][:2] == [10, 2]


def test_the_speed_board_has_every_interval_in_words():
    found = page(of(*CLASS))
    [board] = found.texts("table", "board")
    assert board == (
        "Student Times the reference Fraction Points "
        "grace 0.90 (0.80–1.00) 0.50 1/3 ada 1.50 (1.40–1.60) 0.50 1/3"
    )
    assert "The scale goes from 0 to 1.60." in found.texts("p", "soft")


def test_the_further_track_is_timed_as_well():
    found = page(of(graded("ada", timed(ONE, 1.0), timed(FOUR, 1.0))))
    assert found.texts("summary")[:2] == ["Softmax · 1 student", "Multi-head attention · 1 student"]


def test_the_intervals_are_drawn_where_they_are():
    found = page(of(*CLASS))
    styles = [e.attributes["style"] for e in found.elements if e.tag in ("i", "b")]
    assert styles == [
        "left: 50.00%; width: 12.50%", "left: 56.25%",
        "left: 87.50%; width: 12.50%", "left: 93.75%",
    ]  # fmt: skip
    [board] = found.all("table", "board")
    assert board.attributes["style"] == "--one: 62.50%"


NAN = float("nan")


@pytest.mark.parametrize(
    "ratios, logarithmic, places",
    [
        ([0.8, 1.6], False, {0.0: 0.0, 0.8: 0.5, 1.0: 0.625, 1.6: 1.0}),
        ([0.1], False, {0.1: 0.1, 1.0: 1.0}),
        ([10.0], False, {1.0: 0.1, 10.0: 1.0}),
        ([0.1, 10.0], True, {0.1: 0.0, 1.0: 0.5, 10.0: 1.0}),
        ([100.0], True, {1.0: 0.0, 10.0: 0.5, 0.0: 0.0, -1.0: 0.0}),
        ([], False, {1.0: 1.0}),
        ([NAN, float("inf"), 0.0, -3.0, 2.0], False, {1.0: 0.5, float("inf"): 1.0, NAN: 0.0}),
    ],
)
def test_the_scale_of_a_speed_board(ratios, logarithmic, places):
    found = choose_class_page_scale(ratios)
    assert found.logarithmic == logarithmic
    for ratio, place in places.items():
        assert found.at(ratio) == pytest.approx(place)


def test_a_scale_over_more_than_a_decade_is_said_to_be_logarithmic():
    found = page(of(graded("ada", timed(ONE, 0.004, 0.001)), graded("bob", timed(ONE, 40.0))))
    assert "The scale goes from 0.003 to 40.10. It is logarithmic." in found.texts("p", "soft")


def test_every_student_has_a_row_with_a_word_for_every_sign():
    [table] = page(of(*CLASS)).texts("table", "all")
    assert table == (
        "Student Total /30 ex01 /10 ex02 /10 ex03 /10 ex04 /10 "
        "ada 24 10 4 10 – not handed in alan 10 ! grader fault 0 10 emmy 4 4 0* adjusted – not handed in "
        "grace 30 10 10 10 3 mary 0 – not handed in – not handed in – not handed in – not handed in"
    )
    assert "○ not started yet" in page(of(graded("ada", not_started(ONE)))).texts("td")


def test_an_adjustment_is_told_with_its_reason():
    assert f"emmy {TWO} -7: two days late" in page(of(*CLASS)).texts("li")


def test_a_student_without_a_page_has_no_link():
    found = page(of(graded("ada", right(ONE))))
    assert found.all("a") == []
    assert found.texts("bdi") == ["ada"]


@pytest.mark.parametrize("students", [(), CLASS[:1], CLASS])
def test_headings_descend_ids_are_unique_and_labels_are_there(students):
    found = page(of(*students))
    levels = [int(e.tag[1]) for e in found.elements if re.fullmatch("h[1-6]", e.tag)]
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
    ids = [e.attributes["id"] for e in found.elements if "id" in e.attributes]
    assert len(set(ids)) == len(ids)
    labels = {
        e.attributes["aria-labelledby"] for e in found.elements if "aria-labelledby" in e.attributes
    }
    assert labels <= set(ids)
    assert all(e.attributes.get("scope") for e in found.all("th"))


def test_a_class_of_nobody_says_so():
    found = page(of())
    assert found.texts("h2") == ["The class in figures", "Who needs a look", "Exercises"]
    assert "There are no students in this class." in found.texts("p")
    [tiles] = found.texts("dl", "tiles")
    assert tiles == "students 0 handed in something 0 mean, of 0 – median – full marks 0"


def test_a_class_of_one():
    found = page(of(graded("ada", right(ONE))))
    assert found.texts("h2") == [
        "The class in figures",
        "Totals",
        "Who needs a look",
        "Exercises",
        "All students",
    ]
    assert found.texts("summary") == ["1 student"]


def test_the_foot_has_the_facts():
    assert page(of(*CLASS)).texts("footer") == ["Versions torch 2.13.0 Wall locked"]


@pytest.mark.parametrize(
    "students, opened",
    [
        (10, ["10 students", "Masking · 10 students", "10 students"]),
        (40, ["40 students", "40 students"]),
        (41, []),
    ],
)
def test_long_lists_are_folded(students, opened):
    many = [graded(f"s{n}", timed(TWO, 1.0), missing(THREE)) for n in range(students)]
    text = drawn(of(*many))
    found = re.findall(r'<details class="list" open>\s*<summary>(.*)</summary>', text)
    assert found == opened
    assert text.count("<details") == 3
