"""The built site in Chromium: whole, silent, and asking for nothing from elsewhere."""

import json
import subprocess
import sys
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from itertools import product
from threading import Thread

import pytest

from docs.site import stored_plays
from docs.site.dead_links import list_dead_links
from grader.core import catalog
from grader.core.catalog import ROOT
from grader.core.translation import Words
from tests.reporting.browser import PROGRAM, browser

pytestmark = [
    pytest.mark.weekly,
    pytest.mark.skipif(PROGRAM is None, reason="there is no Chromium: apt-get install chromium"),
]
WIDTHS, SCHEMES = (360, 1280), ("light", "dark")
PAGES = (
    "",
    "lessons/ex02_masking/",
    "lessons/ex04_heads/",
    "exercises/",
    "zh/",
    "zh/lessons/ex01_softmax/",
)
WIDER = "document.documentElement.scrollWidth > document.documentElement.clientWidth"
PICTURES = "document.querySelector('.pictures').innerHTML"


@pytest.fixture(scope="module")
def site():
    done = subprocess.run(
        ["make", "site", f"PYTHON={sys.executable}"], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return ROOT / "out" / "site"


@pytest.fixture(scope="module")
def address(site):
    """The site under an address that has a folder in it, as GitHub Pages has one."""
    handler = partial(QuietHandler, directory=str(site.parent))
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/site/"
    server.shutdown()


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def tab(tmp_path_factory):
    with browser(tmp_path_factory.mktemp("profile")) as page:
        yield page


@pytest.fixture
def opened(tab, address):
    """opened(page, ...) -> the tab with that page; it must stay silent and ask nobody else."""

    def show(page: str, **how):
        tab.open(address + page, **how)
        return tab

    yield show
    assert tab.complaints == []
    assert [u for u in tab.requests if not u.startswith((address, "data:", "blob:"))] == []


def test_the_check_of_links_would_find_a_page_that_is_gone(site):
    page = site / "install" / "index.html"
    text = page.read_text()
    page.unlink()
    try:
        assert "index.html links to install/, which is not in the site." in [
            line.replace("docs/", "") for line in list_dead_links(site)
        ]
    finally:
        page.write_text(text)


@pytest.mark.parametrize("page, width, scheme", list(product(PAGES, WIDTHS, SCHEMES)))
def test_no_page_is_wider_than_the_window(opened, page, width, scheme):
    tab = opened(page, width=width, scheme=scheme)
    assert tab.run(WIDER) is False
    shown = "document.body.getAttribute('data-md-color-scheme')"
    assert tab.run(shown) == {"light": "default", "dark": "slate"}[scheme]


def test_each_page_links_to_the_same_page_in_the_other_language(opened, address):
    tab = opened("lessons/ex03_sdpa/")
    other = tab.run("document.querySelector('.other-language').href")
    assert other == f"{address}zh/lessons/ex03_sdpa/"
    tab = opened(other.removeprefix(address))
    assert tab.run("document.querySelector('h1').textContent").startswith("缩放点积注意力")
    assert (
        tab.run("document.querySelector('.other-language').href") == f"{address}lessons/ex03_sdpa/"
    )
    assert tab.run("document.querySelectorAll('math').length") > 3


def read(tab, html: str) -> str:
    """Return HTML as the browser writes it."""
    return tab.run(
        f"(() => {{ const d = document.createElement('div'); d.innerHTML = {json.dumps(html)}; return d.innerHTML }})()"
    )


@pytest.mark.parametrize("language, folder", [("en", ""), ("zh", "zh/")])
def test_a_slider_and_a_switch_draw_what_the_reference_draws(opened, language, folder):
    tab = opened(f"{folder}lessons/ex03_sdpa/")
    exercise = catalog.find_catalog_exercise("ex03")
    for power, scaled in [(0, False), (10, False), (4, True)]:
        tab.run(f"""(() => {{
          const [power, scaled] = document.querySelectorAll('.play input');
          power.value = {power}; scaled.checked = {json.dumps(scaled)};
          power.dispatchEvent(new Event('input', {{bubbles: true}}));
        }})()""")
        values = {"power": power, "scaled": scaled}
        drawn = read(tab, stored_plays.draw_pictures(exercise, Words(language), values))
        tab.until(f"{PICTURES} === {json.dumps(drawn)}")


def test_a_painted_mask_draws_what_the_reference_draws(opened):
    tab = opened("lessons/ex02_masking/")
    exercise = catalog.find_catalog_exercise("ex02")
    keep = [[key <= query for key in range(5)] for query in range(5)]
    for query, key in [(0, 4), (0, 0), (3, 1), (0, 4), (1, 0), (1, 1)]:
        keep[query][key] = not keep[query][key]
        cell = f"document.querySelectorAll('.painted button')[{5 * query + key}]"
        tab.run(f"{cell}.scrollIntoView({{block: 'center'}})")
        x, y = tab.run(f"(({{x, y}}) => [x + 9, y + 9])({cell}.getBoundingClientRect())")
        for kind in ("mousePressed", "mouseReleased"):
            tab.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)
        drawn = stored_plays.draw_pictures(exercise, Words("en"), {"keep": keep})
        cells = drawn[drawn.index("<table") : drawn.index("</table>") + len("</table>")]
        tab.until(f"document.querySelector('.cells').outerHTML === {json.dumps(read(tab, cells))}")
    notes = "[...document.querySelectorAll('.play .note')].map(note => note.textContent)"
    assert [note.split(":")[0] for note in tab.run(notes)[1:]] == ["Row 0", "Row 1"]


def test_a_block_moves_to_its_place_and_stays_the_same_element(opened):
    tab = opened("lessons/ex04_heads/")
    place = "document.querySelectorAll('.moving')[3].getBoundingClientRect().top"
    before = tab.run(f"window.block = document.querySelectorAll('.moving')[3], {place}")
    tab.run("""(() => {
      const stage = document.querySelector('.play input');
      stage.value = 1; stage.dispatchEvent(new Event('input', {bubbles: true}));
    })()""")
    tab.until(f"{place} > {before} + 40")
    assert tab.run("window.block === document.querySelectorAll('.moving')[3]")


@pytest.mark.parametrize(
    "folder, word, found",
    [("", "running maximum", "ex10_online_softmax"), ("zh/", "因果掩码", "ex05_causal_mask")],
)
def test_a_search_finds_the_lesson(opened, folder, word, found):
    tab = opened(folder)
    tab.run(f"""(() => {{
      document.querySelector('#__search').click();
      const input = document.querySelector('.md-search__input');
      input.focus(); input.value = {json.dumps(word)};
      input.dispatchEvent(new KeyboardEvent('keyup', {{bubbles: true}}));
    }})()""")
    links = "[...document.querySelectorAll('.md-search-result__link')].map(a => a.href)"
    tab.until(f"{links}.length > 0 && {links}[0].includes('{found}')", seconds=20)
