"""Draws the page after a pass: answer beside model answer, speed, questions, what is next."""

from dataclasses import dataclass
from typing import Any

from markupsafe import Markup
from nicegui import run, ui

from grader.core import catalog, sealed_bundle
from grader.core.questions import read_questions_toml
from grader.core.records import Exercise, Speed
from grader.core.translation import Words
from grader.learn.code_label import CodeLabel
from grader.learn.learn_state import LearnState
from grader.learn.lesson_html import render_lesson_text
from grader.learn.page_frame import begin_page, greet_browser
from grader.reporting.html import render_report_template
from grader.submission import answer_file

TICK_SECONDS = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class _Passed:
    """What is shown of one passed answer."""

    definitions: tuple[Any, ...] = ()
    ways: tuple[Any, ...] = ()
    timed: bool = False  # whether its speed can be measured here
    problem: str = ""


class PassedPage:
    """One tab on one exercise that is passed, in a course that shows everything."""

    def __init__(self, state: LearnState, slug: str) -> None:
        self._state, self._words, self._slug = state, state.words, slug
        self._exercise = state.exercises[slug]
        self._timed: Speed | None = None
        title = self._words.title(self._exercise)
        begin_page(state, title)
        self._client = ui.context.client
        with ui.element("header").classes("top-bar"):
            back = self._words("Back to the exercise")
            ui.link(f"← {back}", f"/learn/{slug}").classes("back")
        with ui.element("div").classes("after lesson"):
            ui.html(f"<h1>{Markup.escape(title)}</h1>", sanitize=False)
            self._busy = CodeLabel(self._words("Reading both answers ...")).props('role="status"')
            self._beside = ui.html("", sanitize=False)
            self._speed = ui.element("section").classes("timed")
            self._draw_next()

    async def run(self) -> None:
        """Draw both answers once the browser is connected: they import torch."""
        await self._client.connected(timeout=30.0)
        await greet_browser(self._words)
        exercise, words = self._exercise, self._words
        found = await run.io_bound(_read_passed_answers, exercise, self._state, words)
        if found is None:  # the server ends
            return
        self._busy.set_text(words.said(found.problem))
        self._beside.set_content(_render_beside(found, exercise, words))
        if found.timed:
            self._draw_timer()

    def _draw_next(self) -> None:
        following = self._state.next_exercise(self._slug)
        if following is None:
            ui.label(self._words("Every exercise here is passed."))
        else:
            title = self._words.title(self._state.exercises[following])
            ui.link(self._words("Next: ") + title, f"/learn/{following}").classes("button")

    def _draw_timer(self) -> None:
        with self._speed:
            ui.html(f"<h2>{Markup.escape(self._words('How fast yours is'))}</h2>", sanitize=False)
            self._button = ui.button(self._words("Time it"), on_click=self._time)
            self._button.props("flat no-caps")
            self._told = CodeLabel().classes("soft").props('role="status"')
            self._drawn = ui.html("", sanitize=False)
            ui.timer(TICK_SECONDS, self._tick)

    def _time(self) -> None:
        self._state.timer.start(self._exercise)
        self._tick()

    def _tick(self) -> None:
        timer, slug = self._state.timer, self._slug
        self._button.set_enabled(not timer.running)
        told = self._words("Half a minute; keep the machine quiet meanwhile.")
        if timer.running == slug:
            told = self._words("Timing: {share} done", share=f"{timer.share:.0%}")
        elif slug in timer.problems:
            told = self._words.said(timer.problems[slug])
        self._told.set_text(told)
        if (speed := timer.found.get(slug)) is not self._timed and speed is not None:
            self._timed = speed
            self._drawn.set_content(
                render_report_template("speed.html.j2", self._words, s=speed, e=self._exercise)
            )


def _read_passed_answers(exercise: Exercise, state: LearnState, words: Words) -> _Passed:
    """Read both answers; this runs in a thread beside the page's own."""
    from grader.judging import suite_runner
    from grader.practice import model_answer

    timed = not sealed_bundle.is_core_sealed() and suite_runner.find_suite_speed_case(exercise)
    names = catalog.list_catalog_names(exercise)
    try:
        answer = answer_file.read_submission(state.path(exercise.slug), exercise.slug, names)
    except answer_file.UnreadableFile as problem:
        return _Passed(problem=str(problem))
    return _Passed(
        definitions=model_answer.compare_with_model_answer(
            exercise, answer.source, words.language
        ),
        ways=model_answer.list_other_ways(exercise, words),
        timed=bool(timed),
    )  # fmt: skip


def _render_beside(found: _Passed, exercise: Exercise, words: Words) -> str:
    questions = [
        words.question(exercise.slug, q.id, q.asks, q.answer) for q in read_questions_toml(exercise)
    ]
    definitions = [
        {"name": d.name, "why": Markup(render_lesson_text(d.why)), "lines": d.lines}
        for d in found.definitions
    ]
    return render_report_template(
        "beside.html.j2", words, definitions=definitions, ways=found.ways, questions=questions
    )
