"""Collects from a file the words that a repair may add elsewhere in it."""

import ast
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain

MAX_WORDS = 12  # of a kind that are taken from a file
REDUCTIONS = frozenset(
    ("sum", "max", "min", "amax", "amin", "mean", "any", "all", "prod", "logsumexp", "argmax")
)
_SIBLINGS = (
    ("sum", "mean", "max", "amax"), ("max", "min"), ("amax", "amin"), ("any", "all"),
    ("tril", "triu"), ("zeros", "ones"), ("zeros_like", "ones_like"), ("maximum", "minimum"),
    ("cat", "stack"), ("repeat", "repeat_interleave"), ("squeeze", "unsqueeze"), ("sin", "cos"),
    ("logical_and", "logical_or"), ("exp", "log"), ("concatenate", "stack"), ("repeat", "tile"),
)  # fmt: skip
_PLAIN = (ast.Constant, ast.UnaryOp, ast.Name)
# A call of these, changed, could reach an attribute by another name than one that is written.
ATTRIBUTE_CALLS = frozenset(
    ("getattr", "setattr", "delattr", "hasattr", "type", "super", "wraps", "update_wrapper")
)


@dataclass(slots=True)
class FileWords:
    """What a file has that a change may add elsewhere, as texts with `_` for what is changed."""

    modules: frozenset[str]  # names that may stand for a module or for a part of one
    refused: frozenset[str]  # names of functions that the exercise does not allow
    keywords: dict[str, list[ast.keyword]] = field(default_factory=dict)  # by what is called
    functions: list[str] = field(default_factory=list)  # "torch.softmax(_, dim=-1)"
    methods: list[str] = field(default_factory=list)  # "_.float()"
    parameters: dict[str, list[str]] = field(default_factory=dict)  # of the file's functions
    counts: Counter[str] = field(default_factory=Counter)  # of these functions and methods
    lacked: list[str] = field(default_factory=list)  # what the solution calls more often

    def list_siblings(self, name: str) -> list[str]:
        """Return the functions that are taken for one another with a function."""
        found = [other for group in _SIBLINGS if name in group for other in group]
        return [other for other in found if other != name and other not in self.refused]

    def read_call(self, node: ast.Call) -> None:
        """Collect the keywords of a call, and the call if all its other arguments are plain."""
        name = name_called(node)
        known = self.keywords.setdefault(name, [])
        texts = {ast.unparse(k) for k in known}
        known += [k for k in node.keywords if k.arg and ast.unparse(k) not in texts][:MAX_WORDS]
        if name in ATTRIBUTE_CALLS or name.startswith("__"):
            return
        if isinstance(node.func, ast.Attribute) and not self._is_function(node.func):
            alike = (name, *(self.list_siblings(name) if name in REDUCTIONS else ()))
            methods = (ast.Attribute(ast.Name("_"), one) for one in alike)
            self._add(self.methods, node, [(func, node.args) for func in methods])
        elif node.args:
            self._add(self.functions, node, [(node.func, [ast.Name("_"), *node.args[1:]])])

    def _is_function(self, node: ast.expr) -> bool:
        """Return whether a name is called, or what a module or `self` has: no method of a value."""
        root = node
        while isinstance(root, ast.Attribute):
            root = root.value
        own = isinstance(root, ast.Name) and root.id == "self"
        return isinstance(node, ast.Name) or own or self._is_module(root)

    def _is_module(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Name) and node.id in self.modules

    def _add(
        self, to: list[str], node: ast.Call, forms: Iterable[tuple[ast.expr, list[ast.expr]]]
    ) -> None:
        for func, args in forms:
            given = [*args, *(k.value for k in node.keywords)]
            text = ast.unparse(ast.Call(func, args, node.keywords))
            if all(map(_is_countable, given)):
                self.counts[text] += 1
            if all(isinstance(x, _PLAIN) for x in given) and text not in to[:MAX_WORDS]:
                to.append(text)


def _is_countable(node: ast.expr) -> bool:
    """Return whether an argument is plain, an attribute of `self`, or a tuple of such."""
    if isinstance(node, ast.Tuple | ast.List):
        return all(map(_is_countable, node.elts))
    if isinstance(node, ast.Attribute):
        return ast.unparse(node.value) == "self"
    return isinstance(node, _PLAIN)


def read_file_words(tree: ast.Module, refused: Collection[str]) -> FileWords:
    """Collect the words of a file."""
    nodes = list(ast.walk(tree))
    imports = [n for n in nodes if isinstance(n, ast.Import | ast.ImportFrom)]
    modules = {(a.asname or a.name).split(".")[0] for n in imports for a in n.names}
    for _ in range(2):  # a variable may stand for another one
        modules |= {name for node in nodes for name in _list_module_variables(node, modules)}
    found = FileWords(modules=frozenset(modules), refused=frozenset(refused))
    for node in nodes:
        if isinstance(node, ast.FunctionDef):
            found.parameters[node.name] = list_function_parameters(node)
        if isinstance(node, ast.Call):
            found.read_call(node)
    return found


def _list_module_variables(node: ast.AST, modules: Collection[str]) -> Iterator[str]:
    """Yield what an assignment binds to a module, or to something that is not computed of one."""
    if not isinstance(node, ast.Assign | ast.AnnAssign | ast.NamedExpr) or node.value is None:
        return
    inner = list(ast.walk(node.value))
    computes = any(isinstance(n, ast.Call | ast.BinOp) for n in inner)
    if not computes and any(isinstance(n, ast.Name) and n.id in modules for n in inner):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        names = chain.from_iterable(map(ast.walk, targets))
        yield from (n.id for n in names if isinstance(n, ast.Name))


def list_function_parameters(node: ast.FunctionDef) -> list[str]:
    """Return the names of a function's parameters."""
    args = node.args
    return [a.arg for a in (*args.posonlyargs, *args.args, *args.kwonlyargs)]


def name_called(node: ast.Call) -> str:
    """Return the last part of the name that is called; "" if it has none."""
    match node.func:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
    return ""
