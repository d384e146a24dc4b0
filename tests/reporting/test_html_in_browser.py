"""The report in a real browser: silent, asking for nothing, never too wide, readable, and right."""

import re
from itertools import product

import pytest

from grader.core.translation import Words
from grader.reporting import as_json
from grader.reporting.html import render_html_report
from tests.conftest import solution
from tests.reporting.browser import PROGRAM, browser
from tests.reporting.samples import EVERYTHING, HOSTILE, LONG, everywhere, report

pytestmark = pytest.mark.skipif(
    PROGRAM is None, reason="there is no Chromium: apt-get install chromium"
)

WIDTHS, SCHEMES = (320, 768, 1280), ("light", "dark")
RUNS = {"everything": EVERYTHING, "hostile": everywhere(HOSTILE), "long": everywhere(LONG)}

OPEN_ALL = "document.querySelectorAll('details').forEach(d => d.open = true)"
# What reaches beyond the window, or beyond a box that does not scroll.
TOO_WIDE = """
[...document.querySelectorAll('body *')].filter(e => {
  const held = e.parentElement.closest('pre.printed, .waits, .spoken');
  const box = e.getBoundingClientRect(), style = getComputedStyle(e);
  const spills = e.scrollWidth > e.clientWidth + 1 && style.overflowX === 'visible'
    && style.display !== 'inline' && !(e instanceof SVGElement);
  return !held && (spills || box.right > document.documentElement.clientWidth + 0.5 || box.left < -0.5);
}).map(e => e.outerHTML.slice(0, 120)).concat(
  document.documentElement.scrollWidth > document.documentElement.clientWidth ? ['the page itself'] : [])
"""
# Text whose contrast with what it stands on is below 4.5, or below 3 where it is large.
TOO_FAINT = """
(() => {
  const parts = c => c.match(/[\\d.]+/g).map(Number);
  const light = c => [0.2126, 0.7152, 0.0722].reduce((sum, w, n) => {
    const x = parts(c)[n] / 255;
    return sum + w * (x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4);
  }, 0.05);
  const ground = e => {
    const c = getComputedStyle(e).backgroundColor;
    return parts(c)[3] === 0 && e.parentElement ? ground(e.parentElement) : c;
  };
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), faint = [];
  while (walk.nextNode()) {
    const e = walk.currentNode.parentElement, style = getComputedStyle(e);
    if (!walk.currentNode.data.trim() || e.closest('.spoken')) continue;
    const [a, b] = [light(style.color), light(ground(e))];
    const least = parseFloat(style.fontSize) >= 24 ? 3 : 4.5;
    if (Math.max(a, b) / Math.min(a, b) < least) faint.push(walk.currentNode.data.trim());
  }
  return faint;
})()
"""


@pytest.fixture(scope="module")
def tab(tmp_path_factory):
    with browser(tmp_path_factory.mktemp("profile")) as page:
        yield page


@pytest.fixture
def shown(tab, tmp_path):
    """shown(text, width=..., scheme=...) -> the tab with that page, everything in it open."""

    def show(text: str, **how):
        path = tmp_path / "report.html"
        path.write_text(text, encoding="utf-8")
        tab.open(path, **how)
        tab.run(OPEN_ALL)
        return tab

    return show


@pytest.mark.parametrize("name, width, scheme", list(product(RUNS, WIDTHS, SCHEMES)))
def test_nothing_complains_and_nothing_is_too_wide_or_too_faint(shown, name, width, scheme):
    tab = shown(render_html_report(RUNS[name], Words("en")), width=width, scheme=scheme)
    assert tab.complaints == []
    assert [re.sub(".*/", "", url) for url in tab.requests] == ["report.html"]
    assert tab.run(TOO_WIDE) == []
    assert tab.run(TOO_FAINT) == []


@pytest.mark.parametrize("width", WIDTHS)
def test_the_chinese_page_fits_as_well(shown, width):
    assert shown(render_html_report(EVERYTHING, Words("zh")), width=width).run(TOO_WIDE) == []


def test_the_dark_page_is_dark_and_the_printed_one_is_light(shown):
    colours = (
        "(({backgroundColor, color}) => [backgroundColor, color])(getComputedStyle(document.body))"
    )
    text = render_html_report(EVERYTHING, Words("en"))
    ink = "rgb(26, 32, 41)"
    assert shown(text, scheme="light").run(colours) == ["rgb(245, 246, 248)", ink]
    assert shown(text, scheme="dark").run(colours) == ["rgb(18, 21, 26)", "rgb(230, 233, 238)"]
    assert shown(text, scheme="dark", media="print").run(colours) == ["rgb(255, 255, 255)", ink]


def test_a_print_shows_what_is_closed(shown):
    text = render_html_report(EVERYTHING, Words("en"))
    closed = "(document.querySelectorAll('details').forEach(d => d.open = false), "
    seen = closed + "document.querySelector('li').checkVisibility({contentVisibilityAuto: true}))"
    assert shown(text).run(seen) is False
    assert shown(text, media="print").run(seen) is True


@pytest.mark.parametrize("width", WIDTHS)
def test_the_mark_of_the_speed_stands_where_it_was_measured(shown, width):
    at = """(() => {
      const [rail, mark] = ['.rail', '.yours'].map(s => document.querySelector(s).getBoundingClientRect());
      return [(mark.left + mark.width / 2 - rail.left) / rail.width, rail.width];
    })()"""
    place, long = shown(render_html_report(EVERYTHING, Words("en")), width=width).run(at)
    assert place == pytest.approx(0.66, abs=0.01)
    assert long > 100


def test_the_numbers_of_a_real_report_are_those_of_its_record(shown, graded):
    wrong = solution("ex02_masking").replace("~blocked", "blocked.clone()")
    run = report(graded("ex01_softmax", solution("ex01_softmax")), graded("ex02_masking", wrong))
    record = as_json.convert_report_to_dict(run)
    tab = shown(render_html_report(run, Words("en")), width=320)
    numbers = "[...document.querySelectorAll('{}')].map(e => e.innerText.trim())"
    score = record["score"]
    top = f"{score['earned']}/{score['possible'] + score['not_run']} points"
    assert tab.run("document.querySelector('h1').innerText") == top
    for e in record["exercises"]:
        at = f"#{e['slug']} "
        assert tab.run(numbers.format(f"{at}summary .points")) == [
            f"{e['score']['earned']}/{e['score']['possible']}"
        ]
        asked = [f"{c['earned']}/{c['points']}" for c in e["checks"]]
        assert tab.run(numbers.format(f"{at}li .points")) == asked
        assert tab.run(numbers.format(f"{at}pre")) == [c["why"] for c in e["checks"] if c["why"]]
    assert tab.run(numbers.format("li.bad .tip strong")) == [
        "The mask comes back with the polarity that it had."
    ]


# The page with a fault put into it: what the tests above must notice.
def test_a_page_that_does_not_break_long_words_is_noticed(shown):
    text = render_html_report(RUNS["long"], Words("en")).replace("overflow-wrap: anywhere", "")
    assert shown(text, width=1280).run(TOO_WIDE) != []


def test_a_page_in_faint_colours_is_noticed(shown):
    text = render_html_report(EVERYTHING, Words("en")).replace("--soft: #525c68", "--soft: #8a94a0")
    assert shown(text).run(TOO_FAINT) != []
    assert shown(text, scheme="dark").run(TOO_FAINT) == []


@pytest.mark.parametrize(
    "hole", ["<script>alert(1)</script>", "<img src='https://example.org/x.png'>"]
)
def test_a_hole_in_the_page_is_closed_by_its_policy_and_noticed(shown, hole):
    text = render_html_report(EVERYTHING, Words("en")).replace("<footer>", f"{hole}<footer>")
    assert any("Content Security Policy" in complaint for complaint in shown(text).complaints)
