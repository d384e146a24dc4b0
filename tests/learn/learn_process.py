"""`grader learn` in a process of its own, on a folder of answers, and what a browser does there."""

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from grader.core.catalog import ROOT
from tests.reporting.browser import Page

ADDRESS = re.compile(r"http://127\.0\.0\.1:(\d+)/\?token=\S+")
EDITOR = "getElement(+document.querySelector('.editor').id.slice(1)).editor"
READY = f"document.querySelector('.cm-content') && learn.timer && {EDITOR}.state.doc.length > 0"
HEADLINE = "document.querySelector('.headline').textContent"


class LearnProcess:
    """A running page: its process and its address."""

    def __init__(self, process: "subprocess.Popen[str]", address: str) -> None:
        self.process, self.address = process, address
        self.base = address.partition("/?")[0]
        self.port = int(self.base.rpartition(":")[2])

    def page(self, slug: str) -> str:
        return f"{self.base}/learn/{slug}"

    def stop(self, number: int = signal.SIGINT) -> None:
        self.process.send_signal(number)
        self.process.wait(30)


@contextmanager
def learning(place: Path, *arguments: str) -> Iterator[LearnProcess]:
    """`grader learn` behind the plain wall, until the block ends."""
    command = [sys.executable, "-m", "grader", "learn", "--submission", str(place), "--no-browser"]
    process = subprocess.Popen(
        [*command, "--isolation", "process", "--lang", "en", *arguments],
        cwd=ROOT, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        found = ADDRESS.search(process.stdout.readline())
        assert found is not None, "no address was printed"
        yield LearnProcess(process, found[0])
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(30)


def write(page: Page, text: str) -> None:
    """Put a text into the editor in the way of a paste."""
    page.run(
        f"{EDITOR}.dispatch({{changes: {{from: 0, to: {EDITOR}.state.doc.length, insert: {json.dumps(text)}}}}})"
    )


def wait_until(true, seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.02)
