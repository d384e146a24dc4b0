"""The report as a page: what stands in it, that it is safe, and that it can be read."""

import re
from dataclasses import replace
from itertools import pairwise

import pytest

from grader.core.records import Report, Score, Verdict
from grader.core.translation import Words
from grader.reporting import next_step
from grader.reporting.html import render_html_report
from tests.reporting.markup import Page
from tests.reporting.samples import (
    CHECKS,
    EVERYTHING,
    FAULT,
    FURTHER,
    HOSTILE,
    LONG,
    MEASURED,
    NOT_RUN,
    NOT_STARTED,
    REFUSED,
    RIGHT,
    SCORED,
    check,
    everywhere,
    exercise,
    report,
)

MAPS = (
    "row 0, key 0: 0.75 row 0, key 1: 0.25 row 1, key 0: 0.5 row 1, key 1: nan yours "
    "row 0, key 0: 1 row 0, key 1: 0 row 1, key 0: 0.5 row 1, key 1: 0.5 right "
    "row 0, key 0: 0.25 row 0, key 1: 0.25 row 1, key 0: 0 row 1, key 1: nan difference"
)


def page(report: Report, language: str = "en") -> Page:
    return Page(render_html_report(report, Words(language)))


def test_the_score_stands_at_the_top():
    assert page(EVERYTHING).texts("h1") == ["9/31 points"]
    assert "9/31" in page(EVERYTHING).texts("title")[0]


def test_without_points_no_score_is_claimed():
    assert page(report(FAULT)).texts("h1") == ["No points"]
    assert page(report(FURTHER)).texts("h1") == ["No points"]


def test_every_exercise_has_its_points_and_a_word_on_them():
    drawn = page(EVERYTHING)
    assert drawn.texts("summary") == [
        "Softmax ex01_softmax · all right 4/4",
        "Scaled dot-product attention ex03_sdpa · 1 of 3 checks passed · 2 points not run 5/11",
        "Causal masks ex05_causal_mask · not graded: it uses something that is not allowed · 2 points not run 0/8",
        "The key/value cache ex06_kv_cache · not started yet · 2 points not run 0/8",
        "The fast path ex08_cuda_sdpa · 1 of 3 checks passed 7/7",
    ]
    assert page(report(FAULT)).texts("summary") == [
        "Multi-query and grouped-query attention ex07_mqa_gqa · grader fault: no score –"
    ]


def test_the_bar_of_an_exercise_is_as_full_as_its_score():
    found = [e.attributes["style"] for e in page(EVERYTHING).all("span") if "style" in e.attributes]
    assert found == [f"width: {w}" for w in ("100.00%", "45.45%", "0.00%", "0.00%", "100.00%")]


def test_every_check_is_a_sentence_with_its_sign_and_points():
    told = page(report(exercise(speed=None))).texts("li")
    assert told == [
        "✓ passed: What own_a asks. 4/4",
        "✗ failed: What own_b asks. 0/2 out[0] is 1, but should be 2 3 of 4 entries differ. "
        "Divided by D. Divide by sqrt(D). Or: Not divided. Wrong: head 3 only, of 8; rows 0 to 1, of 9. "
        "In an example the weights of a row sum to 0.98, not to 1. The output does not change with the keys. "
        "By hand, with q = [[1]]: output is [[2]], but should be [[3]]. "
        "Line 14 is the first whose value differs from a right answer: scores is (2, 4), should be (2, 3). "
        "In an example with 6 tokens of width 4: The scores may be right; the mask hides the wrong keys. "
        + MAPS,
        "· waiting: What own_c asks. 0/2 blocked by: What own_b asks.",
        "○ not run: What own_d asks. –/2 needs CUDA",
    ]


def test_what_went_wrong_keeps_its_lines():
    [why] = page(report(exercise(speed=None))).all("pre")
    assert why.text == "out[0] is 1, but should be 2\n3 of 4 entries differ."


def test_code_in_a_sentence_is_shown_as_code():
    assert "sqrt(D)" in page(report(exercise())).texts("code")


def test_the_weights_of_a_small_example_are_drawn_side_by_side():
    drawn = page(report(exercise()))
    assert drawn.texts("figcaption") == ["yours", "right", "difference"]
    shades = [e.attributes.get("fill-opacity") for e in drawn.all("rect")][-12:]
    assert shades[:4] == ["0.750", "0.250", "0.500", None]
    assert shades[4:] == ["1.000", "0.000", "0.500", "0.500", "0.250", "0.250", "0.000", None]
    assert len(drawn.all("rect", "odd")) == 2


def test_what_an_exercise_waits_for_is_said_once():
    text = render_html_report(report(RIGHT, NOT_STARTED), Words("en"))
    assert text.count("Not started yet.") == 1


def test_the_speed_is_on_the_scale_and_in_words():
    drawn = page(report(exercise(checks=())))
    interval = next(e for e in drawn.elements if e.attributes.get("class") == "interval")
    assert (interval.attributes["x1"], interval.attributes["x2"]) == ("61.00%", "72.00%")
    assert drawn.all("circle")[0].attributes["cx"] == "66.00%"
    assert drawn.texts("div", "speed") == [
        "◐ partly: As fast as can be. 1/3 zero 40 ms 1.2 times the reference: 6.3 ms yours 12.3 ms: 2.34 times the "
        "reference (2.10 to 2.50), at 0.66 of the way (0.61 to 0.72); 2 rounds device: NVIDIA H200"
    ]
    [bar] = [e for e in drawn.all("svg") if e.attributes.get("role") == "img"]
    assert bar.attributes["aria-label"].startswith("yours 12.3 ms: 2.34 times the reference")


@pytest.mark.parametrize(
    "changes, says",
    [
        ({"earned": 3}, "✓ passed: As fast as can be. 3/3"),
        ({"earned": 0}, "✗ failed: As fast as can be. 0/3"),
        (
            {"verdict": "failed", "earned": 0, "why": "slow"},
            "✗ failed: As fast as can be. 0/3 slow",
        ),
        (
            {"verdict": "not_run", "why": "needs CUDA"},
            "○ not run: As fast as can be. –/3 needs CUDA",
        ),
        ({"verdict": "inconclusive", "why": "busy"}, "○ not run: As fast as can be. –/3 busy"),
        ({"why": "worth a look"}, "◐ partly: As fast as can be. 1/3 worth a look"),
    ],
)
def test_the_verdict_on_speed_has_its_sign_and_reason(changes, says):
    drawn = page(report(exercise(speed=replace(SCORED, measured=None, **changes))))
    assert drawn.texts("div", "speed") == [says]


def test_bytes_are_told_in_their_unit():
    memory = replace(MEASURED, unit="bytes", typical=(2.0**28, 2.0**22, 2.0**24))
    assert page(report(exercise(speed=replace(SCORED, measured=memory)))).texts("p", "ends") == [
        "zero 256.0 MiB 1.2 times the reference: 4.8 MiB"
    ]


def test_what_it_printed_is_shown_as_it_was_and_scrolls_by_the_keyboard():
    [printed] = page(report(exercise(output="\n\n  a  b\n"))).all("pre", "printed")
    assert printed.text == "\n\n\n  a  b\n"  # a page leaves out the first
    assert printed.attributes["tabindex"] == "0"


FASTER = exercise("ex01_softmax", checks=CHECKS[:1])
SLOW = replace(FASTER, speed=replace(SCORED, verdict="failed", earned=0))


@pytest.mark.parametrize(
    "exercises, kind, says",
    [
        ([RIGHT, FAULT], "report_fault", "Next The grader itself failed on an exercise marked below. Please report it."),
        ([NOT_STARTED, exercise()], "mend_check", "Next exercises/ex03_sdpa.py What own_b asks."),
        ([RIGHT, NOT_STARTED, FASTER], "start", "Next Read the lesson, then write the answer: docs/lessons/ex06_kv_cache.en.md, exercises/ex06_kv_cache.py"),
        ([REFUSED, exercise()], "mend_file", "Next exercises/ex05_causal_mask.py Line 1: eval is not allowed."),
        ([FASTER, exercise()], "mend_check", "Next exercises/ex03_sdpa.py What own_b asks."),
        ([RIGHT, SLOW], "mend_speed", "Next exercises/ex01_softmax.py As fast as can be."),
        ([RIGHT, FASTER], "faster", "Next exercises/ex01_softmax.py Right, and it could be faster."),
        ([RIGHT], "nothing", "Next All checks passed."),
        ([NOT_RUN], "not_run", "Next No check could be run here."),
        ([NOT_RUN, RIGHT], "nothing", "Next All checks passed."),
    ],
)  # fmt: skip
def test_the_next_thing_to_do_is_told(exercises, kind, says):
    run = report(*exercises)
    assert next_step.choose_reported_next_step(run).kind == kind
    assert page(run).texts("section", "next") == [says]


def test_the_exercise_to_mend_is_open_and_the_others_are_not():
    opened = [e.attributes["id"] for e in page(EVERYTHING).all("details") if "open" in e.attributes]
    assert opened == ["ex03_sdpa"]
    [only] = page(report(RIGHT)).all("details")
    assert "open" in only.attributes


def test_the_further_track_stands_apart():
    assert page(EVERYTHING).texts("h2", "further") == [
        "Optional exercises, not counted in the total"
    ]
    assert page(report(RIGHT)).all("h2", "further") == []


def test_the_footer_says_what_was_graded_and_where():
    [told] = page(report(RIGHT)).texts("footer")
    assert told == (
        "Seed 5eed (SEED=5eed repeats this run's inputs) Device cpu Wall locked Took 1.2 s "
        f"Versions torch 2.13.0 exercises/ex01_softmax.py sha256 {'a' * 64}"
    )


def test_the_seed_is_told_only_in_a_run_of_ones_own():
    text = render_html_report(report(RIGHT, seed=None), Words("en"))
    assert "5eed" not in text
    assert "0" * 16 in text


def test_the_student_is_named_where_it_is_someone():
    assert page(report(RIGHT, student="ada")).texts("bdi") == ["ada"]
    assert page(report(RIGHT)).texts("bdi") == []


@pytest.mark.parametrize("run", [EVERYTHING, report(exercise()), report(FAULT)])
def test_headings_descend_step_by_step_and_links_lead_somewhere(run):
    drawn = page(run)
    levels = [int(e.tag[1]) for e in drawn.elements if re.fullmatch("h[1-6]", e.tag)]
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
    ids = [e.attributes["id"] for e in drawn.elements if "id" in e.attributes]
    assert len(set(ids)) == len(ids)
    assert {e.attributes["href"][1:] for e in drawn.all("a")} <= set(ids)


@pytest.mark.parametrize("language, tag", [("en", "en"), ("zh", "zh-Hans")])
def test_the_page_says_its_language(language, tag):
    assert page(EVERYTHING, language).all("html")[0].attributes["lang"] == tag


def test_nothing_of_a_submission_becomes_markup():
    hurt, harmless = page(everywhere(HOSTILE)), page(everywhere("`x`"))
    assert [e.tag for e in hurt.elements] == [e.tag for e in harmless.elements]
    assert [sorted(e.attributes) for e in hurt.elements] == [
        sorted(e.attributes) for e in harmless.elements
    ]


def test_what_a_submission_says_arrives_as_it_was():
    hurt = page(everywhere(HOSTILE))
    assert [e.text for e in hurt.all("pre", "printed")] == [f"\n{HOSTILE}"] * 2
    assert [e.text for e in hurt.all("pre")].count(f"{HOSTILE}\n{HOSTILE}") == 2
    assert hurt.all("bdi")[0].text == HOSTILE


def test_the_page_needs_nothing_from_elsewhere():
    text = render_html_report(EVERYTHING, Words("en"))
    drawn = Page(text)
    assert drawn.all("script") == []
    assert [e.attributes["href"] for e in drawn.all("link")] == ["data:,"]
    assert not re.search(r"url\(|@import|https?:|\bsrc=", text)
    assert "default-src 'none'" in text


def test_the_chinese_page_is_chinese():
    drawn = page(
        report(exercise("ex03_sdpa", checks=(check("test_values", Verdict.PASSED),), speed=None)),
        "zh",
    )
    assert drawn.texts("summary")[0].startswith("缩放点积注意力")
    assert "权重就是这个 softmax 的结果（float32）。" in drawn.texts("li")[0]


def test_a_long_word_does_not_change_what_is_told():
    assert page(everywhere(LONG)).texts("bdi") == [LONG]


def test_points_not_run_are_told_in_the_singular_too():
    one = replace(RIGHT, score=Score(earned=4, possible=4, not_run=1))
    assert "all right · 1 point not run" in page(report(one)).texts("summary")[0]
