"""Loads compiled answers and calls them: in a worker, into which this text is sent, and in ours.

What the machine of `runtime/` reports becomes an exception at the student's line.
"""

import base64
import ctypes
import os
import tempfile
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

_FORWARDS, _ORDERS = 0, 3  # in which threads, warps and blocks run
_REPORTED = 1


class Report(ctypes.Structure):
    """What runtime/report.h writes down."""

    _fields_ = (
        *(("kind", ctypes.c_char * 32), ("says", ctypes.c_char * 400)),
        *(("more", ctypes.c_char * 800), ("line", ctypes.c_int)),
    )


class Counts(ctypes.Structure):
    """What the kernels of a call have done; runtime/fibers.h says what each number is."""

    _fields_ = tuple(
        (name, ctypes.c_uint64)
        for name in (
            *("kernels", "threads", "workers", "loads", "stores", "copies_read"),
            *("shared_stores", "shared_loads", "exchanged", "barriers"),
        )
    )


class Machine:
    """A library of answers, and the functions of one of them.

    built   {"cpu", "gpu": a library in text, "places", "lines": its table, "names": what to call a
            line if not by its number}
    answer  which of the library's answers
    """

    def __init__(self, built: Mapping[str, Any], answer: str = "answer_0") -> None:
        self._built = built
        self._answer = answer
        self._cpu = _opened(built["cpu"])
        self._gpu = _opened(built["gpu"]) if built.get("gpu") else None
        for name, result in (
            ("report", ctypes.POINTER(Report)), ("array", ctypes.c_void_p),
            ("far_array", ctypes.c_void_p), ("loads", ctypes.c_uint64),
            ("counts", ctypes.POINTER(Counts)), ("kernels", ctypes.c_char_p),
        ):  # fmt: skip
            getattr(self._cpu, f"cuda_on_cpu_{name}").restype = result
        self._tables = [(ctypes.c_uint32 * len(built[n]))(*built[n]) for n in ("places", "lines")]
        self._cpu.cuda_on_cpu_lines(*self._tables, ctypes.c_size_t(len(built["places"])))
        self.loads: dict[str, int] = {}  # the numbers that the last call has read, by input
        self.counts: dict[str, int] = {}  # and what else it did
        self.kernels: str = ""  # their names

    def other(self, answer: str) -> "Machine":
        """Another answer of the same library."""
        machine = object.__new__(Machine)
        machine.__dict__ |= self.__dict__ | {"_answer": answer}
        return machine

    def call(
        self, name: str, inputs: Mapping[str, Tensor], shape: Sequence[int], *numbers: float
    ) -> Tensor:
        """`name(inputs..., out, numbers...)`: what it writes to `out`, NaN where it does not."""
        tensors = {key: x.contiguous() for key, x in inputs.items()}
        if any(x.is_cuda for x in tensors.values()):
            return self._on_gpu(name, list(tensors.values()), shape, numbers)
        self._begin(_seed(tensors))
        given = [self._array(k, x.data_ptr(), 4 * x.numel()) for k, x in tensors.items()]
        out = torch.empty(*shape)
        there = self._array("out", None, 4 * out.numel())
        self._ask(name, [*given, there], numbers)
        ctypes.memmove(out.data_ptr(), there.value or 0, 4 * out.numel())
        self.loads = {key: self._cpu.cuda_on_cpu_loads(i) for i, key in enumerate(tensors)}
        counts = self._cpu.cuda_on_cpu_counts().contents
        self.counts = {field[0]: getattr(counts, field[0]) for field in counts._fields_}
        self.kernels = self._cpu.cuda_on_cpu_kernels().decode("utf-8", "replace")
        self._cpu.cuda_on_cpu_end()
        return out

    def far(
        self, name: str, inputs: Mapping[str, tuple[int, Tensor]], size: int, width: int,
        *numbers: float,
    ) -> Tensor | None:  # fmt: skip
        """A call with arrays too large to exist, of whose grid only some blocks are run.

        inputs  by name how many numbers, and the pattern of which they are made
        size    of the output, whose last `width` numbers are the result
        None    where no block that was run had them, or that is too much to be done here
        """
        self._begin(0, corners=True)
        given, kept = [], []
        for key, (count, pattern) in inputs.items():
            values = pattern.contiguous()
            kept.append(values)
            given.append(self._far_array(key, count, values.data_ptr(), values.numel()))
        out = self._far_array("out", size, None, 0)
        done = self._ask(name, [*given, out], numbers)
        if not (done and self._cpu.cuda_on_cpu_last_is_known()):
            self._cpu.cuda_on_cpu_end()
            return None
        last = torch.empty(width)
        start = ctypes.c_void_p((out.value or 0) + 4 * (size - width))
        self._cpu.cuda_on_cpu_look(start, ctypes.c_void_p(last.data_ptr()), ctypes.c_size_t(width))
        self._cpu.cuda_on_cpu_end()
        return last

    def _begin(self, seed: int, *, corners: bool = False) -> None:
        """Other inputs, another order of the threads: it may make no difference."""
        order = _FORWARDS if corners else seed % _ORDERS
        self._cpu.cuda_on_cpu_begin(order, ctypes.c_uint64(seed), int(corners))

    def _array(self, name: str, values: int | None, size: int) -> ctypes.c_void_p:
        made = self._cpu.cuda_on_cpu_array(
            name.encode(), ctypes.c_void_p(values), ctypes.c_size_t(size)
        )
        if not made:
            raise MemoryError
        return ctypes.c_void_p(made)

    def _far_array(
        self, name: str, count: int, pattern: int | None, period: int
    ) -> ctypes.c_void_p:
        return ctypes.c_void_p(
            self._cpu.cuda_on_cpu_far_array(
                name.encode(), ctypes.c_size_t(count), ctypes.c_void_p(pattern),
                ctypes.c_size_t(period),
            )
        )  # fmt: skip

    def _ask(
        self, name: str, pointers: Sequence[ctypes.c_void_p], numbers: Sequence[float]
    ) -> bool:
        """Call a function; whether it came to its end."""
        code = self._function(self._cpu, name)(*pointers, *map(_number, numbers))
        if code == _REPORTED:
            report = self._cpu.cuda_on_cpu_report().contents
            parts = (part.decode("utf-8", "replace") for part in (report.says, report.more))
            self.tell(report.kind.decode(), report.line, "\n".join(parts))
        return bool(code == 0)

    def _function(self, library: ctypes.CDLL, name: str) -> Any:
        """Of this answer, or where it was compiled without that one, of the library's first."""
        own = f"{self._answer}_{name}"
        return getattr(library, own if hasattr(library, own) else f"answer_0_{name}")

    def tell(self, kind: str, line: int, text: str) -> None:
        """Raise an exception called `kind` at the student's line; {line 12} in its text is one."""
        names = self._built.get("names") or {}
        pieces = text.strip().split("{line ")
        for i, piece in enumerate(pieces[1:], 1):
            number, _, rest = piece.partition("}")
            pieces[i] = f"line {names.get(number, number)}{rest}"
        error = type(kind, (Exception,), {})("".join(pieces))
        code = "\n" * (line - 1) + "raise error"
        exec(compile(code, "<submission>" if line else "<machine>", "exec"), {"error": error})

    def _on_gpu(
        self, name: str, tensors: Sequence[Tensor], shape: Sequence[int], numbers: Sequence[float]
    ) -> Tensor:
        assert self._gpu is not None
        out = torch.full(tuple(shape), float("nan"), device=tensors[0].device)
        pointers = [ctypes.c_void_p(x.data_ptr()) for x in (*tensors, out)]
        with torch.cuda.device(out.device):
            code = self._function(self._gpu, name)(*pointers, *map(_number, numbers))
        if code:
            self._gpu.cuda_error.restype = ctypes.c_char_p
            says = self._gpu.cuda_error(code).decode()
            raise type("CudaError", (Exception,), {})(f"{says} (error {code} of CUDA)")
        return out


def _seed(tensors: Mapping[str, Tensor]) -> int:
    """A number that is the same whenever the inputs are."""
    return zlib.crc32(b"".join(x.flatten()[:64].numpy().tobytes() for x in tensors.values()))


def _number(x: float) -> Any:
    return ctypes.c_float(x) if isinstance(x, float) else ctypes.c_int(x)


def _opened(text: str) -> ctypes.CDLL:
    """A library from its text; its file is gone as soon as it is open."""
    handle, path = tempfile.mkstemp(suffix=".so")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(zlib.decompress(base64.b64decode(text)))
        return ctypes.CDLL(path)
    finally:
        os.unlink(path)
