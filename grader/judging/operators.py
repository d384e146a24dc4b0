"""What a submission may not use, found in its syntax tree. Nothing is run.

Names are followed through imports (`import torch.nn.functional as F`, `from torch import softmax
as s`); the last part of a name is also refused as a method or attribute of anything
(`x.softmax(-1)`), unless it is a member of a class in the file. A name that ends in `.*` is a
module: it is refused with all that is in it, but its last part alone is not. An exercise may also
name the only modules that it allows.
"""

import ast
from collections.abc import Callable, Iterator, Mapping

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
_ORDINARY = ("compile", "globals", "vars", "locals")  # people name their variables so
_ATTRIBUTES = (
    *("__dict__", "__globals__", "__builtins__", "__subclasses__", "__getattribute__"),
    *("__loader__", "__spec__", "__import__", "__code__", "f_globals", "f_back", "f_locals", "_C"),
)
_REACHES = "is not allowed: it reaches code by other ways than its name."

Use = tuple[int, str]  # a line, and the sentence about it


def refusals(
    tree: ast.Module, exercise: Exercise, slugs: frozenset[str], name: Callable[[int], str] = str
) -> list[str]:
    """A sentence for each line that uses something that is not allowed, in order.

    name  what the writer calls a line
    """
    finder = _Finder(_without_demonstration(tree), exercise, slugs)
    found = dict(sorted(finder.uses(), reverse=True))
    return [f"Line {name(line)}: {text}" for line, text in sorted(found.items())]


class _Finder:
    def __init__(self, tree: ast.Module, exercise: Exercise, slugs: frozenset[str]) -> None:
        self._tree = tree
        self._exercise = exercise
        self._modules = slugs | set(_HOUSE)
        self._aliases = _aliases(tree)
        self._bound = _bound_names(tree)
        self._called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
        self._own_members, self._own_objects = _own(tree)
        self._refused_names = [name.removesuffix(".*") for name in exercise.not_allowed]
        self._last = {
            name.split(".")[-1]: name
            for name in exercise.not_allowed
            if "." in name and not name.endswith(".*")
        }

    def uses(self) -> Iterator[Use]:
        for node in ast.walk(self._tree):
            match node:
                case ast.Import():
                    for alias in node.names:
                        yield from self._about(node.lineno, alias.name)
                case ast.ImportFrom():
                    yield from self._import_from(node)
                case ast.Attribute():
                    yield from self._attribute(node)
                case ast.Name() if isinstance(node.ctx, ast.Load):
                    yield from self._name(node)
                case ast.Call(func=ast.Name(id="getattr")):
                    yield from self._getattr(node)
                case ast.MatchClass():
                    for name in set(node.kwd_attrs) & self._last.keys():
                        yield node.lineno, self._refused(self._last[name])

    def _import_from(self, node: ast.ImportFrom) -> Iterator[Use]:
        if node.level:
            yield node.lineno, "an exercise stands alone: it imports no other file."
            return
        for alias in node.names:
            if alias.name == "*":
                text = f"`from {node.module} import *` is not allowed: name what you use."
                yield node.lineno, text
                continue
            found = list(self._about(node.lineno, f"{node.module}.{alias.name}"))
            named = node.module is not None and node.module.split(".")[0] in ("torch", "numpy")
            if not found and named and alias.name in self._last:
                found = [(node.lineno, self._refused(self._last[alias.name]))]
            yield from found

    def _name(self, node: ast.Name) -> Iterator[Use]:
        called = id(node) in self._called
        if node.id == "getattr" and called:
            return  # what it is called with is looked at there
        own_variable = node.id in _ORDINARY and node.id in self._bound and not called
        imports = node.id == "__builtins__" and self._exercise.only
        if imports or (node.id in (*_CALLS, "getattr") and not own_variable):
            yield node.lineno, f"{node.id} {_REACHES}"
        else:
            yield from self._about(node.lineno, self._aliases.get(node.id, ""))

    def _attribute(self, node: ast.Attribute) -> Iterator[Use]:
        name = _dotted(node, self._aliases)
        found = list(self._about(node.lineno, name)) if name else []
        of_own = isinstance(node.value, ast.Name) and node.value.id in self._own_objects
        own = of_own and node.attr in self._own_members
        if not found and node.attr in self._last and not own:
            found = [(node.lineno, self._refused(self._last[node.attr]))]
        if not found and node.attr in _ATTRIBUTES:
            found = [(node.lineno, f".{node.attr} {_REACHES}")]
        yield from found

    def _getattr(self, node: ast.Call) -> Iterator[Use]:
        name = node.args[1] if len(node.args) > 1 else None
        computed = not (isinstance(name, ast.Constant) and isinstance(name.value, str))
        if computed and node.args and ast.unparse(node.args[0]) == "self":
            return  # a loop over one's own parts
        if not (isinstance(name, ast.Constant) and isinstance(name.value, str)):
            yield node.lineno, "getattr with a computed name is not allowed: write the name."
        elif name.value in self._last:
            yield node.lineno, self._refused(self._last[name.value])
        elif name.value in _ATTRIBUTES:
            yield node.lineno, f".{name.value} {_REACHES}"

    def _about(self, line: int, name: str) -> Iterator[Use]:
        """The sentence about a dotted name, if it is refused."""
        top = name.split(".")[0]
        if top in self._modules:
            yield line, f"an exercise stands alone: it does not import {top}."
        elif refused := next((r for r in self._refused_names if _within(name, r)), None):
            yield line, self._refused(refused)
        elif private := next((m for m in _MODULES if _within(name, m)), None):
            yield line, f"{private} {_REACHES}"
        elif name.startswith("torch._") and not name.startswith("torch.__"):
            yield line, f"{name} is private to PyTorch and not allowed."
        elif name and self._exercise.only and top not in (*self._exercise.only, "__future__"):
            yield line, self._refused(top)

    def _refused(self, name: str) -> str:
        return f"{name} is not allowed in this exercise. {self._exercise.cure}".strip()


def _without_demonstration(tree: ast.Module) -> ast.Module:
    """The module without its `if __name__ == "__main__":`, which never runs in a worker."""
    if "__name__" in _bound_names(tree):
        return tree
    demonstration = "__name__ == '__main__'"
    body = [
        s for s in tree.body
        if not (isinstance(s, ast.If) and not s.orelse and ast.unparse(s.test) == demonstration)
    ]  # fmt: skip
    return ast.Module(body=body, type_ignores=[])


def _bound_names(tree: ast.Module) -> set[str]:
    """Every name that the file itself gives a meaning."""
    found: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Name(ctx=ast.Store()):
                found.add(node.id)
            case ast.arg():
                found.add(node.arg)
            case ast.FunctionDef() | ast.ClassDef():
                found.add(node.name)
            case ast.alias():
                found.add(node.asname or node.name)
            case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                found.add(name)
            case ast.MatchMapping(rest=str(name)) | ast.ExceptHandler(name=str(name)):
                found.add(name)
    return found


def _own(tree: ast.Module) -> tuple[set[str], set[str]]:
    """The members of the file's own classes, and the names that stand for them or their objects."""
    classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    names = {node.name for node in classes}
    members: set[str] = set()
    objects = {"self", "cls"} | names
    for node in (inner for c in classes for inner in ast.walk(c)):
        match node:
            case ast.FunctionDef():
                members.add(node.name)
            case ast.AnnAssign(target=ast.Name() as target):
                members.add(target.id)
            case ast.Attribute(ctx=ast.Store(), value=ast.Name(id="self")):
                members.add(node.attr)
    for node in ast.walk(tree):
        match node:
            case ast.Assign(value=ast.Call(func=ast.Name(id=made))) if made in names:
                objects |= {t.id for t in node.targets if isinstance(t, ast.Name)}
            case ast.arg(annotation=ast.Name(id=made)) if made in names:
                objects.add(node.arg)
    return members, objects


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
