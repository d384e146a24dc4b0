"""Restores a submitted notebook to a form that nbgrader accepts, however it was changed."""

import json
from pathlib import Path
from typing import Any

from nbconvert.exporters import NotebookExporter
from nbformat import NotebookNode, from_dict
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook
from nbgrader.api import Gradebook
from nbgrader.preprocessors import NbGraderPreprocessor

from grader.core.grade_ids import NOTEBOOK_METADATA

_BROKEN_TEXT = "*The submitted file is no notebook that can be read; the cells below are empty.*"
Resources = dict[str, Any]


class TolerantExporter(NotebookExporter):  # type: ignore[misc]
    """An exporter that turns a broken file into an empty notebook, so that the batch goes on."""

    def from_filename(
        self, filename: str, resources: Resources | None = None, **kw: Any
    ) -> tuple[str, Resources]:
        found: tuple[str, Resources] = self.from_notebook_node(
            read_nbgrader_cells(Path(filename)), resources, **kw
        )
        return found


def read_nbgrader_cells(path: Path) -> NotebookNode:
    """Return a notebook of a file's cells: their types, texts and nbgrader's metadata alone."""
    try:
        found = json.loads(path.read_bytes())
        cells = [_clean_nbgrader_cell(cell) for cell in found["cells"] if isinstance(cell, dict)]
    except (ValueError, RecursionError, KeyError, TypeError, OSError):
        cells = [new_markdown_cell(_BROKEN_TEXT)]
    for number, cell in enumerate(cells):
        cell["id"] = f"cell-{number}"
    return new_notebook(cells=cells, metadata=from_dict(NOTEBOOK_METADATA))


def _clean_nbgrader_cell(given: dict[str, Any]) -> NotebookNode:
    source = given.get("source", "")
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
    kept = {"nbgrader": from_dict(nbgrader)} if isinstance(nbgrader, dict) else {}
    make = new_code_cell if given.get("cell_type") == "code" else new_markdown_cell
    return make(text, metadata=from_dict(kept))


def _clean_nbgrader_text(text: str) -> str:
    """Replace lone surrogates in a text, which UTF-8 cannot encode."""
    return text.encode("utf-8", "replace").decode()


class Restore(NbGraderPreprocessor):  # type: ignore[misc]
    """The preprocessor that restores each released cell: once, with its released metadata.

    A check cell or another locked cell takes the release's text. A copy of a locked cell is
    dropped, and a missing cell comes at the end. A student's own cells stay as they are.
    """

    def preprocess(self, nb: NotebookNode, resources: Resources) -> tuple[NotebookNode, Resources]:
        known = _list_released_nbgrader_cells(resources["nbgrader"])
        open_ids = set(known)
        cells = []
        for cell in nb.cells:
            name = _read_nbgrader_cell_id(cell)
            if name not in known:
                cell.metadata.pop("nbgrader", None)
                cells.append(cell)
            elif name in open_ids:
                open_ids.discard(name)
                cells.append(_restore_nbgrader_cell(cell, known[name]))
            elif not _is_nbgrader_cell_locked(
                known[name]
            ):  # of two copies of an answer, either may count
                cell.metadata.pop("nbgrader", None)
                cells.append(cell)
        cells += [known[name] for name in known if name in open_ids]
        for number, cell in enumerate(cells):
            cell["id"] = f"cell-{number}"
        nb.cells = cells
        return nb, resources


def _read_nbgrader_cell_id(cell: NotebookNode) -> str:
    nbgrader = cell.metadata.get("nbgrader", {})
    return str(nbgrader.get("grade_id", "")) if isinstance(nbgrader, dict) else ""


def _is_nbgrader_cell_locked(released: NotebookNode) -> bool:
    return bool(released.metadata["nbgrader"]["locked"])


def _restore_nbgrader_cell(cell: NotebookNode, released: NotebookNode) -> NotebookNode:
    if _is_nbgrader_cell_locked(released):
        return released
    return new_code_cell(cell.source, metadata=released.metadata)


def _list_released_nbgrader_cells(at: dict[str, str]) -> dict[str, NotebookNode]:
    """Return the cells of a released notebook from the gradebook, by id, in notebook order."""
    with Gradebook(at["db_url"]) as gradebook:
        notebook = gradebook.find_notebook(at["notebook"], at["assignment"])
        graded = {cell.name: cell.max_score for cell in notebook.grade_cells}
        answers = {cell.name for cell in notebook.solution_cells}
        return {
            cell.name: new_code_cell(
                cell.source,
                metadata=_build_nbgrader_cell_metadata(
                    cell, graded.get(cell.name), cell.name in answers
                ),
            )
            for cell in notebook.source_cells
        }


def _build_nbgrader_cell_metadata(cell: Any, points: float | None, solution: bool) -> NotebookNode:
    nbgrader = {
        "grade_id": cell.name, "schema_version": 3, "cell_type": cell.cell_type, "task": False,
        "locked": cell.locked, "solution": solution, "grade": points is not None,
        "checksum": cell.checksum,
    }  # fmt: skip
    if points is not None:
        nbgrader["points"] = points
    return from_dict({"nbgrader": nbgrader, "deletable": False, "editable": solution})
