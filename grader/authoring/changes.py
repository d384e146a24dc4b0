"""Makes every mechanical change of a Python source, one place at a time.

Docstrings, annotations, decorators, f-strings and the exception of a `raise` are left alone: they
are words for people, and named mistakes test the checks that read messages.
"""

import ast
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from grader.authoring.replacements import ReplacementKind, make_mechanical_replacements

_UNCHANGED_FIELDS = {
    "annotation", "returns", "decorator_list", "bases", "type_params",
}  # fmt: skip
_DEFINITIONS = (ast.FunctionDef, ast.ClassDef, ast.Assign)


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


@dataclass(frozen=True, slots=True)
class _Place:
    """The place of a node in the syntax tree."""

    parent: ast.AST
    field: str
    index: int | None
    where: str
    statement: ast.stmt

    def put(self, node: ast.AST) -> None:
        if self.index is None:
            setattr(self.parent, self.field, node)
        else:
            getattr(self.parent, self.field)[self.index] = node


def make_mechanical_changes(source: str, beside: str = "") -> list[MechanicalChange]:
    """Return every change of a source that compiles, each text once.

    beside  another source, whose definitions are not changed
    """
    tree = ast.parse(source)
    same = {ast.unparse(node) for node in _remove_mechanical_docstrings(ast.parse(beside)).body}
    body = _remove_mechanical_docstrings(tree).body
    texts = [ast.unparse(node) for node in body]
    modules = list_mechanical_imports(tree)
    found = []
    for i, definition in enumerate(body):
        if isinstance(definition, _DEFINITIONS) and texts[i] not in same:
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
        [ast.unparse(node) for node in _remove_mechanical_docstrings(ast.parse(source)).body]
    )


def list_mechanical_imports(tree: ast.Module) -> frozenset[str]:
    """Return the names that the imports of a module bind."""
    imports = [n for n in tree.body if isinstance(n, ast.Import | ast.ImportFrom)]
    aliases = [alias for node in imports for alias in node.names]
    return frozenset((alias.asname or alias.name).split(".")[0] for alias in aliases)


def _join_mechanical_texts(texts: Sequence[str]) -> str:
    return "\n\n\n".join(texts) + "\n"


def _remove_mechanical_docstrings(tree: ast.Module) -> ast.Module:
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Module | ast.FunctionDef | ast.ClassDef)
            and ast.get_docstring(node, clean=False) is not None
        ):
            node.body = node.body[1:] or [ast.Pass()]
    return tree


def _make_changes_in_definition(
    definition: ast.stmt, modules: Collection[str]
) -> Iterator[dict[str, Any]]:
    """Make each change in the tree itself, yield its description, and undo the change."""
    name = getattr(definition, "name", "")
    for node, place in list(_find_mechanical_places(definition, name, definition)):
        for kind, other in make_mechanical_replacements(node, place.parent, place.field, modules):
            old = _read_changed_line(place.statement)
            place.put(other)
            after = other if isinstance(other, ast.stmt) else place.statement
            new = "(removed)" if kind is ReplacementKind.STATEMENT else _read_changed_line(after)
            yield {
                "definition": name, "where": place.where, "kind": kind, "old": old, "new": new,
                "line": getattr(node, "lineno", place.statement.lineno),
            }  # fmt: skip
            place.put(node)


def _find_mechanical_places(
    node: ast.AST, where: str, statement: ast.stmt
) -> Iterator[tuple[ast.AST, _Place]]:
    """Yield every node below a node that may be changed, with its place."""
    for field, value in ast.iter_fields(node):
        if field in _UNCHANGED_FIELDS or (isinstance(node, ast.ClassDef) and field == "keywords"):
            continue
        items = enumerate(value) if isinstance(value, list) else [(None, value)]
        for index, item in items:
            if not isinstance(item, ast.AST) or isinstance(item, ast.JoinedStr):
                continue
            inner = item if isinstance(item, ast.stmt) else statement
            yield item, _Place(node, field, index, where, inner)
            if not isinstance(item, ast.Raise):
                named = isinstance(item, ast.FunctionDef | ast.ClassDef)
                below = f"{where}.{item.name}" if named else where  # type: ignore[attr-defined]
                yield from _find_mechanical_places(item, below, inner)


def _read_changed_line(statement: ast.stmt) -> str:
    return ast.unparse(statement).partition("\n")[0]


def _can_mechanical_change_compile(source: str) -> bool:
    try:
        compile(source, "<changed>", "exec")
    except SyntaxError:
        return False
    return True
