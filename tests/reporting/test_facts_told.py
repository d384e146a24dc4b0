"""Every fact has a sentence in both languages, and stands where places and stage stand."""

import re

import pytest

from grader.core.catalog import ROOT
from grader.core.diagnosis_records import Fact
from grader.core.translation import Words, _read_core_translations
from grader.reporting import fact_text, github, html, junit
from grader.reporting.as_json import write_report_json
from grader.reporting.from_json import parse_report_json
from tests.reporting.samples import DIAGNOSIS, EVERYTHING
from tests.reporting.test_limited import views

SENTENCE = "In an example the weights of a row sum to 0.98, not to 1."
EXAMPLE = "By hand, with q = [[1]]: output is [[2]], but should be [[3]]."


def test_each_fact_that_is_found_has_a_sentence_and_each_sentence_a_fact():
    found = set()
    names = "weight_probes", "attention_probes", "module_probes", "cache_probes", "difference_facts"
    for name in names:
        text = (ROOT / f"grader/diagnosis/{name}.py").read_text("utf-8")
        found |= set(re.findall(r'fact\(\s*"(\w+)"|Fact\(key="(\w+)"', text))
    keys = {one or other for one, other in found}
    unseen = set(fact_text.FACT_SENTENCES) - keys
    assert keys <= set(fact_text.FACT_SENTENCES)
    composed = (
        "ignores_",
        "taken_as_",
        "other_",
        "later_key",
        "forbidden_key",
        "key_missed",
        "later_token",
        "forbidden_token",
    )
    assert all(key.startswith(composed) for key in unseen)


def test_each_sentence_is_there_in_chinese():
    assert set(fact_text.FACT_SENTENCES.values()) <= _read_core_translations().keys()


@pytest.mark.parametrize(
    "x, written",
    [(0.98, "0.98"), (1.00001, "1.00001"), (3, "3"), (-1000.0, "-1000"), (0.123456, "0.1235")],
)
def test_numbers_are_short_and_never_look_right_where_they_are_wrong(x, written):
    [told] = fact_text.report_facts([Fact(key="row_sums", values={"sum": x})], Words())
    assert told == f"In an example the weights of a row sum to {written}, not to 1."


@pytest.mark.parametrize("told", [SENTENCE, EXAMPLE])
def test_a_fact_and_the_small_example_stand_in_every_view(told):
    shown = views(EVERYTHING)
    assert shown.count(told) >= 3  # the terminal, the summary, the annotations
    assert told in html.render_html_report(EVERYTHING, Words())
    assert told in junit.render_junit_report(EVERYTHING, Words())
    assert any(told in x for x in github.render_github_annotations(EVERYTHING, Words()))


def test_both_are_told_in_chinese_as_well():
    chinese = html.render_html_report(EVERYTHING, Words("zh"))
    assert "一行的权重之和是 0.98，不是 1。" in chinese
    assert "手算：q = [[1]] 时，output 是 [[2]]，应为 [[3]]。" in chinese


def test_facts_come_back_from_json():
    again = parse_report_json(write_report_json(EVERYTHING))
    told = [c.diagnosis for e in again.exercises for c in e.checks if c.diagnosis]
    assert told[0].facts == (Fact(key="row_sums", values={"sum": 0.98}), Fact(key="ignores_k"))
    assert told[0].example == DIAGNOSIS.example
