"""Turns the Markdown of a lesson into HTML: formulas become MathML, code is coloured."""

import base64
import re
from functools import lru_cache
from pathlib import Path

import markdown2

from grader.core.installed_copies import find_project_file
from grader.core.translation import Words
from grader.submission.answer_file import locate_lesson_of_submission

_EXTRAS = ["latex", "fenced-code-blocks", "tables"]
_OUTSIDE_LINK = re.compile(r'<a href="(https?://)')
_PICTURE = re.compile(r'(?<=<img src=")[\w.]+\.svg(?=")')
_INSIDE_LINK = re.compile(r'<a href="(?!https?://|#)[^"]*">(.*?)</a>', re.DOTALL)


def render_lesson(slug: str, words: Words) -> str:
    """Return the lesson of an exercise as HTML; a paragraph that says so if there is none."""
    path = find_project_file(locate_lesson_of_submission(slug, words.language))
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
    html = str(markdown2.markdown(text, extras=_EXTRAS))
    html = _INSIDE_LINK.sub(r"\1", html)
    return _OUTSIDE_LINK.sub(r'<a target="_blank" rel="noopener noreferrer" href="\1', html)


def _embed_picture(path: Path) -> str:
    """Return an address that holds a picture itself; one that shows its words if it is missing."""
    drawn = base64.b64encode(path.read_bytes() if path.is_file() else b"").decode()
    return f"data:image/svg+xml;base64,{drawn}"
