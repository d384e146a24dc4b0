"""What was found as a page: each pair side by side, what they have in common marked."""

from collections.abc import Iterator
from dataclasses import dataclass

from grader.classroom.similar.compare_answers import Side
from grader.classroom.similar.similar_search import Found
from grader.classroom.similar.similar_table import others, percent, said, told
from grader.core import catalog
from grader.core.translation import Words
from grader.reporting import html
from grader.worker.harmless_text import harmless

AROUND = 2  # lines shown before and after those that are marked
MOST_LINES = 300  # of an answer
LONGEST = 300  # characters of a line

Part = tuple[str, bool]  # a piece of a line, and whether it is marked


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A line of an answer; or, with no parts, that some are not shown."""

    number: int
    parts: tuple[Part, ...] = ()


def to_html(found: Found, words: Words) -> str:
    """The page in the language of `words`. It runs no script and asks the network for nothing."""
    titles = {group.slug: words.title(catalog.find(group.slug)) for group in found.groups}
    return html.piece(
        "similar.html.j2", words, found=found, titles=titles, said=said(found, words),
        told=told(found, words), lines=lines, others=others, share=percent,
    )  # fmt: skip


def lines(side: Side) -> list[Line]:
    """The lines of an answer that are marked, and some around them."""
    marked = side.passages()
    near = {n + step for n in marked for step in range(-AROUND, AROUND + 1)}
    every = side.answer.source.rstrip("\n").split("\n")
    shown = [number for number in range(len(every)) if number in near][:MOST_LINES]
    found: list[Line] = []
    before = -1
    for number in shown:
        if number > before + 1:
            found.append(Line(number=0))
        parts = _parts(every[number][:LONGEST], marked.get(number, []))
        made = tuple((harmless(text), is_marked) for text, is_marked in parts)
        found.append(Line(number=number + 1, parts=made))
        before = number
    return found if before == len(every) - 1 else [*found, Line(number=0)]


def _parts(line: str, marked: list[tuple[int, int]]) -> Iterator[Part]:
    at = 0
    for start, end in marked:
        yield line[at:start], False
        yield line[start:end], True
        at = end
    yield line[at:], False
