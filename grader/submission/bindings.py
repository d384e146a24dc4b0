"""Which global names a statement binds or changes, read from its syntax tree."""

import ast
from collections.abc import Collection, Iterator

_INNER_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_BINDING_CONTEXTS = (ast.Store, ast.Del)


def list_submission_bindings(statement: ast.stmt) -> Iterator[str]:
    """Yield the global names that a statement defines, rebinds or changes in a visible way.

    `x` in `x = 1`, `x.y = 1`, `x[0] += 1`, `del x[0]`, `setattr(x, "y", 1)` and `(x := 1)`, as the
    target of a `for` or a `with`, and in all of these inside another statement.
    """
    for node in _walk_submission_statement(statement):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield node.name
            case ast.Import() | ast.ImportFrom():
                yield from (a.asname or a.name.split(".")[0] for a in node.names)
            case ast.Name() | ast.Attribute() | ast.Subscript() if isinstance(
                node.ctx, _BINDING_CONTEXTS
            ):
                yield from _find_submission_root_name(node)
            case ast.Call(func=ast.Name(id="setattr" | "delattr"), args=[first, *_]):
                yield from _find_submission_root_name(first)
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)):
                yield name


def is_method_call_submitted(statement: ast.stmt, names: Collection[str]) -> bool:
    """Return whether a statement calls a method of one of `names`, as `names.append(1)` does."""
    calls = (
        node.func for node in _walk_submission_statement(statement) if isinstance(node, ast.Call)
    )
    return any(
        isinstance(f, ast.Attribute) and {*_find_submission_root_name(f)} & {*names} for f in calls
    )


def _walk_submission_statement(node: ast.AST) -> Iterator[ast.AST]:
    """Yield a statement and the nodes in it that run in the same scope."""
    yield node
    if isinstance(node, _COMPREHENSIONS):  # a scope of its own, but for := and what is called
        for inner in ast.walk(node):
            if isinstance(inner, ast.NamedExpr):
                yield inner.target
            elif isinstance(inner, ast.Call):
                yield inner
    elif not isinstance(node, _INNER_SCOPES):
        for child in ast.iter_child_nodes(node):
            yield from _walk_submission_statement(child)


def _find_submission_root_name(node: ast.expr) -> Iterator[str]:
    """Yield `x` of `x`, `x.y` and `x[0].z`."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    if isinstance(node, ast.Name):
        yield node.id
