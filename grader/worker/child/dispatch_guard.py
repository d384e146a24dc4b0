"""Refuses in the worker the calls that an exercise forbids.

The reader checks the source for these calls first, and says where and how to mend them. This module
refuses what got around the reader: operators in PyTorch's dispatcher, through which every way to an
operator leads, and, by their names, functions that use only allowed operators. "aten::*" refuses
all operators that compute, while code of the submission runs: the other operators allocate, copy,
or view a tensor in another shape. "softmax_numpy/aten::*" refuses every operator while that
function is called, and while code of what it returned runs.
"""

import importlib
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from . import operator_list
from .builtin_names import NotAllowed

ANY_OPERATOR = "*"
# Beside the operators that give a view.
_MOVING_OPERATORS = frozenset(
    f"aten::{name}"
    for name in (
        *("empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "set_"),
        *("zeros", "zeros_like", "new_zeros", "zero_", "ones", "ones_like", "new_ones"),
        *("full", "full_like", "new_full", "fill_", "arange", "_to_copy", "copy_", "clone"),
        *("_unsafe_view", "contiguous", "_reshape_copy", "cat", "stack", "repeat", "resize_"),
        *("constant_pad_nd", "record_stream"),
    )
)
_REFUSAL = "is not allowed in this exercise"
_STUDENT_NAMES = {"aten::_local_scalar_dense": "float() or int() of a tensor"}


class Rules:
    """The refusals that hold only while code of the submission runs."""

    def __init__(self, *, moves_only: bool = False, in_numpy: Iterable[str] = ()) -> None:
        self._held: AbstractContextManager[object] = nullcontext()
        if moves_only:
            self._held = _MovesOnly()  # type: ignore[no-untyped-call]
        self._of_function = {name: _NumPyOnly(name) for name in in_numpy}

    def hold(self, name: str) -> AbstractContextManager[object]:
        """Hold the rules of a function: for its call, and for what runs code of what it returned.

        name  the function's name in the file; "" for what no function returned
        """
        return self._of_function.get(name, self._held)  # those of a function refuse all operators

    def has_own(self, name: str) -> bool:
        """Return whether there are rules for this function alone."""
        return name in self._of_function


def refuse_worker_names(names: Iterable[str]) -> Rules:
    """Refuse operators ("aten::_softmax") and functions or classes by their full name.

    "softmax_numpy/aten::*" refuses all operators in the function of that name.
    """
    names = set(names)
    in_numpy = {name.partition("/")[0] for name in names if "/" in name}
    for name in (n for n in names if "/" not in n):
        kind, _, operator = name.rpartition("::")
        if kind and operator != ANY_OPERATOR:
            _refuse_worker_operator(operator)
        elif not kind:
            _refuse_worker_name(name)
    return Rules(moves_only=f"aten::{ANY_OPERATOR}" in names, in_numpy=in_numpy)


class _MovesOnly(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """A mode that refuses every operator that computes."""

    def __torch_dispatch__(
        self, operator: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        schema = operator._schema
        looks = any(r.alias_info and not r.alias_info.is_write for r in schema.returns)
        if not looks and schema.name not in _MOVING_OPERATORS:
            name = _STUDENT_NAMES.get(schema.name) or schema.name.removeprefix("aten::")
            raise NotAllowed(f"torch's {name} is not allowed in this exercise: it computes")
        return operator(*args, **(kwargs or {}))


class _NumPyOnly(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """A mode that refuses every operator, in a function that is to be written in NumPy."""

    def __init__(self, function: str) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._function = function

    def __torch_dispatch__(
        self, operator: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        name = operator._schema.name.removeprefix("aten::")
        raise NotAllowed(
            f"torch's {name} is not allowed in {self._function}: write that function with "
            "NumPy's operations on the arrays that it is given"
        )


def _refuse_worker_operator(name: str) -> None:
    packet = getattr(torch.ops.aten, name, None)
    for overload in packet.overloads() if packet is not None else ():  # this torch may not have it
        full = name if overload == "default" else f"{name}.{overload}"
        operator_list.refuse_worker_operator(f"aten::{full}", f"torch's {name} {_REFUSAL}")


def _refuse_worker_name(name: str) -> None:
    front, _, last = name.rpartition(".")
    place = _find_worker_holder(front)
    if hasattr(place, last):
        setattr(place, last, operator_list.make_worker_refusal(f"{name} {_REFUSAL}"))


def _find_worker_holder(name: str) -> Any:
    """Return the module or class of this name; None if there is none."""
    try:
        return importlib.import_module(name)
    except ImportError:
        front, _, last = name.rpartition(".")
        return getattr(_find_worker_holder(front), last, None) if front else None
