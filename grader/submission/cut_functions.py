"""Removes what is not allowed from an answer, and keeps each other line where it was.

An import that is not allowed is left out, and no use of its name is allowed; where a `try` expects
that it fails, it fails. A function that uses
what is not allowed raises the sentence about it instead. If code that runs when the file is loaded
uses what is not allowed, the whole file is refused.
"""

import ast
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from grader.core.records import Exercise
from grader.submission.forbidden_calls import ForbiddenUse, ForbiddenUseFinder
from grader.submission.scopes import list_submitted_type_parameters

_DEFINITIONS = ast.FunctionDef | ast.AsyncFunctionDef
_IMPORTS = ast.Import | ast.ImportFrom
Change = tuple[
    tuple[int, int], tuple[int, int], str
]  # from, to (line, byte), and what stands there


@dataclass(frozen=True, slots=True, kw_only=True)
class CutSubmission:
    """A file after its forbidden parts were removed."""

    runs: str
    refused: dict[str, str]  # by name, the sentence about what was replaced or left out
    file: str = ""  # the sentence that costs the file


def cut_forbidden_from_submission(
    source: str, tree: ast.Module, exercise: Exercise, slugs: frozenset[str],
    named: Callable[[int], str] = str,
) -> CutSubmission:  # fmt: skip
    """Return the file without the parts that are not allowed.

    named  returns the name of a line, by its number, as the writer of the answer knows it
    """
    read = ast.Module(body=[*_list_submitted_statements(tree.body)], type_ignores=[])
    finder = ForbiddenUseFinder(read, exercise, slugs)
    changes = [*_close_submission_main_blocks(tree.body)]
    refused: dict[str, str] = {}
    costs: list[ForbiddenUse] = []
    tried = {id(node) for node in _list_tried_imports(tree)}
    for part, unit, name in _split_submission(read.body):
        if unit is None and isinstance(part, _IMPORTS) and not finder.is_in_class(part):
            gone = [(a, why) for a in part.names if (why := finder.about_import(part, a))]
            for alias, why in gone:
                use = ForbiddenUse(part.lineno, why)
                if alias.name == "*":  # nobody can tell what it would bind
                    costs.append(use)
                elif (alias.asname or alias.name) in exercise.names:
                    refused.setdefault(
                        alias.asname or alias.name, _describe_forbidden_use(use, named)
                    )
            if gone and id(part) in tried:
                changes.append(
                    _replace_in_submission(part, f"raise ModuleNotFoundError({gone[0][1]!r})")
                )
            else:
                changes += _drop_forbidden_imports(part, [alias for alias, _ in gone])
        elif found := min(finder.uses(part, unit), default=None):
            if unit is None:
                costs.append(found)
            else:
                refused.setdefault(name, _describe_forbidden_use(found, named))
                changes.append(_replace_forbidden_body(unit, _describe_forbidden_use(found, named)))
    if costs:
        return CutSubmission(runs="", refused={}, file=_describe_forbidden_use(min(costs), named))
    return CutSubmission(runs=_apply_cuts_to_submission(source, changes), refused=refused)


def _describe_forbidden_use(use: ForbiddenUse, named: Callable[[int], str]) -> str:
    return f"Line {named(use.line)}: {use.why}"


def _split_submission(
    body: Sequence[ast.stmt], owner: str = ""
) -> Iterator[tuple[ast.AST, _DEFINITIONS | None, str]]:
    """Yield parts of a file, each with its function, if any, and the name of that function."""
    for statement in body:
        match statement:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                inner = ast.Module(body=statement.body, type_ignores=[])
                yield inner, statement, f"{owner}{statement.name}"
                yield from ((d, None, "") for d in statement.decorator_list)
                yield statement.args, None, ""
                yield from ((t, None, "") for t in list_submitted_type_parameters(statement))
                yield from ((r, None, "") for r in [statement.returns] if r)
                yield ast.arg(arg=statement.name, lineno=statement.lineno), None, ""
            case ast.ClassDef():
                yield from _split_submission(statement.body, f"{owner}{statement.name}.")
                outside = [*statement.decorator_list, *statement.bases, *statement.keywords]
                outside += list_submitted_type_parameters(statement)
                yield from ((node, None, "") for node in outside)
                yield ast.arg(arg=statement.name, lineno=statement.lineno), None, ""
            case ast.If() | ast.Try() | ast.With() | ast.For() | ast.While():
                for _, value in ast.iter_fields(statement):
                    for node in value if isinstance(value, list) else [value]:
                        if isinstance(node, ast.ExceptHandler):
                            yield from ((t, None, "") for t in [node.type] if t)
                            if node.name:
                                yield ast.arg(arg=node.name, lineno=node.lineno), None, ""
                            yield from _split_submission(node.body, owner)
                        elif isinstance(node, ast.stmt):
                            yield from _split_submission([node], owner)
                        elif isinstance(node, ast.AST):
                            yield node, None, ""
            case _:
                yield statement, None, ""


def _drop_forbidden_imports(node: _IMPORTS, gone: Sequence[ast.alias]) -> Iterator[Change]:
    """Yield the change that removes the names which are not allowed from an import."""
    if not gone:
        return
    good = [alias for alias in node.names if alias not in gone]
    if good and isinstance(node, ast.ImportFrom):
        text = ast.unparse(ast.ImportFrom(module=node.module, names=good, level=node.level))
    else:
        text = ast.unparse(ast.Import(names=good)) if good else "pass"
    yield _replace_in_submission(node, text)


def _replace_in_submission(node: ast.stmt, text: str) -> Change:
    return (node.lineno, node.col_offset), _find_end_in_submission(node), text


def _list_tried_imports(tree: ast.Module) -> Iterator[ast.stmt]:
    """Yield the imports in a `try` that goes on where an import fails."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Try) and any(map(_catches_import_error, node.handlers)):
            for statement in node.body:
                yield from (n for n in ast.walk(statement) if isinstance(n, _IMPORTS))


def _catches_import_error(handler: ast.ExceptHandler) -> bool:
    if handler.type is None:
        return True
    named = {node.id for node in ast.walk(handler.type) if isinstance(node, ast.Name)}
    return bool(named & {"ImportError", "ModuleNotFoundError", "Exception", "BaseException"})


def _replace_forbidden_body(unit: _DEFINITIONS, says: str) -> Change:
    first = unit.body[0]
    decorators = [d.lineno for d in getattr(first, "decorator_list", [])]
    begins = min([first.lineno, *decorators]), first.col_offset
    return begins, _find_end_in_submission(unit.body[-1]), f"raise RuntimeError({says!r})"


def _find_end_in_submission(node: ast.stmt) -> tuple[int, int]:
    return node.end_lineno or node.lineno, node.end_col_offset or 0


def _apply_cuts_to_submission(source: str, changes: Sequence[Change]) -> str:
    """Return the changed text; all text after a change keeps its line number."""
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


def _list_submitted_statements(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements of a file; of `if __name__ == "__main__":` only what runs here."""
    for statement in body:
        asks = _is_submission_main_test(statement.test) if isinstance(statement, ast.If) else None
        if asks is None:
            yield statement
        else:
            assert isinstance(statement, ast.If)
            yield from _list_submitted_statements(statement.orelse if asks else statement.body)


def _close_submission_main_blocks(body: Sequence[ast.stmt]) -> Iterator[Change]:
    """Yield changes after which no `__name__ == "__main__"` is true, whatever binds `__name__`.

    What stands below such a test is not read, so it must not run.
    """
    for statement in body:
        if isinstance(statement, ast.If):
            asks = _is_submission_main_test(statement.test)
            if asks is not None:
                yield from _replace_submission_name(statement.test)
                kept = statement.orelse if asks else statement.body
                yield from _close_submission_main_blocks(kept)


def _replace_submission_name(test: ast.expr) -> Iterator[Change]:
    first = test.values[0] if isinstance(test, ast.BoolOp) else test
    for node in ast.walk(first):
        if isinstance(node, ast.Name):
            ends = node.end_lineno or node.lineno, node.end_col_offset or 0
            yield (node.lineno, node.col_offset), ends, '""'


def _is_submission_main_test(test: ast.expr) -> bool | None:
    """Return True for `__name__ == "__main__"`, False for its opposite, None for any other test."""
    match test:
        case ast.BoolOp(op=ast.And(), values=[first, *_]):
            return True if _is_submission_main_test(first) else None
        case ast.UnaryOp(op=ast.Not(), operand=inner):
            asks = _is_submission_main_test(inner) if isinstance(inner, ast.Compare) else None
            return None if asks is None else not asks
        case ast.Compare(left=one, ops=[ast.Eq() | ast.NotEq() as op], comparators=[other]):
            said = {ast.unparse(one), ast.unparse(other)}
            return isinstance(op, ast.Eq) if said == {"__name__", "'__main__'"} else None
    return None
