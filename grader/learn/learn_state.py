"""What all tabs of the page share: the exercises, the last verdicts, the chosen language."""

from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

from grader.core.records import Exercise, ExerciseReport
from grader.core.translation import Words
from grader.learn.page_choices import PageChoices, read_page_choices, write_page_choices
from grader.practice.hints import is_practice_passed
from grader.practice.watch.watch_screen import WatchView
from grader.submission import answer_file
from grader.worker.parent.walls import PROCESS, Wall

if TYPE_CHECKING:
    from grader.learn.answer_timer import AnswerTimer
    from grader.learn.play_runner import AnswerPlayer


@dataclass(kw_only=True)
class LearnState:
    """The screen of `watch` on a page: each tab draws the newest view, by a timer of its own.

    The views come from the thread of `watch`. They never change, so the tabs need no lock.
    """

    exercises: Mapping[str, Exercise]
    place: Path
    words: Words
    wall: Wall = PROCESS
    shows: str = "open"
    choices: PageChoices = field(default_factory=PageChoices)
    view: WatchView = field(default_factory=lambda: WatchView(reports={}, slugs=()))
    shown: Event = field(default_factory=Event)  # set once a browser shows the page
    closing: ExitStack = field(default_factory=ExitStack)  # what ends with the page
    _requests: deque[str] = field(default_factory=deque)

    def show(self, view: WatchView) -> None:
        self.view = view

    def fit(self) -> None:
        """Do nothing: a browser fits the page into its window."""

    def take_requests(self) -> list[str]:
        """Return one exercise without a report, so that a save never waits for more than one."""
        while self._requests:
            slug = self._requests.popleft()
            if self.report(slug) is None:
                return [slug]
        return []

    def request(self, slug: str) -> None:
        """Have an exercise without a report graded before all others that wait."""
        if self.grades != slug:
            self._requests.appendleft(slug)

    def request_all(self) -> None:
        """Have every exercise graded in order, so that the list shows the progress."""
        self._requests.extend(self.exercises)

    def choose(self, **chosen: Any) -> None:
        """Take up what a person chose, for all tabs and for the next start."""
        before, self.choices = self.choices, replace(self.choices, **chosen)
        if self.choices != before:
            write_page_choices(self.place, self.choices)

    @property
    def grades(self) -> str:
        """Return the slug of the exercise that is being graded; "" if none is."""
        return self.view.grading

    @cached_property
    def player(self) -> "AnswerPlayer":
        """Return what runs answers for pictures; the first use imports torch."""
        from grader.learn.play_runner import AnswerPlayer

        found = AnswerPlayer(self.place, self.wall)
        self.closing.callback(found.close)
        return found

    @cached_property
    def timer(self) -> "AnswerTimer":
        """Return what times answers on request; the first use imports torch."""
        from grader.learn.answer_timer import AnswerTimer

        return AnswerTimer(self.place, self.wall)

    def report(self, slug: str) -> ExerciseReport | None:
        return self.view.reports.get(slug)

    def path(self, slug: str) -> Path:
        return answer_file.locate_submission(self.place, slug)

    def next_exercise(self, slug: str) -> str | None:
        """Return the first exercise after `slug`, then before it, that is not passed."""
        slugs = list(self.exercises)
        at = slugs.index(slug)
        return next((s for s in [*slugs[at + 1 :], *slugs[:at]] if not self.is_passed(s)), None)

    def is_passed(self, slug: str) -> bool:
        report = self.report(slug)
        return report is not None and is_practice_passed(report)


def new_learn_state(
    exercises: Sequence[Exercise], place: Path, words: Words, wall: Wall, shows: str
) -> LearnState:
    return LearnState(
        exercises={e.slug: e for e in exercises}, place=place, words=words, wall=wall, shows=shows,
        choices=read_page_choices(place),
    )  # fmt: skip
