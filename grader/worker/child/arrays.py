"""Sends arrays and tensors: their form in the header, their numbers in shared memory.

    array     {dtype, shape, at, bytes}
    tensor    {dtype, shape, at, bytes, device, grad}

`at` and `bytes` say where the numbers lie in the arena. Arrays from the grader also have `strides`
and `start`, in elements, and stay in the arena: a worker gets strided and expanded inputs as they
are. Tensors on the device `meta` have no numbers; a worker receives them and never sends them.
Arrays from a worker are dense, in row-major order, and are copied before the grader reads them:
the worker can still write to the arena.
"""

import ctypes
import math
import mmap
from typing import Any, Protocol

import numpy as np
import torch

from .frames import WireError

MAX_RANK = 16
MAX_ELEMENTS = 1 << 28  # of an array, dimensions of size 0 left out

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
    """Raised when a value does not fit into the shared memory."""


class Writable(Protocol):
    """Memory that takes numbers; `put` returns their offset."""

    def put(self, data: memoryview) -> int: ...


class Arena:
    """Shared memory that fills from the front: `put` bytes, `take` bytes, `rewind`."""

    def __init__(self, memory: "mmap.mmap | bytearray") -> None:
        self.view = memoryview(memory)
        self.used = self.most = 0  # bytes used now, and at most so far

    def put(self, data: memoryview) -> int:
        """Copy `data` into the arena and return its offset, a multiple of 64 bytes."""
        start = -(-self.used // 64) * 64
        if start + data.nbytes > len(self.view):
            raise ArenaFull(f"{data.nbytes:,} bytes do not fit into {len(self.view):,}")
        self.view[start : start + data.nbytes] = data.cast("B") if data.nbytes else b""
        self.used = start + data.nbytes
        self.most = max(self.most, self.used)
        return start

    def take(self, start: int, size: int) -> memoryview:
        """Return `size` bytes from offset `start`, still shared."""
        if start < 0 or size < 0 or start + size > len(self.view):
            raise WireError("bytes that lie outside the shared memory")
        return self.view[start : start + size]

    def rewind(self) -> None:
        self.used = 0


def can_send_over_wire(x: torch.Tensor) -> bool:
    """Return whether a tensor has numbers that can be sent."""
    known = str(x.dtype).removeprefix("torch.") in TENSOR_DTYPES
    return known and x.layout is torch.strided and not x.is_quantized and not x.is_meta


def write_tensor_to_arena(x: torch.Tensor, memory: Writable, *, dense: bool) -> dict[str, Any]:
    """Put the numbers of a tensor into `memory`; return its description for the message header."""
    kind = {"device": str(x.device), "grad": x.requires_grad}
    x = x.detach()
    if x.is_conj() or x.is_neg():
        x = x.resolve_conj().resolve_neg()
    x = x.contiguous() if dense else x
    shape, layout = list(x.shape), {} if dense else {"strides": list(x.stride()), "start": 0}
    span = x.numel() if x.is_contiguous() else _count_arena_elements(x.shape, x.stride())
    if not x.is_cpu:
        x = x.as_strided((span,), (1,)).cpu()
    if span and (x.storage_offset() + span) * x.itemsize > x.untyped_storage().nbytes():
        raise WireError("a tensor whose storage is smaller than the tensor")
    numbers = memoryview(ctypes.string_at(x.data_ptr(), span * x.itemsize) if span else b"")
    place = {"at": memory.put(numbers), "bytes": numbers.nbytes}
    dtype = str(x.dtype).removeprefix("torch.")
    return {"dtype": dtype, "shape": shape, **layout, **place, **kind}


def describe_meta_for_wire(x: torch.Tensor) -> dict[str, Any]:
    """Describe, for the message header, a tensor on the device `meta`, which has no numbers."""
    dtype = str(x.dtype).removeprefix("torch.")
    layout = {"shape": list(x.shape), "strides": list(x.stride()), "start": 0, "at": 0, "bytes": 0}
    return {"dtype": dtype, **layout, "device": "meta", "grad": x.requires_grad}


def write_array_to_arena(
    x: "np.ndarray[Any, Any]", memory: Writable, *, dense: bool
) -> dict[str, Any]:
    """Put the numbers of an array into `memory`; return its description for the message header."""
    x = x.astype(x.dtype.newbyteorder("="), copy=False)
    if dense or any(stride % x.itemsize for stride in x.strides):  # a field of a structured array
        x = x.copy(order="C")
    low, high = np.lib.array_utils.byte_bounds(x) if x.size else (0, 0)
    numbers = memoryview((ctypes.c_ubyte * (high - low)).from_address(low)).cast("B")
    start = (x.ctypes.data - low) // x.itemsize if x.size else 0
    strides = [s // x.itemsize for s in x.strides] if x.size else [0] * x.ndim
    layout = {} if dense else {"strides": strides, "start": start}
    place = {"at": memory.put(numbers), "bytes": numbers.nbytes}
    return {"dtype": x.dtype.name, "shape": list(x.shape), **layout, **place}


def view_tensor_in_arena(form: dict[str, Any], arena: Arena) -> torch.Tensor:
    """Return a tensor that the grader put into the arena, as a view of the arena."""
    dtype = TENSOR_DTYPES[form["dtype"]]
    if form["device"] == "meta":
        x = torch.empty_strided(form["shape"], form["strides"], dtype=dtype, device="meta")
        return x.requires_grad_() if form["grad"] is True else x
    shape, strides, start = _check_arena_layout(form, dtype.itemsize)
    memory = arena.take(form["at"], form["bytes"])
    flat = torch.frombuffer(memory, dtype=dtype) if memory else torch.empty(0, dtype=dtype)
    flat = flat if form["device"] == "cpu" else flat.to(torch.device(form["device"]))
    x = flat.as_strided(shape, strides, start)
    return x.requires_grad_() if form["grad"] is True else x


def needs_arena_copy(x: Any) -> bool:
    """Return whether a value is a tensor on a GPU: only memory of the CPU is shared."""
    return isinstance(x, torch.Tensor) and x.is_cuda


def write_to_arena(form: dict[str, Any], x: torch.Tensor, arena: Arena) -> None:
    """Write the numbers of a copied tensor back to their place in the arena."""
    if not form["bytes"]:
        return
    flat = torch.frombuffer(arena.take(form["at"], form["bytes"]), dtype=x.dtype)
    with torch.no_grad():
        flat.copy_(x.detach().as_strided((len(flat),), (1,), 0))


def view_array_in_arena(form: dict[str, Any], arena: Arena) -> "np.ndarray[Any, Any]":
    """Return an array that the grader put into the arena, as a view of the arena."""
    dtype = ARRAY_DTYPES[form["dtype"]]
    shape, strides, start = _check_arena_layout(form, dtype.itemsize)
    memory = arena.take(form["at"], form["bytes"])
    if not memory:
        return np.empty(shape, dtype)
    steps = tuple(s * dtype.itemsize for s in strides)
    return np.ndarray(shape, dtype, memory, start * dtype.itemsize, steps)


def copy_tensor_from_arena(form: dict[str, Any], arena: Arena) -> torch.Tensor:
    """Copy the tensor that a worker described; raises `WireError` if the description is wrong."""
    _require_wire_keys(form, "dtype", "shape", "at", "bytes", "device", "grad")
    dtype, device = TENSOR_DTYPES[form["dtype"]], _find_worker_device(form["device"])
    numbers = _copy_bytes_from_arena(form, dtype.itemsize, arena)
    flat = torch.frombuffer(numbers, dtype=dtype) if numbers else torch.empty(0, dtype=dtype)
    return flat.reshape(form["shape"]).to(device).requires_grad_(form["grad"])


def copy_array_from_arena(form: dict[str, Any], arena: Arena) -> "np.ndarray[Any, Any]":
    """Copy the array that a worker described; raises `WireError` if the description is wrong."""
    _require_wire_keys(form, "dtype", "shape", "at", "bytes")
    dtype = ARRAY_DTYPES[form["dtype"]]
    return np.frombuffer(_copy_bytes_from_arena(form, dtype.itemsize, arena), dtype).reshape(
        form["shape"]
    )


def _copy_bytes_from_arena(form: dict[str, Any], itemsize: int, arena: Arena) -> bytearray:
    """Copy the bytes of a dense array, after a check of its shape and size."""
    shape, at, size = form["shape"], form["at"], form["bytes"]
    if not (
        _are_wire_naturals(shape) and len(shape) <= MAX_RANK and _are_wire_naturals([at, size])
    ):
        raise WireError("a layout that no array has")
    if math.prod(n for n in shape if n) > MAX_ELEMENTS or math.prod(shape) * itemsize != size:
        raise WireError("a shape that does not fit its bytes")
    numbers = bytearray(arena.take(at, size))
    if form["dtype"] == "bool":  # a byte above 1 is a bool that equals neither True nor False
        flags = np.frombuffer(numbers, np.uint8)
        np.minimum(flags, 1, out=flags)
    return numbers


def _find_worker_device(name: Any) -> torch.device:
    """Return the device of this name, the CPU or a GPU of this machine."""
    seen = ["cpu"] if name == "cpu" else [f"cuda:{i}" for i in range(torch.cuda.device_count())]
    if name not in seen:
        raise WireError("a tensor on a device that is not there")
    return torch.device(name)


def _require_wire_keys(form: Any, *names: str) -> None:
    if not (isinstance(form, dict) and form.keys() == set(names)):
        raise WireError("an array of no known form")


def _are_wire_naturals(x: Any) -> bool:
    return isinstance(x, list) and all(type(n) is int and 0 <= n < 1 << 63 for n in x)


def _check_arena_layout(form: dict[str, Any], itemsize: int) -> tuple[list[int], list[int], int]:
    """Check that an array lies inside its shared bytes; return shape, strides, start (elements)."""
    shape, strides, start, size = form["shape"], form["strides"], form["start"], form["bytes"]
    if len(shape) != len(strides) or len(shape) > MAX_RANK or min(shape, default=0) < 0:
        raise WireError("a shape that no array has")
    steps = [(n - 1) * s for n, s in zip(shape, strides, strict=True)]
    low = start + sum(s for s in steps if s < 0)
    high = start + sum(s for s in steps if s > 0)
    if math.prod(shape) and (low < 0 or (high + 1) * itemsize > size):
        raise WireError("a layout that reaches outside its own bytes")
    return shape, strides, start


def _count_arena_elements(shape: "torch.Size", strides: tuple[int, ...]) -> int:
    """Count the elements of storage that a layout spans."""
    if math.prod(shape) == 0:
        return 0
    return 1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))
