"""What crosses between the grader and a worker, and in which form.

Requests and replies are JSON headers in frames (see `frames`). The numbers of arrays and tensors do
not travel in them: they lie in an `Arena`, memory that both sides have mapped, and the header says
where (see `arrays`). One arena carries inputs, another answers; the parent owns the size of both.

    value                       in the header
    None, bool, str             itself
    int                         itself, of MAX_BITS bits at most
    float                       itself; {"float": "nan" | "inf" | "-inf"}
    list, tuple, dict           {"list": [...]}, {"tuple": [...]}, {"dict": [[key, value], ...]}
    dtype, device               {"dtype": "float32"}, {"device": "cpu"}
    array, tensor               {"array" | "tensor": {dtype, shape, at, bytes, ...}}
    anything else               {"handle": [id, type]}, an object that stays with the worker

Nothing that arrives is unpickled, evaluated or imported. Whatever does not have exactly this form
is a `WireError`, and so is a value with more parts, deeper or with more bytes than the limits say.
"""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from .arrays import (
    ARRAY_DTYPES,
    TENSOR_DTYPES,
    Arena,
    ArenaFull,
    Writable,
    array_form,
    copied_array,
    copied_tensor,
    crosses,
    meta_form,
    shared_array,
    shared_tensor,
    tensor_form,
)
from .frames import WireError

__all__ = ["ARRAY_DTYPES", "TENSOR_DTYPES", "Arena", "ArenaFull", "Ref", "decode", "encode"]

MAX_VALUES = 1 << 16  # in one tree, counting all that they are made of
MAX_DEPTH = 64
MAX_BITS = 1000  # what a float can hold
MAX_NAME = 100  # characters of a type's name
_DEVICE = re.compile(r"meta|(cpu|cuda)(:[0-9]{1,2})?")


@dataclass(frozen=True, slots=True)
class Ref:
    """A number that stands for an object on the worker's side, and the name of its type."""

    id: int
    type: str = "object"


def encode(
    value: Any, memory: Writable, handle: Callable[[Any], int], *, dense: bool = False
) -> Any:
    """The header's form of `value`; its numbers go into `memory`, unknown objects to `handle`.

    With `dense` (what a worker sends) arrays and tensors do not keep their layout.
    """
    return _Encoder(memory, handle, dense).form(value, 0)


def decode(item: Any, arena: Arena, *, untrusted: bool) -> Any:
    """The value that `encode` wrote; objects come as `Ref`.

    With `untrusted` (what a worker sent) nothing stays shared, arrays and tensors are dense and on
    a device of this machine, and all of them together have no more bytes than the arena.
    """
    return _Decoder(arena, untrusted).value(item, 0)


class _Limited:
    """Counts the values of one tree."""

    def __init__(self) -> None:
        self._left = MAX_VALUES

    def enter(self, depth: int) -> None:
        self._left -= 1
        if self._left < 0 or depth > MAX_DEPTH:
            raise WireError(f"more than {MAX_VALUES:,} values, or deeper than {MAX_DEPTH}")


class _Encoder(_Limited):
    def __init__(self, memory: Writable, handle: Callable[[Any], int], dense: bool) -> None:
        super().__init__()
        self._memory = memory
        self._handle = handle
        self._dense = dense

    def form(self, value: Any, depth: int) -> Any:
        self.enter(depth)
        match value:
            case torch.Tensor() if value.is_meta and not self._dense:
                return {"tensor": meta_form(value)}
            case torch.Tensor() if crosses(value):
                return {"tensor": tensor_form(value, self._memory, dense=self._dense)}
            case np.integer():
                return int(value)
            case np.ndarray() | np.generic() if np.asarray(value).dtype.name in ARRAY_DTYPES:
                return {"array": array_form(np.asarray(value), self._memory, dense=self._dense)}
            case None | bool() | str():
                return value
            case int():
                return _short(int(value))
            case float():
                return float(value) if math.isfinite(value) else {"float": str(float(value))}
            case list() | tuple():
                kind = "list" if isinstance(value, list) else "tuple"
                return {kind: [self.form(item, depth + 1) for item in value]}
            case dict():
                pairs = [[self.form(x, depth + 1) for x in pair] for pair in value.items()]
                return {"dict": pairs}
            case torch.dtype() if value in TENSOR_DTYPES.values():
                return {"dtype": str(value).removeprefix("torch.")}
            case torch.device() if _DEVICE.fullmatch(str(value)):
                return {"device": str(value)}
        return {"handle": [self._handle(value), type(value).__name__[:MAX_NAME]]}


class _Decoder(_Limited):
    def __init__(self, arena: Arena, untrusted: bool) -> None:
        super().__init__()
        self._arena = arena
        self._untrusted = untrusted
        self._bytes = len(arena.view)

    def value(self, item: Any, depth: int) -> Any:
        self.enter(depth)
        match item:
            case None | bool() | str():
                return item
            case int():
                return _short(item)
            case float() if math.isfinite(item):
                return item
            case dict() if len(item) == 1:
                [(kind, content)] = item.items()
                try:
                    return self._of_kind(kind, content, depth + 1)
                except (KeyError, TypeError, ValueError, RuntimeError, OverflowError) as error:
                    problem = f"a {kind} of no known form ({type(error).__name__})"
                    raise WireError(problem) from None
        raise WireError("a value of no known form")

    def _of_kind(self, kind: str, content: Any, depth: int) -> Any:
        match kind, content:
            case "tensor", {"bytes": int(size)}:
                self._spend(size)
                return (copied_tensor if self._untrusted else shared_tensor)(content, self._arena)
            case "array", {"bytes": int(size)}:
                self._spend(size)
                return (copied_array if self._untrusted else shared_array)(content, self._arena)
            case "list", list():
                return [self.value(item, depth) for item in content]
            case "tuple", list():
                return tuple(self.value(item, depth) for item in content)
            case "dict", list() if all(isinstance(pair, list) for pair in content):
                return {self.value(k, depth): self.value(v, depth) for k, v in content}
            case "float", "nan" | "inf" | "-inf":
                return float(content)
            case "dtype", str():
                return TENSOR_DTYPES[content]
            case "device", str() if _DEVICE.fullmatch(content):
                return torch.device(content)
            case "handle", [int(number), str(name)]:
                if type(number) is int and 0 < number < 1 << 63 and len(name) <= MAX_NAME:
                    return Ref(number, name)
        raise WireError(f"a value of no known form: {kind!r:.40}")

    def _spend(self, size: int) -> None:
        self._bytes -= max(0, size)
        if self._bytes < 0:
            raise WireError("arrays of more bytes together than there is shared memory")


def _short(number: int) -> int:
    if number.bit_length() > MAX_BITS:
        raise WireError(f"an int of {number.bit_length():,} bits; at most {MAX_BITS:,} are sent")
    return number
