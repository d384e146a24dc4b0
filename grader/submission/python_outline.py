"""Reads from a syntax tree what a submission defines, and compares that with the manifest."""

import ast
import warnings
from collections.abc import Iterator, Mapping

from grader.core.catalog import suggest_close_name
from grader.core.records import DeclaredClass, DeclaredFunction, Exercise

MAX_NESTING_DEPTH = 200
_NESTED_TOO_DEEPLY = "The file is nested too deeply to be read."

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


class NotPython(Exception):
    """The source does not parse; the message is the student's sentence."""


def parse_submission(source: str) -> ast.Module:
    """Return the syntax tree of a submission."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(source)
    except SyntaxError as error:
        line = (error.text or "").strip()
        where = f"Line {error.lineno} is not valid Python ({error.msg})"
        raise NotPython(f"{where}: {line}" if line else f"{where}.") from None
    except (RecursionError, MemoryError, ValueError):
        raise NotPython(_NESTED_TOO_DEEPLY) from None
    if _measure_submission_nesting(tree) > MAX_NESTING_DEPTH:
        raise NotPython(_NESTED_TOO_DEEPLY)
    return tree


def _measure_submission_nesting(tree: ast.AST) -> int:
    """Return how deeply a tree is nested, which bounds the recursion of later walks."""
    depth, level = 0, [tree]
    while level and depth <= MAX_NESTING_DEPTH:
        depth, level = depth + 1, [n for node in level for n in ast.iter_child_nodes(node)]
    return depth


def compare_submission_with_manifest(tree: ast.Module, exercise: Exercise) -> dict[str, str]:
    """Return a sentence for each declared name that is missing or has the wrong signature."""
    defined = list_submission_top_names(tree.body)
    found: dict[str, str] = {}
    for name, function in exercise.functions.items():
        found |= _note_submission_problem(
            name, _compare_submitted_function(name, function, defined)
        )
    for name, declared in exercise.classes.items():
        found |= _note_submission_problem(name, _compare_submitted_class(declared, defined))
    return found


def _note_submission_problem(name: str, sentence: str | None) -> dict[str, str]:
    return {} if sentence is None else {name: sentence}


def _compare_submitted_function(
    name: str, function: DeclaredFunction, defined: Mapping[str, Definition | None]
) -> str | None:
    if name not in defined:
        return f"There is no {name} in the file.{suggest_close_name(name, defined)}"
    match defined[name]:
        case ast.FunctionDef() as node:
            return _compare_submitted_signature(name, node.args, function.signature)
        case ast.ClassDef():
            return f"{name} is a class, but should be a function."
        case ast.AsyncFunctionDef():
            return f"{name} is an async function, but should be a plain one."
    return None  # bound by an assignment or an import: only a call can tell


def _compare_submitted_class(
    declared: DeclaredClass, defined: Mapping[str, Definition | None]
) -> str | None:
    name = declared.name
    if name not in defined:
        return f"There is no {name} in the file.{suggest_close_name(name, defined)}"
    node = defined[name]
    if isinstance(node, ast.FunctionDef):
        return f"{name} is a function, but should be a class."
    if not isinstance(node, ast.ClassDef):
        return None
    methods, complete = _list_submitted_methods(node, defined, set())
    if "__init__" in methods:
        wrong = _compare_submitted_signature(
            name, _list_submitted_arguments(methods["__init__"]), declared.signature
        )
        if wrong:
            return wrong
    for method in declared.methods.values():
        if method.name in methods:
            arguments = _list_submitted_arguments(methods[method.name])
            wrong = _compare_submitted_signature(
                f"{name}.{method.name}", arguments, method.signature
            )
            if wrong:
                return wrong
        elif complete:
            return f"{name} has no method {method.name}.{suggest_close_name(method.name, methods)}"
    return None


def _list_submitted_methods(
    node: ast.ClassDef, defined: Mapping[str, Definition | None], seen: set[str]
) -> tuple[dict[str, ast.FunctionDef], bool]:
    """Return the methods of a class and its bases in this file, and whether it has no others.

    seen  the names of the classes looked at so far; none is looked at twice
    """
    methods: dict[str, ast.FunctionDef] = {}
    complete = True
    seen.add(node.name)
    for base in node.bases:
        parent = defined.get(base.id) if isinstance(base, ast.Name) else None
        if isinstance(parent, ast.ClassDef):
            if parent.name not in seen:
                inherited, whole = _list_submitted_methods(parent, defined, seen)
                methods |= inherited
                complete &= whole
        elif ast.unparse(base) not in ("nn.Module", "torch.nn.Module", "Module", "object"):
            complete = False
    for statement in node.body:
        if isinstance(statement, ast.FunctionDef):
            methods[statement.name] = statement
        elif isinstance(statement, ast.Assign):
            complete = False  # a method may be bound by assignment
    return methods, complete


def _list_submitted_arguments(node: ast.FunctionDef) -> ast.arguments:
    """Return the arguments of a method without `self`."""
    static = any(isinstance(d, ast.Name) and d.id == "staticmethod" for d in node.decorator_list)
    arguments = node.args
    if static or not (arguments.posonlyargs or arguments.args):
        return arguments
    positional = [*arguments.posonlyargs, *arguments.args][1:]
    return ast.arguments(
        posonlyargs=[], args=positional, vararg=arguments.vararg, kwarg=arguments.kwarg,
        kwonlyargs=arguments.kwonlyargs, kw_defaults=arguments.kw_defaults,
        defaults=arguments.defaults[-len(positional) :] if positional else [],
    )  # fmt: skip


def _compare_submitted_signature(name: str, written: ast.arguments, declared: str) -> str | None:
    """Return None if each call that the declared signature allows reaches the same parameters."""
    tree = ast.parse(f"def f{declared}: ...").body[0]
    assert isinstance(tree, ast.FunctionDef)
    wanted, given = _list_submitted_parameters(tree.args), _list_submitted_parameters(written)
    if written.vararg is not None and written.kwarg is not None:
        return None
    right = len(given) >= len(wanted) and (tree.args.vararg is None or written.vararg is not None)
    for (have, default), (want, wanted_default) in zip(given, wanted, strict=False):
        right &= have == want and (wanted_default is None or default is not None)
        if default and wanted_default and not _is_submitted_default_variable(default):
            right &= default.split(".")[-1] == wanted_default.split(".")[-1]
    right &= all(default is not None for _, default in given[len(wanted) :])
    right &= all(d is not None for d in written.kw_defaults)
    right &= not written.posonlyargs
    if right:
        return None
    return f"{name} takes ({_format_submitted_parameters(written)}), but should take {declared}."


def _is_submitted_default_variable(default: str) -> bool:
    """Return whether a default is a variable, whose value is known only when it runs."""
    return default.isidentifier() and default not in ("None", "True", "False")


def _list_submitted_parameters(arguments: ast.arguments) -> list[tuple[str, str | None]]:
    """Return names and defaults of the positional parameters."""
    names = [a.arg for a in (*arguments.posonlyargs, *arguments.args)]
    defaults: list[str | None] = [None] * (len(names) - len(arguments.defaults))
    return list(zip(names, defaults + [ast.unparse(d) for d in arguments.defaults], strict=True))


def _format_submitted_parameters(arguments: ast.arguments) -> str:
    """Return the parameters as text, without annotations."""
    words = [
        name if d is None else f"{name}={d}" for name, d in _list_submitted_parameters(arguments)
    ]
    if arguments.posonlyargs:
        words.insert(len(arguments.posonlyargs), "/")
    star = ["*"] if arguments.kwonlyargs else []
    words += [f"*{arguments.vararg.arg}"] if arguments.vararg else star
    for a, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        words.append(a.arg if default is None else f"{a.arg}={ast.unparse(default)}")
    words += [f"**{arguments.kwarg.arg}"] if arguments.kwarg else []
    return ", ".join(words)


def list_submission_lines(tree: ast.Module) -> dict[str, int]:
    """Return the line of each function and class that the top level defines."""
    return {
        n: node.lineno
        for n, node in list_submission_top_names(tree.body).items()
        if node is not None
    }


def list_submission_top_names(body: list[ast.stmt]) -> dict[str, Definition | None]:
    """Return every name that the top level binds; None for one not bound by `def` or `class`."""
    return {name: node for statement in body for name, node in _list_submitted_bindings(statement)}


def _list_submitted_bindings(statement: ast.stmt) -> Iterator[tuple[str, Definition | None]]:
    match statement:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            decorated = bool(statement.decorator_list) and not isinstance(statement, ast.ClassDef)
            yield statement.name, None if decorated else statement
        case ast.Import() | ast.ImportFrom():
            for alias in statement.names:
                yield (alias.asname or alias.name).split(".")[0], None
        case ast.If() | ast.Try() | ast.With() | ast.For() | ast.While():
            for child in ast.iter_child_nodes(statement):
                if isinstance(child, ast.stmt):
                    yield from _list_submitted_bindings(child)
                elif isinstance(child, ast.ExceptHandler):
                    for inner in child.body:
                        yield from _list_submitted_bindings(inner)
        case _:
            for node in ast.walk(statement):
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                    yield node.id, None
