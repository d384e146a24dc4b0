"""Writes an exercise's notebook for one learner without a course: for Jupyter, VS Code or Colab.

It is made from the lesson, which has all cells of the exercise except the right answers. So it can
be made where there are no solutions, too: in an installed wheel and in the bundle of a course.
"""

import json
import re
from dataclasses import dataclass
from typing import Any

from grader import __version__
from grader.authoring.exercise_cells import ExerciseCell, count_task_points, list_exercise_cells
from grader.core.errors import UserError
from grader.core.grade_ids import NOTEBOOK_METADATA
from grader.core.records import Exercise
from grader.core.translation import Words
from grader.submission.solution_text import Cell

NOTEBOOKS_FOLDER = "notebooks"
_SETUP_CELL = """\
# {says}
import sys
from importlib.util import find_spec
from pathlib import Path

sys.path += [str(p) for p in Path.cwd().parents if (p / "grader" / "notebook.py").is_file()]
if find_spec("grader") is None:
    %pip install --quiet "attention-by-hand[report]=={version}"
from grader.notebook import check, show"""
_SETUP_SAYS = "Run this cell first. It installs the grader where it is missing, as on Colab."
_SHOW_SAYS = "Look at every step of your functions beside the right ones, with heat maps."
_CODE_CELL = re.compile(r"^```(?:python|cpp)\n(.*?)\n```$", re.DOTALL | re.MULTILINE)
_REPOSITORY = re.compile(
    r"(?:https://github\.com/)?([\w.-]+/[\w.-]+?)(?:\.git)?(?:/tree/([\w./-]+?))?/?"
)


class UnknownRepository(UserError):
    """Raised for what is no address of a repository; the message says how one looks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ColabRepository:
    """A repository on GitHub from which Colab opens notebooks."""

    name: str  # owner/name
    branch: str = "main"

    def locate_notebook(self, path: str) -> str:
        """Return the address at which Colab opens a notebook of the repository."""
        return f"https://colab.research.google.com/github/{self.name}/blob/{self.branch}/{path}"


def parse_repository_address(text: str) -> ColabRepository:
    """Return the repository of an address such as https://github.com/you/attention."""
    found = _REPOSITORY.fullmatch(text.strip())
    if found is None:
        raise UnknownRepository(
            f"{text} is no address of a repository on GitHub. One looks like "
            "https://github.com/you/attention, or https://github.com/you/attention/tree/branch."
        )
    return ColabRepository(name=found[1], branch=found[2] or "main")


def write_learner_notebook(
    exercise: Exercise, lesson: str, words: Words, repository: ColabRepository | None = None
) -> str:
    """Return the notebook as JSON, made from the text of the lesson in the language of `words`."""
    points = count_task_points(exercise, cuda=False, speed=True)
    cells = [
        ExerciseCell(text=_write_setup_cell(words), name="setup"),
        *list_exercise_cells(exercise, split_lesson_cells(lesson, words.language), words, points),
    ]
    if (exercise.folder / "show.py").is_file():
        named = [*exercise.names, *(['lang="zh"'] if words.language == "zh" else [])]
        shown = f"# {words(_SHOW_SAYS)}\nshow.attention({', '.join(named)})"
        cells.append(ExerciseCell(text=shown, name="show"))
    if repository is not None:
        address = repository.locate_notebook(f"{NOTEBOOKS_FOLDER}/{exercise.slug}.ipynb")
        cells.insert(0, ExerciseCell(text=f"[{words('Open in Colab')}]({address})"))
    built = [_build_learner_cell(f"{exercise.slug}-{n:02}", cell) for n, cell in enumerate(cells)]
    whole = {
        "cells": built, "metadata": NOTEBOOK_METADATA, "nbformat": 4, "nbformat_minor": 5,
    }  # fmt: skip
    return json.dumps(whole, indent=1, ensure_ascii=False) + "\n"


def split_lesson_cells(lesson: str, language: str) -> list[Cell]:
    """Return the cells from which a lesson was made, with its picture and its papers."""
    text = re.sub(r"\A<!--.*?-->\s*", "", lesson)
    text = re.sub(r"\]\(([\w.]+\.svg)\)", r"](../docs/lessons/\1)", text)
    parts = _CODE_CELL.split(text)
    return [
        Cell(kind="code" if n % 2 else "markdown", language="" if n % 2 else language, text=part)
        for n, part in enumerate(part.strip() for part in parts)
        if part
    ]


def _write_setup_cell(words: Words) -> str:
    return _SETUP_CELL.format(says=words(_SETUP_SAYS), version=__version__)


def _build_learner_cell(name: str, cell: ExerciseCell) -> dict[str, Any]:
    built = {"id": name, "metadata": {}, "source": cell.text.splitlines(keepends=True)}
    if not cell.name:
        return {"cell_type": "markdown", **built}
    return {"cell_type": "code", "execution_count": None, "outputs": [], **built}
