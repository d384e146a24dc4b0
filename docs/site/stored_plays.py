"""Stores the pictures of a lesson for every setting of its controls, drawn by the reference.

The pictures are the HTML of `make learn`. Many settings share all of it but the numbers, so it is
stored once, split at its numbers, and a setting is the number of that text and the numbers in it.
A painted grid has too many settings: each of its rows is stored for itself, since a query's row of
a picture follows from the same row of the mask alone.
"""

import json
import re
from collections.abc import Iterator
from html import escape
from itertools import product
from typing import Any

from grader.core.records import Exercise
from grader.core.translation import Words
from grader.judging.playing import Control, Painted, Slider, Switch
from grader.learn import play_runner
from grader.reporting.html import render_report_template

_NUMBER = re.compile(r"([-+]?\d[\d.]*(?:e[-+]?\d+)?)")


class CannotStore(Exception):
    """Raised when the settings of an exercise cannot be stored; the message says why."""


def has_play(exercise: Exercise) -> bool:
    """Return whether an exercise has something that can be moved."""
    return (exercise.folder / "play.py").is_file()


def store_pictures(exercise: Exercise, words: Words) -> str:
    """Return the pictures of every setting, in their order, as JSON."""
    texts: dict[tuple[str, ...], int] = {}
    settings = []
    for values in list_settings(play_runner.list_controls(exercise)):
        parts = _NUMBER.split(draw_pictures(exercise, words, values))
        text = texts.setdefault(tuple(parts[::2]), len(texts))
        settings.append(" ".join([str(text), *parts[1::2]]))
    return json.dumps({"texts": list(texts), "settings": settings}, ensure_ascii=False)


def draw_pictures(exercise: Exercise, words: Words, values: dict[str, Any]) -> str:
    """Return the HTML of the pictures for one setting, in one line."""
    pictures = play_runner.play_reference(exercise, values).pictures
    named = [(type(picture).__name__, picture) for picture in pictures]
    html = render_report_template("pictures.html.j2", words, pictures=named)
    return re.sub(r"\s*\n\s*", "", html)


def list_settings(controls: tuple[Control, ...]) -> Iterator[dict[str, Any]]:
    """Yield the values of the controls for each setting; the last control changes first."""
    if any(isinstance(control, Painted) for control in controls):
        if len(controls) > 1:
            raise CannotStore("A painted grid beside other controls has too many settings.")
        yield from _list_painted_settings(controls[0])
        return
    names = [control.name for control in controls]
    for values in product(*map(_list_control_values, controls)):
        yield dict(zip(names, values, strict=True))


def _list_painted_settings(control: Any) -> Iterator[dict[str, Any]]:
    """Yield the grid as it begins, with one row after the other in each of its forms."""
    for at, begin in enumerate(control.begin):
        for row in product((False, True), repeat=len(begin)):
            yield {control.name: (*control.begin[:at], row, *control.begin[at + 1 :])}


def _list_control_values(control: Control) -> list[Any]:
    if isinstance(control, Switch):
        return [False, True]
    assert isinstance(control, Slider)
    steps = round((control.high - control.low) / control.step)
    return [round(control.low + n * control.step, 9) for n in range(steps + 1)]


def write_play(exercise: Exercise, words: Words, stored_at: str) -> str:
    """Return the controls and the first pictures as HTML, in one line."""
    controls = play_runner.list_controls(exercise)
    begin = {control.name: control.begin for control in controls}
    moved = "".join(_write_control(control, words) for control in controls)
    return (
        f'<div class="play" data-stored="{stored_at}"><div class="controls">{moved}</div>'
        f'<div class="pictures">{draw_pictures(exercise, words, begin)}</div></div>'
    )


def _write_control(control: Control, words: Words) -> str:
    says = re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(words(control.says)))
    if isinstance(control, Painted):
        grid = render_report_template(
            "painted.html.j2", words, name=control.name, rows=control.begin
        )
        return f"<p>{says}</p><div>" + re.sub(r"\s*\n\s*", "", grid) + "</div>"
    if isinstance(control, Switch):
        on = " checked" if control.begin else ""
        return f'<label><input type="checkbox" data-steps="2"{on}> {says}</label>'
    count = len(_list_control_values(control))
    return (
        f'<label class="slider"><span class="slider-head"><span>{says}</span>'
        f'<output class="number">{control.begin:g}</output></span>'
        f'<input type="range" data-steps="{count}" min="{control.low:g}" max="{control.high:g}"'
        f' step="{control.step:g}" value="{control.begin:g}"></label>'
    )
