"""What is run of an answer: all of it but what is not allowed, each line where it was.

An import that is not allowed is left out; who uses its name is told. A function that uses what is
not allowed raises the sentence about it instead. What runs with the file itself costs the file.
"""

import ast
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from grader.core.records import Exercise
from grader.submission.forbidden_calls import Finder, Use

_DEFINITIONS = ast.FunctionDef | ast.AsyncFunctionDef
_IMPORTS = ast.Import | ast.ImportFrom
Change = tuple[
    tuple[int, int], tuple[int, int], str
]  # from, to (line, byte), and what stands there


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """What became of a file."""

    runs: str
    refused: dict[str, str]  # by name, the sentence about what was replaced or left out
    file: str = ""  # the sentence that costs the file


def cut(
    source: str, tree: ast.Module, exercise: Exercise, slugs: frozenset[str],
    named: Callable[[int], str] = str,
) -> Cut:  # fmt: skip
    """The file without what is not allowed.

    named  what its writer calls a line
    """
    finder = Finder(tree, exercise, slugs)
    changes: list[Change] = []
    refused: dict[str, str] = {}
    costs: list[Use] = []
    for part, unit, name in _parts(_without_demonstration(tree).body):
        if unit is None and isinstance(part, _IMPORTS) and not finder.is_in_class(part):
            gone = [(a, why) for a in part.names if (why := finder.about_import(part, a))]
            for alias, why in gone:
                use = Use(part.lineno, why)
                if alias.name == "*":  # nobody can tell what it would bind
                    costs.append(use)
                elif (alias.asname or alias.name) in exercise.names:
                    refused.setdefault(alias.asname or alias.name, _says(use, named))
            changes += _kept(part, [alias for alias, _ in gone])
        elif found := min(finder.uses(part, unit), default=None):
            if unit is None:
                costs.append(found)
            else:
                refused.setdefault(name, _says(found, named))
                changes.append(_raising(unit, _says(found, named)))
    if costs:
        return Cut(runs="", refused={}, file=_says(min(costs), named))
    return Cut(runs=_changed(source, changes), refused=refused)


def _says(use: Use, named: Callable[[int], str]) -> str:
    return f"Line {named(use.line)}: {use.why}"


def _parts(
    body: Sequence[ast.stmt], owner: str = ""
) -> Iterator[tuple[ast.AST, _DEFINITIONS | None, str]]:
    """Parts of a file: what they belong to if it is a function, and the name to tell it by."""
    for statement in body:
        match statement:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                inner = ast.Module(body=statement.body, type_ignores=[])
                yield inner, statement, f"{owner}{statement.name}"
                yield from ((d, None, "") for d in statement.decorator_list)
                yield statement.args, None, ""
                yield from ((r, None, "") for r in [statement.returns] if r)
                yield ast.arg(arg=statement.name, lineno=statement.lineno), None, ""
            case ast.ClassDef():
                yield from _parts(statement.body, f"{owner}{statement.name}.")
                outside = [*statement.decorator_list, *statement.bases, *statement.keywords]
                yield from ((node, None, "") for node in outside)
                yield ast.arg(arg=statement.name, lineno=statement.lineno), None, ""
            case ast.If() | ast.Try() | ast.With() | ast.For() | ast.While():
                for _, value in ast.iter_fields(statement):
                    for node in value if isinstance(value, list) else [value]:
                        if isinstance(node, ast.ExceptHandler):
                            yield from ((t, None, "") for t in [node.type] if t)
                            yield from _parts(node.body, owner)
                        elif isinstance(node, ast.stmt):
                            yield from _parts([node], owner)
                        elif isinstance(node, ast.AST):
                            yield node, None, ""
            case _:
                yield statement, None, ""


def _kept(node: _IMPORTS, gone: Sequence[ast.alias]) -> Iterator[Change]:
    """An import without the names that are not allowed."""
    if not gone:
        return
    good = [alias for alias in node.names if alias not in gone]
    if good and isinstance(node, ast.ImportFrom):
        text = ast.unparse(ast.ImportFrom(module=node.module, names=good, level=node.level))
    else:
        text = ast.unparse(ast.Import(names=good)) if good else "pass"
    yield (node.lineno, node.col_offset), _end(node), text


def _raising(unit: _DEFINITIONS, says: str) -> Change:
    first = unit.body[0]
    decorators = [d.lineno for d in getattr(first, "decorator_list", [])]
    begins = min([first.lineno, *decorators]), first.col_offset
    return begins, _end(unit.body[-1]), f"raise RuntimeError({says!r})"


def _end(node: ast.stmt) -> tuple[int, int]:
    return node.end_lineno or node.lineno, node.end_col_offset or 0


def _changed(source: str, changes: Sequence[Change]) -> str:
    """The text with its changes; what follows one stays in its line."""
    if not changes:
        return source
    lines = source.encode("utf-8", "surrogatepass").split(b"\n")
    for (first, begin), (last, end), text in sorted(changes, reverse=True):
        after = lines[last - 1][end:]
        new = lines[first - 1][:begin] + text.encode("utf-8", "surrogatepass")
        rest = [b""] * (last - first)
        lines[first - 1 : last] = [new + after, *rest] if not after.strip() or not rest else [
            new, *rest[:-1], b" " * begin + after.lstrip(b" ;")
        ]  # fmt: skip
    return b"\n".join(lines).decode("utf-8", "surrogatepass")


def _without_demonstration(tree: ast.Module) -> ast.Module:
    """The module without what `if __name__ == "__main__":` has under it, which never runs here."""
    names = (n for n in ast.walk(tree) if isinstance(n, ast.Name))
    if any(n.id == "__name__" and isinstance(n.ctx, ast.Store) for n in names):
        return tree
    return ast.Module(body=[*_that_run(tree.body)], type_ignores=[])


def _that_run(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    for statement in body:
        asks = _asks_for_main(statement.test) if isinstance(statement, ast.If) else None
        if asks is None:
            yield statement
        else:
            assert isinstance(statement, ast.If)
            yield from _that_run(statement.orelse if asks else statement.body)


def _asks_for_main(test: ast.expr) -> bool | None:
    """True of `__name__ == "__main__"`, False of its opposite, None of anything else."""
    match test:
        case ast.BoolOp(op=ast.And(), values=[first, *_]):
            return True if _asks_for_main(first) else None
        case ast.UnaryOp(op=ast.Not(), operand=inner):
            asks = _asks_for_main(inner) if isinstance(inner, ast.Compare) else None
            return None if asks is None else not asks
        case ast.Compare(left=one, ops=[ast.Eq() | ast.NotEq() as op], comparators=[other]):
            said = {ast.unparse(one), ast.unparse(other)}
            return isinstance(op, ast.Eq) if said == {"__name__", "'__main__'"} else None
    return None
