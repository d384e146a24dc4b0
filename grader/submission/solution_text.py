"""Reads the one source of an exercise, `solutions/<slug>.py`: prose cells, code cells, regions.

In CUDA C++ (`<slug>.cu`) the comment signs are `//`, and a region begins with `/// BEGIN SOLUTION`.
"""

import ast
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from grader.core import catalog
from grader.core.errors import UserError

BEGIN, END = "### BEGIN SOLUTION", "### END SOLUTION"
CUDA_BEGIN, CUDA_END = "/// BEGIN SOLUTION", "/// END SOLUTION"
MARKS = (BEGIN, END, CUDA_BEGIN, CUDA_END)


class BadSource(UserError):
    """A solution file that cannot be built from; the message names the line and the cure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One cell of a percent-format file."""

    kind: str  # "markdown" or "code"
    language: str  # of a markdown cell: "en" or "zh"
    text: str


def locate_solution_file(slug: str) -> Path:
    return catalog.find_catalog_exercise(slug).solution


def split_cells(source: str) -> list[Cell]:
    """Return the cells of a percent-format file, in order; prose without its comment signs."""
    found: list[Cell] = []
    sign = "//" if source.startswith("// %%") else "#"
    for chunk in ("\n" + source).split(f"\n{sign} %%")[1:]:
        head, _, body = chunk.partition("\n")
        if "[markdown]" in head:
            language = "zh" if '"zh"' in head else "en"
            lines = [
                line.removeprefix(sign).removeprefix(" ") for line in body.strip().splitlines()
            ]
            found.append(Cell(kind="markdown", language=language, text="\n".join(lines)))
        else:
            found.append(Cell(kind="code", language="", text=body.strip()))
    return found


def remove_solutions(code: str) -> str:
    """Return the code without its solution regions.

    A region inside a function becomes `raise NotImplementedError("the task")`, where the task is
    the first line of the function's docstring; a region at the top level is removed. In CUDA C++
    both are removed: there the task stands above the function.
    """
    tasks = None if CUDA_BEGIN in code else _build_solution_task_lookup(code)
    kept: list[str] = []
    begun: int | None = None
    for number, line in enumerate(code.splitlines(), 1):
        if line.strip() in (BEGIN, CUDA_BEGIN):
            if begun is not None:
                raise BadSource(f"line {number}: a region begins inside another: end that first.")
            begun = number
            indent = line[: len(line) - len(line.lstrip())]
            if indent and tasks is not None:
                kept.append(_write_stub_line(indent, tasks(number)))
        elif line.strip() in (END, CUDA_END):
            if begun is None:
                raise BadSource(f"line {number}: a region ends that never began: remove it.")
            begun = None
        elif begun is None:
            kept.append(line)
    if begun is not None:
        raise BadSource(f"line {begun}: the region that begins here never ends: add {END}.")
    return "\n".join(kept)


def has_solution_region(code: str) -> bool:
    """Return whether the student is to write a part of this code."""
    return BEGIN in code or CUDA_BEGIN in code


def _write_stub_line(indent: str, task: str) -> str:
    line = f'{indent}raise NotImplementedError("{task}")'
    if len(line) <= 100:
        return line
    return f'{indent}raise NotImplementedError(\n{indent}    "{task}"\n{indent})'


def _build_solution_task_lookup(code: str) -> Callable[[int], str]:
    """Return a function from a line number to the task of the innermost function around it."""
    try:
        tree = ast.parse(code)
    except SyntaxError as error:
        raise BadSource(f"line {error.lineno}: this is not Python by itself: mend it.") from None
    functions = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)]

    def task(line: int) -> str:
        around = [n for n in functions if n.lineno <= line <= (n.end_lineno or n.lineno)]
        # The last statement of a region is its END comment, which belongs to no node.
        before = [n for n in functions if n.lineno <= line]
        if not before:
            raise BadSource(f"line {line}: this region is in no function: put it into one.")
        owner = max(around or before, key=lambda n: n.lineno)
        docstring = ast.get_docstring(owner)
        if not docstring:
            raise BadSource(
                f"line {line}: {owner.name} has no docstring to take its task from: write one."
            )
        return docstring.splitlines()[0].replace('"', "'")

    return task
