"""Encodes and decodes the values that cross between the grader and a worker.

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

A value of a class derived from one of these types is sent as that type; what its own class defines
does not run. Nothing that arrives is unpickled, evaluated or imported. A value that does not have
exactly this form raises `WireError`, and so does one with more parts, more depth or more bytes than
the limits.
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
    can_send_over_wire,
    copy_array_from_arena,
    copy_tensor_from_arena,
    describe_meta_for_wire,
    view_array_in_arena,
    view_tensor_in_arena,
    write_array_to_arena,
    write_tensor_to_arena,
)
from .exact_types import make_worker_value_exact
from .frames import WireError

__all__ = [
    "ARRAY_DTYPES",
    "TENSOR_DTYPES",
    "Arena",
    "ArenaFull",
    "ObjectReference",
    "decode_wire",
    "encode_wire",
]

MAX_VALUES = 1 << 16  # in one tree, items of items included
MAX_NESTING_DEPTH = 64
MAX_INTEGER_BITS = 1000  # of an int; a float can still hold it
MAX_NAME_CHARACTERS = 100  # characters of a type's name
_DEVICE = re.compile(r"meta|(cpu|cuda)(:[0-9]{1,2})?")


@dataclass(frozen=True, slots=True)
class ObjectReference:
    """The number of an object in the worker, and the name of its type."""

    id: int
    type: str = "object"


def encode_wire(
    value: Any, memory: Writable, handle: Callable[[Any], int], *, dense: bool = False
) -> Any:
    """Return `value` as JSON; the numbers of arrays go to `memory`, other objects to `handle`.

    With `dense` (values from a worker) arrays and tensors do not keep their layout.
    """
    return _Encoder(memory, handle, dense).form(value, 0)


def decode_wire(
    item: Any,
    arena: Arena,
    *,
    untrusted: bool,
    find: Callable[[int, str], Any] = ObjectReference,
) -> Any:
    """Return the value that `encode_wire` encoded, with `find(number, type)` for each object.

    With `untrusted` (values from a worker) nothing stays shared, arrays and tensors are dense and
    on a device of this machine, and together they have at most the bytes of the arena.
    """
    return _Decoder(arena, untrusted, find).value(item, 0)


class _Limited:
    """Counts the values that are encoded or decoded, up to a limit."""

    def __init__(self) -> None:
        self._left = MAX_VALUES

    def enter(self, depth: int, values: int = 1) -> None:
        self._left -= values
        if self._left < 0 or depth > MAX_NESTING_DEPTH:
            raise WireError(f"more than {MAX_VALUES:,} values, or deeper than {MAX_NESTING_DEPTH}")


class _Encoder(_Limited):
    def __init__(self, memory: Writable, handle: Callable[[Any], int], dense: bool) -> None:
        super().__init__()
        self._memory = memory
        self._handle = handle
        self._dense = dense

    def form(self, value: Any, depth: int) -> Any:
        self.enter(depth)
        exact = make_worker_value_exact(value)
        match exact:
            case float() if math.isfinite(exact):
                return exact  # first: lists have thousands of them
            case torch.Tensor() if exact.is_meta and not self._dense:
                return {"tensor": describe_meta_for_wire(exact)}
            case torch.Tensor() if can_send_over_wire(exact):
                with torch._C._DisableTorchDispatch():  # the answer's rules are not for what we do
                    form = write_tensor_to_arena(exact, self._memory, dense=self._dense)
                return {"tensor": form}
            case np.ndarray() if exact.dtype.name in ARRAY_DTYPES:
                return {"array": write_array_to_arena(exact, self._memory, dense=self._dense)}
            case None | bool() | str():
                return exact
            case int():
                return _check_wire_bits(exact)
            case float():
                return {"float": str(exact)}
            case list() | tuple():
                kind = "list" if isinstance(exact, list) else "tuple"
                if _are_plain_numbers(exact):
                    self.enter(depth + 1, len(exact))
                    return {kind: list(exact)}
                return {kind: [self.form(item, depth + 1) for item in exact]}
            case dict():
                pairs = [[self.form(x, depth + 1) for x in pair] for pair in exact.items()]
                return {"dict": pairs}
            case torch.dtype() if exact in TENSOR_DTYPES.values():
                return {"dtype": str(exact).removeprefix("torch.")}
            case torch.device() if _DEVICE.fullmatch(str(exact)):
                return {"device": str(exact)}
        return {"handle": [self._handle(value), type(value).__name__[:MAX_NAME_CHARACTERS]]}


class _Decoder(_Limited):
    def __init__(self, arena: Arena, untrusted: bool, find: Callable[[int, str], Any]) -> None:
        super().__init__()
        self._arena = arena
        self._untrusted = untrusted
        self._find = find
        self._bytes = len(arena.view)

    def value(self, item: Any, depth: int) -> Any:
        self.enter(depth)
        match item:
            case float() if math.isfinite(item):
                return item
            case None | bool() | str():
                return item
            case int():
                return _check_wire_bits(item)
            case {"handle": [int(number), str(name)]} if len(item) == 1:
                if (
                    type(number) is int
                    and 0 < number < 1 << 63
                    and len(name) <= MAX_NAME_CHARACTERS
                ):
                    return self._find(number, name)
            case dict() if len(item) == 1:
                [(kind, content)] = item.items()
                try:
                    return self._decode_kind(kind, content, depth + 1)
                except (KeyError, TypeError, ValueError, RuntimeError, OverflowError) as error:
                    problem = f"a {kind} of no known form ({type(error).__name__})"
                    raise WireError(problem) from None
        raise WireError("a value of no known form")

    def _decode_kind(self, kind: str, content: Any, depth: int) -> Any:
        match kind, content:
            case "tensor", {"bytes": int(size)}:
                self._spend_bytes(size)
                return (copy_tensor_from_arena if self._untrusted else view_tensor_in_arena)(
                    content, self._arena
                )
            case "array", {"bytes": int(size)}:
                self._spend_bytes(size)
                return (copy_array_from_arena if self._untrusted else view_array_in_arena)(
                    content, self._arena
                )
            case "list" | "tuple", list():
                build = list if kind == "list" else tuple
                if _are_plain_numbers(content):
                    self.enter(depth, len(content))
                    return build(content)
                return build(self.value(item, depth) for item in content)
            case "dict", list() if all(isinstance(pair, list) for pair in content):
                return {self.value(k, depth): self.value(v, depth) for k, v in content}
            case "float", "nan" | "inf" | "-inf":
                return float(content)
            case "dtype", str():
                return TENSOR_DTYPES[content]
            case "device", str() if _DEVICE.fullmatch(content):
                return torch.device(content)
        raise WireError(f"a value of no known form: {kind!r:.40}")

    def _spend_bytes(self, size: int) -> None:
        self._bytes -= max(0, size)
        if self._bytes < 0:
            raise WireError("arrays of more bytes together than there is shared memory")


def _are_plain_numbers(values: "list[Any] | tuple[Any, ...]") -> bool:
    """Return whether all are finite floats, or all are bools: rows have thousands of them."""
    match set(map(type, values)):
        case kinds if kinds == {float}:
            return math.isfinite(sum(values))  # what is infinite or NaN makes the sum so
        case kinds:
            return kinds == {bool}


def _check_wire_bits(number: int) -> int:
    if number.bit_length() > MAX_INTEGER_BITS:
        raise WireError(
            f"an int of {number.bit_length():,} bits; at most {MAX_INTEGER_BITS:,} are sent"
        )
    return number
