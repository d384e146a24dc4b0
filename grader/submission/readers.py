"""What a reader can be asked about a text, and what it answers: plain data."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from grader.core.records import Exercise
from grader.cuda import allowed_cuda, translate
from grader.cuda import declarations as cuda_outline
from grader.submission import (
    answer_tokens,
    cuda_cells,
    hunt_answers,
    notebook_cells,
    python_outline,
)
from grader.submission.cut_functions import cut_forbidden
from grader.submission.definition_digests import definition_digests
from grader.submission.line_names import name_line
from grader.submission.zip_entries import unzipped, zipped

Told = dict[str, Any]


def notebook(content: bytes, *, names: Sequence[str], language: str) -> Told:
    """Return the answer in a notebook: {"source", "lines", "problems"}, or {"bad": sentence}."""
    try:
        found = (
            cuda_cells.read_cuda_cells(content)
            if language == "cuda"
            else notebook_cells.read_answer_cells(content, names)
        )
    except notebook_cells.BadNotebook as problem:
        return {"bad": str(problem)}
    return {"source": found.source, "lines": found.lines, "problems": dict(found.problems)}


def python(
    content: bytes, *, exercise: Exercise, slugs: frozenset[str],
    lines: Sequence[tuple[int, int]] = (),
) -> Told:  # fmt: skip
    """Return what a Python file says before it runs; {"unreadable"} or {"refused"} with a sentence.

    {"runs": what is run of it, "problems": {name: sentence}, "lines": {name: line}}

    lines  of a notebook: of each line its cell, and there
    """
    source = _decode(content)
    try:
        tree = python_outline.parse(source)
    except python_outline.NotPython as problem:
        return {"unreadable": str(problem)}
    done = cut_forbidden(source, tree, exercise, slugs, partial(name_line, lines))
    if done.file:
        return {"refused": done.file}
    return {
        "runs": done.runs,
        "problems": python_outline.compare_with_manifest(tree, exercise) | done.refused,
        "lines": python_outline.definition_lines(tree),
    }


def cuda(content: bytes, *, exercise: Exercise, lines: Sequence[tuple[int, int]] = ()) -> Told:
    """Return the same for a CUDA file; "translated" is what a C++ compiler receives."""
    text = _decode(content)
    if refused := allowed_cuda.refused_cuda_lines(text):
        line, why = refused[0]
        return {"refused": f"Line {name_line(lines, line)}: {why}"}
    problems = cuda_outline.compare_with_manifest(text, exercise)
    return {
        "problems": problems,
        "lines": cuda_outline.function_lines(text),
        "translated": translate.translate_answer(text, "answer_0"),
    }


def drawn(content: bytes) -> str:
    """Return the drill that an answer to a bug hunt names, or ""."""
    return hunt_answers.read_drill_name(_decode(content))


def definitions(content: bytes) -> Told:
    """Return a digest of each function, method and class; {} for a text that is not Python."""
    try:
        return dict(definition_digests(_decode(content)))
    except python_outline.NotPython:
        return {}


def letters(content: bytes, *, language: str) -> Told:
    """Return the tokens of an answer: {"letters", "places": [[from, to], ...]}."""
    found, places = answer_tokens.tokens(_decode(content), language)
    return {"letters": found, "places": places}


def _decode(content: bytes) -> str:
    return content.decode("utf-8", "surrogatepass")


READERS: dict[str, Callable[..., Any]] = {
    f.__name__: f for f in (notebook, python, cuda, drawn, definitions, letters, zipped, unzipped)
}
