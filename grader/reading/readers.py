"""What a reader can be asked about a text, and what it answers: plain data."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from grader.cuda import allowed, translate
from grader.cuda import outline as cuda_outline
from grader.reading import cells, cuda_cells, hunts, outline, tokens
from grader.reading.cut import cut
from grader.reading.lines import written_as
from grader.reading.zips import unzipped, zipped
from grader.records import Exercise

Told = dict[str, Any]


def notebook(content: bytes, *, names: Sequence[str], language: str) -> Told:
    """The answer in a notebook's file: {"source", "lines", "problems"}, or {"bad": a sentence}."""
    try:
        found = cuda_cells.answer(content) if language == "cuda" else cells.answer(content, names)
    except cells.BadNotebook as problem:
        return {"bad": str(problem)}
    return {"source": found.source, "lines": found.lines, "problems": dict(found.problems)}


def python(
    content: bytes, *, exercise: Exercise, slugs: frozenset[str],
    lines: Sequence[tuple[int, int]] = (),
) -> Told:  # fmt: skip
    """What a Python file says before it is run; {"unreadable"} or {"refused"} with a sentence.

    {"runs": what is run of it, "problems": {name: sentence}, "lines": {name: line}}

    lines  of a notebook: of each line its cell, and there
    """
    source = _text(content)
    try:
        tree = outline.parse(source)
    except outline.NotPython as problem:
        return {"unreadable": str(problem)}
    done = cut(source, tree, exercise, slugs, partial(written_as, lines))
    if done.file:
        return {"refused": done.file}
    return {
        "runs": done.runs,
        "problems": outline.problems(tree, exercise) | done.refused,
        "lines": outline.lines(tree),
    }


def cuda(content: bytes, *, exercise: Exercise, lines: Sequence[tuple[int, int]] = ()) -> Told:
    """The same of a CUDA file; "translated" is what a C++ compiler is given of it."""
    text = _text(content)
    if refused := allowed.refusals(text):
        line, why = refused[0]
        return {"refused": f"Line {written_as(lines, line)}: {why}"}
    problems = cuda_outline.problems(text, exercise)
    return {
        "problems": problems,
        "lines": cuda_outline.lines(text),
        "translated": translate.translated(text, "answer_0"),
    }


def drawn(content: bytes) -> str:
    """The drill that an answer to a bug hunt says it is, or ""."""
    return hunts.drawn(_text(content))


def letters(content: bytes, *, language: str) -> Told:
    """The tokens of an answer: {"letters", "places": [[from, to], ...]}."""
    found, places = tokens.tokens(_text(content), language)
    return {"letters": found, "places": places}


def _text(content: bytes) -> str:
    return content.decode("utf-8", "surrogatepass")


READERS: dict[str, Callable[..., Any]] = {
    f.__name__: f for f in (notebook, python, cuda, drawn, letters, zipped, unzipped)
}
