"""Finds the statement of a file in which a line stands, and the names that the statement reads."""

import ast
import linecache
from collections.abc import Iterator, Mapping
from functools import lru_cache


def read_statement(file: str, line: int) -> tuple[int, frozenset[str]]:
    """Return the first line of the statement at `line`, and the names and `self.` names it reads.

    In a statement with a body, such as `for`, only the head counts.
    """
    lines = linecache.getlines(file)
    return _map_statements("".join(lines)).get(line, (line, frozenset()))


@lru_cache(maxsize=16)
def _map_statements(source: str) -> Mapping[int, tuple[int, frozenset[str]]]:
    found: dict[int, tuple[int, frozenset[str]]] = {}
    for node in ast.walk(ast.parse(source)):  # outer statements before those in their bodies
        if isinstance(node, ast.stmt):
            body = getattr(node, "body", None)
            last = body[0].lineno - 1 if body else node.end_lineno or node.lineno
            here = node.lineno, frozenset(_list_read_names(node))
            for line in range(node.lineno, max(node.lineno, last) + 1):
                found[line] = here
    return found


def _list_read_names(statement: ast.stmt) -> Iterator[str]:
    if isinstance(statement, ast.AugAssign) and isinstance(statement.target, ast.Name):
        yield statement.target.id
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        return
    for part in ast.iter_child_nodes(statement):
        if isinstance(part, ast.expr | ast.withitem):
            for node in ast.walk(part):
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                    yield node.id
                elif (
                    isinstance(node, ast.Attribute)
                    and isinstance(node.value, ast.Name)
                    and node.value.id == "self"
                ):
                    yield f"self.{node.attr}"
