"""Lays out the page: exercises, lesson, editor, verdict; one address for each exercise."""

from contextlib import suppress

from fastapi.responses import RedirectResponse, Response
from nicegui import ui

from grader.core.translation import Words
from grader.learn.editor_pane import EditorPane
from grader.learn.exercise_list import ExerciseList
from grader.learn.learn_state import LearnState
from grader.learn.lesson_html import render_lesson
from grader.learn.page_frame import begin_page, greet_browser
from grader.learn.passed_page import PassedPage
from grader.learn.play_pane import PlayPane, has_play
from grader.learn.verdict_pane import VerdictPane

TICK_SECONDS = 0.1
_OTHER_LANGUAGE = {"en": ("zh", "中文"), "zh": ("en", "English")}
_NEXT_DARK: dict[bool | None, bool | None] = {None: True, True: False, False: None}


def build_learn_pages(state: LearnState, start: str) -> None:
    """Declare the addresses of the page; the first shown is `start`."""

    @ui.page("/")
    def begin() -> Response:
        return RedirectResponse(f"/learn/{start}")

    @ui.page("/learn/{slug}")
    async def learn(slug: str) -> Response | None:
        if slug not in state.exercises:
            return RedirectResponse(f"/learn/{start}")
        with suppress(TimeoutError):  # the browser went away before it had the page
            await LearnTab(state, slug).run()
        return None

    @ui.page("/passed/{slug}")
    async def passed(slug: str) -> Response | None:
        if slug not in state.exercises or state.shows != "open" or not state.is_passed(slug):
            return RedirectResponse(f"/learn/{slug}")
        with suppress(TimeoutError):
            await PassedPage(state, slug).run()
        return None


class LearnTab:
    """One tab of a browser, on one exercise."""

    def __init__(self, state: LearnState, slug: str) -> None:
        self._state, self._words, self._slug = state, state.words, slug
        self._buttons: dict[str, ui.button] = {}
        state.choose(slug=slug)
        if state.report(slug) is None:
            state.request(slug)
        self._dark = begin_page(state, state.words.title(state.exercises[slug]))
        self._draw_header()
        with ui.element("div").classes("room"):
            self._list = ExerciseList(state, slug)
            with ui.element("div").classes("workspace show-lesson") as self._workspace:
                self._draw_views()
                self._draw_lesson()
                self._play = PlayPane(state, slug) if has_play(state.exercises[slug]) else None
                with ui.element("div").classes("code"):
                    self._editor = EditorPane(state, slug)
                    self._verdict = VerdictPane(state, slug)
        self._client = ui.context.client
        ui.timer(TICK_SECONDS, self._tick)

    async def run(self) -> None:
        """Go on once the browser is connected."""
        await self._client.connected(timeout=30.0)
        self._editor.shade(await greet_browser(self._words))
        await self._editor.connect()
        self._state.shown.set()

    def _tick(self) -> None:
        if not self._client.has_socket_connection:
            return  # the tab is closed or gone elsewhere
        self._editor.tick()
        self._verdict.tick()
        self._list.tick()
        self._editor.mark(self._state.report(self._slug))

    def _draw_header(self) -> None:
        other, name = _OTHER_LANGUAGE[self._words.language]
        with ui.element("header").classes("top-bar"):
            ui.link(self._words("To the editor"), "#editor").classes("skip")
            self._menu = ui.button("☰", on_click=self._toggle_list).props("flat dense")
            self._menu.classes("menu").props["aria-label"] = self._words("Exercises")
            self._menu.props["aria-expanded"] = "false"
            ui.label(self._words("Attention by Hand")).classes("brand").tag = "h1"
            ui.element("span").classes("grow")
            switch = ui.button(name, on_click=lambda: self._speak(other))
            switch.props(f"flat dense no-caps lang={other}")
            self._shade = ui.button(on_click=self._change_dark).props("flat dense no-caps")
            self._shade.set_text(self._dark_text())

    def _draw_views(self) -> None:
        """Draw the buttons that choose what is beside the editor, or on a phone instead of it."""
        with ui.element("nav").classes("views") as views:
            views.props["aria-label"] = self._words("Views")
            views_here = [("lesson", "Lesson"), ("play", "Play"), ("code", "Code")]
            for view, english in views_here:
                if view == "play" and not has_play(self._state.exercises[self._slug]):
                    continue
                button = ui.button(self._words(english), on_click=lambda v=view: self._show(v))
                button.props("flat dense no-caps").classes(f"to-{view}")
                self._buttons[view] = button
        self._press("lesson")

    def _draw_lesson(self) -> None:
        exercise = self._state.exercises[self._slug]
        with ui.element("article").classes("lesson").props('tabindex="0"'):
            ui.html(render_lesson(exercise, self._words), sanitize=False)

    def _show(self, view: str) -> None:
        if view == "play" and self._play is not None:
            self._play.show()
        self._workspace.classes(replace=f"workspace show-{view}")
        self._press(view)

    def _press(self, shown: str) -> None:
        """Tell which view is shown to those who do not see it."""
        for view, button in self._buttons.items():
            button.props["aria-pressed"] = "true" if view == shown else "false"

    def _toggle_list(self) -> None:
        self._list.element.classes(toggle="open")
        opened = "open" in self._list.element.classes
        self._menu.props["aria-expanded"] = "true" if opened else "false"

    def _speak(self, language: str) -> None:
        self._editor.flush()
        self._state.words = Words(language)
        self._state.choose(language=language)
        ui.navigate.reload()

    async def _change_dark(self) -> None:
        self._dark.value = _NEXT_DARK[self._state.choices.dark]
        self._state.choose(dark=self._dark.value)
        self._shade.set_text(self._dark_text())
        dark = await ui.run_javascript("learn.isDark()")
        self._editor.shade(bool(dark))

    def _dark_text(self) -> str:
        names = {None: "Auto", True: "Dark", False: "Light"}
        return self._words(names[self._state.choices.dark])
