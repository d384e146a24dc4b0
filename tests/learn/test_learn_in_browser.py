"""A learner in Chromium: from an empty skeleton to the next exercise, and what goes wrong between."""

import json
import shutil
import signal
import time

import pytest

from grader.core.catalog import ROOT
from tests.conftest import solution
from tests.learn.learn_process import EDITOR, HEADLINE, READY, learning, wait_until, write
from tests.reporting.browser import PROGRAM, browser
from tests.reporting.test_html_in_browser import TOO_FAINT

pytestmark = pytest.mark.skipif(
    PROGRAM is None, reason="there is no Chromium: apt-get install chromium"
)
SLUGS = ("ex01_softmax", "ex02_masking")
WRONG = "import numpy as np\n\n\ndef softmax_numpy(x, axis=-1):\n    return np.exp(x) / np.exp(x).sum()\n\n\ndef softmax(x, dim=-1):\n    return x\n"
HOSTILE = "<img src=x onerror=window.pwned=1><script>window.pwned=2</script>{{ 7 * 7 }}\u202eevil\x1b[31m\x00"
SHOWN = "document.querySelector('.verdict').textContent"
TOO_WIDE = "document.documentElement.scrollWidth > document.documentElement.clientWidth"


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    place = tmp_path_factory.mktemp("answers")
    for slug in SLUGS:
        shutil.copy(ROOT / "exercises" / f"{slug}.py", place)
    return place


@pytest.fixture(scope="module")
def tab(tmp_path_factory):
    with browser(tmp_path_factory.mktemp("profile")) as page:
        yield page


@pytest.fixture(scope="module")
def served(place, tab):
    with learning(place) as found:
        tab.open(found.address)
        tab.until(READY)
        yield found


@pytest.fixture
def page(tab, served):
    """The page of ex01, ready, after what earlier tests did."""
    tab.open(served.page("ex01_softmax"))
    tab.until(READY)
    yield tab
    assert tab.complaints == []
    assert [
        asked for asked in tab.requests if not asked.startswith((served.base, "data:", "blob:"))
    ] == []


def test_a_learner_goes_from_a_wrong_answer_by_a_hint_to_the_next_exercise(page, place, served):
    file = place / "ex01_softmax.py"
    write(page, WRONG)
    page.until(f"{SHOWN}.includes('of 10 checks passed') && !!document.querySelector('.tip')")
    assert file.read_text() == WRONG
    assert page.until("document.querySelectorAll('.cm-line.wrong-line').length") == 1
    page.run("[...document.querySelectorAll('.hints button')].at(-1).click()")
    page.until("document.querySelectorAll('.hint').length === 1")
    file.write_text("")  # as another editor saves it: its marks go, and none is asked for
    page.until(f"{EDITOR}.state.doc.length === 0")
    file.write_text(solution("ex01_softmax"))
    page.until(f"{EDITOR}.state.doc.toString() === {json.dumps(solution('ex01_softmax'))}")
    page.until("document.querySelector('.passed').textContent.includes('ex01_softmax is passed.')")
    page.run("document.querySelector('.passed a').click()")
    page.until("!!document.querySelector('.lines') && location.pathname === '/passed/ex01_softmax'")
    assert not page.run(TOO_WIDE)
    page.run("document.querySelector('.after .button').click()")
    page.until(f"location.pathname === '/learn/ex02_masking' && {READY}")
    write(page, solution("ex02_masking"))
    page.until("document.querySelector('.passed').textContent.includes('ex02_masking is passed.')")


def test_a_mask_is_painted_with_mouse_and_keyboard(page, served):
    page.open(served.page("ex02_masking"))
    page.until(READY)
    page.run("document.querySelector('.to-play').click()")
    page.until("document.querySelectorAll('.cell.off').length === 10")
    spots = page.run(
        "[...document.querySelectorAll('.painted tr:first-child button')].slice(1, 4).map(b => [b.getBoundingClientRect().x + 9, b.getBoundingClientRect().y + 9])"
    )
    for kind, (x, y) in zip(("mousePressed", "mouseMoved", "mouseMoved"), spots, strict=True):
        page.send(
            "Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", buttons=1, clickCount=1
        )
    page.send("Input.dispatchMouseEvent", type="mouseReleased", x=x, y=y, button="left")
    page.until("document.querySelectorAll('.cell.off').length === 7")
    page.run("document.querySelectorAll('.painted button')[4].focus()")
    for kind in ("keyDown", "keyUp"):
        page.send(
            "Input.dispatchKeyEvent", type=kind, key=" ", code="Space", windowsVirtualKeyCode=32
        )
    page.until("document.querySelectorAll('.cell.off').length === 6")


def test_enter_after_a_pause_begins_a_new_line(page, place):
    """No list of completions is open then, which would take Enter for itself."""
    write(page, "")
    page.run("document.querySelector('.cm-content').focus()")
    for key in "flag = True":
        page.send("Input.dispatchKeyEvent", type="char", text=key)
    page.until("document.querySelector('.status').textContent.includes('saved at')")
    time.sleep(0.5)  # a list of completions opens after 0.1 s
    assert page.run("document.querySelector('.cm-tooltip-autocomplete')") is None
    for kind in ("keyDown", "keyUp"):
        page.send(
            "Input.dispatchKeyEvent", type=kind, key="Enter", code="Enter", windowsVirtualKeyCode=13
        )
    for key in "b = 2":
        page.send("Input.dispatchKeyEvent", type="char", text=key)
    assert page.run(f"{EDITOR}.state.doc.toString()") == "flag = True\nb = 2"
    wait_until(lambda: (place / "ex01_softmax.py").read_text() == "flag = True\nb = 2")


@pytest.mark.weekly
@pytest.mark.parametrize("width", [390, 1280])
def test_the_verdict_stays_in_its_place_at_a_save_and_lines_are_whole(tab, served, width):
    tab.open(served.page("ex01_softmax"), width=width)
    tab.until(READY)
    tab.run("document.querySelector('.to-code').click()")
    tab.until("!!document.querySelector('.show-code')")
    top = tab.run("document.querySelector('.verdict').getBoundingClientRect().top")
    write(tab, "# " + "long " * 40 + "\n")
    tab.until("document.querySelector('.status').textContent.includes('saved at')")
    assert tab.run("document.querySelector('.verdict').getBoundingClientRect().top") == top
    tab.run("document.querySelector('.status').textContent += ' a name of any length'.repeat(9)")
    cut = "[...document.querySelectorAll('.status-row > *')].filter(e => e.scrollWidth > e.clientWidth || e.scrollHeight > e.clientHeight || getComputedStyle(e).textOverflow === 'ellipsis').length"
    assert tab.run(cut) == 0
    assert "Esc, then Tab" in tab.run("document.querySelector('.status-row').innerText")
    hidden = "(e => e.scrollWidth > e.clientWidth)(document.querySelector('.cm-scroller'))"
    assert not tab.run(hidden)


@pytest.mark.weekly
def test_escape_closes_the_menu_of_a_phone(tab, served):
    tab.open(served.page("ex01_softmax"), width=390)
    tab.until(READY)
    tab.run("document.querySelector('.menu').click()")
    tab.until("!!document.querySelector('.exercises.open')")
    for kind in ("keyDown", "keyUp"):
        tab.send(
            "Input.dispatchKeyEvent",
            type=kind,
            key="Escape",
            code="Escape",
            windowsVirtualKeyCode=27,
        )
    tab.until("!document.querySelector('.exercises.open')")
    assert tab.run("document.activeElement.className").split().count("menu") == 1


def test_a_file_that_changes_before_the_editor_is_ready_is_no_error(page):
    early = "Object.create(learn, { component: { value: undefined } }).saved('')"
    page.run(
        f"{early}.then(() => (window.ended = 'well'), (error) => (window.ended = String(error))); 0"
    )
    assert page.until("window.ended") == "well"


def test_the_text_of_an_answer_never_runs_or_hides(page, place):
    text = f"print({HOSTILE!r})\n\n\ndef softmax_numpy(x, axis=-1):\n    raise ValueError({HOSTILE!r})\n\n\ndef softmax(x, dim=-1):\n    return x\n"
    write(page, text)
    page.until(f"{SHOWN}.includes('window.pwned=2') && !!document.querySelector('.printed')")
    assert page.run("typeof window.pwned") == "undefined"
    assert page.run("document.querySelectorAll('.verdict img, .verdict script').length") == 0
    for sign in ("\u202e", "\x1b", "\x00"):
        assert sign not in page.run(SHOWN)


@pytest.mark.weekly
def test_an_answer_that_hangs_gives_way_to_the_next_and_typing_goes_on(page, place):
    write(page, "while True:\n    pass\n")
    page.until("document.querySelector('.busy').textContent.includes('Grading')")
    write(page, solution("ex01_softmax"))
    wait_until(lambda: (place / "ex01_softmax.py").read_text() == solution("ex01_softmax"), 5)
    page.until("document.querySelector('.passed').textContent.includes('is passed')")


@pytest.mark.weekly
def test_a_deleted_file_is_told_and_comes_back(page, place):
    file = place / "ex01_softmax.py"
    text = file.read_text()
    file.unlink()
    page.until("document.querySelector('.status').textContent.includes('was deleted')")
    write(page, text + "# more\n")
    wait_until(lambda: file.exists() and file.read_text() == text + "# more\n")


@pytest.mark.weekly
@pytest.mark.parametrize("width", [360, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_can_be_read_at_every_width(tab, served, width, scheme):
    tab.open(served.page("ex01_softmax"), width=width, scheme=scheme)
    tab.until(f"{READY} && !!{HEADLINE}")
    for view in ("lesson", "play", "code"):
        tab.run(f"document.querySelector('.to-{view}').click()")
        tab.until(f"!!document.querySelector('.show-{view}')")
        assert not tab.run(TOO_WIDE)
        assert tab.run(TOO_FAINT) == [], f"{view}, {width}, {scheme}"


@pytest.mark.weekly
def test_every_control_has_a_name(page):
    unnamed = page.run("""[...document.querySelectorAll('button, a, input, [role=slider], [contenteditable=true], nav, section')]
      .filter(e => !(e.ariaLabel || e.textContent.trim() || e.title || e.closest('.cm-panel')))
      .map(e => e.outerHTML.slice(0, 100))""")
    assert unnamed == []
    page.run("document.querySelector('.to-play').click()")
    page.until("document.querySelector('[tabindex][aria-label=Temperature]') !== null")
    assert page.run("document.documentElement.lang") == "en"


@pytest.mark.weekly
def test_what_is_typed_while_the_server_is_dead_is_saved_by_the_next_one(tmp_path, tab):
    file = tmp_path / "ex01_softmax.py"
    file.write_text(WRONG)
    with learning(tmp_path, "ex01") as first:
        tab.open(first.address)
        tab.until(READY)
        first.stop(signal.SIGKILL)
        write(tab, WRONG + "# not lost\n")
        tab.until("Object.keys(localStorage).some(name => name.includes('ex01_softmax.py'))")
    assert file.read_text() == WRONG
    with learning(tmp_path, "ex01", "--port", str(first.port)) as second:
        tab.open(second.address)
        wait_until(lambda: file.read_text() == WRONG + "# not lost\n")
        tab.until("document.querySelector('.status')?.textContent.includes('restored') ?? false")


@pytest.mark.weekly
def test_an_older_text_never_overwrites_a_newer_file(tmp_path, tab):
    file = tmp_path / "ex01_softmax.py"
    file.write_text(WRONG)
    with learning(tmp_path, "ex01") as first:
        tab.open(first.address)
        tab.until(READY)
        first.stop(signal.SIGKILL)
        write(tab, WRONG + "# older\n")
        tab.until("Object.keys(localStorage).some(name => name.includes('ex01_softmax.py'))")
    file.write_text(WRONG + "# newer\n")
    with learning(tmp_path, "ex01", "--port", str(first.port)) as second:
        tab.open(second.address)
        kept = tmp_path / "ex01_softmax.1.py"
        wait_until(kept.exists)
        assert kept.read_text() == WRONG + "# older\n"
        assert file.read_text() == WRONG + "# newer\n"
