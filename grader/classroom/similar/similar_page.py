"""Renders similar answers as a page: each pair side by side, its common passages marked."""

from collections.abc import Iterator
from dataclasses import dataclass

from grader.classroom.similar.compare_answers import SimilarSide
from grader.classroom.similar.similar_search import SimilarAnswers
from grader.classroom.similar.similar_table import (
    describe_similar_notes,
    format_similar_share,
    list_unshown_similar_writers,
    summarise_similar_answers,
)
from grader.core import catalog
from grader.core.translation import Words
from grader.reporting import html
from grader.worker.parent.harmless_text import clean_worker_text

CONTEXT_LINES = 2  # shown before and after each marked line
MAX_LINES = 300  # shown of an answer
MAX_LINE_CHARACTERS = 300

Part = tuple[str, bool]  # a piece of a line, and whether it is marked


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkedLine:
    """A line of an answer; without parts, it stands for lines that are not shown."""

    number: int
    parts: tuple[Part, ...] = ()


def render_similar_page(found: SimilarAnswers, words: Words) -> str:
    """Return the page in the language of `words`; the page has no script and no network access."""
    titles = {
        group.slug: words.title(catalog.find_catalog_exercise(group.slug)) for group in found.groups
    }
    return html.render_report_template(
        "similar.html.j2", words, found=found, titles=titles,
        said=summarise_similar_answers(found, words), told=describe_similar_notes(found, words),
        lines=list_marked_similar_lines, others=list_unshown_similar_writers,
        share=format_similar_share,
    )  # fmt: skip


def list_marked_similar_lines(side: SimilarSide) -> list[MarkedLine]:
    """Return the marked lines of an answer, with some lines around them."""
    marked = side.passages()
    near = {n + step for n in marked for step in range(-CONTEXT_LINES, CONTEXT_LINES + 1)}
    every = side.answer.source.rstrip("\n").split("\n")
    shown = [number for number in range(len(every)) if number in near][:MAX_LINES]
    found: list[MarkedLine] = []
    before = -1
    for number in shown:
        if number > before + 1:
            found.append(MarkedLine(number=0))
        parts = _split_similar_line(every[number][:MAX_LINE_CHARACTERS], marked.get(number, []))
        made = tuple((clean_worker_text(text), is_marked) for text, is_marked in parts)
        found.append(MarkedLine(number=number + 1, parts=made))
        before = number
    return found if before == len(every) - 1 else [*found, MarkedLine(number=0)]


def _split_similar_line(line: str, marked: list[tuple[int, int]]) -> Iterator[Part]:
    at = 0
    for start, end in marked:
        yield line[at:start], False
        yield line[start:end], True
        at = end
    yield line[at:], False
