"""Makes answers out of functions whose names are not those that an exercise asks for.

If a demonstration has a function named `weights_of`, anybody can rename it and have an answer. So
every function that stands on its own is submitted once, under all names of an exercise whose number
of arguments it takes.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from grader.core.records import Exercise

_MODULES = frozenset({"math", "numpy", "torch"})  # that answers may import
# No answer writes sentences, yields or asks for a file.
_NO_COMPUTATION = (ast.JoinedStr, ast.Yield, ast.YieldFrom, ast.Await, ast.With, ast.Try)
_USUAL_IMPORTS = ("import math", "import numpy as np", "import torch")
_LEAKED = "leaked_function"


@dataclass(frozen=True, slots=True)
class LooseFunction:
    """A function with all that it needs of its file."""

    name: str
    code: str
    least: int  # positional arguments
    most: int
    imports: bool  # whether it uses an import


@cache
def list_loose_functions(text: str) -> tuple[LooseFunction, ...]:
    """Return the functions in a text that compute with numbers and need nothing of the project."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return ()
    _strip_annotations(tree)
    known: dict[str, ast.stmt] = {}
    for node in tree.body:
        known |= dict.fromkeys(_list_bound_names(node), node)
    found = (_take_function(node, known) for node in tree.body if isinstance(node, ast.FunctionDef))
    return tuple(one for one in found if one)


def _list_bound_names(node: ast.stmt) -> Iterator[str]:
    """Yield what a statement at the top of a file binds."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        yield node.name
    elif isinstance(node, ast.Import | ast.ImportFrom):
        yield from ((a.asname or a.name).partition(".")[0] for a in node.names)
    elif isinstance(node, ast.Assign):
        targets = (name for target in node.targets for name in ast.walk(target))
        yield from (name.id for name in targets if isinstance(name, ast.Name))


def _take_function(function: ast.FunctionDef, known: dict[str, ast.stmt]) -> LooseFunction | None:
    """Return a function and what it refers to; None if that is not to be had, or no computation."""
    if function.decorator_list or isinstance(function.body[-1], ast.Raise):
        return None
    taken: dict[int, ast.stmt] = {}
    waiting: list[ast.stmt] = [function]
    while waiting:
        node = waiting.pop()
        if id(node) in taken:
            continue
        if isinstance(node, ast.Import | ast.ImportFrom) and not _may_be_imported(node):
            return None
        taken[id(node)] = node
        used = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
        waiting += [known[name] for name in used if name in known]
    parts = [part for node in taken.values() for part in ast.walk(node)]
    if any(isinstance(part, _NO_COMPUTATION) for part in parts):
        return None
    given = function.args
    count = len(given.posonlyargs) + len(given.args)
    return LooseFunction(
        name=function.name,
        code="\n".join(ast.unparse(n) for n in sorted(taken.values(), key=lambda n: n.lineno)),
        least=count - len(given.defaults),
        most=len(given.args) + 99 if given.vararg else count,
        imports=any(isinstance(node, ast.Import | ast.ImportFrom) for node in taken.values()),
    )


def _may_be_imported(node: ast.Import | ast.ImportFrom) -> bool:
    names = (
        [node.module or ""] if isinstance(node, ast.ImportFrom) else [a.name for a in node.names]
    )
    return all(name.partition(".")[0] in _MODULES for name in names)


def _strip_annotations(tree: ast.Module) -> None:
    """Take the annotations off all functions: their names need not be there."""
    for part in ast.walk(tree):
        if isinstance(part, ast.arg):
            part.annotation = None
        elif isinstance(part, ast.FunctionDef):
            part.returns = None


def write_renamed_answer(function: LooseFunction, exercise: Exercise) -> str:
    """Return an answer that calls the function under every name that it fits; '' if none."""
    wrapped = []
    for name, declared in exercise.functions.items():
        [head] = ast.parse(f"def {name}{declared.signature}: pass").body
        assert isinstance(head, ast.FunctionDef)
        given = [a.arg for a in (*head.args.posonlyargs, *head.args.args)]
        if function.least <= len(given):
            call = f"{_LEAKED}({', '.join(given[: function.most])})"
            wrapped.append(f"def {name}{declared.signature}:\n    return {call}\n")
    if not wrapped:
        return ""
    return "\n".join([*_USUAL_IMPORTS, function.code, f"{_LEAKED} = {function.name}", *wrapped])
