"""Draws the list of exercises with what is passed of each."""

from nicegui import ui

from grader.core.records import ExerciseReport
from grader.learn.learn_state import LearnState
from grader.practice.hints import is_practice_open, is_practice_passed
from grader.practice.learner_progress import read_learner_progress

_SIGNS = {"good": ("✓", "passed"), "bad": ("✗", "failed"), "quiet": ("·", "not started yet")}


class ExerciseList:
    """The list of one tab, in which the exercise of the tab is marked."""

    def __init__(self, state: LearnState, slug: str) -> None:
        self._state, self._words = state, state.words
        self._drawn: dict[str, ExerciseReport | None] = {}
        self._entries: dict[str, tuple[ui.label, ui.label, ui.label]] = {}
        with ui.element("nav").classes("exercises") as self.element:
            self.element.props["aria-label"] = self._words("Exercises")
            self._total = ui.label().classes("total")
            track = ""
            for exercise in state.exercises.values():
                if exercise.track != track and track:
                    ui.label(self._words("Optional exercises")).classes("track")
                track = exercise.track
                self._draw_entry(exercise.slug, current=exercise.slug == slug)
        self.tick()

    def tick(self) -> None:
        """Draw what has changed since the last time."""
        reports = {slug: self._state.report(slug) for slug in self._entries}
        if reports == self._drawn and self._drawn:
            return
        for slug, report in reports.items():
            if report is not self._drawn.get(slug) or not self._drawn:
                self._draw_state(slug, report)
        self._drawn = reports
        progress = read_learner_progress(self._state.place)  # what `make progress` counts
        passed = sum(bool(progress.about(s).passed) or self._state.is_passed(s) for s in reports)
        told = "{passed} of {count} exercises passed at least once."
        self._total.set_text(self._words(told, passed=passed, count=len(reports)))

    def _draw_entry(self, slug: str, *, current: bool) -> None:
        title = self._words.title(self._state.exercises[slug])
        with ui.link(target=f"/learn/{slug}").classes("entry") as link:
            if current:
                link.props('aria-current="page"')
            sign = ui.label().classes("sign").props('aria-hidden="true"')
            with ui.element("span").classes("name"):
                ui.label(slug.split("_")[0]).classes("number")
                ui.label(title).classes("title")
            said = ui.label().classes("spoken")
            count = ui.label().classes("count")
            count.props["title"] = self._words("Points, without those for speed")
        self._entries[slug] = sign, said, count

    def _draw_state(self, slug: str, report: ExerciseReport | None) -> None:
        sign, said, count = self._entries[slug]
        tone = _choose_tone(report)
        sign.set_text(_SIGNS[tone][0])
        sign.classes(replace=f"sign {tone}")
        said.set_text(self._words(_SIGNS[tone][1]))
        score = report.score if report is not None and report.state == "graded" else None
        if score is not None and score.possible:
            count.set_text(f"{score.earned}/{score.possible}")
        elif report is None or report.state in ("not_started", "missing"):
            count.set_text("")  # otherwise what was passed before stays, until the file runs again


def _choose_tone(report: ExerciseReport | None) -> str:
    if report is None or is_practice_open(report):
        return "quiet"
    return "good" if is_practice_passed(report) else "bad"
