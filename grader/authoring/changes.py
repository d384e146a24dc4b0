"""Makes every mechanical change of a Python source, one place at a time."""

import ast
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from grader.submission.changed_places import (
    CHANGED_DEFINITIONS,
    list_changed_imports,
    list_changed_places,
    remove_changed_docstrings,
)
from grader.submission.replacements import ReplacementKind, make_mechanical_replacements


@dataclass(frozen=True, slots=True, kw_only=True)
class MechanicalChange:
    """One change of one node of a syntax tree."""

    definition: str  # the function or class at the top of the file; "" for a constant there
    where: str  # the function: "KVCache.append"
    line: int
    kind: ReplacementKind
    old: str  # the first line of the statement
    new: str
    source: str  # of the whole changed module
    lines: range = range(0)  # of the statement; none if the change may matter where it does not run


def make_mechanical_changes(source: str, beside: str = "") -> list[MechanicalChange]:
    """Return every mechanical change of a source that still compiles, without repeats.

    beside  another source: definitions that both sources have are not changed
    """
    tree = ast.parse(source)
    same = {ast.unparse(node) for node in remove_changed_docstrings(ast.parse(beside)).body}
    body = remove_changed_docstrings(tree).body
    texts = [ast.unparse(node) for node in body]
    modules = list_changed_imports(tree)
    found = []
    for i, definition in enumerate(body):
        if isinstance(definition, CHANGED_DEFINITIONS) and texts[i] not in same:
            known = {texts[i]}
            for change in _make_changes_in_definition(definition, modules):
                made = ast.unparse(definition)
                if made not in known and _can_mechanical_change_compile(made):
                    known.add(made)
                    whole = _join_mechanical_texts([*texts[:i], made, *texts[i + 1 :]])
                    found.append(MechanicalChange(source=whole, **change))
    return found


def unparse_mechanical_source(source: str) -> str:
    """Return the text of a source without any change, as the texts of its changes are written."""
    return _join_mechanical_texts(
        [ast.unparse(node) for node in remove_changed_docstrings(ast.parse(source)).body]
    )


def _join_mechanical_texts(texts: Sequence[str]) -> str:
    return "\n\n\n".join(texts) + "\n"


def _make_changes_in_definition(
    definition: ast.stmt, modules: Collection[str]
) -> Iterator[dict[str, Any]]:
    """Make each change in the tree itself, yield its description, and undo the change."""
    name = getattr(definition, "name", "")
    local = set(_list_local_statements(definition))
    for node, place in list_changed_places(definition):
        statement = place.statement
        last = statement.end_lineno or statement.lineno
        lines = range(statement.lineno, last + 1) if statement in local else range(0)
        for kind, other in make_mechanical_replacements(node, place.parent, place.field, modules):
            old = _read_changed_line(place.statement)
            place.put(other)
            after = other if isinstance(other, ast.stmt) else place.statement
            new = "(removed)" if kind is ReplacementKind.STATEMENT else _read_changed_line(after)
            yield {
                "definition": name, "where": place.where, "kind": kind, "old": old, "new": new,
                "line": getattr(node, "lineno", place.statement.lineno), "lines": lines,
            }  # fmt: skip
            place.put(node)


def _read_changed_line(statement: ast.stmt) -> str:
    return ast.unparse(statement).partition("\n")[0]


def _can_mechanical_change_compile(source: str) -> bool:
    try:
        compile(source, "<changed>", "exec")
    except SyntaxError:
        return False
    return True


def _list_local_statements(node: ast.AST) -> Iterator[ast.stmt]:
    """Yield the statements below a node that change nothing as long as they do not run.

    `nonlocal` and `yield` change the function around them. A decorator may read the text of its
    function, as Triton's does, or keep what it returned.
    """
    if getattr(node, "decorator_list", ()):
        return
    for below in ast.iter_child_nodes(node):
        if isinstance(below, ast.stmt) and not any(
            isinstance(inner, ast.Global | ast.Nonlocal | ast.Yield | ast.YieldFrom)
            for inner in ast.walk(below)
        ):
            yield below
        yield from _list_local_statements(below)
