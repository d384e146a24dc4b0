"""What the classes of a file define, and which names stand for objects of these classes."""

import ast
from collections.abc import Iterator

_SELF_NAMES = ("self", "cls")


def find_self_in_submission(owner: ast.ClassDef) -> Iterator[ast.Name]:
    """Yield the names in a class's methods that refer to `self` or `cls`."""
    for method in owner.body:
        if isinstance(method, ast.FunctionDef) and (method.args.posonlyargs or method.args.args):
            first = [*method.args.posonlyargs, *method.args.args][0].arg
            if first in _SELF_NAMES:
                names = (n for n in ast.walk(method) if isinstance(n, ast.Name))
                yield from (n for n in names if n.id == first)


def list_submission_members(classes: list[ast.ClassDef]) -> Iterator[str]:
    """Yield the names of members of the file's own classes."""
    for node in (inner for c in classes for inner in ast.walk(c)):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                yield node.name
            case ast.AnnAssign(target=ast.Name(id=name)):
                yield name
            case ast.Attribute(ctx=ast.Store(), value=ast.Name(id="self" | "cls")):
                yield node.attr
            case ast.Call(
                func=ast.Attribute(attr="register_buffer" | "register_parameter"),
                args=[ast.Constant(value=str(name)), *_],
            ):
                yield name
    for statement in (s for c in classes for s in c.body):
        if isinstance(statement, ast.Assign):
            yield from (t.id for t in statement.targets if isinstance(t, ast.Name))


def list_submission_objects(nodes: list[ast.AST], classes: set[str]) -> Iterator[str]:
    """Yield the variables that hold, or are annotated as, objects of the file's classes."""
    for node in nodes:
        match node:
            case ast.Assign(value=ast.Call(func=ast.Name(id=made))) if made in classes:
                yield from (t.id for t in node.targets if isinstance(t, ast.Name))
            case ast.arg(annotation=ast.Name(id=made)) if made in classes:
                yield node.arg
