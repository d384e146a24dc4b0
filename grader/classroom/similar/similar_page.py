"""Renders similar answers as a page: each pair side by side, its common passages marked."""

from collections.abc import Iterator
from dataclasses import dataclass

from grader.classroom.similar.compare_answers import Side
from grader.classroom.similar.similar_search import Found
from grader.classroom.similar.similar_table import (
    note_sentences,
    share_percent,
    summary_sentences,
    unshown_writers,
)
from grader.core import catalog
from grader.core.translation import Words
from grader.reporting import html
from grader.worker.harmless_text import clean_worker_text

CONTEXT_LINES = 2  # shown before and after each marked line
MAX_LINES = 300  # shown of an answer
MAX_LINE_CHARACTERS = 300

Part = tuple[str, bool]  # a piece of a line, and whether it is marked


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A line of an answer; without parts, it stands for lines that are not shown."""

    number: int
    parts: tuple[Part, ...] = ()


def to_html(found: Found, words: Words) -> str:
    """Return the page in the language of `words`; the page has no script and no network access."""
    titles = {
        group.slug: words.title(catalog.find_catalog_exercise(group.slug)) for group in found.groups
    }
    return html.render_template(
        "similar.html.j2", words, found=found, titles=titles, said=summary_sentences(found, words),
        told=note_sentences(found, words), lines=marked_lines, others=unshown_writers,
        share=share_percent,
    )  # fmt: skip


def marked_lines(side: Side) -> list[Line]:
    """Return the marked lines of an answer, with some lines around them."""
    marked = side.passages()
    near = {n + step for n in marked for step in range(-CONTEXT_LINES, CONTEXT_LINES + 1)}
    every = side.answer.source.rstrip("\n").split("\n")
    shown = [number for number in range(len(every)) if number in near][:MAX_LINES]
    found: list[Line] = []
    before = -1
    for number in shown:
        if number > before + 1:
            found.append(Line(number=0))
        parts = _split_line(every[number][:MAX_LINE_CHARACTERS], marked.get(number, []))
        made = tuple((clean_worker_text(text), is_marked) for text, is_marked in parts)
        found.append(Line(number=number + 1, parts=made))
        before = number
    return found if before == len(every) - 1 else [*found, Line(number=0)]


def _split_line(line: str, marked: list[tuple[int, int]]) -> Iterator[Part]:
    at = 0
    for start, end in marked:
        yield line[at:start], False
        yield line[start:end], True
        at = end
    yield line[at:], False
