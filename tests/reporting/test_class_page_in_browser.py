"""The class page in a real browser: silent, asking for nothing, never too wide, readable."""

import re
from itertools import product

import pytest

from grader.core.translation import Words
from grader.reporting.class_page import render_class_page
from tests.reporting.browser import PROGRAM, browser
from tests.reporting.class_samples import CLASS, everywhere, of
from tests.reporting.samples import HOSTILE, LONG
from tests.reporting.test_html_in_browser import OPEN_ALL, TOO_FAINT, TOO_WIDE

pytestmark = pytest.mark.skipif(
    PROGRAM is None, reason="there is no Chromium: apt-get install chromium"
)

WIDTHS, SCHEMES = (320, 390, 1280), ("light", "dark")
CLASSES = {"class": of(*CLASS), "hostile": everywhere(HOSTILE), "long": everywhere(LONG)}
# Tables may be wider than the window: they scroll.
WIDER = TOO_WIDE.replace("'pre.printed", "'.scroll, pre.printed")


@pytest.fixture(scope="module")
def tab(tmp_path_factory):
    with browser(tmp_path_factory.mktemp("profile")) as page:
        yield page


@pytest.fixture
def shown(tab, tmp_path):
    """shown(name, language, ...) -> the tab with the page of that class, everything in it open."""

    def show(name: str, language: str = "en", **how):
        path = tmp_path / "class.html"
        text = render_class_page(
            CLASSES[name], Words(language), title="Spring", facts={"Wall": "locked"}
        )
        path.write_text(text, encoding="utf-8")
        tab.open(path, **how)
        tab.run(OPEN_ALL)
        return tab

    return show


@pytest.mark.parametrize("name, width, scheme", list(product(CLASSES, WIDTHS, SCHEMES)))
def test_nothing_complains_and_nothing_is_too_wide_or_too_faint(shown, name, width, scheme):
    tab = shown(name, width=width, scheme=scheme)
    assert tab.complaints == []
    assert [re.sub(".*/", "", url) for url in tab.requests] == ["class.html"]
    assert tab.run(WIDER) == []
    assert tab.run(TOO_FAINT) == []


@pytest.mark.parametrize("width", WIDTHS)
def test_the_chinese_page_fits_as_well(shown, width):
    assert shown("class", "zh", width=width).run(WIDER) == []


def test_a_wide_table_scrolls_and_the_names_stay(shown):
    left = "document.querySelector('.all td').getBoundingClientRect().left"
    name = "document.querySelector('.all tbody th').getBoundingClientRect().left"
    tab = shown("class", width=320)
    before = tab.run(left), tab.run(name)
    tab.run("document.querySelector('.all').parentElement.scrollLeft = 20")
    assert (before[0] - tab.run(left), tab.run(name)) == (20, before[1])


@pytest.mark.parametrize("width", WIDTHS)
def test_the_mark_of_a_speed_stands_where_it_was_measured(shown, width):
    places = """(() => [...document.querySelectorAll('.rail')].map(rail => {
      const box = rail.getBoundingClientRect(), mark = rail.querySelector('b').getBoundingClientRect();
      return (mark.left + mark.width / 2 - box.left) / box.width * 1.6;
    }))()"""
    assert shown("class", width=width).run(places) == pytest.approx([0.9, 1.5], abs=0.01)


def test_a_print_shows_what_is_folded(shown):
    folded = "(document.querySelectorAll('details').forEach(d => d.open = false), "
    seen = folded + "document.querySelector('.all').checkVisibility({contentVisibilityAuto: true}))"
    assert shown("class").run(seen) is False
    assert shown("class", media="print").run(seen) is True


def test_a_page_that_does_not_break_long_words_is_noticed(shown, monkeypatch):
    tab = shown("long", width=390)
    tab.run("document.body.style.overflowWrap = 'normal'")
    assert tab.run(WIDER) != []
