"""What the names of a file stand for: modules, parts of them, or its writer's own."""

import ast
from collections.abc import Iterable, Iterator
from functools import cache

from grader.submission.class_members import (
    find_self_in_submission,
    list_submission_members,
    list_submission_objects,
)
from grader.submission.scopes import (
    Function,
    list_submitted_bound_names,
    list_submitted_local_names,
    walk_submission_scopes,
)

_ORDINARY_BASES = (
    "nn.Module",
    "torch.nn.Module",
    "Module",
    "object",
    "NamedTuple",
    "Exception",
    "ValueError",
)


class SubmissionNames:
    """The names of one file.

    modules  those that an answer may import
    """

    def __init__(self, tree: ast.Module, modules: frozenset[str]) -> None:
        nodes = list(ast.walk(tree))
        self._imports: dict[str, str] = {}
        self.twice: set[str] = set()  # imported under one name, as different things
        for name, full in _list_submission_imports(nodes):
            if self._imports.setdefault(name, full) != full:
                self.twice.add(name)
        self.bound = frozenset(_list_submission_bindings(_walk_submission_top_level(tree)))
        self.rebound = frozenset(_list_submission_bindings(nodes))  # anywhere in the file
        self.uses = frozenset(_list_submission_uses(nodes))
        self._parents = {id(c): n for n in nodes for c in ast.iter_child_nodes(n)}
        self._all = modules | frozenset(_list_submission_modules(nodes))
        self._followed: dict[str, frozenset[str]] = {}
        self._followed = self._find_module_variables(nodes)
        self._array_classes: frozenset[str] = frozenset()
        self._array_classes = frozenset(self._find_array_classes(nodes))
        classes = [n for n in nodes if isinstance(n, ast.ClassDef)]
        self._own = {id(name) for c in classes for name in find_self_in_submission(c)}
        self._classes = {c.name for c in classes}
        self.plain_classes = frozenset(self._closed_classes(classes, nodes))
        self.members = frozenset(list_submission_members(classes))
        self._objects = self._classes | set(list_submission_objects(nodes, self._classes))

    def modules(self, node: ast.expr) -> frozenset[str]:
        """Return the modules that an expression may stand for; none if it may be anything else."""
        match node:
            case ast.Name(id=name) if name in self._followed:
                return self._followed[name]
            case ast.NamedExpr():
                return self.modules(node.value)
            case ast.IfExp():
                one, other = self.modules(node.body), self.modules(node.orelse)
                return one | other if one and other else frozenset()
            case ast.Attribute(attr=attr) if fronts := self.modules(node.value):
                return frozenset({f"{front}.{attr}" for front in fronts}) & self._all
        return frozenset({self.dotted(node)}) & self._all

    def imported(self, name: str) -> str:
        """Return the full name of what was imported under a name; "" if nothing was."""
        return self._imports.get(name, "")

    def dotted(self, node: ast.expr) -> str:
        """Return the full name of an attribute chain that begins with an imported name, or ""."""
        match node:
            case ast.Name():
                return self._imports.get(node.id, "")
            case ast.Attribute():
                fronts = self.modules(node.value)
                front = min(fronts) if fronts else self.dotted(node.value)
                return f"{front}.{node.attr}" if front else ""
        return ""

    def is_followed(self, node: ast.expr) -> bool:
        """Return whether the use of a module at this expression can be followed."""
        parent = self._parents.get(id(node))
        match parent:
            case ast.Attribute():
                return True
            case ast.Assign(targets=[ast.Name(id=name)]):
                return name in self._followed
            case ast.NamedExpr(target=ast.Name(id=name)):
                return name in self._followed and self.is_followed(parent)
            case ast.IfExp() if node is not parent.test:
                return bool(self.modules(parent)) and self.is_followed(parent)
            case ast.Compare(ops=ops):  # `xp is np` asks which it is; == would call a method
                return all(isinstance(op, ast.Is | ast.IsNot) for op in ops)
            case ast.Call(func=ast.Name(id="getattr" | "hasattr" as name), args=[first, _, *_]):
                return first is node and name not in self.rebound  # the name is looked at there
            case ast.Expr():  # it is written, and nothing done with it
                return True
        return False

    def is_part_taken(self, node: ast.expr) -> bool:
        """Return whether an attribute of this expression is taken."""
        return isinstance(self._parents.get(id(node)), ast.Attribute)

    def is_called(self, node: ast.expr) -> bool:
        """Return whether a call calls this expression."""
        parent = self._parents.get(id(node))
        return isinstance(parent, ast.Call) and parent.func is node

    def is_name_taken(self, node: ast.expr) -> bool:
        """Return whether only the name of a class is taken: `x.__class__.__name__`."""
        parent = self._parents.get(id(node))
        return isinstance(parent, ast.Attribute) and parent.attr in ("__name__", "__qualname__")

    def is_asked_about(self, node: ast.AST) -> bool:
        """Return whether a type stands in an annotation, or is what `isinstance` asks about."""
        parent = self._parents.get(id(node))
        match parent:
            case ast.Tuple() | ast.BinOp(op=ast.BitOr()) | ast.Subscript():
                return self.is_asked_about(parent)
            case ast.arg(annotation=told) | ast.AnnAssign(annotation=told):
                return told is node
            case ast.FunctionDef(returns=told) | ast.AsyncFunctionDef(returns=told):
                return told is node
            case ast.Call(func=ast.Name(id="isinstance" | "issubclass" as name), args=[_, asked]):
                return asked is node and name not in self.rebound
        return False

    def is_array_class(self, node: ast.AST) -> bool:
        """Return whether an expression stands for np.ndarray, whose call may read any memory."""
        named = isinstance(node, ast.Name) and node.id in self._array_classes
        return named or (isinstance(node, ast.expr) and self.dotted(node) == "numpy.ndarray")

    def is_of_class(self, node: ast.AST) -> bool:
        """Return whether a base or keyword stands in the head of a class."""
        return isinstance(self._parents.get(id(node)), ast.ClassDef)

    def is_in_class(self, node: ast.stmt) -> bool:
        """Return whether a statement runs with the body of a class."""
        parent = self._parents.get(id(node))
        while parent is not None and not isinstance(parent, Function | ast.ClassDef):
            parent = self._parents.get(id(parent))
        return isinstance(parent, ast.ClassDef)

    def is_self(self, node: ast.expr) -> bool:
        """Return whether an expression is the `self` or `cls` of a method."""
        return id(node) in self._own

    def is_own(self, node: ast.expr) -> bool:
        """Return whether an expression is one of the file's classes, or an object of one."""
        return self.is_self(node) or (isinstance(node, ast.Name) and node.id in self._objects)

    def local_names(self, unit: Function) -> frozenset[str]:
        """Return the names that a function binds itself, except names of modules."""
        return list_submitted_local_names(unit) - self._followed.keys()

    def scoped(
        self, root: ast.AST, own: frozenset[str]
    ) -> Iterator[tuple[ast.AST, frozenset[str]]]:
        """Yield every node in a part of the file, with the names that its functions bind."""
        for node, names in walk_submission_scopes(root, own):
            yield node, names - self._followed.keys()

    def _find_module_variables(self, nodes: list[ast.AST]) -> dict[str, frozenset[str]]:
        """Return variables that only ever stand for modules: `xp = np if given else torch`."""
        times: dict[str, int] = {}
        found: dict[str, list[frozenset[str]]] = {}
        for name in _list_submission_bindings(nodes):
            times[name] = times.get(name, 0) + 1
        for node in nodes:
            match node:
                case (
                    ast.Assign(targets=[ast.Name(id=name)], value=value)
                    | ast.NamedExpr(target=ast.Name(id=name), value=value)
                ):
                    in_class = isinstance(self._parents.get(id(node)), ast.ClassDef)
                    stands = frozenset() if in_class else self.modules(value)
                    found.setdefault(name, []).append(stands)
        return {
            name: frozenset().union(*values)
            for name, values in found.items()
            if all(values) and times[name] == len(values) and name not in self._imports
        }

    def _find_array_classes(self, nodes: list[ast.AST]) -> Iterator[str]:
        """Yield other names of np.ndarray: `Array = np.ndarray`."""
        for node in nodes:
            match node:
                case ast.Assign(value=value) | ast.AnnAssign(value=ast.expr() as value):
                    if self.is_array_class(value):
                        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                        yield from list_submitted_bound_names(targets)
                case ast.NamedExpr(target=ast.Name(id=name), value=value):
                    if self.is_array_class(value):
                        yield name

    def _closed_classes(self, classes: list[ast.ClassDef], nodes: list[ast.AST]) -> Iterator[str]:
        """Yield classes whose objects only the file makes: their bases are ordinary, or such."""
        known = {c.name: c for c in classes}
        others = set(_list_submission_bindings(n for n in nodes if not isinstance(n, ast.ClassDef)))

        @cache
        def plain(name: str) -> bool:
            bases = known[name].bases
            plain_made = all("dataclass" in ast.unparse(d) for d in known[name].decorator_list)
            return name not in others and not known[name].keywords and plain_made and all(
                ast.unparse(b) in _ORDINARY_BASES or (isinstance(b, ast.Name) and b.id in known
                                             and b.id != name and plain(b.id))
                for b in bases
            )  # fmt: skip

        for name in known:
            try:
                if plain(name):
                    yield name
            except RecursionError:  # a circle
                continue


def _list_submission_bindings(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Yield every name that the nodes bind, once for each place, arguments included."""
    for node in nodes:
        if not isinstance(node, ast.Tuple | ast.List | ast.Starred):  # its parts come too
            yield from list_submitted_bound_names([node])
        if isinstance(node, ast.arg):
            yield node.arg


def _list_submission_uses(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Yield every name and attribute that stands in the file."""
    for node in nodes:
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.alias(name=name):
                yield name


def _walk_submission_top_level(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes that run when the file is loaded; a function's body does not."""
    for node in ast.iter_child_nodes(tree):
        yield node
        if not isinstance(node, Function):
            yield from _walk_submission_top_level(node)


def _list_submission_imports(nodes: list[ast.AST]) -> Iterator[tuple[str, str]]:
    """Yield each imported name, and what the name stands for."""
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                first = alias.name.split(".")[0]
                yield alias.asname or first, alias.name if alias.asname else first
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                yield alias.asname or alias.name, f"{node.module}.{alias.name}"


def _list_submission_modules(nodes: list[ast.AST]) -> Iterator[str]:
    """Yield every module that an `import` names, and the packages that contain it."""
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                parts = alias.name.split(".")
                yield from (".".join(parts[: n + 1]) for n in range(len(parts)))
