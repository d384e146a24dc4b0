"""Draws what can be moved in a lesson, and the pictures that follow it."""

from collections.abc import Mapping
from typing import Any

from nicegui import run, ui
from nicegui.events import GenericEventArguments

from grader.core.records import Exercise
from grader.learn.code_label import CodeLabel
from grader.learn.learn_state import LearnState
from grader.reporting.html import render_report_template

TICK_SECONDS = 0.08
_BY_REFERENCE = "Drawn by the reference. Once the exercise is passed, your own function draws it."
_BY_YOURS = (
    "Drawn by your own function, in a separate process. Its values agree with the reference's."
)
_OTHERWISE = "Your own function draws something else here:"


class PlayPane:
    """The pictures of one tab; nothing is imported or computed until they are shown."""

    def __init__(self, state: LearnState, slug: str) -> None:
        self._state, self._words, self._slug = state, state.words, slug
        self._exercise = state.exercises[slug]
        self._values: dict[str, Any] = {}
        self._shown = self._dirty = False
        self._digest = ""  # of the right answer whose pictures are shown
        self._blocks: list[ui.element] = []
        with ui.element("section").classes("play").props("tabindex=0") as section:
            section.props["aria-label"] = self._words("Play")
            self._controls = ui.element("div").classes("controls")
            self._pictures = ui.html("", sanitize=False).classes("pictures")
            self._plane = ui.element("div").classes("plane")
            self._source = CodeLabel().classes("soft source").props('role="status"')
            self._other = ui.html("", sanitize=False).classes("pictures")
        ui.timer(TICK_SECONDS, self._tick)
        ui.on("learn_paint", self._paint)

    def show(self) -> None:
        """Begin to compute, now that somebody looks."""
        self._shown = True

    async def _tick(self) -> None:
        if self._shown and not self._values:
            self._draw_controls(await run.io_bound(_list_controls, self._exercise) or ())
        report = self._state.report(self._slug)
        digest = report.sha256 if report and self._state.is_passed(self._slug) else ""
        grading = report is not None and report.state == "grading"
        if not self._values or not (self._dirty or (digest != self._digest and not grading)):
            return
        self._dirty, self._digest = False, digest
        values = dict(self._values)
        right: Any = await run.io_bound(_play_reference, self._exercise, values)
        if right is None:  # the server ends
            return
        self._draw(right.pictures)
        if not digest:
            self._source.set_text(self._words(_BY_REFERENCE))
            self._other.set_content("")
            return
        yours = await run.io_bound(_play_answer, self._state, self._exercise, digest, values)
        if yours is not None:
            self._compare(right, yours)

    def _draw_controls(self, controls: Any) -> None:
        from grader.judging.playing import Painted, Slider, Switch

        with self._controls:
            for control in controls:
                self._values[control.name] = control.begin
                match control:
                    case Slider():
                        self._draw_slider(control)
                    case Switch():
                        ui.switch(
                            self._words(control.says), value=control.begin,
                            on_change=lambda e, c=control: self._set(c.name, e.value),
                        )  # fmt: skip
                    case Painted():
                        self._draw_painted(control)
        self._dirty = True

    def _draw_slider(self, control: Any) -> None:
        says = self._words(control.says)
        with ui.element("div").classes("slider"):
            with ui.row().classes("slider-head"):
                CodeLabel(says)
                value = ui.label(f"{control.begin:g}").classes("number")

            def change(event: Any) -> None:
                value.set_text(f"{event.value:g}")
                self._set(control.name, float(event.value))

            slider = ui.slider(
                min=control.low, max=control.high, step=control.step, value=control.begin,
                on_change=change,
            )  # fmt: skip
            slider.props["aria-label"] = says.replace("`", "")

    def _draw_painted(self, control: Any) -> None:
        CodeLabel(self._words(control.says))
        drawn = render_report_template(
            "painted.html.j2", self._words, name=control.name, rows=control.begin
        )
        ui.html(drawn, sanitize=False)

    def _set(self, name: str, value: Any) -> None:
        self._values[name] = value
        self._dirty = True

    def _paint(self, event: GenericEventArguments) -> None:
        """Take a painted grid from the browser, if it has the form of the one that was drawn."""
        match event.args:
            case {"name": str(name), "cells": list(rows)} if name in self._values:
                before = self._values[name]
                if isinstance(before, tuple) and [len(r) for r in rows] == [len(r) for r in before]:
                    self._set(name, tuple(tuple(bool(cell) for cell in row) for row in rows))

    def _compare(self, right: Any, yours: Any) -> None:
        from grader.learn.play_runner import CLOSE, measure_picture_difference

        if yours.problem:
            self._source.set_text(self._words.said(yours.problem))
            return
        if measure_picture_difference(right, yours) <= CLOSE:
            self._draw(yours.pictures)
            self._source.set_text(self._words(_BY_YOURS))
            self._other.set_content("")
        else:
            self._source.set_text(self._words(_OTHERWISE))
            self._other.set_content(self._render(yours.pictures))

    def _draw(self, pictures: Any) -> None:
        self._pictures.set_content(self._render(pictures))
        blocks = [b for p in pictures if type(p).__name__ == "Blocks" for b in p.blocks]
        if len(blocks) != len(self._blocks):
            self._plane.clear()
            with self._plane:
                self._blocks = [ui.label(b.label).classes("moving") for b in blocks]
        for element, block in zip(self._blocks, blocks, strict=True):
            element.style(f"--column: {block.column}; --row: {block.row}")
            element.classes(replace=f"moving colour-{block.colour}")
        self._plane.style(f"--rows: {max((b.row for b in blocks), default=-1) + 1}")

    def _render(self, pictures: Any) -> str:
        named = [(type(p).__name__, p) for p in pictures if type(p).__name__ != "Blocks"]
        return render_report_template("pictures.html.j2", self._words, pictures=named)


def has_play(exercise: Exercise) -> bool:
    """Return whether there is something to play with, and the reference that it needs."""
    return (exercise.folder / "play.py").is_file() and (exercise.home / "reference").is_dir()


# These run in threads beside the page's own: their imports and their workers take time.
def _list_controls(exercise: Exercise) -> Any:
    from grader.learn import play_runner

    return play_runner.list_controls(exercise)


def _play_reference(exercise: Exercise, values: Mapping[str, Any]) -> Any:
    from grader.learn import play_runner

    return play_runner.play_reference(exercise, values)


def _play_answer(
    state: LearnState, exercise: Exercise, digest: str, values: Mapping[str, Any]
) -> Any:
    return state.player.play(exercise, digest, values)
