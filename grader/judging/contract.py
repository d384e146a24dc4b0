"""Holds each call of the student's to what the manifest declares: kind and shape of the answer.

`shapes = { q = "... Lq D" }` binds letters to the sizes of the inputs; `returns = { output =
"tensor ... Lq Dv" }` declares the answer. `...` stands for any leading dimensions, broadcast over
the inputs; a letter that no input binds matches any size; a number stands for itself. `rows n m` is
a list of lists of numbers. In a class, `attributes = { keys = "tensor num_blocks D" }` uses the
names of the constructor's parameters as letters, and `returns` those of its own function.
"""

import ast
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import chain, zip_longest
from typing import Any

import numpy as np
import torch

from grader.core.records import DeclaredFunction, Returns
from grader.judging import describe
from grader.judging.case import StudentFault, fail_check, find_case

Sizes = dict[str, int]
RETURNS_NOTHING = (
    "A function that ends without `return` gives None: does every path return a value?"
)


@cache
def list_judged_parameters(signature: str) -> tuple[str, ...]:
    """Return the parameter names of a signature such as `(q, k, v, keep=None)` or `(*masks)`."""
    tree = ast.parse(f"def f{signature}: ...").body[0]
    assert isinstance(tree, ast.FunctionDef)
    last = [tree.args.vararg] if tree.args.vararg else []
    return tuple(a.arg for a in (*tree.args.args, *last))


@cache
def count_required_parameters(signature: str) -> int:
    """Return the number of parameters without a default; of `(*masks)` it is 0."""
    tree = ast.parse(f"def f{signature}: ...").body[0]
    assert isinstance(tree, ast.FunctionDef)
    return len(tree.args.args) - len(tree.args.defaults)


def judge_answer_form(value: Any, function: DeclaredFunction, args: Sequence[Any],
                 kwargs: Mapping[str, Any], call: str) -> None:  # fmt: skip
    """Raise a `StudentFault` unless `value` has the declared kinds and shapes."""
    names = list_judged_parameters(function.signature) or ("",)
    positional = (
        zip_longest(names, args[: len(names)]),
        ((names[-1], x) for x in args[len(names) :]),
    )
    leading, sizes = _bind_judged_sizes(function.shapes, [*chain(*positional), *kwargs.items()])
    sizes = read_judged_sizes(function.signature, args, kwargs) | sizes
    try:
        _judge_answer_structure(value, function.returns, leading, sizes, call)
    except StudentFault as fault:
        if value is not None:
            raise
        raise StudentFault(f"{fault}\n{RETURNS_NOTHING}") from None


def judge_attribute_form(value: Any, wanted: str, name: str, sizes: Sizes, call: str) -> None:
    """Raise a `StudentFault` unless an attribute has the declared kind and shape.

    sizes   the sizes that a shape's letters stand for: whole numbers given to the constructor
    """
    judge_answer_kind(value, wanted, name, call)
    _judge_answer_shape(value, wanted, name, None, sizes, call)


def read_judged_sizes(signature: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Sizes:
    """Return the whole numbers among the arguments, by the names of their parameters."""
    named = [*zip(list_judged_parameters(signature), args, strict=False), *kwargs.items()]
    return {name: value for name, value in named if type(value) is int}


def _judge_answer_structure(
    value: Any, returns: Returns, leading: tuple[int, ...] | None, sizes: Sizes, call: str,
    part: str = "",
) -> None:  # fmt: skip
    """Judge what a call returned, or a part of it that is a tuple."""
    if len(returns) == 1:
        [(name, wanted)] = returns.items()
        values = {name: (value, wanted)}
    else:
        if not isinstance(value, tuple | list) or len(value) != len(returns):
            got, names = describe.describe_kind(value), ", ".join(returns)
            told = f"{part} is {got}, but should be ({names})" if part else (
                f"the call returned {got}, but should return ({names})"
            )  # fmt: skip
            raise fail_check(told, call)
        values = {n: (v, returns[n]) for n, v in zip(returns, value, strict=True)}
    for name, (one, wanted) in values.items():
        if isinstance(wanted, tuple):
            parts = {f"{name}[{i}]": part for i, part in enumerate(wanted)}
            _judge_answer_structure(one, parts, leading, sizes, call, name)
        else:
            judge_answer_kind(one, wanted, name, call)
            _judge_answer_shape(one, wanted, name, leading, sizes, call)
            find_case().returned(one, name, call)


def judge_answer_kind(value: Any, wanted: str, name: str, call: str) -> None:
    """Raise a `StudentFault` unless `value` is of the kind that `wanted` begins with."""
    kind, _, _ = wanted.partition(" ")
    optional, kind = kind.endswith("?"), kind.removesuffix("?")
    if value is None and (optional or kind == "none"):
        return
    if kind == "rows":
        _judge_answer_rows(value, name, call)
        return
    if kind == "any" or _is_judged_kind(value, kind):
        if kind == "bool" and value.dtype != torch.bool:
            problem = f"{name}.dtype is {describe.describe_dtype(value)}, but should be bool"
            raise fail_check(problem, call)
        return
    raise fail_check(
        f"{name} is {describe.describe_kind(value)}, but should be {_name_judged_kind(kind)}", call
    )


def _is_judged_kind(value: Any, kind: str) -> bool:
    match kind:
        case "tensor" | "bool":
            return isinstance(value, torch.Tensor)
        case "array":
            return isinstance(value, np.ndarray)
        case "int":
            return type(value) is int
        case "float":
            return type(value) is float
        case "flag":
            return type(value) is bool
        case "str":
            return isinstance(value, str)
        case "object":
            return not isinstance(
                value, torch.Tensor | np.ndarray | int | float | str | list | tuple | dict | None
            )
    return False


def _judge_answer_rows(value: Any, name: str, call: str) -> None:
    """Raise a `StudentFault` unless `value` is a list of lists of numbers of the same length."""
    if not isinstance(value, list):
        raise fail_check(
            f"{name} is {describe.describe_kind(value)}, but should be a list of rows", call
        )
    for i, row in enumerate(value):
        if not isinstance(row, list):
            what = describe.describe_kind(row)
            raise fail_check(f"{name}[{i}] is {what}, but should be a list of numbers", call)
        if len(row) != len(value[0]):
            lengths = f"{len(row)}, but should be {len(value[0])}"
            raise fail_check(f"len({name}[{i}]) is {lengths}", call)
        for j, x in enumerate(row):
            if type(x) not in (int, float):
                what = describe.describe_kind(x)
                raise fail_check(f"{name}[{i}, {j}] is {what}, but should be a number", call)


def _read_judged_shape(value: Any) -> tuple[int, ...]:
    """Return the shape of a tensor, an array, or rows (an empty list of rows has no width)."""
    if isinstance(value, list):
        return (len(value), *([len(value[0])] if value and isinstance(value[0], list) else []))
    return tuple(value.shape)


def _name_judged_kind(kind: str) -> str:
    words = {"bool": "a bool tensor", "str": "a string", "none": "None", "object": "an object",
             "flag": "True or False"}  # fmt: skip
    return words.get(kind) or ("an " if kind[0] in "ai" else "a ") + kind


def _judge_answer_shape(
    value: Any, wanted: str, name: str, leading: tuple[int, ...] | None, sizes: Sizes, call: str
) -> None:
    words = [w for w in wanted.split()[1:] if w not in ("tensor", "array")]
    if value is None or not words:
        return
    shape = _read_judged_shape(value)
    letters = words[1:] if words[0] == "..." else words
    front = leading if words[0] == "..." else ()
    if front is None:  # leading dimensions of unknown number
        front = shape[: max(0, len(shape) - len(letters))]
    should = [*front, *(sizes.get(w, int(w) if w.isdigit() else w) for w in letters)]
    if isinstance(value, list):
        should = should[: max(1, len(shape))]  # an empty list of rows has no width
    fits = len(should) == len(shape) and all(
        isinstance(s, str) or s == n for s, n in zip(should, shape, strict=True)
    )
    if not fits:
        expected = f"({', '.join(map(str, should))}{',' if len(should) == 1 else ''})"
        raise fail_check(f"{name}.shape is {shape}, but should be {expected}", call)


def _bind_judged_sizes(
    shapes: Mapping[str, str], given: Sequence[tuple[str, Any]]
) -> tuple[tuple[int, ...] | None, Sizes]:
    """Return the leading dimensions (None if no input has them) and the size of every letter."""
    sizes: Sizes = {}
    leading: list[tuple[int, ...]] = []
    for name, value in given:
        # No shape is read of a student's object: a missing attribute is a fault there, not None.
        if name not in shapes:
            continue
        shape = (
            _read_judged_shape(value) if isinstance(value, list) else getattr(value, "shape", None)
        )
        if shape is None:
            continue
        words = shapes[name].split()
        if words and words[0] == "...":
            words = words[1:]
            leading.append(tuple(shape)[: len(shape) - len(words)])
        sizes |= dict(zip(words, tuple(shape)[len(shape) - len(words) :], strict=False))
    return (np.broadcast_shapes(*leading) if leading else None), sizes
