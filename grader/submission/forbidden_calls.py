"""Finds what a submission may not use: unlisted names, and names that its exercise refuses.

Only the syntax tree is read; nothing is run. Names are followed through imports (`import
torch.nn.functional as F`) and through plain assignments of a module (`xp = torch`). An answer may
use those names of a module that are on the list, and those attributes of anything else that do not
begin with an underscore. The last part of a name that the exercise refuses is refused as a method
or attribute of anything as well (`x.softmax(-1)`), unless it is a member of a class in the file.
"""

import ast
import builtins
import sys
from collections.abc import Iterator
from dataclasses import dataclass

from grader.core import allowed_tables
from grader.core.records import Exercise
from grader.submission.allowed_names import SubmissionNames
from grader.submission.exercise_names import BREAKPOINT_LEFT, UNLISTED, ExerciseNames
from grader.submission.scopes import (
    Function,
    list_submitted_bound_names,
    list_unread_annotations,
)
from grader.worker.child.builtin_names import (
    BUILTINS,
    FRAME_NAMES,
    MODULE_TABLES,
    ORDINARY_DUNDERS,
    is_dunder,
)

_ATTRIBUTES_TO_MODULES = {"_module": "catch_warnings"}  # to a module, where the file uses that
_NEVER_OWN = FRAME_NAMES | MODULE_TABLES | _ATTRIBUTES_TO_MODULES.keys()  # whatever a class defines
_ATTRIBUTE_FUNCTIONS = ("getattr", "setattr", "delattr", "hasattr")
_ATTRIBUTE_COPIERS = ("functools.wraps", "functools.update_wrapper")
_NAMED_TUPLE_MEMBERS = ("_asdict", "_fields", "_make", "_replace")  # open in spite of the _
_REACHES = "is not allowed: it reaches code by other ways than its name."
_NO_VALUE = (
    "is a module and used as a value: write what you need of it, as in np.exp. "
    "`xp = np if ... else torch` is followed in the function in which it stands."
)
_NO_ARRAY_CLASS = "np.ndarray makes no arrays here: call np.empty or np.asarray."
_IMPORTS = ast.Import | ast.ImportFrom
# `xp` may be either of these: a name that only one of them lists leads nowhere in the other.
_ALIKE = frozenset({"numpy", "numpy.linalg", "torch", "torch.linalg"})


@dataclass(frozen=True, slots=True, order=True)
class ForbiddenUse:
    """A use of something that is not allowed, and its line."""

    line: int
    why: str


class ForbiddenUseFinder:
    """Finds what one file uses that its exercise does not allow."""

    def __init__(self, tree: ast.Module, exercise: Exercise, slugs: frozenset[str]) -> None:
        self._list = ExerciseNames(exercise, slugs)
        self._last = self._list.last
        self._passages = allowed_tables.list_unlisted_parents(self._list.modules)
        self._names = SubmissionNames(tree, frozenset(self._list.modules))
        self._gone = dict(self._refused_imports(tree))
        self._unread = {id(n) for n in list_unread_annotations(tree)}

    def _refused_imports(self, tree: ast.Module) -> Iterator[tuple[str, str]]:
        """Yield each name that a refused import would bind, and why it is refused."""
        for node in (n for n in ast.walk(tree) if isinstance(n, _IMPORTS)):
            for alias in node.names:
                if why := self.about_import(node, alias):
                    yield alias.asname or alias.name.split(".")[0], why

    def is_in_class(self, node: _IMPORTS) -> bool:
        """Return whether an import stands in the body of a class."""
        return self._names.is_in_class(node)

    def about_import(self, node: _IMPORTS, alias: ast.alias) -> str:
        """Return why an imported name is not allowed; "" if it is."""
        if why := next(_explain_forbidden_dunder(alias.asname or ""), ""):
            return why
        if isinstance(node, ast.Import):
            return self._list.reason_against_module(alias.name)
        if node.level:
            return "an exercise stands alone: it imports no other file."
        if alias.name == "*":
            return f"`from {node.module} import *` is not allowed: name what you use."
        full = f"{node.module}.{alias.name}"
        if full in self._list.modules:
            return self._list.reason_against_name(full)
        return self._list.reason_against_module(
            node.module or ""
        ) or self._list.reason_against_part(node.module or "", alias.name)

    def uses(self, root: ast.AST, unit: Function | None) -> Iterator[ForbiddenUse]:
        """Yield what is not allowed in a part of the file.

        unit  the function that has to be called for the part to run; None if there is none
        """
        outer = self._names.local_names(unit) if unit is not None else frozenset()
        for node, own in self._names.scoped(root, outer):
            for why in self._reasons_against_node(node, own):
                yield ForbiddenUse(getattr(node, "lineno", 1), why)

    def _reasons_against_node(self, node: ast.AST, own: frozenset[str]) -> Iterator[str]:
        if id(node) in self._unread:
            return
        match node:
            case ast.Import() | ast.ImportFrom():
                if self._names.is_in_class(node):
                    yield "an import in a class is not allowed: write it at the top of the file."
                yield from filter(None, (self.about_import(node, a) for a in node.names))
            case ast.Name(id=name):
                yield from self._reasons_against_variable(node, name, own)
            case ast.Attribute():
                yield from self._reasons_against_attribute(node, own)
            case ast.Call():
                yield from self._reasons_against_call(node, own)
            case ast.MatchClass():
                yield from self._reasons_against_pattern(node)
            case ast.keyword(arg=name):
                if name == "metaclass" or (name is None and self._names.is_of_class(node)):
                    yield f"metaclass {_REACHES}"
                yield from _explain_forbidden_dunder(name or "")
            case ast.arg(arg=name):
                yield from _explain_forbidden_dunder(name)
            case ast.Global(names=names) | ast.Nonlocal(names=names):
                for name in names:
                    yield from _explain_forbidden_dunder(name)
        if self._names.is_of_class(node) and self._names.is_array_class(node):
            yield _NO_ARRAY_CLASS
        if not isinstance(node, ast.Name | ast.Tuple | ast.List | ast.Starred):
            for name in list_submitted_bound_names([node]):
                yield from _explain_forbidden_dunder(name)

    def _reasons_against_variable(
        self, node: ast.Name, name: str, own: frozenset[str]
    ) -> Iterator[str]:
        if not isinstance(node.ctx, ast.Load):
            yield from _explain_forbidden_dunder(name)
        elif name in own:
            return
        elif name in self._names.twice:
            yield f"{name} is imported as different things: give each a name of its own."
        elif name in self._gone:
            yield self._gone[name]
        elif found := self._names.modules(node):
            if not self._names.is_followed(node):
                yield f"{name} {_NO_VALUE}"
            yield from filter(None, (self._list.reason_against_name(m) for m in found))
        elif full := self._names.imported(name):
            yield from filter(None, [self._list.reason_against_name(full)])
            if full in _ATTRIBUTE_COPIERS and not self._names.is_called(node):
                yield f"{name} can be called and no more: it {_REACHES}"
        elif name in _ATTRIBUTE_FUNCTIONS:
            if not self._names.is_called(node):
                yield f"{name} {_REACHES}"
        elif name == "type":
            if not self._names.is_called(node) and not self._names.is_asked_about(node):
                yield f"{name} can be called and no more: it {_REACHES}"
        elif is_dunder(name):
            if name not in (*ORDINARY_DUNDERS, *BUILTINS):
                yield f"{name} {UNLISTED}"
        elif hasattr(builtins, name) and name not in BUILTINS and name not in self._names.bound:
            yield BREAKPOINT_LEFT if name == "breakpoint" else f"{name} {_REACHES}"

    def _reasons_against_attribute(self, node: ast.Attribute, own: frozenset[str]) -> Iterator[str]:
        local = self._is_local_name(node, own)
        if not local and (found := self._names.modules(node.value) or self._passage(node.value)):
            yield from self._reasons_against_parts(node, found)
            return
        full = None if local else self._names.dotted(node)
        if full and (why := self._list.reason_against_name(full)):
            yield why
        elif full and not isinstance(node.ctx, ast.Load):
            yield f"{full} is not yours to change."
        elif node.attr == "__new__" and self._names.is_array_class(node.value):
            yield _NO_ARRAY_CLASS
        elif node.attr == "__class__" and self._names.is_name_taken(node):
            return
        elif (
            is_dunder(node.attr) or node.attr in _NEVER_OWN
            or not (node.attr in self._names.members and self._names.is_own(node.value))
        ):  # fmt: skip
            yield from self._reasons_against_member(node.attr, node.value)

    def _passage(self, node: ast.expr) -> frozenset[str]:
        """Return the package, if it is not on the list but leads to a module that is."""
        return frozenset({self._names.dotted(node)}) & self._passages

    def _reasons_against_parts(self, node: ast.Attribute, found: frozenset[str]) -> Iterator[str]:
        """Yield why a part of a module, or of one of several, is not allowed."""
        if not isinstance(node.ctx, ast.Load):
            yield f"{min(found)}.{node.attr} is not yours to change."
            return
        passed = {f"{m}.{node.attr}" for m in found} <= self._passages
        if passed and self._names.is_part_taken(node):
            return  # what is taken of it is looked at by itself
        about = [w for m in sorted(found) if (w := self._list.reason_against_part(m, node.attr))]
        inner = self._names.modules(node)
        refused = [w for w in about if not w.endswith(UNLISTED)]
        alike = found <= _ALIKE and node.attr not in sys.stdlib_module_names
        if refused or (len(about) == len(found) if alike else about):
            yield (refused or about)[0]
        elif inner and not self._names.is_followed(node):
            yield f"{min(inner)} {_NO_VALUE}"
        elif any(
            f"{m}.{node.attr}" in _ATTRIBUTE_COPIERS for m in found
        ) and not self._names.is_called(node):
            yield f"{node.attr} can be called and no more: it {_REACHES}"

    def _reasons_against_member(self, name: str, value: ast.expr | None) -> Iterator[str]:
        """Yield why an attribute of an object that is no module is not allowed."""
        if name in self._last and not self._may_be_own_member(name):
            yield self._list.refusal_with_cure(self._last[name])
        elif name in FRAME_NAMES or name == "compile":
            yield f".{name} {_REACHES}"
        elif name == "__class__":
            yield ".__class__ is not allowed: write type(x), or x.__class__.__name__."
        elif is_dunder(name):
            if name not in ORDINARY_DUNDERS:
                yield f".{name} {UNLISTED}"
        elif name.startswith("_") and name not in ("_", *_NAMED_TUPLE_MEMBERS):
            if name in MODULE_TABLES:
                yield f".{name} of Module is not allowed: call yours otherwise."
            mine = value is not None and self._names.is_self(value)
            if _ATTRIBUTES_TO_MODULES.get(name, "") in self._names.uses:
                owner = _ATTRIBUTES_TO_MODULES[name]
                yield f".{name} of {owner} is not allowed: call yours otherwise."
            elif not mine and name not in self._names.members:
                yield f".{name} is not allowed: a name with _ belongs to who wrote it."

    def _may_be_own_member(self, name: str) -> bool:
        """Return whether a name that the exercise refuses may mean a member of a class in the file.

        Only a run shows whether it does: if it means a tensor's method, the dispatcher refuses it.
        """
        return name in self._names.members and not self._last[name].startswith("torch.Tensor.")

    def _reasons_against_call(self, node: ast.Call, own: frozenset[str]) -> Iterator[str]:
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if name == "type" and name not in own:
            if len(node.args) != 1 or node.keywords or isinstance(node.args[0], ast.Starred):
                yield "type with a name and bases is not allowed: write a class."
        elif name in _ATTRIBUTE_FUNCTIONS:
            yield from self._reasons_against_lookup(name, node, own)
        if self._names.is_array_class(node.func):
            yield _NO_ARRAY_CLASS
        full = {self._names.dotted(node.func)} if not self._is_local_name(node.func, own) else set()
        if full & set(_ATTRIBUTE_COPIERS) and (node.keywords or len(node.args) > 2):
            yield f"{name or 'wraps'} with names to copy is not allowed."

    def _reasons_against_lookup(
        self, name: str, node: ast.Call, own: frozenset[str]
    ) -> Iterator[str]:
        wanted = node.args[1] if len(node.args) > 1 else None
        if isinstance(wanted, ast.Constant) and isinstance(wanted.value, str):
            value, attr = node.args[0], wanted.value
            found = frozenset() if self._is_local_name(value, own) else self._names.modules(value)
            if found and name in ("setattr", "delattr"):
                yield f"{min(found)}.{attr} is not yours to change."
            elif found:
                about = [self._list.reason_against_part(m, attr) for m in found]
                yield from filter(None, about if name == "getattr" else [])
            else:
                yield from self._reasons_against_member(attr, value)
        elif name == "getattr" and not (node.args and self._names.is_self(node.args[0])):
            yield "getattr with a computed name is not allowed: write the name."

    def _reasons_against_pattern(self, node: ast.MatchClass) -> Iterator[str]:
        """Yield why a class pattern is not allowed: it may read only known classes."""
        plain = isinstance(node.cls, ast.Name) and node.cls.id in self._names.plain_classes
        builtin = isinstance(node.cls, ast.Name) and node.cls.id in _MATCHED_TYPES
        for name in node.kwd_attrs:
            if name in self._last:
                yield self._list.refusal_with_cure(self._last[name])
            elif is_dunder(name) or name in FRAME_NAMES:
                yield from self._reasons_against_member(name, None)
        if (node.kwd_attrs and not plain) or (node.patterns and not (plain or builtin)):
            yield f"the pattern {ast.unparse(node)} is not allowed: ask with isinstance."

    def _is_local_name(self, node: ast.expr, own: frozenset[str]) -> bool:
        """Return whether an expression begins with a name that its function binds."""
        while isinstance(node, ast.Attribute):
            node = node.value
        return isinstance(node, ast.Name) and node.id in own


_MATCHED_TYPES = ("bool", "bytearray", "bytes", "dict", "float", "frozenset", "int", "list", "set",
                  "str", "tuple")  # fmt: skip


def _explain_forbidden_dunder(name: str) -> Iterator[str]:
    if is_dunder(name) and name not in ORDINARY_DUNDERS:
        yield f"{name} {UNLISTED}"
