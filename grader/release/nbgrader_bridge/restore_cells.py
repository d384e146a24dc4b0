"""Restores a submitted notebook to a form that nbgrader accepts, however it was changed."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from nbformat import NotebookNode, from_dict
from nbformat.v4 import new_code_cell
from nbgrader.api import Gradebook
from nbgrader.preprocessors import NbGraderPreprocessor

Resources = dict[str, Any]


class Restore(NbGraderPreprocessor):  # type: ignore[misc]
    """The preprocessor that restores each released cell: once, with its released metadata.

    A check cell or another locked cell takes the release's text. A copy of a locked cell is
    dropped, and a missing cell comes at the end. A cell that lost its metadata is recognised by
    its text or by what it defines. A student's own cells stay as they are.
    """

    def preprocess(self, nb: NotebookNode, resources: Resources) -> tuple[NotebookNode, Resources]:
        known = _list_released_nbgrader_cells(resources["nbgrader"])
        _identify_nbgrader_cells(nb.cells, known)
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


def _identify_nbgrader_cells(
    cells: Sequence[NotebookNode], known: Mapping[str, NotebookNode]
) -> None:
    """Give cells without metadata the ids of released cells that no cell has."""
    there = {_read_nbgrader_cell_id(cell) for cell in cells}
    unnamed = [cell for cell in cells if _read_nbgrader_cell_id(cell) not in known]
    for name, released in known.items():
        if name in there:
            continue
        same = [c for c in unnamed if c.source.strip() == released.source.strip()]
        if not _is_nbgrader_cell_locked(released):
            wanted = [c for c in unnamed if _defines_nbgrader_task(c, name)]
            same = [c for c in wanted if c not in same] or same
        if same:
            same[-1].metadata["nbgrader"] = from_dict({"grade_id": name})
            unnamed.remove(same[-1])


def _defines_nbgrader_task(cell: NotebookNode, cell_name: str) -> bool:
    """Return whether a code cell defines a task of the released cell with this name."""
    names = "|".join(map(re.escape, cell_name.split("-")))
    in_cuda = cell.source.startswith("%%cuda")
    begins = rf"\b({names})\s*\(" if in_cuda else rf"(?m)^((def|class) ({names})\b|({names}) *=)"
    return cell.cell_type == "code" and re.search(begins, cell.source) is not None


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
