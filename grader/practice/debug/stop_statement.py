"""Puts a stop for the debugger before the first line of one function of an answer.

The stop is the builtin `breakpoint()`, called in the student's own frame. So every debugger that
Python knows of stops there: pdb in a terminal, or the one of an editor.
"""

import ast
from types import CodeType

STOP_NAME = "__stops_here__"  # in the module: returns whether this call should stop


def compile_with_stop(source: str, file: str, owner: str, name: str) -> CodeType | None:
    """Compile an answer with a stop in a function, or in a method of `owner`; None without it."""
    tree = ast.parse(source)
    found = _find_debugged_function(tree.body, owner, name)
    if found is None:
        return None
    stop = ast.parse(f"if {STOP_NAME}():\n    breakpoint()").body[0]
    for node in ast.walk(stop):  # on the line of `def`: the first line of the body comes next
        if isinstance(node, ast.stmt | ast.expr):
            node.lineno = node.end_lineno = found.lineno
            node.col_offset = node.end_col_offset = found.col_offset
    found.body.insert(1 if ast.get_docstring(found, clean=False) is not None else 0, stop)
    return compile(tree, file, "exec")


def has_own_breakpoint(source: str) -> bool:
    """Return whether an answer calls `breakpoint` or `set_trace` itself."""
    return any(
        isinstance(node, ast.Call)
        and (
            (isinstance(node.func, ast.Name) and node.func.id == "breakpoint")
            or (isinstance(node.func, ast.Attribute) and node.func.attr == "set_trace")
        )
        for node in ast.walk(ast.parse(source))
    )


def _find_debugged_function(body: list[ast.stmt], owner: str, name: str) -> ast.FunctionDef | None:
    """Return the last definition of a name, which is the one that counts."""
    for statement in reversed(body):
        match statement:
            case ast.ClassDef(name=found) if owner and found == owner:
                return _find_debugged_function(statement.body, "", name)
            case ast.FunctionDef(name=found) if not owner and found == name:
                return statement
    return None
