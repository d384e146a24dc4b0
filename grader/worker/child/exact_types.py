"""Turns values of an answer's own classes into values of Python's, NumPy's and PyTorch's types.

A class of the answer may define what iterates, converts or describes its values, and even the type
that `isinstance` sees. So the worker asks for the real type, and reads a value only through the
methods of the type from which its class is derived.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch


class OpaqueObject:
    """Stands for every object that can only stay where it is."""


OPAQUE_OBJECT = OpaqueObject()
_EXACT = (type(None), bool, int, float, str, list, tuple, dict, torch.Tensor, np.ndarray,
          torch.dtype, torch.device)  # fmt: skip
_EXACT_TYPES = frozenset(map(id, _EXACT))
# Each with what converts a value of a class derived from it; the first that fits counts.
_CONVERSIONS: tuple[tuple[type, Callable[[Any], Any]], ...] = (
    (torch.Tensor, lambda x: make_worker_tensor_plain(x)),
    (np.ndarray, lambda x: np.ndarray.view(x, np.ndarray)),
    (np.integer, lambda x: int(np.generic.item(x))),
    (str, lambda x: str.__str__(x)),  # before NumPy's numbers: one of its texts is both
    (np.generic, lambda x: np.generic.__array__(x)),
    (int, lambda x: int.__int__(x)),
    (float, lambda x: float.__float__(x)),
    (list, lambda x: [*list.__iter__(x)]),
    (tuple, lambda x: (*tuple.__iter__(x),)),
    (dict, lambda x: dict(dict.items(x))),
)


def make_worker_value_exact(value: Any) -> Any:
    """Return a value as one of a type that can be sent, of `OpaqueObject` if there is none.

    It runs no code of the value's own class. The items of lists, tuples and dicts stay as they are.
    """
    kind = type(value)
    if id(kind) in _EXACT_TYPES:
        return value
    for base, convert in _CONVERSIONS:
        if issubclass(kind, base):
            return convert(value)
    return OPAQUE_OBJECT


def make_worker_tensor_plain(x: torch.Tensor) -> torch.Tensor:
    """Return a tensor of a class of its own as a plain one, with the same numbers and graph."""
    if type(x) is torch.Tensor:
        return x
    if not issubclass(type(x), torch.Tensor):
        raise TypeError(f"a tensor was expected, not {type(x).__name__}")
    with (
        torch._C.DisableTorchFunctionSubclass(),
        torch._C._DisableTorchDispatch(),  # nor the modes of the rules
        torch.enable_grad(),
    ):
        return torch.Tensor.as_subclass(x, torch.Tensor)


def read_worker_tensor(x: torch.Tensor, name: str) -> Any:
    """Return PyTorch's own attribute of a tensor, whatever its class says that it is."""
    if type(x) is torch.Tensor:
        return getattr(x, name)
    with torch._C.DisableTorchFunctionSubclass():
        return getattr(torch.Tensor, name).__get__(x)
