"""Reads from an answer to a bug hunt which drill it is."""

import ast

from grader.submission import python_outline


def read_submitted_drill_name(source: str) -> str:
    """Return the name of the drill that `make drill` wrote into a file; "" if none."""
    try:
        tree = python_outline.parse_submission(source)
    except python_outline.NotPython:
        return ""
    match [n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == "drill"]:
        case [ast.FunctionDef(body=[*_, ast.Return(value=ast.Constant(value=str(name)))])]:
            return name
    return ""
