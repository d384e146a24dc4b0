"""Which of the names that a student writes run a definition of the file."""

import ast
from collections.abc import Iterable


def users(source: str) -> dict[str, frozenset[str]]:
    """For each definition at the top of a file the definitions that name it, at any distance."""
    body = ast.parse(source).body
    named: dict[str, set[str]] = {}
    for node in body:
        for definition in _defined(node):
            used = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
            named.setdefault(definition, set()).update(used)
    return {name: _closure(name, named) for name in named}


def _defined(node: ast.stmt) -> Iterable[str]:
    match node:
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            return [name]
        case ast.Assign(targets=targets):
            return [target.id for target in targets if isinstance(target, ast.Name)]
    return []


def _closure(name: str, named: dict[str, set[str]]) -> frozenset[str]:
    found, waiting = {name}, [name]
    while waiting:
        used = waiting.pop()
        more = {other for other, names in named.items() if used in names} - found
        found |= more
        waiting += more
    return frozenset(found)
