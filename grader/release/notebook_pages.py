"""Builds the notebook of an exercise from `solutions/<slug>.py`, as nbgrader's source version.

A notebook has prose in one language, the solution's code, and a check cell below each task.
nbgrader removes the solutions when it makes the release version.
"""

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from grader.authoring.exercise_cells import ExerciseCell, count_task_points, list_exercise_cells
from grader.core.grade_ids import NOTEBOOK_METADATA
from grader.core.records import Exercise
from grader.core.translation import Words
from grader.submission.solution_text import split_cells

_SETUP_CELL = """\
# Finds the grader: in the folders above this notebook, or where it is installed.
import sys
from pathlib import Path

sys.path += [str(p) for p in Path.cwd().parents if (p / "grader" / "notebook.py").is_file()]
try:
    from grader.notebook import check
except ImportError:

    def check(*_, **__):
        print({missing!r})"""

_GRADER_MISSING_TEXT = (
    "The grader was not found: open this notebook in the `notebooks` folder of the bundle that "
    "your course hands out, or have it installed where Jupyter runs."
)


def build_released_notebook(
    exercise: Exercise, words: Words, *, cuda: bool = False, speed: bool = True,
    shows: str = "open",
) -> NotebookNode:  # fmt: skip
    """Build an exercise's notebook with its solutions, in the language of `words`.

    shows  what the check cells show of a verdict: open, hints, verdicts or nothing
    """
    points = count_task_points(exercise, cuda=cuda, speed=speed)
    source = split_cells(exercise.solution.read_text(encoding="utf-8"))
    setup = ExerciseCell(text=_SETUP_CELL.format(missing=words(_GRADER_MISSING_TEXT)), name="setup")
    cells = [setup, *list_exercise_cells(exercise, source, words, points, shows)]
    built = list(map(_build_released_cell, cells))
    for number, cell in enumerate(built):
        cell["id"] = f"{exercise.slug}-{number:02}"  # by place, so that two builds are alike
    return new_notebook(cells=built, metadata=NOTEBOOK_METADATA)


def write_released_notebook(notebook: NotebookNode) -> str:
    return str(nbformat.writes(notebook, version=4)) + "\n"


def _build_released_cell(cell: ExerciseCell) -> NotebookNode:
    if not cell.name:
        return new_markdown_cell(cell.text)
    nbgrader = {
        "grade_id": cell.name, "schema_version": 3, "cell_type": "code", "task": False,
        "locked": not cell.solution, "solution": cell.solution, "grade": cell.points is not None,
    }  # fmt: skip
    if cell.points is not None:
        nbgrader["points"] = cell.points
    return new_code_cell(cell.text.rstrip(), metadata={"nbgrader": nbgrader})
