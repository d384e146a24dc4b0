"""Builds the notebook of an exercise from `solutions/<slug>.py`, as nbgrader's source version.

A notebook has prose in one language, the solution's code, and a check cell below each task.
nbgrader removes the solutions when it makes the release version.
"""

import ast
from collections.abc import Iterator

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from grader.core.grade_ids import CUDA, NOTEBOOK_METADATA, SPEED, build_core_grade_id
from grader.core.records import Exercise
from grader.core.translation import Words
from grader.cuda import source
from grader.judging import suite_runner
from grader.judging.tasks import group_checks_by_task
from grader.submission.solution_text import has_solution_region, split_cells

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


def count_released_task_points(exercise: Exercise, *, cuda: bool, speed: bool) -> dict[str, int]:
    """Return the points of each check cell of a notebook, with that of the speed case.

    cuda   whether to include points that need CUDA
    speed  whether to include points for speed
    """
    found = {
        t: sum(c.points for c in checks) for t, checks in group_checks_by_task(exercise).items()
    }
    if not cuda:
        found.pop(CUDA, None)
    case = suite_runner.find_suite_speed_case(exercise)
    if case is not None and speed and (cuda or not case.cuda):
        found[SPEED] = case.points
    return found


def build_released_notebook(
    exercise: Exercise, words: Words, *, cuda: bool = False, speed: bool = True,
    shows: str = "open",
) -> NotebookNode:  # fmt: skip
    """Build an exercise's notebook with its solutions, in the language of `words`.

    shows  what the check cells show of a verdict: open, hints, verdicts or nothing
    """
    points = count_released_task_points(exercise, cuda=cuda, speed=speed)
    built = list(_build_released_cells(exercise, words, points, shows))
    for number, cell in enumerate(built):
        cell["id"] = f"{exercise.slug}-{number:02}"  # by place, so that two builds are alike
    return new_notebook(cells=built, metadata=NOTEBOOK_METADATA)


def write_released_notebook(notebook: NotebookNode) -> str:
    return str(nbformat.writes(notebook, version=4)) + "\n"


def _build_released_cells(
    exercise: Exercise, words: Words, points: dict[str, int], shows: str
) -> Iterator[NotebookNode]:
    yield _build_released_code_cell(
        _SETUP_CELL.format(missing=words(_GRADER_MISSING_TEXT)), "setup", locked=True
    )
    for number, cell in enumerate(split_cells(exercise.solution.read_text(encoding="utf-8"))):
        if cell.kind == "markdown":
            if cell.language == words.language:
                yield new_markdown_cell(cell.text)
            continue
        in_cuda = exercise.language == "cuda"
        defined = _split_released_cuda(cell.text) if in_cuda else _split_released_python(cell.text)
        names = [name for name in exercise.names if name in defined]
        text = f"%%cuda\n{cell.text}" if in_cuda else cell.text
        if has_solution_region(cell.text):
            yield _build_released_code_cell(
                text, "-".join(names) or f"code-{number}", solution=True
            )
        else:
            yield _build_released_code_cell(text, f"given-{number}", locked=True)
        for name in names:
            yield from _build_released_check_cells(exercise, words, name, points, shows)
    for name in (CUDA, SPEED):
        yield from _build_released_check_cells(exercise, words, name, points, shows)


def _build_released_check_cells(
    exercise: Exercise, words: Words, name: str, points: dict[str, int], shows: str
) -> Iterator[NotebookNode]:
    if name not in points:
        return
    told = words("1 point") if points[name] == 1 else words("{points} points", points=points[name])
    language = "" if words.language == "en" else f', lang="{words.language}"'
    limited = "" if shows == "open" else f', shows="{shows}"'
    text = f'check("{exercise.slug}", "{name}"{language}{limited})  # {told}'
    yield _build_released_code_cell(
        text, build_core_grade_id(name), locked=True, points=points[name]
    )


def _build_released_code_cell(
    text: str, name: str, *, locked: bool = False, solution: bool = False, points: int | None = None
) -> NotebookNode:
    nbgrader = {
        "grade_id": name, "schema_version": 3, "cell_type": "code", "task": False,
        "locked": locked, "solution": solution, "grade": points is not None,
    }  # fmt: skip
    if points is not None:
        nbgrader["points"] = points
    return new_code_cell(text.rstrip(), metadata={"nbgrader": nbgrader})


def _split_released_python(code: str) -> set[str]:
    definitions = (ast.FunctionDef, ast.ClassDef)
    return {node.name for node in ast.parse(code).body if isinstance(node, definitions)}


def _split_released_cuda(code: str) -> set[str]:
    return {
        function.name
        for function in source.find_cuda_functions(
            source.blank_cuda_comments(source.join_cuda_lines(code))
        )
    }
