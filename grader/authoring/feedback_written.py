"""Reads wrong answers that people wrote for a trial: each replaces one definition in the solution.

A file in `WRITTEN_FOLDER`, named after its exercise, has functions and classes with the mark
`@wrong(of=..., mistakes=...)`. It is read and not imported. The docstring of an answer has a
paragraph for each mistake.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

from grader.authoring.feedback_answers import WrongAnswer
from grader.core.catalog import ROOT
from grader.core.records import Exercise

WRITTEN_FOLDER = ROOT / "tests/diagnosis/written"
MARK = "wrong"


def list_written_answers(exercise: Exercise, folder: Path = WRITTEN_FOLDER) -> list[WrongAnswer]:
    """Return the written answers to an exercise; [] if it has no file."""
    path = folder / exercise.file
    if exercise.language != "python" or not path.is_file():
        return []
    tree = ast.parse(path.read_text(encoding="utf-8"))
    solution = exercise.solution.read_text(encoding="utf-8")
    imports = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    return [
        _make_written_answer(node, mark, imports, solution)
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.ClassDef)
        for mark in _find_trial_marks(node)
    ]


def _find_trial_marks(node: ast.FunctionDef | ast.ClassDef) -> Iterator[ast.Call]:
    for decorator in node.decorator_list:
        if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == MARK:
            yield decorator


def _make_written_answer(
    node: ast.FunctionDef | ast.ClassDef, mark: ast.Call,
    imports: list[ast.Import | ast.ImportFrom], solution: str,
) -> WrongAnswer:  # fmt: skip
    given = {keyword.arg: ast.literal_eval(keyword.value) for keyword in mark.keywords}
    name, says = node.name, " ".join((ast.get_docstring(node) or "").split())
    node.decorator_list.remove(mark)
    node.name = given["of"]
    for inner in ast.walk(node):  # an answer that calls itself, or `super(itself, self)`
        if isinstance(inner, ast.Name) and inner.id == name:
            inner.id = node.name
    used = {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}
    lines = [text for statement in imports for text in _write_used_imports(statement, used)]
    parts = ["from __future__ import annotations", solution, "\n".join(lines), ast.unparse(node)]
    return WrongAnswer(
        id=name, says=f"{given['of']}: {says}", mistakes=given["mistakes"],
        source="\n\n".join(parts) + "\n",
    )  # fmt: skip


def _write_used_imports(statement: ast.Import | ast.ImportFrom, used: set[str]) -> Iterator[str]:
    for alias in statement.names:
        if (alias.asname or alias.name).split(".")[0] not in used:
            continue
        if isinstance(statement, ast.Import):
            yield ast.unparse(ast.Import([alias]))
        else:
            yield ast.unparse(ast.ImportFrom(statement.module, [alias], statement.level))
