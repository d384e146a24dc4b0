"""The lessons as HTML: code stays code, and formulas become MathML."""

import re

import pytest

from grader.core.catalog import ROOT
from grader.learn.lesson_html import render_lesson_text

LESSONS = sorted((ROOT / "docs" / "lessons").glob("*.md"))


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.name)
def test_a_lesson_keeps_its_code_and_draws_every_formula(path):
    text = path.read_text("utf-8")
    drawn = render_lesson_text(text)
    assert "CODE_BLOCK" not in drawn
    prose = re.sub(r"<pre.*?</pre>|<code>.*?</code>|<!--.*?-->", "", drawn, flags=re.DOTALL)
    assert "$" not in prose and "`" not in prose
    assert ("$" in text) == ("<math" in drawn)


def test_code_inside_a_fence_is_no_span_and_a_dollar_in_code_no_formula():
    drawn = render_lesson_text('```python\n"""Scale `q` by $x$."""\n```\n\nHere `$y$` is $z$.\n')
    assert "Scale `q` by $x$." in drawn
    assert "<code>$y$</code>" in drawn
    assert drawn.count("<math") == 1


def test_lines_of_chinese_are_joined_without_a_space_but_not_in_code():
    drawn = render_lesson_text("一张对照表。\n读别人的代码。\n\n```\n# 甲\n乙\n```\n")
    assert "一张对照表。读别人的代码。" in drawn
    assert "甲\n乙" in drawn


def test_a_formula_at_the_start_of_a_line_leaves_the_line_its_markdown():
    drawn = render_lesson_text("With\n$d$ = `rope_dim`:\n")
    assert "<code>rope_dim</code>" in drawn
    assert drawn.count("<p>") == 1
