"""Draws the screen in place while answers are watched."""

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from types import TracebackType

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.text import Text

from grader.core import catalog
from grader.core.records import CheckResult, ExerciseReport, Verdict
from grader.core.translation import Words
from grader.practice.hints import is_practice_open, is_practice_passed
from grader.reporting import terminal_checks
from grader.reporting.next_step import find_failure_to_mend, point_to_hint
from grader.submission import answer_file

_SHOWN_OUTPUT_LINES = 5  # lines of what a submission printed


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchView:
    """The state that the screen shows."""

    reports: Mapping[str, ExerciseReport]  # by slug: what has been graded so far
    slugs: tuple[str, ...]
    shown: str = ""  # the slug of the exercise that is being worked on
    busy: str = ""  # what is being done now
    grading: str = ""  # the slug of the exercise that is being graded
    news: str = ""  # what has just been reached
    graded: str = ""  # when, and how long it took


class WatchScreen:
    """A full screen in a terminal, cleared at the end; elsewhere views one below the other."""

    def __init__(self, console: Console, words: Words) -> None:
        self._console = console
        self._words = words
        self._own = console.is_terminal and not console.is_dumb_terminal
        self._live = Live(console=console, screen=self._own, auto_refresh=False,
                          redirect_stdout=False, redirect_stderr=False)  # fmt: skip
        self._open = ExitStack()
        self._size = console.size
        self._view: WatchView | None = None

    def __enter__(self) -> "WatchScreen":
        if self._own:
            self._open.enter_context(self._live)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._open.close()

    def show(self, view: WatchView) -> None:
        """Draw the view over the one before."""
        self._view, self._size = view, self._console.size
        if self._own:
            self._live.update(draw_watch_view(view, self._words), refresh=True)
        elif not view.busy:
            self._console.print(draw_watch_view(view, self._words), "", sep="\n")

    def take_requests(self) -> list[str]:
        """Return nothing: a terminal asks for no grading."""
        return []

    def fit(self) -> None:
        """Draw the same view again if the window has another size now."""
        if self._own and self._view is not None and self._console.size != self._size:
            self.show(self._view)


def draw_watch_view(view: WatchView, words: Words) -> RenderableType:
    """Draw the view, the most important things first: a low window cuts off the end."""
    parts: list[RenderableType] = [
        _draw_watched_exercises(view),
        _draw_watch_status(view, words),
        Text(),
    ]
    if view.news:
        parts += [Text(view.news, style="green"), Text()]
    if view.shown in view.reports:
        parts += _draw_watched_exercise(view.reports[view.shown], words)
    return Group(*parts)


def _draw_watched_exercises(view: WatchView) -> Text:
    """ex01 ✓  ex02 ✗  ex03 ·"""
    line = Text(overflow="ellipsis", no_wrap=True)
    for slug in view.slugs:
        style = "bold reverse" if slug == view.shown else ""
        line.append(slug.split("_")[0], style).append(" ")
        line.append(_draw_watched_sign(view.reports.get(slug))).append("  ")
    return line


def _draw_watched_sign(report: ExerciseReport | None) -> Text:
    if report is None or is_practice_open(report):
        return Text("·", style="dim")
    return Text("✓", style="green") if is_practice_passed(report) else Text("✗", style="red")


def _draw_watch_status(view: WatchView, words: Words) -> Text:
    ends = words("Ctrl-C ends.")
    return Text(f"{view.busy or view.graded} {ends}".strip(), style="dim")


def _draw_watched_exercise(e: ExerciseReport, words: Words) -> list[RenderableType]:
    parts: list[RenderableType] = [_draw_watched_headline(e, words)]
    if e.state == "not_started":
        lesson = answer_file.locate_lesson_of_submission(e.slug, words.language)
        todo = words("Read {lesson}, then write {path} and save it.", lesson=lesson, path=e.path)
        return [*parts, Text(todo)]
    if e.sentence:
        parts.append(Text(words.said(e.sentence)))
    if e.state == "fault":
        parts.append(Text(words("The grader itself failed. Please report it."), style="magenta"))
    if e.state not in ("graded", "grading", "fault"):
        return parts
    first = _find_check_to_watch(e)
    if first is not None:
        parts += [
            terminal_checks.render_terminal_check(first, e, words),
            _draw_watch_hint(e, words),
            Text(),
        ]
    parts += [_draw_watched_check(c, e, words) for c in e.checks if c is not first]
    return parts + _draw_watched_output(e, words)


def _find_check_to_watch(e: ExerciseReport) -> CheckResult | None:
    """Return the check that is shown in full."""
    faults = (c for c in e.checks if c.verdict is Verdict.GRADER_FAULT)
    return find_failure_to_mend(e) or next(faults, None)


def _draw_watched_headline(e: ExerciseReport, words: Words) -> Text:
    title = words.title(catalog.find_catalog_exercise(e.slug))
    right = sum(c.verdict is Verdict.PASSED for c in e.checks)
    asked = sum(c.verdict is not Verdict.NOT_RUN for c in e.checks)
    told = "{passed} of {asked} checks passed" if asked else "nothing was run"
    told = words(told, passed=right, asked=asked)
    return Text.assemble(
        (title, "bold"), "  ", (e.path, "dim"), f"  {told}" if e.state == "graded" else ""
    )


def _draw_watched_check(c: CheckResult, e: ExerciseReport, words: Words) -> Text:
    """Return a check in one line, without its explanation."""
    sign, says = terminal_checks.SIGNS[c.verdict], words.check(e.slug, c.id, c.says)
    style = "dim" if c.verdict in (Verdict.BLOCKED, Verdict.NOT_RUN) else ""
    line = Text.assemble(sign, " ", (says, style))
    line.no_wrap, line.overflow = True, "ellipsis"
    return line


def _draw_watch_hint(e: ExerciseReport, words: Words) -> Text:
    return Text(f"    {point_to_hint(e, words)}", style="dim")


def _draw_watched_output(e: ExerciseReport, words: Words) -> list[RenderableType]:
    lines = e.output.splitlines()[-_SHOWN_OUTPUT_LINES:]
    if not lines:
        return []
    shown = [Padding(Text(f"| {line}", style="dim"), (0, 0, 0, 2)) for line in lines]
    return [Text(), Text(words("It printed:"), style="dim"), *shown]
