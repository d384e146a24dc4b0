"""Every sentence of the page exists in both languages."""

import ast

import jinja2
import pytest

from grader.core.catalog import ROOT
from grader.core.records import Verdict
from grader.core.translation import Words
from grader.reporting import html


def said_by_the_template() -> set[str]:
    source = (ROOT / "grader/reporting/report.html.j2").read_text()
    calls = jinja2.Environment().parse(source).find_all(jinja2.nodes.Call)
    return {c.args[0].value for c in calls if c.args and isinstance(c.args[0], jinja2.nodes.Const)
            and isinstance(c.node, jinja2.nodes.Name) and c.node.name == "words"}  # fmt: skip


def said_by_the_code() -> set[str]:
    tree = ast.parse((ROOT / "grader/reporting/html.py").read_text())
    calls = [
        n
        for n in ast.walk(tree)
        if isinstance(n, ast.Call) and ast.unparse(n.func) == "self._words"
    ]
    looks = [html._LOOKS[v][2] for v in Verdict] + ["partly"]
    return {c.args[0].value for c in calls} | set(looks)


@pytest.mark.parametrize("sentence", sorted(said_by_the_template() | said_by_the_code()))
def test_every_sentence_of_the_page_exists_in_chinese(sentence):
    assert Words("zh")(sentence) != sentence
