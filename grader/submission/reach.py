"""Finds the definitions of a file that use a definition, directly or through others."""

import ast
from collections.abc import Iterable
from functools import lru_cache


@lru_cache(maxsize=32)
def list_definition_users(source: str) -> dict[str, frozenset[str]]:
    """Return for each top-level definition those that use it, directly or through others."""
    body = ast.parse(source).body
    named: dict[str, set[str]] = {}
    for node in body:
        for definition in list_definitions(node):
            used = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
            named.setdefault(definition, set()).update(used)
    return {name: _follow_definition_users(name, named) for name in named}


def list_definitions(node: ast.stmt) -> Iterable[str]:
    """Return the names that a top-level statement defines."""
    match node:
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            return [name]
        case ast.Assign(targets=targets):
            return [target.id for target in targets if isinstance(target, ast.Name)]
    return []


def _follow_definition_users(name: str, named: dict[str, set[str]]) -> frozenset[str]:
    found, waiting = {name}, [name]
    while waiting:
        used = waiting.pop()
        more = {other for other, names in named.items() if used in names} - found
        found |= more
        waiting += more
    return frozenset(found)
