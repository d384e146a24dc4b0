"""What crosses between the grader and a worker, and in which form.

Requests and replies are JSON headers in frames (see `frames`). The numbers of arrays and tensors do
not travel in them: they lie in an `Arena`, memory that both sides have mapped, and the header says
where. One arena carries inputs, another answers; the parent owns the size of both.

    value                       in the header
    None, bool, int, str        itself
    float                       itself; {"float": "nan" | "inf" | "-inf"}
    list, tuple, dict           {"list": [...]}, {"tuple": [...]}, {"dict": [[key, value], ...]}
    dtype, device               {"dtype": "float32"}, {"device": "cpu"}
    array, tensor               {"array" | "tensor": {dtype, shape, strides, start, at, bytes, ...}}
    anything else               {"handle": [id, type]}, an object that stays with the worker

Nothing that arrives is unpickled, evaluated or imported. Whatever does not have exactly this form
is a `WireError`.
"""

import ctypes
import math
import mmap
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from .frames import WireError

MAX_RANK = 16

TENSOR_DTYPES = {
    str(dtype).removeprefix("torch."): dtype
    for dtype in (
        *(torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64),
        *(torch.float16, torch.bfloat16, torch.float32, torch.float64),
        *(torch.complex64, torch.complex128),
    )
}
ARRAY_DTYPES = {
    name: np.dtype(name)
    for name in (
        *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
        *("float16", "float32", "float64", "complex64", "complex128"),
    )
}


class ArenaFull(Exception):
    """A value that does not fit into the shared memory."""


@dataclass(frozen=True, slots=True)
class Ref:
    """A number that stands for an object on the worker's side, and the name of its type."""

    id: int
    type: str = "object"


class Arena:
    """Shared memory that fills from the front: `put` bytes, `take` bytes, `rewind`."""

    def __init__(self, memory: "mmap.mmap | bytearray") -> None:
        self.view = memoryview(memory)
        self.used = 0

    def put(self, data: memoryview) -> int:
        """Copy `data` in and return where it starts; every value starts on 64 bytes."""
        start = -(-self.used // 64) * 64
        if start + data.nbytes > len(self.view):
            raise ArenaFull(f"{data.nbytes:,} bytes do not fit into {len(self.view):,}")
        self.view[start : start + data.nbytes] = data.cast("B") if data.nbytes else b""
        self.used = start + data.nbytes
        return start

    def take(self, start: int, size: int) -> memoryview:
        """The bytes from `start`; they stay shared."""
        if start < 0 or size < 0 or start + size > len(self.view):
            raise WireError(f"{size} bytes at {start} lie outside the shared memory")
        return self.view[start : start + size]

    def rewind(self) -> None:
        self.used = 0


def encode(value: Any, arena: Arena, handle: Callable[[Any], int]) -> Any:
    """The header's form of `value`; its numbers go into `arena`, unknown objects to `handle`."""
    match value:
        case torch.Tensor() if _crosses(value):
            return {"tensor": _tensor_out(value, arena)}
        case np.integer():
            return int(value)
        case np.ndarray() | np.generic() if np.asarray(value).dtype.name in ARRAY_DTYPES:
            return {"array": _array_out(np.asarray(value), arena)}
        case None | bool() | str():
            return value
        case int():
            return int(value)
        case float():
            return float(value) if math.isfinite(value) else {"float": str(float(value))}
        case list() | tuple():
            kind = "list" if isinstance(value, list) else "tuple"
            return {kind: [encode(item, arena, handle) for item in value]}
        case dict():
            pairs = [[encode(k, arena, handle), encode(v, arena, handle)] for k, v in value.items()]
            return {"dict": pairs}
        case torch.dtype():
            return {"dtype": str(value).removeprefix("torch.")}
        case torch.device():
            return {"device": str(value)}
    return {"handle": [handle(value), type(value).__name__[:100]]}


def decode(item: Any, arena: Arena, *, copy: bool) -> Any:
    """The value that `encode` wrote; objects come as `Ref`. With `copy` nothing stays shared."""
    if item is None or isinstance(item, bool | int | float | str):
        return item
    if not (isinstance(item, dict) and len(item) == 1):
        raise WireError("a value of no known form")
    [(kind, content)] = item.items()
    try:
        return _decode_kind(kind, content, arena, copy)
    except (KeyError, TypeError, ValueError, RuntimeError, OverflowError) as error:
        raise WireError(f"a {kind} of no known form ({type(error).__name__})") from None


def _decode_kind(kind: str, content: Any, arena: Arena, copy: bool) -> Any:
    match kind:
        case "tensor":
            return _tensor_in(content, arena, copy)
        case "array":
            return _array_in(content, arena, copy)
        case "list":
            return [decode(item, arena, copy=copy) for item in content]
        case "tuple":
            return tuple(decode(item, arena, copy=copy) for item in content)
        case "dict":
            return {decode(k, arena, copy=copy): decode(v, arena, copy=copy) for k, v in content}
        case "float" if content in ("nan", "inf", "-inf"):
            return float(content)
        case "dtype":
            return TENSOR_DTYPES[content]
        case "device" if isinstance(content, str):
            return torch.device(content)
        case "handle":
            number, name = content
            if isinstance(number, int) and isinstance(name, str):
                return Ref(number, name)
    raise WireError(f"a value of no known form: {kind!r:.40}")


def _crosses(x: torch.Tensor) -> bool:
    known = str(x.dtype).removeprefix("torch.") in TENSOR_DTYPES
    return known and x.layout is torch.strided and not x.is_quantized and not x.is_meta


def _tensor_out(x: torch.Tensor, arena: Arena) -> dict[str, Any]:
    x = x.as_subclass(torch.Tensor)
    grad, device = x.requires_grad, str(x.device)
    x = x.detach().resolve_conj().resolve_neg()
    span = _span(x.shape, x.stride())
    flat = x.as_strided((span,), (1,)).cpu().contiguous()
    numbers = flat.view(torch.uint8).numpy().data if span else memoryview(b"")
    dtype = str(x.dtype).removeprefix("torch.")
    place = {"at": arena.put(numbers), "bytes": numbers.nbytes}
    layout = {"shape": list(x.shape), "strides": list(x.stride()), "start": 0}
    return {"dtype": dtype, "device": device, "grad": grad, **layout, **place}


def _tensor_in(content: dict[str, Any], arena: Arena, copy: bool) -> torch.Tensor:
    dtype = TENSOR_DTYPES[content["dtype"]]
    shape, strides, start = _layout(content, dtype.itemsize)
    memory = arena.take(content["at"], content["bytes"])
    count = len(memory) // dtype.itemsize
    if count == 0:
        flat = torch.empty(0, dtype=dtype)
    else:
        flat = torch.frombuffer(bytearray(memory) if copy else memory, dtype=dtype, count=count)
    device = torch.device(content["device"])
    x = flat.to(device).as_strided(shape, strides, start)
    return x.requires_grad_() if content["grad"] is True and _differentiable(dtype) else x


def _array_out(x: "np.ndarray[Any, Any]", arena: Arena) -> dict[str, Any]:
    x = x.astype(x.dtype.newbyteorder("="), copy=False)
    if any(stride % x.itemsize for stride in x.strides):  # a field of a structured array
        x = x.copy()
    low, high = np.lib.array_utils.byte_bounds(x) if x.size else (0, 0)
    numbers = memoryview((ctypes.c_ubyte * (high - low)).from_address(low)).cast("B")
    start = (x.ctypes.data - low) // x.itemsize if x.size else 0
    strides = [s // x.itemsize for s in x.strides] if x.size else [0] * x.ndim
    layout = {"shape": list(x.shape), "strides": strides, "start": start}
    return {"dtype": x.dtype.name, **layout, "at": arena.put(numbers), "bytes": numbers.nbytes}


def _array_in(content: dict[str, Any], arena: Arena, copy: bool) -> "np.ndarray[Any, Any]":
    dtype = ARRAY_DTYPES[content["dtype"]]
    shape, strides, start = _layout(content, dtype.itemsize)
    memory = arena.take(content["at"], content["bytes"])
    flat = np.frombuffer(bytearray(memory) if copy else memory, dtype=dtype)
    if flat.size == 0:
        return np.empty(shape, dtype)
    steps = tuple(s * dtype.itemsize for s in strides)
    return np.ndarray(shape, dtype, flat.data, start * dtype.itemsize, steps)


def _layout(content: dict[str, Any], itemsize: int) -> tuple[list[int], list[int], int]:
    """Shape, strides and start in elements, after a check that they stay inside the bytes given."""
    shape, strides, start = content["shape"], content["strides"], content["start"]
    at, size = content["at"], content["bytes"]
    if not all(type(n) is int for n in (*shape, *strides, start, at, size)):
        raise WireError("a layout that is not made of integers")
    if len(shape) != len(strides) or len(shape) > MAX_RANK or min(shape, default=0) < 0:
        raise WireError("a shape that no array has")
    steps = [(n - 1) * s for n, s in zip(shape, strides, strict=True)]
    low = start + sum(s for s in steps if s < 0)
    high = start + sum(s for s in steps if s > 0)
    if math.prod(shape) and (low < 0 or (high + 1) * itemsize > size):
        raise WireError("a layout that reaches outside its own bytes")
    return shape, strides, start


def _span(shape: "torch.Size", strides: tuple[int, ...]) -> int:
    """How many elements of storage a layout spans."""
    if math.prod(shape) == 0:
        return 0
    return 1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))


def _differentiable(dtype: torch.dtype) -> bool:
    return dtype.is_floating_point or dtype.is_complex
