"""Finds the tensors of an answer, and keeps those that stay in the worker."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import torch

from .exact_types import make_worker_value_exact


class HeldObject:
    """A tensor or an array of an answer that stays in the worker and crosses as a handle."""

    def __init__(self, value: Any) -> None:
        self.value = value


def list_worker_tensors(value: Any) -> "list[torch.Tensor]":
    """Return every tensor in nested lists, tuples and dicts, in order."""
    if issubclass(type(value), torch.Tensor):
        return [value]
    match make_worker_value_exact(value):
        case list() | tuple() as items:
            return [
                x for item in items if type(item) is not float for x in list_worker_tensors(item)
            ]
        case dict() as items:
            return [x for item in items.values() for x in list_worker_tensors(item)]
    return []


def hold_worker_tensors(value: Any) -> Any:
    """Return an answer with a `HeldObject` in the place of each tensor and array."""
    if issubclass(type(value), torch.Tensor | np.ndarray):
        return HeldObject(value)
    match make_worker_value_exact(value):
        case list() | tuple() as items:
            return build_worker_list(items, map(hold_worker_tensors, items))
    return value


def build_worker_list(value: "list[Any] | tuple[Any, ...]", items: Iterable[Any]) -> Any:
    """Return items as a list if `value` is one, else as a plain tuple, also for a named tuple."""
    return list(items) if isinstance(value, list) else tuple(items)
