"""Which drill stands in an answer to a bug hunt."""

import ast

from grader.submission import python_outline


def drawn(source: str) -> str:
    """The name of the drill that is written there as `make drill` writes it; "" if none is."""
    try:
        tree = python_outline.parse(source)
    except python_outline.NotPython:
        return ""
    match [n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == "drill"]:
        case [ast.FunctionDef(body=[*_, ast.Return(value=ast.Constant(value=str(name)))])]:
            return name
    return ""
