"""The line of the first wrong value stands in every view, in both languages."""

from dataclasses import replace

import pytest

from grader.core.diagnosis_records import Diagnosis, PinnedLine
from grader.core.translation import Words
from grader.reporting import github, html, junit, pinned_text
from grader.reporting.as_json import write_report_json
from grader.reporting.from_json import parse_report_json
from grader.reporting.redact import redact_report
from grader.submission.replacements import ReplacementKind
from tests.reporting.samples import CHECKS, DIAGNOSIS, EVERYTHING, exercise, report
from tests.reporting.test_limited import views

FIRST = "Line 14 is the first whose value differs from a right answer: "
SENTENCE = f"{FIRST}`scores` is (2, 4), should be (2, 3)."


@pytest.mark.parametrize(
    "changes, english, chinese",
    [
        ({}, SENTENCE, "从第 14 行起，算出的值与正确答案不同：`scores` 是 (2, 4)，应为 (2, 3)。"),
        ({"right": (2, 4)}, f"{FIRST}`scores` is (2, 4), as it should be, but with other numbers.",
         "从第 14 行起，算出的值与正确答案不同：`scores` 的形状 (2, 4) 是对的，数值不对。"),
        ({"right": None, "name": "return[0]"}, f"{FIRST}what it returns is (2, 4).",
         "从第 14 行起，算出的值与正确答案不同：返回值是 (2, 4)。"),
        ({"got": (), "right": ()}, f"{FIRST}`scores` is another number.",
         "从第 14 行起，算出的值与正确答案不同：`scores` 是另一个数。"),
        ({"name": "", "got": (), "right": None}, f"{FIRST[:-2]}.", "从第 14 行起，算出的值与正确答案不同。"),
        ({"change": "COMPARISON", "text": "keep = j < i"},
         "Line 14, `keep = j < i`: with another comparison there, this check passes.",
         "第 14 行 `keep = j < i`：只要换一个比较符号，这项检查就能通过。"),
        ({"change": "ARGUMENT", "text": "y = x.sum(-1, True)", "dropped": "True"},
         "Line 14, `y = x.sum(-1, True)`: with `True` left out, this check passes.",
         "第 14 行 `y = x.sum(-1, True)`：只要去掉 `True` ，这项检查就能通过。"),
        ({"cell": 4}, SENTENCE.replace("14", "14 of cell 4"),
         "从单元格 4 第 14 行起，算出的值与正确答案不同：`scores` 是 (2, 4)，应为 (2, 3)。"),
    ],
)  # fmt: skip
def test_each_sentence_is_there_in_both_languages(changes, english, chinese):
    pinned = replace(DIAGNOSIS.pinned, **changes)
    assert list(pinned_text.report_pinned_line(pinned, Words())) == [english]
    assert list(pinned_text.report_pinned_line(pinned, Words("zh"))) == [chinese]


@pytest.mark.parametrize("kind", ReplacementKind)
def test_every_kind_of_change_has_words_in_both_languages(kind):
    pinned = PinnedLine(line=3, change=kind.name, text="return x")
    [english] = pinned_text.report_pinned_line(pinned, Words())
    [chinese] = pinned_text.report_pinned_line(pinned, Words("zh"))
    assert english.startswith("Line 3, `return x`: with ") and "a change" not in english
    assert chinese.startswith("第 3 行 `return x`：") and "with" not in chinese


def test_the_line_stands_in_every_view():
    plain = SENTENCE.replace("`", "")
    assert SENTENCE in " ".join(views(EVERYTHING).split())
    assert plain in html.render_html_report(EVERYTHING, Words()).replace("<code>", "").replace(
        "</code>", ""
    )
    assert SENTENCE in junit.render_junit_report(EVERYTHING, Words())


def test_an_annotation_stands_at_the_line_of_a_file_and_at_none_of_a_notebook():
    [first] = github.render_github_annotations(report(exercise()), Words())
    assert ",line=14,title=" in first and SENTENCE in first
    cell = Diagnosis(pinned=PinnedLine(line=14, cell=4, name="scores", got=()))
    checks = tuple(replace(c, diagnosis=c.diagnosis and cell) for c in CHECKS)
    [first] = github.render_github_annotations(report(exercise(checks=checks)), Words())
    assert ",line=" not in first and "Line 14 of cell 4" in first


def test_hints_do_not_tell_the_line():
    shown = redact_report(report(exercise()), "hints")
    [first] = github.render_github_annotations(shown, Words())
    assert ",line=" not in first and "scores" not in first


@pytest.mark.parametrize("changes", [{}, {"change": "NAME", "text": "return x"}])
def test_the_line_comes_back_from_json(changes):
    known = replace(DIAGNOSIS, pinned=replace(DIAGNOSIS.pinned, **changes))
    checks = tuple(replace(c, diagnosis=c.diagnosis and known) for c in CHECKS)
    again = parse_report_json(write_report_json(report(exercise(checks=checks))))
    told = [c.diagnosis.pinned for e in again.exercises for c in e.checks if c.diagnosis]
    assert told[0] == known.pinned


def test_a_cure_that_two_mistakes_share_is_told_once_in_every_view():
    one, other = DIAGNOSIS.mistakes
    cure = "Divide by the root of D."
    both = replace(DIAGNOSIS, mistakes=(replace(one, mend=cure), replace(other, mend=cure)))
    failed = replace(CHECKS[1], diagnosis=both)
    shown = report(exercise(checks=(failed,), speed=None))
    named = [view for view in views(shown).split("\n") if "Not divided." in view]
    assert len(named) >= 4
    told = views(shown).replace(write_report_json(shown), "")
    assert told.count(cure) == told.count("Not divided.")
