"""How arrays and tensors cross: their form in the header, their numbers in shared memory.

    array     {dtype, shape, at, bytes}
    tensor    {dtype, shape, at, bytes, device, grad}

`at` and `bytes` say where the numbers lie in the arena. What the grader sends has `strides` and
`start` besides, in elements, and stays in the arena: a worker meets strided and expanded inputs as
they are. Tensors on the device `meta` have no numbers; they are sent to a worker, and never by one.
What a worker sends is dense, in row-major order, and is copied before it is looked at: the worker
can still write to the arena.
"""

import ctypes
import math
import mmap
from typing import Any, Protocol

import numpy as np
import torch

from .frames import WireError

MAX_RANK = 16
MAX_ELEMENTS = 1 << 28  # of an array without its sizes of zero

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


class Writable(Protocol):
    """Where numbers are put; `put` returns where they start."""

    def put(self, data: memoryview) -> int: ...


class Arena:
    """Shared memory that fills from the front: `put` bytes, `take` bytes, `rewind`."""

    def __init__(self, memory: "mmap.mmap | bytearray") -> None:
        self.view = memoryview(memory)
        self.used = self.most = 0  # bytes now, and so far

    def put(self, data: memoryview) -> int:
        """Copy `data` in and return where it starts; every value starts on 64 bytes."""
        start = -(-self.used // 64) * 64
        if start + data.nbytes > len(self.view):
            raise ArenaFull(f"{data.nbytes:,} bytes do not fit into {len(self.view):,}")
        self.view[start : start + data.nbytes] = data.cast("B") if data.nbytes else b""
        self.used = start + data.nbytes
        self.most = max(self.most, self.used)
        return start

    def take(self, start: int, size: int) -> memoryview:
        """The bytes from `start`; they stay shared."""
        if start < 0 or size < 0 or start + size > len(self.view):
            raise WireError("bytes that lie outside the shared memory")
        return self.view[start : start + size]

    def rewind(self) -> None:
        self.used = 0


def crosses(x: torch.Tensor) -> bool:
    """Whether a tensor has numbers that can be sent."""
    known = str(x.dtype).removeprefix("torch.") in TENSOR_DTYPES
    return known and x.layout is torch.strided and not x.is_quantized and not x.is_meta


def tensor_form(x: torch.Tensor, memory: Writable, *, dense: bool) -> dict[str, Any]:
    """The header's form of a tensor, whose numbers go into `memory`."""
    with torch._C.DisableTorchFunctionSubclass():  # asked of x itself: a view of it may need none
        kind = {"device": str(x.device), "grad": x.requires_grad}
    x = x.as_subclass(torch.Tensor).detach().resolve_conj().resolve_neg()
    x = x.contiguous() if dense else x
    layout = {} if dense else {"strides": list(x.stride()), "start": 0}
    span = _span(x.shape, x.stride())
    flat = x.as_strided((span,), (1,)).cpu().contiguous()
    numbers = flat.view(torch.uint8).numpy().data if span else memoryview(b"")
    place = {"at": memory.put(numbers), "bytes": numbers.nbytes}
    dtype = str(x.dtype).removeprefix("torch.")
    return {"dtype": dtype, "shape": list(x.shape), **layout, **place, **kind}


def meta_form(x: torch.Tensor) -> dict[str, Any]:
    """The header's form of a tensor on the device `meta`, which has no numbers."""
    dtype = str(x.dtype).removeprefix("torch.")
    layout = {"shape": list(x.shape), "strides": list(x.stride()), "start": 0, "at": 0, "bytes": 0}
    return {"dtype": dtype, **layout, "device": "meta", "grad": x.requires_grad}


def array_form(x: "np.ndarray[Any, Any]", memory: Writable, *, dense: bool) -> dict[str, Any]:
    """The header's form of an array, whose numbers go into `memory`."""
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


def shared_tensor(form: dict[str, Any], arena: Arena) -> torch.Tensor:
    """The tensor that the grader put into the arena, as a view of it."""
    dtype = TENSOR_DTYPES[form["dtype"]]
    if form["device"] == "meta":
        x = torch.empty_strided(form["shape"], form["strides"], dtype=dtype, device="meta")
        return x.requires_grad_() if form["grad"] is True else x
    shape, strides, start = _layout(form, dtype.itemsize)
    memory = arena.take(form["at"], form["bytes"])
    flat = torch.frombuffer(memory, dtype=dtype) if memory else torch.empty(0, dtype=dtype)
    x = flat.to(torch.device(form["device"])).as_strided(shape, strides, start)
    return x.requires_grad_() if form["grad"] is True else x


def lies_apart(x: Any) -> bool:
    """Whether a value is a tensor whose numbers are a copy: only memory of the CPU is shared."""
    return isinstance(x, torch.Tensor) and x.is_cuda


def put_back(form: dict[str, Any], x: torch.Tensor, arena: Arena) -> None:
    """Write the numbers that a copied tensor holds now to where the grader had put them."""
    if not form["bytes"]:
        return
    flat = torch.frombuffer(arena.take(form["at"], form["bytes"]), dtype=x.dtype)
    with torch.no_grad():
        flat.copy_(x.detach().as_strided((len(flat),), (1,), 0))


def shared_array(form: dict[str, Any], arena: Arena) -> "np.ndarray[Any, Any]":
    """The array that the grader put into the arena, as a view of it."""
    dtype = ARRAY_DTYPES[form["dtype"]]
    shape, strides, start = _layout(form, dtype.itemsize)
    memory = arena.take(form["at"], form["bytes"])
    if not memory:
        return np.empty(shape, dtype)
    steps = tuple(s * dtype.itemsize for s in strides)
    return np.ndarray(shape, dtype, memory, start * dtype.itemsize, steps)


def copied_tensor(form: dict[str, Any], arena: Arena) -> torch.Tensor:
    """The tensor that a worker says it has put into the arena; nothing stays shared."""
    _has_exactly(form, "dtype", "shape", "at", "bytes", "device", "grad")
    dtype, device = TENSOR_DTYPES[form["dtype"]], _device(form["device"])
    numbers = _copied(form, dtype.itemsize, arena)
    flat = torch.frombuffer(numbers, dtype=dtype) if numbers else torch.empty(0, dtype=dtype)
    return flat.reshape(form["shape"]).to(device).requires_grad_(form["grad"])


def copied_array(form: dict[str, Any], arena: Arena) -> "np.ndarray[Any, Any]":
    """The array that a worker says it has put into the arena; nothing stays shared."""
    _has_exactly(form, "dtype", "shape", "at", "bytes")
    dtype = ARRAY_DTYPES[form["dtype"]]
    return np.frombuffer(_copied(form, dtype.itemsize, arena), dtype).reshape(form["shape"])


def _copied(form: dict[str, Any], itemsize: int, arena: Arena) -> bytearray:
    """A copy of the bytes of a dense array, after a check that they are as many as it needs."""
    shape, at, size = form["shape"], form["at"], form["bytes"]
    if not (_naturals(shape) and len(shape) <= MAX_RANK and _naturals([at, size])):
        raise WireError("a layout that no array has")
    if math.prod(n for n in shape if n) > MAX_ELEMENTS or math.prod(shape) * itemsize != size:
        raise WireError("a shape that does not fit its bytes")
    numbers = bytearray(arena.take(at, size))
    if form["dtype"] == "bool":  # any other byte is a bool that equals neither True nor False
        flags = np.frombuffer(numbers, np.uint8)
        np.minimum(flags, 1, out=flags)
    return numbers


def _device(name: Any) -> torch.device:
    """A device of this machine."""
    seen = ["cpu"] if name == "cpu" else [f"cuda:{i}" for i in range(torch.cuda.device_count())]
    if name not in seen:
        raise WireError("a tensor on a device that is not there")
    return torch.device(name)


def _has_exactly(form: Any, *names: str) -> None:
    if not (isinstance(form, dict) and form.keys() == set(names)):
        raise WireError("an array of no known form")


def _naturals(x: Any) -> bool:
    return isinstance(x, list) and all(type(n) is int and 0 <= n < 1 << 63 for n in x)


def _layout(form: dict[str, Any], itemsize: int) -> tuple[list[int], list[int], int]:
    """Shape, strides and start in elements, after a check that they stay inside the bytes given."""
    shape, strides, start, size = form["shape"], form["strides"], form["start"], form["bytes"]
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
