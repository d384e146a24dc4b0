"""Which checks belong to which task: a notebook shows, and grades, them below it."""

import ast
from collections.abc import Mapping

from grader.course.naming import CUDA
from grader.judging import suite
from grader.judging.check import Check
from grader.records import Exercise


def checks_by_task(exercise: Exercise) -> dict[str, tuple[Check, ...]]:
    """The checks of each of an exercise's names, and under "cuda" those that need a GPU.

    A check belongs to the last name that it asks for anything, in the order of the manifest.
    """
    asked = _asked(exercise)
    found: dict[str, list[Check]] = {name: [] for name in (*exercise.names, CUDA)}
    for check in suite.checks(exercise):
        names = [name for name in exercise.names if name in asked[check.id]]
        task = names[-1] if names else exercise.names[-1]
        found[CUDA if check.cuda else task].append(check)
    return {task: tuple(checks) for task, checks in found.items() if checks}


def _asked(exercise: Exercise) -> Mapping[str, set[str]]:
    """By the name of a function of the suite, what it and its helpers ask of `student`."""
    [path] = exercise.folder.glob("test_*.py")
    body = ast.parse(path.read_text(encoding="utf-8")).body
    functions = {node.name: node for node in body if isinstance(node, ast.FunctionDef)}

    def asks(name: str, seen: frozenset[str]) -> set[str]:
        found: set[str] = set()
        for node in ast.walk(functions[name]):
            match node:
                case ast.Attribute(value=ast.Name(id="student")):
                    found.add(node.attr)
                case ast.Name() if node.id in functions and node.id not in seen:
                    found |= asks(node.id, seen | {node.id})
        return found

    return {name: asks(name, frozenset({name})) for name in functions}
