"""Finds the lines of a file from which other lines get their values, step by step."""

import ast
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence

from grader.submission.file_words import list_function_parameters, name_called

_SIMPLE = (
    ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Return, ast.Expr, ast.Assert, ast.Raise,
)  # fmt: skip
_Key = tuple[object, ...]  # what is set: a variable, an attribute, what a function does or is given


def count_steps_to_lines(tree: ast.Module, lines: Collection[int]) -> dict[int, int]:
    """Return the lines that lead to some lines, each with the least number of steps.

    One step leads from a statement to those of its function that set or test a variable that it
    uses, to the conditions around it, to those that set an attribute that it uses, into a function
    that it calls, and from a parameter to its default and to the calls of the function.
    """
    setting, using = _read_lines(tree)
    found, waiting, steps = dict.fromkeys(lines, 0), set(lines), 0
    while waiting:
        steps += 1
        keys = set[_Key]().union(*(using[line] for line in waiting))
        waiting = set[int]().union(*(setting[key] for key in keys)) - found.keys()
        found |= dict.fromkeys(waiting, steps)
    return found


def _read_lines(
    tree: ast.Module,
) -> tuple[defaultdict[_Key, set[int]], defaultdict[int, set[_Key]]]:
    """Return the lines that set each thing, and what each line uses."""
    setting: defaultdict[_Key, set[int]] = defaultdict(set)
    using: defaultdict[int, set[_Key]] = defaultdict(set)
    scopes = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    # Of a nested function, which comes after the function around it.
    owner = {id(node): scope for scope in scopes for node in ast.walk(scope)}
    for scope in scopes:
        for line, key in _list_defaults(scope):
            setting[key].add(line)
        for node in (n for n in ast.walk(scope) if owner[id(n)] is scope):
            for line, part in _list_parts(node):
                for key in _list_keys(part, scope, ast.Store):
                    setting[key].add(line)
                using[line] |= set(_list_keys(part, scope, ast.Load))
                setting["within", scope.name].add(line)
            if isinstance(node, ast.If | ast.IfExp):
                line = node.test.lineno
                for key in _list_keys(node.test, scope, ast.Load):
                    setting[key].add(line)
                for inner in (n for n in ast.walk(node) if isinstance(n, _SIMPLE)):
                    using[inner.lineno].add(("test", line))
                setting["test", line].add(line)
    return setting, using


def _list_parts(node: ast.AST) -> Iterator[tuple[int, ast.AST]]:
    """Yield what of a node is no statement within it, with its line."""
    match node:
        case ast.For(target=target, iter=values):
            yield from ((node.lineno, part) for part in (target, values))
        case ast.If(test=test) | ast.While(test=test):
            yield test.lineno, test
        case ast.With(items=items):
            yield from ((node.lineno, item) for item in items)
    if isinstance(node, _SIMPLE):
        yield node.lineno, node


def _list_keys(
    part: ast.AST, scope: ast.FunctionDef, context: type[ast.expr_context]
) -> Iterator[_Key]:
    """Yield what a part of a function sets (`ast.Store`), or what it uses (`ast.Load`)."""
    parameters = list_function_parameters(scope)
    for node in ast.walk(part):
        match node:
            case ast.Name(id=name, ctx=ctx) if isinstance(ctx, context) and name != "self":
                yield "variable", id(scope), name
                if context is ast.Load and name in parameters:
                    yield "given", scope.name
            case ast.Attribute(attr=name, ctx=ctx) if isinstance(ctx, context):
                yield "attribute", name
            case ast.Call():
                yield "within" if context is ast.Load else "given", name_called(node)


def _list_defaults(scope: ast.FunctionDef) -> Iterator[tuple[int, _Key]]:
    arguments: Sequence[ast.arg] = [*scope.args.posonlyargs, *scope.args.args][::-1]
    for argument, default in zip(arguments, scope.args.defaults[::-1], strict=False):
        yield default.lineno, ("variable", id(scope), argument.arg)
