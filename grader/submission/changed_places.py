"""Lists the places of a syntax tree that a mechanical change may change.

Docstrings, annotations, decorators, f-strings and the exception of a `raise` are left alone: they
are words for people. The checks that read messages are tested by the named mistakes of a suite.
"""

import ast
from collections.abc import Collection, Iterator
from dataclasses import dataclass

_UNCHANGED_FIELDS = {
    "annotation", "returns", "decorator_list", "bases", "type_params",
}  # fmt: skip
CHANGED_DEFINITIONS = (ast.FunctionDef, ast.ClassDef, ast.Assign)


@dataclass(frozen=True, slots=True)
class ChangedPlace:
    """The place of a node in the syntax tree."""

    parent: ast.AST
    field: str
    index: int | None
    where: str  # the function: "KVCache.append"
    statement: ast.stmt

    def put(self, node: ast.AST) -> None:
        """Put another node in this place of the tree."""
        if self.index is None:
            setattr(self.parent, self.field, node)
        else:
            getattr(self.parent, self.field)[self.index] = node


def list_changed_imports(tree: ast.Module) -> frozenset[str]:
    """Return the names that the imports of a module bind."""
    imports = [n for n in tree.body if isinstance(n, ast.Import | ast.ImportFrom)]
    aliases = [alias for node in imports for alias in node.names]
    return frozenset((alias.asname or alias.name).split(".")[0] for alias in aliases)


def remove_changed_docstrings(tree: ast.Module) -> ast.Module:
    """Remove the docstrings from a tree, and return it."""
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Module | ast.FunctionDef | ast.ClassDef)
            and ast.get_docstring(node, clean=False) is not None
        ):
            node.body = node.body[1:] or [ast.Pass()]
    return tree


def list_changed_places(
    definition: ast.stmt, without: Collection[type[ast.AST]] = ()
) -> list[tuple[ast.AST, ChangedPlace]]:
    """Return every node below a definition that may be changed, with its place.

    without  types of nodes below which nothing is changed
    """
    name = getattr(definition, "name", "")
    return list(_find_changed_places(definition, name, definition, tuple(without)))


def _find_changed_places(
    node: ast.AST, where: str, statement: ast.stmt, without: tuple[type[ast.AST], ...]
) -> Iterator[tuple[ast.AST, ChangedPlace]]:
    for field, value in ast.iter_fields(node):
        if field in _UNCHANGED_FIELDS or (isinstance(node, ast.ClassDef) and field == "keywords"):
            continue
        items = enumerate(value) if isinstance(value, list) else [(None, value)]
        for index, item in items:
            if not isinstance(item, ast.AST) or isinstance(item, ast.JoinedStr):
                continue
            inner = item if isinstance(item, ast.stmt) else statement
            yield item, ChangedPlace(node, field, index, where, inner)
            if not isinstance(item, (ast.Raise, *without)):
                named = isinstance(item, ast.FunctionDef | ast.ClassDef)
                below = f"{where}.{item.name}" if named else where  # type: ignore[attr-defined]
                yield from _find_changed_places(item, below, inner, without)
