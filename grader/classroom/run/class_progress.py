"""Shows the progress of a run and the time left: a bar on a terminal, else lines."""

import time
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
from rich.progress import Progress as Bar

from grader.core.translation import Words

PRINT_SECONDS = 30.0  # seconds between two lines


class ClassProgress:
    """The progress of one phase after the other, on `console`."""

    def __init__(self, console: Console, words: Words) -> None:
        self._console = console
        self._words = words
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(),
                   TextColumn("{task.fields[left]}"))  # fmt: skip
        self._bar = Bar(*columns, console=console, transient=True, disable=not console.is_terminal)

    def __enter__(self) -> "ClassProgress":
        self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bar.stop()

    def begin(self, phase: str, total: int) -> None:
        """Begin a phase, "judging" or "timing", of so many answers."""
        self._phase, self._total, self._done, self._graded = phase, total, 0, 0
        self._started = self._told = time.monotonic()
        for task in self._bar.task_ids:
            self._bar.remove_task(task)
        self._task = self._bar.add_task(self._describe_phase(), total=total, left="")

    def advance(self, *, kept: bool = False) -> None:
        """Count one more answer; `kept` if its result was known from before."""
        self._done += 1
        self._graded += not kept
        self._bar.update(self._task, completed=self._done, left=self._time_left())
        quiet = time.monotonic() - self._told < PRINT_SECONDS
        if self._console.is_terminal or kept or quiet:
            return
        self._told = time.monotonic()
        line = f"{self._describe_phase()} {self._done}/{self._total} {self._time_left()}"
        self._console.print(line.rstrip(), highlight=False)

    def _describe_phase(self) -> str:
        return self._words("Judging") if self._phase == "judging" else self._words("Timing")

    def _time_left(self) -> str:
        """Return the time left, if the rest takes as long as the answers graded so far."""
        if not self._graded or self._done == self._total:
            return ""
        each = (time.monotonic() - self._started) / self._graded
        seconds = each * (self._total - self._done)
        if seconds < 90:
            return self._words("about {count} s left", count=round(seconds))
        return self._words("about {count} min left", count=round(seconds / 60))
