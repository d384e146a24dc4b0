"""What a submission may not use, found in its syntax tree. Nothing is run.

Names are followed through imports (`import torch.nn.functional as F`, `from torch import softmax
as s`); the last part of a name is also refused as a method or attribute of anything
(`x.softmax(-1)`), unless it is the student's own, reached through `self`. A name that ends in `.*`
is a module: it is refused with all that is in it, but its last part alone is not.
"""

import ast
from collections.abc import Iterator, Mapping

from grader.records import Exercise

# Ways around the list itself, refused in every exercise.
_MODULES = (
    *("importlib", "builtins", "ctypes", "runpy", "pkgutil", "imp", "gc", "inspect", "pickle"),
    *("torch.ops", "torch._C", "torch.library", "torch.classes", "torch.hub"),
    *("torch.utils.cpp_extension", "torch.utils._pytree", "sys.modules", "operator.attrgetter"),
    *("operator.methodcaller", "numpy.ctypeslib"),
)
_HOUSE = ("grader", "reference", "solutions", "exercises")
_CALLS = ("eval", "exec", "compile", "__import__", "globals", "vars", "locals")
_ATTRIBUTES = (
    *("__dict__", "__globals__", "__builtins__", "__subclasses__", "__getattribute__"),
    *("__loader__", "__spec__", "__import__", "__code__", "f_globals", "f_back", "f_locals", "_C"),
)


def refusals(tree: ast.Module, exercise: Exercise, slugs: frozenset[str]) -> list[str]:
    """A sentence for each use of something that is not allowed, in the order of the lines."""
    finder = _Finder(tree, exercise, slugs)
    found = dict(sorted((node.lineno, text) for node, text in finder.uses()))
    return [f"Line {line}: {text}" for line, text in found.items()]


class _Finder:
    def __init__(self, tree: ast.Module, exercise: Exercise, slugs: frozenset[str]) -> None:
        self._tree = tree
        self._exercise = exercise
        self._modules = slugs | set(_HOUSE)
        self._aliases = _aliases(tree)
        self._own = {n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)} | {
            n.attr for n in ast.walk(tree)
            if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store)
            and isinstance(n.value, ast.Name) and n.value.id == "self"
        }  # fmt: skip
        self._refused_names = [name.removesuffix(".*") for name in exercise.not_allowed]
        self._last = {
            name.split(".")[-1]: name
            for name in exercise.not_allowed
            if "." in name and not name.endswith(".*")
        }

    def uses(self) -> Iterator[tuple[ast.expr | ast.stmt, str]]:
        for node in ast.walk(self._tree):
            match node:
                case ast.Import():
                    for alias in node.names:
                        yield from self._about(node, alias.name)
                case ast.ImportFrom():
                    yield from self._import_from(node)
                case ast.Attribute():
                    yield from self._attribute(node)
                case ast.Name() if node.id in _CALLS and isinstance(node.ctx, ast.Load):
                    yield node, f"{node.id} is not allowed: say what you mean directly."
                case ast.Name() if isinstance(node.ctx, ast.Load):
                    yield from self._about(node, self._aliases.get(node.id, ""))
                case ast.Call(func=ast.Name(id="getattr" | "setattr")):
                    yield from self._getattr(node)

    def _import_from(self, node: ast.ImportFrom) -> Iterator[tuple[ast.stmt, str]]:
        if node.level:
            yield node, "an exercise stands alone: it imports no other file."
            return
        for alias in node.names:
            if alias.name == "*":
                yield node, f"`from {node.module} import *` is not allowed: name what you use."
            else:
                found = list(self._about(node, f"{node.module}.{alias.name}"))
                named = node.module is not None and node.module.split(".")[0] in ("torch", "numpy")
                if not found and named and alias.name in self._last:
                    found = [(node, self._refused(self._last[alias.name]))]
                yield from found  # type: ignore[misc]

    def _attribute(self, node: ast.Attribute) -> Iterator[tuple[ast.expr, str]]:
        name = _dotted(node, self._aliases)
        found = list(self._about(node, name)) if name else []
        of_self = isinstance(node.value, ast.Name) and node.value.id == "self"
        own = of_self and node.attr in self._own
        if not found and node.attr in self._last and not own:
            found = [(node, self._refused(self._last[node.attr]))]
        if not found and node.attr in _ATTRIBUTES:
            found = [(node, f".{node.attr} is not allowed: say what you mean directly.")]
        yield from found  # type: ignore[misc]

    def _getattr(self, node: ast.Call) -> Iterator[tuple[ast.expr, str]]:
        name = node.args[1] if len(node.args) > 1 else None
        if not (isinstance(name, ast.Constant) and isinstance(name.value, str)):
            yield node, "getattr with a computed name is not allowed: write the name."
        elif name.value in self._last or name.value in _ATTRIBUTES or name.value.startswith("_"):
            yield node, self._refused(self._last.get(name.value, name.value))

    def _about(
        self, node: ast.expr | ast.stmt, name: str
    ) -> Iterator[tuple[ast.expr | ast.stmt, str]]:
        """The sentence about a dotted name, if it is refused."""
        if name.split(".")[0] in self._modules:
            yield node, f"an exercise stands alone: it does not import {name.split('.')[0]}."
        elif refused := next((r for r in self._refused_names if _within(name, r)), None):
            yield node, self._refused(refused)
        elif private := next((m for m in _MODULES if _within(name, m)), None):
            yield node, f"{private} is not allowed: say what you mean directly."
        elif name.startswith("torch._"):
            yield node, f"{name} is private to PyTorch and not allowed."

    def _refused(self, name: str) -> str:
        return f"{name} is not allowed in this exercise. {self._exercise.cure}".strip()


def _within(name: str, refused: str) -> bool:
    return name == refused or name.startswith(refused + ".")


def _aliases(tree: ast.Module) -> dict[str, str]:
    """What each imported name stands for."""
    found: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                first = alias.name.split(".")[0]
                found[alias.asname or first] = alias.name if alias.asname else first
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                found[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    return found


def _dotted(node: ast.expr, aliases: Mapping[str, str]) -> str | None:
    """The full name of an attribute chain that begins with an imported name."""
    match node:
        case ast.Name():
            return aliases.get(node.id)
        case ast.Attribute():
            front = _dotted(node.value, aliases)
            return None if front is None else f"{front}.{node.attr}"
    return None
