"""The class page in Chinese: every sentence of it exists in both languages."""

import re
import tomllib
from dataclasses import replace

import jinja2
import pytest

from grader.core.catalog import ROOT
from grader.core.diagnosis_records import Diagnosis, NamedMistake
from grader.core.records import Verdict
from grader.core.translation import Words
from grader.reporting.class_page import render_class_page
from tests.course.test_chinese import HAN
from tests.reporting.class_samples import (
    ONE,
    THREE,
    TWO,
    fault,
    graded,
    inconclusive,
    missing,
    not_started,
    of,
    right,
    wrong,
)
from tests.reporting.markup import Page
from tests.reporting.samples import check


def said_by_the_templates() -> set[str]:
    found = set()
    for name in ("class.html.j2", "class_macros.html.j2"):
        source = (ROOT / "grader/reporting" / name).read_text()
        for call in jinja2.Environment().parse(source).find_all(jinja2.nodes.Call):
            if isinstance(call.node, jinja2.nodes.Name) and call.node.name == "words":
                found.add(call.args[0].value)
    return found


def said_by_the_code() -> set[str]:
    source = (ROOT / "grader/reporting/class_page.py").read_text()
    return set(re.findall(r'self\._words\("([^"]+)"', source)) | {
        "The scale goes from {low} to {high}."
    }


@pytest.mark.parametrize("sentence", sorted(said_by_the_templates() | said_by_the_code()))
def test_every_sentence_of_the_page_exists_in_chinese(sentence):
    assert Words("zh")(sentence) != sentence


STUDENTS = {
    "fault": graded("a", fault(ONE)),
    "fault without a reason": graded("a", replace(fault(ONE), sentence="")),
    "inconclusive": graded("a", inconclusive(ONE)),
    "missing": graded("a", right(ONE), missing(TWO), missing(THREE)),
    "nothing": graded("a", missing(ONE)),
    "skeletons": graded("a", not_started(ONE)),
    "a total of 0": graded("a", wrong(ONE, 0)),
    "notes": graded("a", right(ONE), notes=("",) * 12),
}


@pytest.mark.parametrize("name", STUDENTS)
def test_why_somebody_should_look_is_told_in_chinese(name):
    text = render_class_page(of(STUDENTS[name]), Words("zh"), title="Spring", facts={})
    [looks] = Page(text).texts("ul", "looks")
    assert HAN.search(looks)


def test_titles_checks_and_mistakes_are_told_in_chinese():
    entries = tomllib.loads((ROOT / f"grader/suites/{ONE}/zh.toml").read_text())
    id, mistake = next(iter(entries["mistakes"].items()))
    named = NamedMistake(id=id, says="In English.", mend="In English.")
    failed = check("test_values", Verdict.FAILED, diagnosis=Diagnosis(mistakes=(named,)))
    summary = of(graded("ada", wrong(ONE, checks=(failed,))))
    found = Page(render_class_page(summary, Words("zh"), title="Spring", facts={}))
    mistakes, checks = found.texts("ol", "frequent")
    says, mend = (mistake[part].replace("`", "") for part in ("says", "mend"))
    assert mistakes == f"1 名学生 {says} {ONE} {mend}"
    assert checks == f"1 名学生 {entries['checks']['test_values'].replace('`', '')} {ONE}"
    assert found.texts("table")[0].startswith(f"题目 得分 已开始 全部正确 平均 {entries['title']}")
    assert found.all("html")[0].attributes["lang"] == "zh-Hans"
