"""Digests of the functions, methods and classes of a file, to see which of them were changed."""

import ast
import hashlib
from collections.abc import Iterator

from grader.submission import python_outline

_FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef
BOUND_OTHERWISE = ""  # the digest of a name that is bound by an import or an assignment


def digest_submitted_definitions(source: str) -> dict[str, str]:
    """Return a digest of each function, method ("Class.method") and class without its methods.

    Comments, docstrings and layout make no difference. Raises `NotPython`.
    """
    tree = python_outline.parse_submission(source)
    for node in ast.walk(tree):
        if isinstance(node, python_outline.Definition) and ast.get_docstring(node) is not None:
            node.body = node.body[1:]
    bound: dict[str, python_outline.Definition | None] = {}
    for statement in tree.body:
        if isinstance(statement, python_outline.Definition):
            bound[statement.name] = statement
        else:
            bound |= python_outline.list_submission_top_names([statement])
    return {
        part: BOUND_OTHERWISE if node is None else _digest_submitted_node(node)
        for name, whole in bound.items()
        for part, node in _split_submitted_definition(name, whole)
    }


def _split_submitted_definition(
    name: str, node: python_outline.Definition | None
) -> Iterator[tuple[str, ast.AST | None]]:
    if not isinstance(node, ast.ClassDef):
        yield name, node
        return
    methods = [s for s in node.body if isinstance(s, _FUNCTIONS)]
    yield from ((f"{name}.{method.name}", method) for method in methods)
    node.body = [s for s in node.body if s not in methods]
    yield name, node


def _digest_submitted_node(node: ast.AST) -> str:
    return hashlib.blake2b(ast.dump(node).encode("utf-8", "replace"), digest_size=16).hexdigest()
