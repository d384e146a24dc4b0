"""Replaces one node of a syntax tree by what may mend it: changes that only repairs need.

Some undo a mechanical change; others undo common slips of beginners. What they add is taken from
the file itself, or from a few lists.
"""

import ast
import builtins
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from grader.submission.file_words import (
    MAX_WORDS,
    REDUCTIONS,
    FileWords,
    name_called,
)
from grader.submission.replacements import (
    COMPARISONS,
    OPERATORS,
    Replacement,
    ReplacementKind,
    copy_changed_node,
)

T = TypeVar("T")
NUMBERS = (-1, -2, 0, 1, 2)
_OTHER_PARTS = {
    "float16": "bfloat16", "bfloat16": "float16", "float32": "float64", "float64": "float32",
    "mT": "T", "T": "mT",
}  # fmt: skip
_WITH_AXIS = REDUCTIONS | {"softmax", "cumsum", "flip", "cumprod"}
_MAKERS = frozenset(("arange", "zeros", "ones", "full", "empty", "tensor", "eye", "as_tensor"))
_BITWISE = (ast.BitAnd, ast.BitOr, ast.BitXor)
_MASKS = ("any", "all", "isnan", "isinf", "isfinite", "tril", "triu")
_ORDERED = (ast.Sub, ast.Div, ast.FloorDiv, ast.MatMult, ast.Pow)
_OF_MEMBERS = ("cat", "concat", "concatenate", "stack")
_COMPUTING = ("np", "torch", "math")
_CONDITIONAL = (ast.If, ast.IfExp)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Where a node stands that may be mended."""

    parent: ast.AST
    field: str
    words: FileWords
    names: Sequence[str]  # the parameters and variables of its function
    parameters: Sequence[str]

    @property
    def modules(self) -> frozenset[str]:
        """The names that may stand for modules."""
        return self.words.modules


def make_repairing_replacements(node: ast.AST, where: Surroundings) -> Iterator[Replacement]:
    """Yield the replacements of a node that are no mechanical changes."""
    if where.field == "test" and isinstance(where.parent, _CONDITIONAL):
        yield from _replace_condition(node, where)
    if isinstance(node, ast.Slice):
        yield from _add_slice_bounds(node, where)
    if isinstance(where.parent, ast.arguments) and isinstance(node, ast.Constant):
        yield from _replace_default(node)
    if isinstance(node, ast.BinOp | ast.AugAssign | ast.Compare):
        yield from _undo_operators(node)
    match node:
        case ast.BinOp(op=op, left=left, right=right) if isinstance(op, _ORDERED):
            turned = copy_changed_node(node, left=right, right=left)
            yield ReplacementKind.EXCHANGE, turned
        case ast.Tuple(elts=elts) if where.field == "slice":
            for i in range(len(elts) - 1):
                members = [*elts[:i], elts[i + 1], elts[i], *elts[i + 2 :]]
                yield ReplacementKind.EXCHANGE, copy_changed_node(node, elts=members)
        case ast.Attribute(attr=name) if name in _OTHER_PARTS and where.field != "func":
            other = copy_changed_node(node, attr=_OTHER_PARTS[name])
            yield ReplacementKind.FUNCTION, other
            if isinstance(where.parent, ast.Tuple):
                yield ReplacementKind.ADDED, ast.Tuple([node, other], ast.Load())  # type: ignore[list-item]
        case ast.Constant(value=int(number)) if not isinstance(number, bool):
            others = (n for n in NUMBERS if abs(n - number) > 1)
            yield from ((ReplacementKind.CONSTANT, ast.Constant(n)) for n in others)
        case ast.Call():
            yield from _replace_function(node, where)
            yield from _add_argument(node, where)
    if isinstance(node, ast.expr) and isinstance(getattr(node, "ctx", ast.Load()), ast.Load):
        yield from _replace_name(node, where)
        if _may_be_wrapped(node, where):
            yield from _add_sign(node, where)
            yield from _add_call(node, where)
        elif isinstance(where.parent, ast.Attribute) and not _is_owner_alone(node, where):
            yield from _add_lacked_call(node, where)


def _replace_condition(node: ast.AST, where: Surroundings) -> Iterator[Replacement]:
    yield ReplacementKind.NEGATED, ast.UnaryOp(ast.Not(), node)  # type: ignore[arg-type]
    if isinstance(node, ast.Constant):
        for name in where.parameters:
            for text in (f"{name} is not None", f"{name} is None", name, f"not {name}"):
                yield ReplacementKind.NEGATED, _parse_expression(text)


def _add_slice_bounds(node: ast.Slice, where: Surroundings) -> Iterator[Replacement]:
    words = [str(n) for n in (1, -1)] + [n for n in where.names if n not in where.modules]
    for side in ("lower", "upper"):
        if getattr(node, side) is None:
            for word in words[:MAX_WORDS]:
                bound = _parse_expression(word)
                yield ReplacementKind.BOUND, copy_changed_node(node, **{side: bound})


def _replace_default(node: ast.Constant) -> Iterator[Replacement]:
    values = (None, True, False, -1, -2, 1)
    yield from ((ReplacementKind.DEFAULT, ast.Constant(v)) for v in values if v is not node.value)


def _undo_operators(node: ast.BinOp | ast.AugAssign | ast.Compare) -> Iterator[Replacement]:
    """Yield the operators of which the mechanical changes make this one."""
    if isinstance(node, ast.Compare):
        for i, op in enumerate(node.ops):
            for other in _list_undone(type(op), COMPARISONS):
                ops = [*node.ops[:i], other(), *node.ops[i + 1 :]]
                yield ReplacementKind.COMPARISON, copy_changed_node(node, ops=ops)
        return
    for operator in _list_undone(type(node.op), OPERATORS):
        yield ReplacementKind.OPERATOR, copy_changed_node(node, op=operator())


def _list_undone(op: type[T], known: Mapping[type[T], tuple[type[T], ...]]) -> list[type[T]]:
    return [one for one, others in known.items() if op in others and one not in known[op]]


def _replace_function(node: ast.Call, where: Surroundings) -> Iterator[Replacement]:
    if isinstance(node.func, ast.Attribute):
        for name in where.words.list_siblings(node.func.attr):
            other = copy_changed_node(node.func, attr=name)
            yield ReplacementKind.FUNCTION, copy_changed_node(node, func=other)


def _add_argument(node: ast.Call, where: Surroundings) -> Iterator[Replacement]:
    called = name_called(node)
    present = {k.arg for k in node.keywords}
    words = where.words
    missing = [k for k in words.keywords.get(called, ()) if k.arg not in present]
    added = [(k.arg or "", ast.unparse(k.value)) for k in missing]
    if called in REDUCTIONS and not present & {"keepdim", "keepdims"}:
        added.append(("keepdims" if "keepdims" in words.keywords else "keepdim", "True"))
    if called in _WITH_AXIS and not present & {"dim", "axis"}:
        added += [("dim", "-1"), ("dim", "-2")]
    if called in _MAKERS:
        parts = [part for part in ("device", "dtype") if part not in present]
        added += [(part, f"{p}.{part}") for part in parts for p in where.parameters[:3]]
    own = words.parameters.get(called, ())
    added += [(n, n) for n in own[len(node.args) :] if n in where.names and n not in present]
    for name, text in dict.fromkeys(added):
        new = ast.keyword(arg=name, value=_parse_expression(text))
        changed = copy_changed_node(node, keywords=[*node.keywords, new])
        yield ReplacementKind.KEYWORD, changed
    values = [*map(str, NUMBERS), *[n for n in where.names if n not in where.modules]]
    for value in values[: 2 * MAX_WORDS]:
        one = _parse_expression(value)
        for at in dict.fromkeys((len(node.args), 0)):
            args = [*node.args[:at], one, *node.args[at:]]
            yield ReplacementKind.ADDED, copy_changed_node(node, args=args)


def _replace_name(node: ast.expr, where: Surroundings) -> Iterator[Replacement]:
    if not isinstance(node, ast.Name) or node.id in where.modules or where.field == "func":
        return
    if node.id in where.names or not hasattr(builtins, node.id):
        others = (n for n in where.names if n != node.id and n not in where.modules)
        yield from ((ReplacementKind.NAME, ast.Name(n, ast.Load())) for n in others)


def _may_be_wrapped(node: ast.expr, where: Surroundings) -> bool:
    """Return whether a value is one that a call may lack: an operand, an argument, a result."""
    if isinstance(node, ast.Constant | ast.Starred | ast.Slice | ast.Tuple | ast.Lambda):
        return False
    if isinstance(node, ast.Name) and node.id in where.modules:
        return False
    inside = {"value", "left", "right", "operand", "args", "elts", "body", "orelse"}
    return where.field in inside and not isinstance(
        where.parent, ast.Attribute | ast.FunctionDef | ast.arguments
    )


def _add_sign(node: ast.expr, where: Surroundings) -> Iterator[Replacement]:
    """Yield `-x` for an argument or an operand, and `~x` for what may be a mask."""
    if isinstance(node, ast.UnaryOp):
        return
    if where.field == "args" or isinstance(where.parent, ast.BinOp):
        yield ReplacementKind.SIGN_ADDED, ast.UnaryOp(ast.USub(), node)
    operand = isinstance(where.parent, ast.BinOp) and isinstance(where.parent.op, _BITWISE)
    if where.field == "args" or operand or _is_mask(node):
        yield ReplacementKind.SIGN_ADDED, ast.UnaryOp(ast.Invert(), node)


def _is_mask(node: ast.expr) -> bool:
    called = name_called(node) if isinstance(node, ast.Call) else ""
    bitwise = isinstance(node, ast.BinOp) and isinstance(node.op, _BITWISE)
    return isinstance(node, ast.Compare) or bitwise or called in _MASKS


def _add_call(node: ast.expr, where: Surroundings) -> Iterator[Replacement]:
    usual = [f"{m}.{f}(_)" for m in _COMPUTING if m in where.modules for f in ("exp", "sqrt")]
    words = where.words
    methods = (*words.methods, "_.float()", "_.mT", "_.contiguous()")
    added = dict.fromkeys((*methods, *words.functions, *usual), ReplacementKind.CALL_ADDED)
    for text, kind in added.items():
        if text not in words.lacked:
            yield kind, _Fill(node).visit(_parse_expression(text))
    yield from _add_lacked_call(node, where)


def _is_owner_alone(node: ast.expr, where: Surroundings) -> bool:
    """Return whether a value has attributes, but is none that a call would compute."""
    name = node.id if isinstance(node, ast.Name) else ""
    return name == "self" or name in where.modules or isinstance(node, ast.Constant)


def _add_lacked_call(node: ast.expr, where: Surroundings) -> Iterator[Replacement]:
    members = isinstance(node, ast.List | ast.ListComp)
    setting = isinstance(node, ast.Attribute) and ast.unparse(node.value) == "self"
    for text in where.words.lacked:
        call = _parse_expression(text)
        takes_members = isinstance(call, ast.Call) and name_called(call) in _OF_MEMBERS
        if members == takes_members and not setting:
            yield ReplacementKind.CALL_LACKED, _Fill(node).visit(call)


class _Fill(ast.NodeTransformer):
    """Puts a node in the place of the name `_`."""

    def __init__(self, node: ast.expr) -> None:
        self._node = node

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self._node if node.id == "_" else node


def _parse_expression(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body
