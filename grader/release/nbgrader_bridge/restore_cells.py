"""Brings a submitted notebook back into a form that nbgrader can take, whatever was done to it."""

import json
from pathlib import Path
from typing import Any

from nbconvert.exporters import NotebookExporter
from nbformat import NotebookNode, from_dict
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook
from nbgrader.api import Gradebook
from nbgrader.preprocessors import NbGraderPreprocessor

from grader.core.grade_ids import METADATA

_UNREADABLE = "*The submitted file is no notebook that can be read; the cells below are empty.*"
Resources = dict[str, Any]


class TolerantExporter(NotebookExporter):  # type: ignore[misc]
    """Reads any file: one that is no notebook becomes an empty one, so that the batch goes on."""

    def from_filename(
        self, filename: str, resources: Resources | None = None, **kw: Any
    ) -> tuple[str, Resources]:
        found: tuple[str, Resources] = self.from_notebook_node(
            read(Path(filename)), resources, **kw
        )
        return found


def read(path: Path) -> NotebookNode:
    """The cells of a file, of which nothing is believed but their types and texts.

    The outputs of our own cells are kept: nbgrader reads a notebook a second time.
    """
    try:
        found = json.loads(path.read_bytes())
        cells = [_cell(cell) for cell in found["cells"] if isinstance(cell, dict)]
    except (ValueError, RecursionError, KeyError, TypeError, OSError):
        cells = [new_markdown_cell(_UNREADABLE)]
    for number, cell in enumerate(cells):
        cell["id"] = f"cell-{number}"
    return new_notebook(cells=cells, metadata=from_dict(METADATA))


def _cell(given: dict[str, Any]) -> NotebookNode:
    source = given.get("source", "")
    text = _whole("".join(map(str, source)) if isinstance(source, list) else str(source))
    metadata = given.get("metadata")
    nbgrader = metadata.get("nbgrader") if isinstance(metadata, dict) else None
    if isinstance(nbgrader, dict):
        nbgrader = {_whole(k): _whole(v) if isinstance(v, str) else v for k, v in nbgrader.items()}
    kept = {"nbgrader": from_dict(nbgrader)} if isinstance(nbgrader, dict) else {}
    make = new_code_cell if given.get("cell_type") == "code" else new_markdown_cell
    return make(text, metadata=from_dict(kept))


def _whole(text: str) -> str:
    """Replace lone surrogates, which UTF-8 cannot encode."""
    return text.encode("utf-8", "replace").decode()


class Restore(NbGraderPreprocessor):  # type: ignore[misc]
    """Gives each cell of the release its place again: once, with its own metadata.

    A cell that checks, or that is locked, is the release's own; a copy of it is dropped, and one
    that is missing comes at the end. A student's cells stay as they are.
    """

    def preprocess(self, nb: NotebookNode, resources: Resources) -> tuple[NotebookNode, Resources]:
        known = _released(resources["nbgrader"])
        open_ids = set(known)
        cells = []
        for cell in nb.cells:
            name = _id(cell)
            if name not in known:
                cell.metadata.pop("nbgrader", None)
                cells.append(cell)
            elif name in open_ids:
                open_ids.discard(name)
                cells.append(_as_released(cell, known[name]))
            elif not _locked(known[name]):  # a copy of an answer: it may be the one that counts
                cell.metadata.pop("nbgrader", None)
                cells.append(cell)
        cells += [known[name] for name in known if name in open_ids]
        for number, cell in enumerate(cells):
            cell["id"] = f"cell-{number}"
        nb.cells = cells
        return nb, resources


def _id(cell: NotebookNode) -> str:
    nbgrader = cell.metadata.get("nbgrader", {})
    return str(nbgrader.get("grade_id", "")) if isinstance(nbgrader, dict) else ""


def _locked(released: NotebookNode) -> bool:
    return bool(released.metadata["nbgrader"]["locked"])


def _as_released(cell: NotebookNode, released: NotebookNode) -> NotebookNode:
    if _locked(released):
        return released
    return new_code_cell(cell.source, metadata=released.metadata)


def _released(at: dict[str, str]) -> dict[str, NotebookNode]:
    """The cells that nbgrader knows of a released notebook, by their ids, in its order."""
    with Gradebook(at["db_url"]) as gradebook:
        notebook = gradebook.find_notebook(at["notebook"], at["assignment"])
        graded = {cell.name: cell.max_score for cell in notebook.grade_cells}
        answers = {cell.name for cell in notebook.solution_cells}
        return {
            cell.name: new_code_cell(
                cell.source,
                metadata=_metadata(cell, graded.get(cell.name), cell.name in answers),
            )
            for cell in notebook.source_cells
        }


def _metadata(cell: Any, points: float | None, solution: bool) -> NotebookNode:
    nbgrader = {
        "grade_id": cell.name, "schema_version": 3, "cell_type": cell.cell_type, "task": False,
        "locked": cell.locked, "solution": solution, "grade": points is not None,
        "checksum": cell.checksum,
    }  # fmt: skip
    if points is not None:
        nbgrader["points"] = points
    return from_dict({"nbgrader": nbgrader, "deletable": False, "editable": solution})
