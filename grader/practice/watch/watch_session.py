"""Waits for saves, grades what was saved, and moves on."""

import secrets
import signal
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Protocol

from rich.console import Console

from grader.core.records import CheckResult, Exercise, ExerciseReport, Verdict
from grader.core.scoring import sum_score_points
from grader.core.translation import Words
from grader.practice.hints import is_practice_passed
from grader.practice.learner_progress import record_attempt
from grader.practice.passed_exercise import list_passed_lines
from grader.practice.watch.cancel_on_save import Overtaken
from grader.practice.watch.ctrl_c import check_watch_interrupt, end_watch_at_signals
from grader.practice.watch.watch_screen import WatchScreen, WatchView
from grader.practice.watch.watched_files import WatchedFiles
from grader.reporting.redact import redact_exercise_report
from grader.submission import answer_file
from grader.worker.parent.harmless_text import clean_worker_text
from grader.worker.parent.nursery import Nursery
from grader.worker.parent.walls import PROCESS, Wall, hide_grader_from_workers

POLL_SECONDS = 0.05


class Screen(Protocol):
    """What shows a watch, and may ask it to grade."""

    def show(self, view: WatchView) -> None: ...

    def fit(self) -> None: ...

    def take_requests(self) -> list[str]:
        """Return the slugs to grade now although no file was saved; each is returned once."""
        ...


def watch_answers(
    exercises: Sequence[Exercise], place: Path, *, words: Words, console: Console,
    start: Exercise | None = None, wall: Wall = PROCESS, shows: str = "open",
) -> None:  # fmt: skip
    """Grade the answers in `place` whenever one is saved, until Ctrl-C.

    The watch begins with `start`, or with the first exercise that is not passed.
    """
    prepare_to_watch()
    with (
        suppress(KeyboardInterrupt),
        WatchScreen(console, words) as screen,
        WatchSession(exercises, place, words, screen, wall, shows) as session,
    ):
        session.run(start or exercises[0])
    console.print(session.farewell(), markup=False, highlight=False)


def prepare_to_watch() -> None:
    """Hide this process from workers, and have every signal that closes a window end the watch."""
    hide_grader_from_workers()  # it holds the seed and the expected values
    end_watch_at_signals()


class WatchSession:
    """A watch session: a nursery, which starts workers fast; each exercise's last report; the view.

    moves_on  when an exercise is passed, grade the next ones up to the first that is not
    """

    def __init__(
        self, exercises: Sequence[Exercise], place: Path, words: Words, screen: Screen, wall: Wall,
        shows: str = "open", *, moves_on: bool = True,
    ) -> None:  # fmt: skip
        self._exercises = {e.slug: e for e in exercises}
        self._files = WatchedFiles(
            {slug: answer_file.locate_submission(place, slug) for slug in self._exercises}
        )
        self._words = words
        self._screen = screen
        self._wall = wall
        self._shows = shows
        self._moves_on = moves_on
        self._secret = secrets.token_hex(8)  # one for all: a mended file meets the same inputs
        self._view = WatchView(reports={}, slugs=tuple(self._exercises))

    def __enter__(self) -> "WatchSession":
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
        """Show `start`, or the first exercise after it that is not passed, then each saved one."""
        self._update_view(shown=start.slug, busy=self._words("Starting ..."))
        self._grade_exercise(start.slug)
        self._show_next_exercise(start.slug)
        while True:
            for slug in self._wait_for_work():
                self._update_view(shown=slug, news="")
                self._grade_exercise(slug)
            self._show_next_exercise(self._view.shown)

    def farewell(self) -> str:
        """Say how many exercises are passed."""
        done = sum(map(is_practice_passed, self._view.reports.values()))
        told = "Exercises passed: {done} of {count}. `make watch` goes on from here."
        return self._words(told, done=done, count=len(self._exercises))

    def _wait_for_work(self) -> list[str]:
        """Return the exercises whose files were saved; else those that the screen asks for."""
        while not (due := self._files.saved() or self._screen.take_requests()):
            check_watch_interrupt()
            time.sleep(POLL_SECONDS)
            self._screen.fit()
        return due

    def _show_next_exercise(self, slug: str) -> None:
        """If `slug` is passed, show the next exercise that is not."""
        reports = self._view.reports
        if not self._moves_on or not is_practice_passed(reports[slug]):
            return self._update_view(busy="")
        slugs = list(self._exercises)
        at = slugs.index(slug)
        for other in [*slugs[at + 1 :], *slugs[:at]]:
            if other not in self._view.reports:
                self._grade_exercise(other)
            if not is_practice_passed(self._view.reports[other]):
                return self._update_view(shown=other, busy="", news=self._passed_sentence(slug))
        return self._update_view(busy="", news=self._words("Every exercise here is passed."))

    def _passed_sentence(self, slug: str) -> str:
        told = [self._words("{slug} is passed.", slug=slug)]
        if self._shows == "open":
            exercise, path = self._exercises[slug], self._files.paths[slug]
            others = list(self._exercises.values())
            told = [*list_passed_lines(exercise, path, others, self._words)]
        if self._view.reports[slug].speed is not None:
            told.append(self._words("`make grade EX={slug}` also times it.", slug=slug))
        return "\n".join(told)

    def _grade_exercise(self, slug: str) -> None:
        """Grade an exercise; if the grader failed, once more with another nursery."""
        self._update_view(busy=self._words("Grading {slug} ...", slug=slug), grading=slug)
        report = self._newest_report(slug)
        if report.state == "fault":
            self._renew_nursery()
            report = self._newest_report(slug)
        told = self._words("Graded at {clock} in {seconds} s.", clock=time.strftime("%H:%M:%S"),
                           seconds=f"{report.seconds:.1f}")  # fmt: skip
        record_attempt(self._files.paths[slug], report, passed=is_practice_passed(report))
        reports = {**self._view.reports, slug: report}
        self._view = replace(self._view, reports=reports, graded=told, grading="")

    def _newest_report(self, slug: str) -> ExerciseReport:
        """Return the report on the file as it was saved last."""
        while (report := self._attempt_grading(slug)) is None:
            pass
        return report

    def _attempt_grading(self, slug: str) -> ExerciseReport | None:
        """Return the report, or None if the file was saved again before the grading ended."""
        from grader.grading.exercise import Run, grade_answer

        check_watch_interrupt()
        self._files.take(slug)
        overtaken = Overtaken(lambda: self._files.changed(slug))
        run = Run(
            nursery=self._nursery, student="me", secret=self._secret, speed=False,
            verdicts=lambda checks: self._show_first_verdicts(slug, checks),
            first=self._failed_before(slug), before_case=overtaken.stop_between_cases,
        )  # fmt: skip
        try:
            with overtaken:
                report = grade_answer(self._exercises[slug], self._files.paths[slug], run)
                return redact_exercise_report(report, self._shows)
        except KeyboardInterrupt:
            check_watch_interrupt()
            if not overtaken.happened:
                raise
        if overtaken.cuts_off:
            self._renew_nursery()  # perhaps a message to the old one
        return None

    def _failed_before(self, slug: str) -> frozenset[str]:
        """Return the checks that failed last: whoever mends one waits for its verdict."""
        report = self._view.reports.get(slug)
        failed = [] if report is None else report.checks
        return frozenset(c.id for c in failed if c.verdict is Verdict.FAILED)

    def _show_first_verdicts(self, slug: str, checks: Sequence[CheckResult]) -> None:
        """Show the verdicts known so far: checks still run, or mistakes are still looked for."""
        if any(c.verdict is Verdict.GRADER_FAULT for c in checks):
            return  # the exercise is about to be graded again
        exercise = self._exercises[slug]
        report = ExerciseReport(
            slug=slug, title=exercise.title, track=exercise.track, sha256="", state="grading",
            path=clean_worker_text(str(self._files.paths[slug])), sentence="",
            score=sum_score_points(checks, None), checks=tuple(checks), speed=None,
        )  # fmt: skip
        shown = redact_exercise_report(report, self._shows)
        self._view = replace(self._view, reports={**self._view.reports, slug: shown})
        self._screen.show(self._view)

    def _renew_nursery(self) -> None:
        self._nursery.close()
        self._nursery = Nursery(self._wall)

    def _update_view(self, **changes: str) -> None:
        self._view = replace(self._view, **changes)  # type: ignore[arg-type]
        self._screen.show(self._view)
