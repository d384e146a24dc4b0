"""Assigns checks to tasks: a notebook shows and grades the checks of a task below the task."""

import ast
from collections.abc import Mapping

from grader.core.grade_ids import CUDA
from grader.core.records import Exercise
from grader.judging import suite_runner
from grader.judging.marks import Check

NON_CHECK_MODULES = frozenset({"mistakes", "variants", "trials", "play", "show"})


def group_checks_by_task(exercise: Exercise) -> dict[str, tuple[Check, ...]]:
    """Return the checks by their function or class; under "cuda", those that need a GPU.

    If a check uses several of these, it belongs to the one that stands last in the manifest.
    """
    asked = _list_names_in_checks(exercise)
    found: dict[str, list[Check]] = {name: [] for name in (*exercise.names, CUDA)}
    for check in suite_runner.list_suite_checks(exercise):
        names = [name for name in exercise.names if name in asked[check.id]]
        task = names[-1] if names else exercise.names[-1]
        found[CUDA if check.cuda else task].append(check)
    return {task: tuple(checks) for task, checks in found.items() if checks}


def _list_names_in_checks(exercise: Exercise) -> Mapping[str, set[str]]:
    """Return, for each function of the suite, the names that it and its helpers may ask for.

    These are the attributes of `student`, as in `student.softmax`, and every string.
    """
    paths = sorted(
        path for path in exercise.folder.glob("*.py") if path.stem not in NON_CHECK_MODULES
    )
    bodies = [ast.parse(path.read_text(encoding="utf-8")).body for path in paths]
    functions = {n.name: n for body in bodies for n in body if isinstance(n, ast.FunctionDef)}

    def asks(name: str, seen: frozenset[str]) -> set[str]:
        found: set[str] = set()
        for node in ast.walk(functions[name]):
            match node:
                case ast.Attribute(value=ast.Name(id="student")):
                    found.add(node.attr)
                case ast.Constant(value=str(text)):
                    found.add(text)
                case ast.Name() if node.id in functions and node.id not in seen:
                    found |= asks(node.id, seen | {node.id})
        return found

    return {name: asks(name, frozenset({name})) for name in functions}
