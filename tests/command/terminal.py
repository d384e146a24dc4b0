"""A terminal of our own: a command runs in it, and what stands on its screen can be read."""

import os
import sys
import time
from collections.abc import Callable

import pexpect
import pyte

from grader.core.catalog import ROOT

PATIENCE = 120.0  # seconds; for a busy machine

WATCH = """
import sys
from pathlib import Path
from rich.console import Console
from grader.core import catalog
from grader.core.translation import Words
from grader.practice.watch.watch_session import watch_answers
place, *names = sys.argv[1:]
watch_answers([catalog.find_catalog_exercise(n) for n in names], Path(place), words=Words(), console=Console())
"""  # of some exercises only, behind the plain wall


class Terminal:
    """`python *arguments` in a terminal of `rows` times `columns`."""

    def __init__(
        self, *arguments: str, rows: int = 40, columns: int = 110, **environment: str
    ) -> None:
        self.raw = ""  # all that was written to it
        self._screen = pyte.Screen(columns, rows)
        self._stream = pyte.Stream(self._screen)
        kind = {"TERM": "xterm-256color", "LANG": "C.UTF-8", "COLUMNS": "", "LINES": ""}
        self.child = pexpect.spawn(
            sys.executable, list(arguments), cwd=str(ROOT), encoding="utf-8",
            dimensions=(rows, columns), env={**os.environ, **kind, **environment},
        )  # fmt: skip

    @property
    def text(self) -> str:
        """The screen, without the blanks at the ends of its lines."""
        return "\n".join(line.rstrip() for line in self._screen.display)

    def until(self, there: str | Callable[[str], bool], seconds: float = PATIENCE) -> str:
        """Wait until the screen shows this; the screen."""
        shows = (lambda text: there in text) if isinstance(there, str) else there
        end = time.monotonic() + seconds
        while not shows(self.text):
            assert time.monotonic() < end, f"{there!r} never came:\n{self.text}"
            assert self.read(), f"it ended without {there!r}:\n{self.text}"
        return self.text

    def read(self) -> bool:
        """Take in what was written; whether more may come."""
        try:
            new = self.child.read_nonblocking(65536, timeout=0.05)
        except pexpect.TIMEOUT:
            return True
        except pexpect.EOF:
            return False
        self.raw += new
        self._stream.feed(new)
        return True

    def resize(self, rows: int, columns: int) -> None:
        self._screen.resize(rows, columns)
        self.child.setwinsize(rows, columns)

    def interrupt(self) -> None:
        """Press Ctrl-C."""
        self.child.sendintr()

    def exit_code(self, seconds: float = PATIENCE) -> int | None:
        """Wait for the end; None if a signal ended it."""
        end = time.monotonic() + seconds
        while self.read():
            assert time.monotonic() < end, f"it never ended:\n{self.text}"
        self.child.close()
        return self.child.exitstatus
