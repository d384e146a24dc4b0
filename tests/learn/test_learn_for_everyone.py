"""The page for those who use no mouse, hear the page, or hold a phone: every view, every scheme.

axe-core is no part of the project: `npm pack axe-core` fetches it, and AXE names its axe.min.js.
"""

import json
import os
import shutil
import signal
import time
from pathlib import Path

import pytest

from grader.core.catalog import ROOT
from tests.conftest import solution
from tests.learn.learn_process import EDITOR, READY, learning, wait_until, write
from tests.learn.test_learn_in_browser import TOO_WIDE, WRONG
from tests.reporting.browser import PROGRAM, browser

pytestmark = [
    pytest.mark.weekly,
    pytest.mark.skipif(PROGRAM is None, reason="there is no Chromium: apt-get install chromium"),
]
AXE = os.environ.get("AXE", "")
WRONG_THAT_PRINTS = WRONG.replace("    return np", "    print('hello')\n    return np")
KEYS = {"Tab": 9, "Escape": 27, "Enter": 13, " ": 32}
FOCUSED = "(e => [e.id || '', e.className, e.textContent.trim()].join('|'))(document.activeElement)"
LARGE = "[...document.querySelectorAll('.lesson pre, .lesson math[display=block], .verdict')].filter(e => e.offsetParent && e.scrollWidth > e.clientWidth)"
FOUND = """axe.run(document, {resultTypes: ['violations']}).then(r => { window.found = JSON.stringify(
  r.violations.map(v => [v.id, ...v.nodes.map(n => n.target.join(' ') + ' ' + n.failureSummary)])); }); 0"""


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    place = tmp_path_factory.mktemp("answers")
    (place / "ex01_softmax.py").write_text(WRONG_THAT_PRINTS)
    for slug in ("ex02_masking", "ex03_sdpa", "ex04_heads"):
        (place / f"{slug}.py").write_text(solution(slug))
    shutil.copy(ROOT / "exercises" / "ex05_causal_mask.py", place)
    with learning(place, "ex01") as found:
        found.place = place
        yield found


@pytest.fixture(scope="module")
def tab(tmp_path_factory, served):
    with browser(tmp_path_factory.mktemp("profile")) as page:
        page.open(served.address)
        page.until(READY)
        page.until("!!document.querySelector('.hints button')")
        page.run("document.querySelector('.hints button').click()")
        yield page


def press(page, key: str, **more) -> str:
    """Press a key, and return what has the focus then."""
    for kind in ("keyDown", "keyUp"):
        text = (
            {"text": "\r" if key == "Enter" else key}
            if kind == "keyDown" and key in ("Enter", " ")
            else {}
        )
        page.send(
            "Input.dispatchKeyEvent", type=kind, key=key, code=key.replace(" ", "Space"),
            windowsVirtualKeyCode=KEYS[key], **text, **more,
        )  # fmt: skip
    return page.run(FOCUSED)


def views(page, served, width: int, scheme: str):
    """Show one view after another, and yield the name of each."""
    look = {"width": width, "scheme": scheme}
    for slug, drawn in (
        ("ex01_softmax", ".tip"), ("ex02_masking", ".passed a"), ("ex04_heads", ".passed a"),
        ("ex05_causal_mask", ".verdict"),
    ):  # fmt: skip
        page.open(served.page(slug), **look)
        page.until(f"{READY} && !!document.querySelector('{drawn}')")
        page.run("document.querySelectorAll('details').forEach(d => d.open = true)")
        for view in ("lesson", "play", "code"):
            page.run(f"document.querySelector('.to-{view}').click()")
            page.until(f"!!document.querySelector('.show-{view}')")
            yield f"{slug} {view}"
    page.open(served.page("ex03_sdpa"), **look)
    page.until("!!document.querySelector('.passed a')")
    page.run("document.querySelector('.passed a').click()")
    page.until("!!document.querySelector('.lines')")
    page.run("document.querySelectorAll('details').forEach(d => d.open = true)")
    yield "passed"


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_in_any_view(tab, served, width, scheme):
    if not Path(AXE).is_file():
        pytest.skip("AXE names no axe.min.js: npm pack axe-core")
    found = {}
    for view in views(tab, served, width, scheme):
        tab.until(f"{LARGE}.every(e => e.tabIndex === 0)")
        tab.run(Path(AXE).read_text("utf-8") + "; window.found = null; 0")
        tab.run(FOUND)
        found[view] = json.loads(tab.until("window.found"))
    assert {view: one for view, one in found.items() if one} == {}


def test_every_view_has_one_title_one_main_part_and_fits_a_phone(tab, served):
    for view in views(tab, served, 390, "light"):
        assert tab.run("document.querySelectorAll('main, [role=main]').length") == 1, view
        assert tab.run("[...document.querySelectorAll('h1')].some(e => e.offsetParent)"), view
        assert not tab.run(TOO_WIDE), view


def test_what_is_only_spoken_is_there_for_those_who_hear_the_page(tab, served):
    tab.open(served.page("ex01_softmax"))
    tab.until(f"{READY} && !!document.querySelector('.says .spoken')")
    assert tab.run("getComputedStyle(document.querySelector('.says .spoken')).display") != "none"


def test_the_keyboard_alone_writes_an_answer_and_takes_a_hint(tab, served):
    tab.open(served.page("ex01_softmax"))
    tab.until(f"{READY} && !!document.querySelector('.hints button')")
    press(tab, "Tab")
    assert "To the editor" in tab.run(FOCUSED)
    press(tab, "Enter")
    if tab.run("document.activeElement.id") != "editor":
        press(tab, "Tab")
    assert tab.run("document.activeElement.id") == "editor"
    tab.run(f"{EDITOR}.dispatch({{selection: {{anchor: 0}}}})")
    press(tab, "Tab")  # indents, as in every editor
    assert tab.run("document.activeElement.id") == "editor"
    tab.send("Input.insertText", text="# by hand")
    file = served.place / "ex01_softmax.py"
    wait_until(lambda: "# by hand" in file.read_text())
    press(tab, "Escape")
    press(tab, "Tab")
    assert tab.run("document.activeElement.id") != "editor"
    tab.until("!!document.querySelector('.hints button')")
    before = tab.run("document.querySelectorAll('.hint').length")
    for _ in range(40):
        if (
            "hint" in press(tab, "Tab").lower()
            and tab.run("document.activeElement.tagName") == "BUTTON"
        ):
            break
    press(tab, "Enter")
    tab.until(f"document.querySelectorAll('.hint').length === {before + 1}")


def test_a_failed_check_is_unfolded_by_key_or_click_and_stays_so_when_drawn_anew(tab, served):
    """Unfolded is told to those who hear the page, by the browser's own tree."""
    tab.open(served.page("ex01_softmax"))
    row = "document.querySelector('.folded summary')"
    tab.until(f"{READY} && !!{row}")
    name = tab.run(f"{row}.closest('li').id")
    tab.run(f"{row}.focus()")
    for key, opened in (("Enter", True), (" ", False), ("Enter", True)):
        press(tab, key)
        assert tab.run(f"{row}.parentElement.open") is opened
        assert is_expanded(tab, row) is opened
    assert tab.run(f"{row}.nextElementSibling.offsetHeight > 20")
    tab.run(f"{row}.drawn = true; 0")
    write(tab, WRONG_THAT_PRINTS + "# again\n")
    tab.until(f"{row} && !{row}.drawn")
    assert tab.run(f"document.getElementById({name!r}).querySelector('details').open")
    tab.run(f"{row}.scrollIntoView()")
    assert tab.run("document.scrollingElement.scrollTop") == 0  # the bar above is never lost
    x, y = tab.run(f"(at => [at.x + 60, at.y + 12])({row}.getBoundingClientRect())")
    for kind in ("mousePressed", "mouseReleased"):
        tab.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)
    tab.until(f"!{row}.parentElement.open")


def is_expanded(page, element: str) -> bool:
    """Whether an element is told to be expanded."""
    found = page.send("Runtime.evaluate", expression=element)["result"]["objectId"]
    [node] = page.send("Accessibility.getPartialAXTree", objectId=found, fetchRelatives=False)[
        "nodes"
    ]
    return next(p["value"]["value"] for p in node["properties"] if p["name"] == "expanded")


def test_after_a_minute_of_sleep_the_page_goes_on_and_nothing_is_lost(tab, served):
    """The server stands still, as on a laptop that sleeps, while the person goes on writing."""
    file = served.place / "ex01_softmax.py"
    tab.open(served.page("ex01_softmax"))
    tab.until(READY)
    served.process.send_signal(signal.SIGSTOP)
    try:
        write(tab, WRONG + "# in the night\n")
        time.sleep(60)
        assert "# in the night" not in file.read_text()
    finally:
        served.process.send_signal(signal.SIGCONT)
    wait_until(lambda: file.read_text() == WRONG + "# in the night\n")
    tab.until(READY)
    assert "# in the night" in tab.run(f"{EDITOR}.state.doc.toString()")
    write(tab, solution("ex01_softmax"))
    tab.until("document.querySelector('.passed')?.textContent.includes('is passed') ?? false")
