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
from grader.submission.cut_functions import cut_forbidden_from_submission
from grader.submission.definition_digests import digest_submitted_definitions
from grader.submission.line_names import name_submission_line, unify_submission_line_ends
from grader.submission.repairs import list_repairs_of_submission
from grader.submission.zip_entries import list_submitted_zip_files, unpack_submitted_zip_file

ReaderReply = dict[str, Any]


def read_notebook_submission(content: bytes, *, names: Sequence[str], language: str) -> ReaderReply:
    """Return the answer in a notebook: {"source", "lines", "problems"}, or {"bad": sentence}."""
    try:
        found = (
            cuda_cells.read_submitted_cuda_cells(content)
            if language == "cuda"
            else notebook_cells.read_submitted_notebook(content, names)
        )
    except notebook_cells.BadNotebook as problem:
        return {"bad": str(problem)}
    return {"source": found.source, "lines": found.lines, "problems": dict(found.problems)}


def read_python_submission(
    content: bytes, *, exercise: Exercise, slugs: frozenset[str],
    lines: Sequence[tuple[int, int]] = (),
) -> ReaderReply:  # fmt: skip
    """Return what can be said of a Python file before it runs.

    {"runs": the text that is run, "problems": {name: sentence}, "lines": {name: line}},
    or {"unreadable": sentence}, or {"refused": sentence}

    lines  for each line of a notebook's answer, its cell and its line in the cell
    """
    source = _decode_submission_content(content)
    try:
        tree = python_outline.parse_submission(source)
    except python_outline.NotPython as problem:
        return {"unreadable": str(problem)}
    done = cut_forbidden_from_submission(
        source, tree, exercise, slugs, partial(name_submission_line, lines)
    )
    if done.file:
        return {"refused": done.file}
    return {
        "runs": done.runs,
        "problems": python_outline.compare_submission_with_manifest(tree, exercise) | done.refused,
        "lines": python_outline.list_submission_lines(tree),
    }


def read_cuda_submission(
    content: bytes, *, exercise: Exercise, lines: Sequence[tuple[int, int]] = ()
) -> ReaderReply:
    """Return the same for a CUDA file; "translated" is what a C++ compiler receives."""
    text = _decode_submission_content(content)
    if refused := allowed_cuda.find_refused_cuda_lines(text):
        line, why = refused[0]
        return {"refused": f"Line {name_submission_line(lines, line)}: {why}"}
    problems = cuda_outline.compare_cuda_with_manifest(text, exercise)
    return {
        "problems": problems,
        "lines": cuda_outline.list_cuda_function_lines(text),
        "translated": translate.translate_cuda_answer(text, "answer_0"),
    }


def read_drill_of_submission(content: bytes) -> str:
    """Return the drill that an answer to a bug hunt names, or ""."""
    return hunt_answers.read_submitted_drill_name(_decode_submission_content(content))


def read_definitions_of_submission(content: bytes) -> ReaderReply:
    """Return a digest of each function, method and class; {} for a text that is not Python."""
    try:
        return dict(digest_submitted_definitions(_decode_submission_content(content)))
    except python_outline.NotPython:
        return {}


def read_repairs_of_submission(content: bytes, **given: Any) -> list[ReaderReply]:
    """Return edits of a Python file that may mend it; `given` as for the function called here."""
    return list_repairs_of_submission(_decode_submission_content(content), **given)


def read_letters_of_submission(content: bytes, *, language: str) -> ReaderReply:
    """Return the tokens of an answer: {"letters", "places": [[from, to], ...]}."""
    found, places = answer_tokens.tokenize_submission(_decode_submission_content(content), language)
    return {"letters": found, "places": places}


def _decode_submission_content(content: bytes) -> str:
    return unify_submission_line_ends(content.decode("utf-8", "surrogatepass"))


READERS: dict[str, Callable[..., Any]] = {
    "notebook": read_notebook_submission,
    "python": read_python_submission,
    "cuda": read_cuda_submission,
    "drawn": read_drill_of_submission,
    "definitions": read_definitions_of_submission,
    "letters": read_letters_of_submission,
    "repairs": read_repairs_of_submission,
    "zipped": list_submitted_zip_files,
    "unzipped": unpack_submitted_zip_file,
}
