"""Reads the cells of a submitted file for nbgrader, whatever the file is."""

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

from nbconvert.exporters import NotebookExporter
from nbformat import NotebookNode, from_dict
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from grader.core import catalog
from grader.core.grade_ids import NOTEBOOK_METADATA
from grader.core.translation import Words
from grader.release.nbgrader_bridge.submitted_answer import find_submitted_answer
from grader.submission.answer_file import UnreadableFile, read_submission_bytes
from grader.submission.handed_files import MAX_ANSWER_BYTES
from grader.submission.notebook_cells import (
    MAX_FILE_BYTES,
    BadNotebook,
    parse_submitted_notebook,
)

_BROKEN_TEXT = "The submitted file cannot be read; the cells below are empty."
_GRADED_FILE_TEXT = "Graded was {file}, whose code is in the cells below."
_ATTACHMENT = re.compile(r"attachment:([^\s)\"'>\]]*)")
_PLAIN_NAME = re.compile(r"[\w.-]+")  # a name that Markdown leaves as it is
Resources = dict[str, Any]


class TolerantExporter(NotebookExporter):  # type: ignore[misc]
    """An exporter that turns any file into a notebook, so that the batch goes on."""

    def from_filename(
        self, filename: str, resources: Resources | None = None, **kw: Any
    ) -> tuple[str, Resources]:
        path = Path(filename)
        answer = find_submitted_answer(path.parent, path.stem).path or path
        words = Words(str(self.config.Judge.get("language", "en")))
        found: tuple[str, Resources] = self.from_notebook_node(
            read_nbgrader_cells(answer, words), resources, **kw
        )
        return found


def read_nbgrader_cells(path: Path, words: Words) -> NotebookNode:
    """Return a notebook of a file's cells: their types, texts, pictures and nbgrader's metadata."""
    try:
        in_cells = path.suffix.lower() == ".ipynb"
        content = read_submission_bytes(path, MAX_FILE_BYTES if in_cells else MAX_ANSWER_BYTES)
        if in_cells:
            given = parse_submitted_notebook(content)
            cells = [_clean_nbgrader_cell(cell) for cell in given if isinstance(cell, dict)]
        else:
            cells = list(_split_plain_answer(path, content.decode("utf-8", "replace"), words))
    except (BadNotebook, UnreadableFile):
        cells = [new_markdown_cell(f"*{words(_BROKEN_TEXT)}*")]
    for number, cell in enumerate(cells):
        cell["id"] = f"cell-{number}"
    return new_notebook(cells=cells, metadata=from_dict(NOTEBOOK_METADATA))


def _split_plain_answer(path: Path, text: str, words: Words) -> Iterator[NotebookNode]:
    """Yield a plain file as cells, a new one before each definition that the exercise names."""
    yield new_markdown_cell(f"*{words(_GRADED_FILE_TEXT, file=path.name)}*")
    if path.suffix.lower() == ".cu":
        yield new_code_cell(f"%%cuda\n{text}")
        return
    names = "|".join(catalog.find_catalog_exercise(path.parent.name).names)
    begins = re.compile(rf"^(?:def|class) (?:{names})\b", re.M)
    at = [0, *(found.start() for found in begins.finditer(text)), len(text)]
    for first, last in pairwise(at):
        if text[first:last].strip():
            yield new_code_cell(text[first:last].strip("\n"))


def _clean_nbgrader_cell(given: dict[str, Any]) -> NotebookNode:
    source = given.get("source", given.get("input", ""))  # format 3 has inputs
    text = _clean_nbgrader_text(
        "".join(map(str, source)) if isinstance(source, list) else str(source)
    )
    metadata = given.get("metadata")
    nbgrader = metadata.get("nbgrader") if isinstance(metadata, dict) else None
    if isinstance(nbgrader, dict):
        nbgrader = {
            _clean_nbgrader_text(k): _clean_nbgrader_text(v) if isinstance(v, str) else v
            for k, v in nbgrader.items()
        }
    kept = from_dict({"nbgrader": nbgrader} if isinstance(nbgrader, dict) else {})
    if given.get("cell_type") == "code":
        return new_code_cell(text, metadata=kept)
    pictures = dict(_list_pasted_pictures(given.get("attachments")))
    cell = new_markdown_cell(_drop_lost_pictures(text, pictures), metadata=kept)
    if pictures:
        cell["attachments"] = from_dict(pictures)
    return cell


def _list_pasted_pictures(given: Any) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the well-formed pictures that were pasted into a cell, by name."""
    for name, kinds in given.items() if isinstance(given, dict) else ():
        data = kinds.items() if isinstance(kinds, dict) else ()
        kept = {kind: text for kind, text in data if isinstance(text, str) and text.isascii()}
        if kept and _PLAIN_NAME.fullmatch(name):
            yield name, kept


def _drop_lost_pictures(text: str, pictures: dict[str, dict[str, str]]) -> str:
    """Return a text without references to pictures that are not there, which nbconvert refuses."""
    return _ATTACHMENT.sub(lambda found: found[0] if found[1] in pictures else found[1], text)


def _clean_nbgrader_text(text: str) -> str:
    """Replace lone surrogates in a text, which UTF-8 cannot encode."""
    return text.encode("utf-8", "replace").decode()
