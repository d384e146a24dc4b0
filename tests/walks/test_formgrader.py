"""Drives formgrader in a browser: validate, autograde, adjust a mark, generate feedback."""

import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

import pytest

from grader.core.catalog import ROOT
from tests.notebooks.course import SLUG, answered, hand_in, scores
from tests.reporting.browser import PROGRAM, browser
from tests.walks.pages import read_page_commands, walk

pytestmark = [
    pytest.mark.weekly,
    pytest.mark.skipif(PROGRAM is None, reason="needs a browser: apt-get install chromium"),
]
SECONDS = 120
TOKEN = ""  # on the loopback, for as long as the test
EXTENSIONS = "{'nbgrader.server_extensions.%s': True, 'nbgrader.server_extensions.%s': True}"
WRONG = "def softmax(x, dim=-1):\n    p = torch.exp(x)\n    return p / p.sum(dim, keepdim=True)\n"


def wait_until(found, what):
    """Wait for a true value of `found()`; a browser and a server take their time."""
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        if value := found():
            return value
        time.sleep(0.2)
    raise AssertionError(f"{what} did not come within {SECONDS} s")


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    """The released course with one answer, half of it wrong."""
    out = tmp_path_factory.mktemp("formgrader") / "out"
    walk(read_page_commands("nbgrader.md")[0], ROOT, EX=SLUG, OUT=out, ARGS="--no-speed")
    hand_in(out / "course", "ada", answered(out / "course", softmax=WRONG), "yesterday")
    return out / "course"


@pytest.fixture(scope="module")
def address(course, tmp_path_factory):
    """Where a Jupyter server shows the course, with settings of its own alone."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    options = (
        f"--ServerApp.jpserver_extensions={EXTENSIONS % ('formgrader', 'validate_assignment')}",
        f"--IdentityProvider.token={TOKEN}", f"--ServerApp.port={port}", "--ServerApp.ip=127.0.0.1",
        "--ServerApp.open_browser=False", "--ServerApp.allow_root=True",
        f"--ServerApp.root_dir={course}",
    )  # fmt: skip
    home = tmp_path_factory.mktemp("home")
    log = (home / "log").open("w")
    server = subprocess.Popen(
        [sys.executable, "-m", "jupyter_server", *options], cwd=course, stdout=log, stderr=log,
        env=os.environ | {"HOME": str(home), "JUPYTER_CONFIG_DIR": str(home), "JUPYTER_PLATFORM_DIRS": "1"},
    )  # fmt: skip
    root = f"http://127.0.0.1:{port}"

    def answers():
        assert server.poll() is None, (home / "log").read_text()
        try:
            return urllib.request.urlopen(f"{root}/api?token={TOKEN}", timeout=5).status == 200
        except (urllib.error.URLError, ConnectionError):
            return False

    try:
        wait_until(answers, "The server")
        yield root
    finally:
        server.terminate()
        server.wait(30)
        log.close()


@pytest.fixture(scope="module")
def page(address, tmp_path_factory):
    with browser(tmp_path_factory.mktemp("profile")) as page:
        go(page, f"{address}/formgrader/manage_submissions/{SLUG}?token={TOKEN}")
        yield page


def go(page, address):
    page.send("Page.navigate", url=address)
    wait_until(lambda: page.run("document.readyState") == "complete", address)
    wait_until(lambda: page.run("typeof $ === 'function'"), f"The scripts of {address}")


def click_in_row(page, column):
    """Click the sign in a column of the only row, and return what the dialog says."""
    sign = f"document.querySelector('td.{column} a')"
    wait_until(lambda: page.run(f"{sign} !== null"), f"The sign of {column}")
    page.run(f"{sign}.click()")
    shown = "(document.querySelector('.modal.in') || {}).innerText || ''"
    return wait_until(lambda: page.run(shown), "The dialog")


def score(course):
    return scores(course).get("ada")


def test_a_teacher_goes_through_all_of_it(course, address, page):
    said = click_in_row(page, "autograde")
    assert "Successfully autograded" in said, said
    before = score(course)
    assert 4 <= before < 10
    go(page, f"{address}/formgrader/manage_submissions/{SLUG}")
    assert wait_until(
        lambda: page.run("(document.querySelector('td.score') || {}).innerText"), "The score"
    ) == f"{before:g} / 10"  # fmt: skip

    go(page, f"{address}/formgrader/gradebook/{SLUG}/{SLUG}")
    link = "document.querySelector('td.name a')"
    wait_until(lambda: page.run(f"{link} !== null"), "The link to the answer")
    go(page, page.run(f"{link}.href"))
    wait_until(lambda: page.run("document.querySelectorAll('input.score').length"), "The scores")
    assert "the maximum" in page.run("document.body.innerText")
    page.run("const s = $('input.score').last(); s.val(5.5).trigger('change')")
    wait_until(lambda: score(course) == 4 + 5.5, "The adjusted mark")

    go(page, f"{address}/formgrader/manage_submissions/{SLUG}")
    said = click_in_row(page, "generate-feedback")
    assert "Successfully generated feedback" in said, said
    feedback = (course / f"feedback/ada/{SLUG}/{SLUG}.html").read_text()
    assert "Score: 9.5 / 10.0" in feedback


def test_a_teacher_can_validate_the_released_notebook(course, address, page):
    go(page, f"{address}/formgrader/manage_submissions/{SLUG}")
    path = f"release/{SLUG}/{SLUG}.ipynb"
    page.run(
        f"window.told = null; $.post('/assignments/validate', {{path: '{path}'}})"
        ".done(r => window.told = r).fail(r => window.told = 'failed ' + r.status)"
    )
    told = str(
        wait_until(lambda: page.run("window.told && JSON.stringify(window.told)"), "An answer")
    )
    assert "success" in told and "failed 4" not in told, told
