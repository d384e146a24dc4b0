"""Turns the Markdown of a lesson into HTML: formulas become MathML, code is coloured."""

import base64
import re
from functools import lru_cache
from pathlib import Path

import latex2mathml.converter
import markdown2

from grader.core.installed_copies import find_project_file
from grader.core.records import Exercise
from grader.core.translation import Words
from grader.submission.answer_file import locate_lesson_of_submission

_EXTRAS = ["fenced-code-blocks", "tables"]
_CODE_OR_FORMULA = re.compile(
    r"(?<!`)(?P<ticks>`+)(?!`).*?(?<!`)(?P=ticks)(?!`)|\$\$(?P<block>.+?)\$\$|\$(?P<inline>.+?)\$"
    r"|(?<=[\u3000-\u9fff\uff00-\uffef])(?P<end>\n)(?=[\u3000-\u9fff\uff00-\uffef])",
    re.DOTALL,
)
_TAKEN_OUT = re.compile("\ue000([0-9]+)\ue001")
_OUTSIDE_LINK = re.compile(r'<a href="(https?://)')
_PICTURE = re.compile(r'(?<=<img src=")[\w.]+\.svg(?=")')
_INSIDE_LINK = re.compile(r'<a href="(?!https?://|#)[^"]*">(.*?)</a>', re.DOTALL)


def render_lesson(exercise: Exercise, words: Words) -> str:
    """Return the lesson of an exercise as HTML; a paragraph that says so if there is none."""
    lesson = locate_lesson_of_submission(exercise.slug, words.language)
    path = find_project_file(lesson, exercise.home)
    try:
        text = path.read_text(encoding="utf-8")
    except OSError:
        return f"<p>{words('This exercise has no lesson here.')}</p>"
    return _PICTURE.sub(
        lambda name: _embed_picture(path.with_name(name[0])), render_lesson_text(text)
    )


@lru_cache(maxsize=64)
def render_lesson_text(text: str) -> str:
    """Return HTML of our own Markdown; links to other files of the project become text."""
    formulas: list[str] = []

    def take_out(found: re.Match[str]) -> str:
        if found["ticks"]:
            return found[0]
        if found["end"]:  # between two Chinese signs a browser would draw a space for it
            return ""
        formulas.append(_draw_formula(found))
        return f"\ue000{len(formulas) - 1}\ue001"

    # markdown2 takes <math> at the start of a line for a block, and its extra "latex" loses the
    # code spans inside fences: it gets letters for private use in the place of formulas.
    html = str(markdown2.markdown(_CODE_OR_FORMULA.sub(take_out, text), extras=_EXTRAS))
    html = _TAKEN_OUT.sub(lambda place: formulas[int(place[1])], html)
    html = _INSIDE_LINK.sub(r"\1", html)
    return _OUTSIDE_LINK.sub(r'<a target="_blank" rel="noopener noreferrer" href="\1', html)


def _draw_formula(found: re.Match[str]) -> str:
    display = "block" if found["block"] else "inline"
    return str(latex2mathml.converter.convert(found["block"] or found["inline"], display=display))


def _embed_picture(path: Path) -> str:
    """Return an address that holds a picture itself; one that shows its words if it is missing."""
    drawn = base64.b64encode(path.read_bytes() if path.is_file() else b"").decode()
    return f"data:image/svg+xml;base64,{drawn}"
