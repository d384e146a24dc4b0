"""Replaces one node of a syntax tree by other nodes: the mechanical changes themselves."""

import ast
from collections.abc import Collection, Iterator
from copy import copy
from enum import StrEnum
from typing import Any


class ReplacementKind(StrEnum):
    """The kind of a mechanical change."""

    OPERATOR = "operator replaced"
    COMPARISON = "comparison replaced"
    AND_OR = "and/or exchanged"
    SIGN = "sign or not removed"
    CONSTANT = "constant changed"
    CONDITION = "condition fixed"
    DEFAULT = "default changed"
    ARGUMENT = "argument dropped"
    EXCHANGE = "arguments exchanged"
    CALL = "call removed"
    SLICE = "slice bound dropped"
    STATEMENT = "statement removed"
    ADDED = "argument added"
    SIGN_ADDED = "sign or not added"
    BOUND = "slice bound added"
    NAME = "name replaced"
    FUNCTION = "function replaced"
    NEGATED = "condition replaced"
    KEYWORD = "keyword argument added"
    CALL_ADDED = "call added"
    CALL_LACKED = "call added that the solution makes more often"


REPAIRING_KINDS = frozenset(  # that only a repair asks: no mechanical change is one of these
    (
        ReplacementKind.ADDED, ReplacementKind.SIGN_ADDED, ReplacementKind.BOUND,
        ReplacementKind.NAME, ReplacementKind.FUNCTION, ReplacementKind.NEGATED,
        ReplacementKind.KEYWORD, ReplacementKind.CALL_ADDED, ReplacementKind.CALL_LACKED,
    )
)  # fmt: skip
Replacement = tuple[ReplacementKind, ast.AST]

OPERATORS: dict[type[ast.operator], tuple[type[ast.operator], ...]] = {
    ast.Add: (ast.Sub, ast.Mult),
    ast.Sub: (ast.Add,),
    ast.Mult: (ast.Div, ast.Add),
    ast.Div: (ast.Mult, ast.FloorDiv),
    ast.FloorDiv: (ast.Div, ast.Mult),
    ast.Mod: (ast.FloorDiv, ast.Mult),
    ast.Pow: (ast.Mult, ast.Div),
    ast.MatMult: (ast.Mult,),
    ast.BitAnd: (ast.BitOr, ast.BitXor),
    ast.BitOr: (ast.BitAnd, ast.BitXor),
    ast.BitXor: (ast.BitAnd, ast.BitOr),
    ast.LShift: (ast.RShift,),
    ast.RShift: (ast.LShift,),
}
COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq, ast.LtE, ast.GtE),
    ast.NotEq: (ast.Eq, ast.Lt, ast.Gt),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
_NODES_WITH_CONDITION = (ast.If, ast.While, ast.IfExp)


def make_mechanical_replacements(
    node: ast.AST, parent: ast.AST, field: str, modules: Collection[str]
) -> Iterator[Replacement]:
    """Yield the replacements of a node.

    parent, field   the node's parent, and the parent's field that holds the node
    modules         the names of imported modules: a call of their functions is no method call
    """
    if field == "ifs" or (field == "test" and isinstance(parent, _NODES_WITH_CONDITION)):
        yield from ((ReplacementKind.CONDITION, ast.Constant(fixed)) for fixed in (True, False))
    if isinstance(parent, ast.arguments):
        yield from _change_default(node)
    elif isinstance(node, ast.stmt):
        yield from _replace_statement_by_nothing(node)
    if isinstance(node, ast.expr | ast.AugAssign):
        yield from _replace_operators(node)
        yield from _change_constant(node, isinstance(parent, ast.arguments))
    if isinstance(node, ast.Call):
        yield from _change_arguments(node)
        if not isinstance(parent, ast.Expr):  # removing the statement does the same
            yield from _remove_call(node, modules)
    if isinstance(node, ast.Slice):
        bounds = [name for name in ("lower", "upper", "step") if getattr(node, name)]
        yield from (
            (ReplacementKind.SLICE, copy_changed_node(node, **{name: None})) for name in bounds
        )


def _replace_statement_by_nothing(node: ast.stmt) -> Iterator[Replacement]:
    declares = isinstance(node, ast.AnnAssign) and node.value is None
    if not declares and not isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Pass):
        yield ReplacementKind.STATEMENT, ast.Pass()


def _replace_operators(node: ast.expr | ast.AugAssign) -> Iterator[Replacement]:
    match node:
        case ast.BinOp() | ast.AugAssign():
            for other in OPERATORS[type(node.op)]:
                yield ReplacementKind.OPERATOR, copy_changed_node(node, op=other())
        case ast.Compare():
            for i, op in enumerate(node.ops):
                for choice in COMPARISONS[type(op)]:
                    ops = [*node.ops[:i], choice(), *node.ops[i + 1 :]]
                    yield ReplacementKind.COMPARISON, copy_changed_node(node, ops=ops)
            yield from _drop_tuple_members(node)
        case ast.BoolOp():
            swapped = ast.Or() if isinstance(node.op, ast.And) else ast.And()
            yield ReplacementKind.AND_OR, copy_changed_node(node, op=swapped)
        case ast.UnaryOp():
            yield ReplacementKind.SIGN, node.operand


def _drop_tuple_members(node: ast.Compare) -> Iterator[Replacement]:
    """Yield `x in (a, b)` without a, and without b."""
    for i, right in enumerate(node.comparators):
        if isinstance(right, ast.Tuple):
            for j in range(len(right.elts)):
                fewer = copy_changed_node(right, elts=[*right.elts[:j], *right.elts[j + 1 :]])
                others = [*node.comparators[:i], fewer, *node.comparators[i + 1 :]]
                yield ReplacementKind.COMPARISON, copy_changed_node(node, comparators=others)


def _change_constant(node: ast.AST, default: bool) -> Iterator[Replacement]:
    kind = ReplacementKind.DEFAULT if default else ReplacementKind.CONSTANT
    match node:
        case ast.Constant(value=bool(value)):
            yield kind, ast.Constant(not value)
        case ast.Constant(value=int(number) | float(number)):
            yield kind, ast.Constant(number + 1)
            yield kind, ast.Constant(number - 1)


def _change_default(node: ast.AST) -> Iterator[Replacement]:
    """Yield a default of another type for a default that is no number."""
    if isinstance(node, ast.Constant) and node.value is None:
        yield ReplacementKind.DEFAULT, ast.Constant(0)
    elif isinstance(node, ast.expr) and not isinstance(node, ast.Constant):
        yield ReplacementKind.DEFAULT, ast.Constant(None)


def _change_arguments(node: ast.Call) -> Iterator[Replacement]:
    args = node.args
    for i in range(len(args)):
        yield ReplacementKind.ARGUMENT, copy_changed_node(node, args=[*args[:i], *args[i + 1 :]])
    for i in range(len(node.keywords)):
        left = [*node.keywords[:i], *node.keywords[i + 1 :]]
        yield ReplacementKind.ARGUMENT, copy_changed_node(node, keywords=left)
    for i in range(len(args) - 1):
        turned = [*args[:i], args[i + 1], args[i], *args[i + 2 :]]
        yield ReplacementKind.EXCHANGE, copy_changed_node(node, args=turned)


def _remove_call(node: ast.Call, modules: Collection[str]) -> Iterator[Replacement]:
    """Yield `x` for `x.float()`, `torch.exp(x)` and `self.layer(x)`."""
    if isinstance(node.func, ast.Attribute):
        owner = node.func.value
        if isinstance(owner, ast.Call) and ast.unparse(owner.func) == "super":
            return
        if _find_root_name(owner) not in modules and ast.unparse(owner) != "self":
            yield ReplacementKind.CALL, owner
            return
    if node.args and not isinstance(node.args[0], ast.Starred):
        yield ReplacementKind.CALL, node.args[0]


def _find_root_name(node: ast.expr) -> str:
    """Return the name that a chain of attributes begins with; "" if it begins with no name."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def copy_changed_node(node: ast.AST, **fields: Any) -> ast.AST:
    """Return a shallow copy of a node with other fields."""
    changed = copy(node)
    for name, value in fields.items():
        setattr(changed, name, value)
    return changed
