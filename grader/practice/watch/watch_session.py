"""Waits for saves, grades what was saved, and moves on."""

import secrets
import signal
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import TracebackType

from rich.console import Console

from grader.core.records import Exercise, ExerciseReport
from grader.core.translation import Words
from grader.practice.hints import passed
from grader.practice.watch.cancel_on_save import Overtaken
from grader.practice.watch.watch_screen import Screen, View
from grader.practice.watch.watched_files import Files
from grader.reporting.redact import of_exercise
from grader.submission import answer_file
from grader.worker.nursery import Nursery
from grader.worker.walls import PROCESS, Wall, hide_this_process

LOOK_SECONDS = 0.05


def watch(
    exercises: Sequence[Exercise], place: Path, *, words: Words, console: Console,
    start: Exercise | None = None, wall: Wall = PROCESS, shows: str = "open",
) -> None:  # fmt: skip
    """Grade the answers in `place` whenever one is saved, until Ctrl-C.

    It begins with `start`, or with the first exercise that is not passed.
    """
    hide_this_process()  # it holds the seed and the expected values
    # A closed window ends it as Ctrl-C does, which a script's background ignores by default.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    with (
        suppress(KeyboardInterrupt),
        Screen(console, words) as screen,
        Session(exercises, place, words, screen, wall, shows) as session,
    ):
        session.run(start or exercises[0])
    console.print(session.farewell(), markup=False, highlight=False)


class Session:
    """One sitting: a nursery kept warm, the last report on every exercise, and what is shown."""

    def __init__(
        self, exercises: Sequence[Exercise], place: Path, words: Words, screen: Screen, wall: Wall,
        shows: str = "open",
    ) -> None:  # fmt: skip
        self._exercises = {e.slug: e for e in exercises}
        self._files = Files({slug: answer_file.locate(place, slug) for slug in self._exercises})
        self._words = words
        self._screen = screen
        self._wall = wall
        self._shows = shows
        self._secret = secrets.token_hex(8)  # one for all: a mended file meets the same inputs
        self._view = View(reports={}, slugs=tuple(self._exercises))

    def __enter__(self) -> "Session":
        self._nursery = Nursery(self._wall)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # a second Ctrl-C must leave nothing behind
        self._nursery.close()

    def run(self, start: Exercise) -> None:
        """Show `start`, or what comes after it, and then what is saved; for ever."""
        self._show(shown=start.slug, busy=self._words("Starting ..."))
        self._grade(start.slug)
        self._move_on(start.slug)
        while True:
            for slug in self._wait():
                self._show(shown=slug, news="")
                self._grade(slug)
            self._move_on(self._view.shown)

    def farewell(self) -> str:
        """What was reached."""
        done = sum(map(passed, self._view.reports.values()))
        told = "{done} of {count} exercises are passed. `make watch` goes on from here."
        return self._words(told, done=done, count=len(self._exercises))

    def _wait(self) -> list[str]:
        while not (saved := self._files.saved()):
            time.sleep(LOOK_SECONDS)
            self._screen.fit()
        return saved

    def _move_on(self, slug: str) -> None:
        """Where `slug` is passed, show the next exercise that is not."""
        reports = self._view.reports
        if not passed(reports[slug]):
            return self._show(busy="")
        slugs = list(self._exercises)
        at = slugs.index(slug)
        for other in [*slugs[at + 1 :], *slugs[:at]]:
            if other not in self._view.reports:
                self._grade(other)
            if not passed(self._view.reports[other]):
                return self._show(shown=other, busy="", news=self._is_passed(slug))
        return self._show(busy="", news=self._words("Every exercise here is passed."))

    def _is_passed(self, slug: str) -> str:
        report = self._view.reports[slug]
        told = self._words("{slug} is passed.", slug=slug)
        if report.speed is None:
            return told
        return f"{told} " + self._words("`make grade EX={slug}` also times it.", slug=slug)

    def _grade(self, slug: str) -> None:
        """Grade an exercise; once more with another nursery if the grader failed."""
        self._show(busy=self._words("Grading {slug} ...", slug=slug))
        report = self._newest(slug)
        if report.state == "fault":
            self._renew()
            report = self._newest(slug)
        told = self._words("Graded at {clock} in {seconds} s.", clock=time.strftime("%H:%M:%S"),
                           seconds=f"{report.seconds:.1f}")  # fmt: skip
        reports = {**self._view.reports, slug: report}
        self._view = replace(self._view, reports=reports, graded=told)

    def _newest(self, slug: str) -> ExerciseReport:
        """The report on the file as it was saved last."""
        while (report := self._attempt(slug)) is None:
            pass
        return report

    def _attempt(self, slug: str) -> ExerciseReport | None:
        """The report, or None if the file was saved again before there was one."""
        from grader.grading.exercise import Run, grade

        self._files.take(slug)
        run = Run(nursery=self._nursery, student="me", secret=self._secret, speed=False)
        overtaken = Overtaken(lambda: self._files.changed(slug))
        try:
            with overtaken:
                report = grade(self._exercises[slug], self._files.paths[slug], run)
                return of_exercise(report, self._shows)
        except KeyboardInterrupt:
            if not overtaken.happened:
                raise
        self._renew()  # it may have been in the middle of a word
        return None

    def _renew(self) -> None:
        self._nursery.close()
        self._nursery = Nursery(self._wall)

    def _show(self, **changes: str) -> None:
        self._view = replace(self._view, **changes)  # type: ignore[arg-type]
        self._screen.show(self._view)
