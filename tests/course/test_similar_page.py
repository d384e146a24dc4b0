"""The page with similar answers side by side: what is common is marked, and nothing else gets out."""

import ast
import re
from itertools import product

import jinja2
import pytest

from grader.classroom.similar import similar_page
from grader.classroom.similar.similar_page import render_similar_page
from grader.classroom.similar.similar_search import SearchTerms, find_similar_answers
from grader.core import catalog
from grader.core.catalog import ROOT
from grader.core.translation import Words
from tests.course.copying import SLUG, handed_in, right, variant
from tests.reporting.browser import PROGRAM, browser
from tests.reporting.markup import Page
from tests.reporting.test_html_in_browser import OPEN_ALL, TOO_FAINT, TOO_WIDE

HOSTILE = "<script>alert(1)</script>{{ 7 * 7 }}"
IN_CODE = "'</pre><script>alert(2)</script>\u202e\x1b[31m'"

HEAD = "import math\nimport numpy as np\nimport torch\n\n\n"
PARTS = right(SLUG)["attention_numpy"][1], right(SLUG)["scaled_dot_product_attention"][2]


@pytest.fixture
def drawn(tmp_path):
    """drawn({"ada": source, ...}) -> the page about them."""

    def draw(sources, language="en", **terms):
        folder = handed_in(tmp_path, sources)
        found = find_similar_answers(
            folder, [], [catalog.find_catalog_exercise(SLUG)], SearchTerms(**terms)
        )
        return render_similar_page(found, Words(language))

    return draw


def test_what_two_have_in_common_is_marked_and_what_one_has_alone_is_not(drawn):
    alone = "\n\ndef alone(rows):\n    return [row.mine() for row in rows if row.mine]\n"
    first = f"{HEAD}{PARTS[0]}{alone}"
    text = drawn({"ada": first, "ben": f"{HEAD}{PARTS[0]}", "cem": variant(3)}, most=1)
    marked = " ".join(Page(text).texts("mark"))
    assert marked.count("scores = [scale * query.dot") == 2
    assert "row.mine()" not in marked


def test_lines_have_their_numbers_and_what_is_far_from_the_common_is_left_out(drawn):
    filling = "".join(f"# line {number}\n" for number in range(50))
    first, second = f"{filling}{PARTS[0]}\n", f"{PARTS[0]}\n{filling}"
    elements = Page(drawn({"ada": first, "ben": second, "cem": variant(3)}, most=1))
    left, right_side = elements.all("pre")
    assert "# line 47" not in left.text
    assert re.search(r"49# line 4850# line 4951def attention_numpy\(q, k, v, [^:]*:52 ", left.text)
    assert "# line 1" in right_side.text
    assert "# line 2\n" not in right_side.text


@pytest.mark.parametrize("language", ["en", "zh"])
def test_names_and_code_are_text(drawn, language):
    code = (
        f"{HEAD}{PARTS[0]}\n    shown = np.cat({IN_CODE}, 1, 2, 3)\n    return shown.one(2, 3)[4]\n"
    )
    sources = {HOSTILE.replace("/", ""): code, "ben": code, "cem": variant(3)}
    text = drawn(sources, language, most=1)
    assert "<script" not in text
    assert "\x1b" not in text
    assert "{{ 7 * 7 }}" in text
    shown = Page(text)
    assert any("</pre><script>alert(2)</script>" in pre.text for pre in shown.all("pre"))


def test_a_group_is_one_entry_with_all_its_names(drawn):
    same = {f"c{number}": f"{HEAD}{PARTS[0]}" for number in range(7)}
    elements = Page(drawn(same | {"ada": variant(2), "ben": variant(3)}, most=1))
    assert elements.texts("h2") == ["c0, c1, c2, c3, c4, c5, c6"]
    assert len(elements.all("figure")) == 10
    assert elements.texts("p", "soft")[-1] == "Alike as well: c6"


def test_what_could_not_be_read_stands_on_the_page(drawn):
    text = drawn({"ada": "", "ben": variant(1)})
    [sentence] = Page(text).texts("li")
    assert sentence.startswith(f"ada: {SLUG}.py is empty.")


def test_a_long_answer_does_not_make_a_long_page(drawn):
    code = f"{HEAD}{PARTS[0]}\n" + "".join(
        f"x{n} = np.exp(x{n - 1}[{n}], keepdims=True).sum()\n" for n in range(2000)
    )
    text = drawn({"ada": code, "ben": code}, most=1)
    assert text.count('class="line"') <= 2 * (similar_page.MAX_LINES + 2)


@pytest.mark.skipif(PROGRAM is None, reason="there is no Chromium: apt-get install chromium")
@pytest.mark.parametrize("width, scheme", list(product((320, 1280), ("light", "dark"))))
def test_in_a_browser_nothing_complains_and_nothing_is_too_wide_or_too_faint(
    drawn, tmp_path, width, scheme
):
    code = f"{HEAD}{PARTS[0]}\n    shown = {IN_CODE}\n    return {'x' * 200}.one(2, 3).two[4](5)\n"
    names = {HOSTILE.replace("/", ""): code, "b" * 100: code, "cem": code + PARTS[1]}
    path = tmp_path / "page.html"
    path.write_text(drawn(names | {"dia": variant(3)}), encoding="utf-8")
    with browser(tmp_path / "profile") as tab:
        tab.open(path, width=width, scheme=scheme)
        tab.run(OPEN_ALL)
        assert tab.complaints == []
        assert [url.rpartition("/")[2] for url in tab.requests] == ["page.html"]
        assert tab.run(TOO_WIDE) == []
        assert tab.run(TOO_FAINT) == []


def said() -> set[str]:
    template = (ROOT / "grader/reporting/similar.html.j2").read_text()
    calls = [
        call.args[0].value
        for call in jinja2.Environment().parse(template).find_all(jinja2.nodes.Call)
        if isinstance(call.node, jinja2.nodes.Name) and call.node.name == "words"
    ]
    for name in ("classroom/similar/similar_table.py", "cli/similar_command.py"):
        for node in ast.walk(ast.parse((ROOT / "grader" / name).read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "words":
                calls += [arg.value for arg in node.args if isinstance(arg, ast.Constant)]
    return {*calls, "Student", "Exercise", "Share of each", "Lines", "Tokens"}


@pytest.mark.parametrize("sentence", sorted(said()))
def test_every_sentence_exists_in_chinese(sentence):
    assert Words("zh")(sentence) != sentence
