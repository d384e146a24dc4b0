"""Calls the program of an answer's kernels, from a worker (which gets this text) or here.

The program runs kernels on the CPU and shares only a socket with the process that calls it (see
`runtime/program.h`). What the program's machine reports becomes an exception at the student's line.
On a GPU the kernels are a library, which this module calls itself.
"""

import base64
import contextlib
import ctypes
import os
import signal
import socket
import struct
import tempfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

import torch
from torch import Tensor

_FORWARDS, _ORDERS = 0, 3  # in which threads, warps and blocks run
_REPORTED, _NO_MEMORY = 1, 3

# What goes to and fro, as runtime/program.h has it.
_REQUEST_FORMAT = struct.Struct("=2Q6I")
_ARGUMENT_FORMAT = struct.Struct("=2Q16s")
_REPLY_FORMAT = struct.Struct("=i32s400s800si10Q8Q256sQ")
_COUNT_NAMES = (  # what the kernels of a call have done; runtime/fibers.h says what each number is
    *("kernels", "threads", "workers", "loads", "stores", "copies_read"),
    *("shared_stores", "shared_loads", "exchanged", "barriers"),
)


class ProgramSocket:
    """The program at the other end of a socket.

    ended  called when the program has ended
    """

    def __init__(self, sock: socket.socket, ended: Callable[[], NoReturn] | None = None) -> None:
        self._socket = sock
        self._ended = ended or _report_ended_kernel_program

    def send(self, *parts: Any) -> None:
        try:
            for part in parts:
                self._socket.sendall(part)
        except OSError:
            self._ended()

    def receive(self, into: memoryview) -> None:
        while len(into):
            try:
                count = self._socket.recv_into(into)
            except OSError:
                count = 0
            if not count:
                self._ended()
            into = into[count:]


def _report_ended_kernel_program() -> NoReturn:
    raise RuntimeError("the program of the kernels ended")


def connect_kernel_machine() -> ProgramSocket:
    """Return the program that was started beside this worker; when it ends, so does the worker."""
    return ProgramSocket(
        socket.socket(fileno=int(os.environ["GRADER_COMPANION"])), _end_like_kernel_program
    )


def _end_like_kernel_program() -> NoReturn:
    _, status = os.waitpid(-1, 0)
    if os.WIFSIGNALED(status):
        with contextlib.suppress(OSError):  # some cannot be handled, and need not be set back
            signal.signal(os.WTERMSIG(status), signal.SIG_DFL)
        signal.raise_signal(os.WTERMSIG(status))
    os._exit(os.waitstatus_to_exitcode(status))


class Machine:
    """A program of answers, and the functions of one of them.

    built   {"calls": the functions in their order, "places" and "lines": the program's line table,
            "gpu": a library as text, "names": what lines are called, if not by their number}
    program  the process that runs it on the CPU
    answer  the name of one of the program's answers
    """

    def __init__(
        self, built: Mapping[str, Any], program: ProgramSocket, answer: str = "answer_0"
    ) -> None:
        self._built = built
        self._answer = answer
        self._program = program
        self._gpu = _load_cuda_library(built["gpu"]) if built.get("gpu") else None
        self._knows_lines: list[bool] = []  # of all answers of the program
        self.loads: dict[str, int] = {}  # the numbers that the last call has read, by input
        self.counts: dict[str, int] = {}  # and what else it did
        self.kernels: str = ""  # their names

    def other(self, answer: str) -> "Machine":
        """Return another answer of the same program."""
        machine = object.__new__(Machine)
        machine.__dict__ |= self.__dict__ | {"_answer": answer}
        return machine

    def call(
        self, name: str, inputs: Mapping[str, Tensor], shape: Sequence[int], *numbers: float
    ) -> Tensor:
        """Call `name(inputs..., out, numbers...)`; return what `out` receives, NaN elsewhere."""
        tensors = {key: x.contiguous() for key, x in inputs.items()}
        if any(x.is_cuda for x in tensors.values()):
            return self._call_on_gpu(name, list(tensors.values()), shape, numbers)
        out = torch.empty(*shape)
        arrays = {key: (x.numel(), x) for key, x in tensors.items()}
        self._call_function(
            name, arrays, out.numel(), numbers, seed=_seed_kernel_inputs(tensors), result=out
        )
        return out

    def far(
        self, name: str, inputs: Mapping[str, tuple[int, Tensor]], size: int, width: int,
        *numbers: float,
    ) -> Tensor | None:  # fmt: skip
        """Call with arrays too large to exist, and run only some blocks of the grid.

        inputs   by name: how many numbers an input has, and the pattern that they repeat
        size     the count of numbers in the output; its last `width` numbers are the result
        returns  None if no block that was run wrote the result, or if the call is too large
        """
        last = torch.empty(width)
        arrays = {key: (count, pattern.contiguous()) for key, (count, pattern) in inputs.items()}
        known = self._call_function(name, arrays, size, numbers, seed=0, result=last, corners=True)
        return last if known else None

    def _call_function(
        self, name: str, inputs: Mapping[str, tuple[int, Tensor]], size: int,
        numbers: Sequence[float], *, seed: int, result: Tensor, corners: bool = False,
    ) -> bool:  # fmt: skip
        """Call a function; return whether `result` was filled with the end of its output."""
        lines = [] if self._knows_lines else [*self._built["places"], *self._built["lines"]]
        self._knows_lines.append(True)
        # Other inputs, another order of the threads: it may make no difference.
        order = _FORWARDS if corners else seed % _ORDERS
        self._program.send(
            _REQUEST_FORMAT.pack(
                seed, result.numel() if corners else 0, self._number_of(name), order, corners,
                len(inputs) + 1, len(numbers), len(lines) // 2,
            ),
            *(_ARGUMENT_FORMAT.pack(n, x.numel(), key.encode()) for key, (n, x) in inputs.items()),
            _ARGUMENT_FORMAT.pack(size, 0, b"out"),
            struct.pack(f"={len(numbers)}d", *numbers),
            struct.pack(f"={len(lines)}I", *lines),
            *(_view_kernel_bytes(x) for _, x in inputs.values()),
        )  # fmt: skip
        reply = bytearray(_REPLY_FORMAT.size)
        self._program.receive(memoryview(reply))
        code, kind, says, more, line, *rest, kernels, told = _REPLY_FORMAT.unpack(reply)
        self.counts = dict(zip(_COUNT_NAMES, rest, strict=False))
        self.loads = dict(zip(inputs, rest[len(_COUNT_NAMES) :], strict=False))
        self.kernels = _decode_kernel_text(kernels)
        if code == _REPORTED:
            self.tell(
                _decode_kernel_text(kind),
                line,
                f"{_decode_kernel_text(says)}\n{_decode_kernel_text(more)}",
            )
        if code == _NO_MEMORY:
            raise MemoryError
        if told:
            self._program.receive(_view_kernel_bytes(result))
        return bool(told)

    def _number_of(self, name: str) -> int:
        """Return a function's number: this answer's, or the first answer's if this one has none."""
        calls: list[str] = self._built["calls"]
        own = f"{self._answer}_{name}"
        return calls.index(own if own in calls else f"answer_0_{name}")

    def tell(self, kind: str, line: int, text: str) -> None:
        """Raise an exception called `kind` at a line; `text` may name other lines as {line 12}."""
        names = self._built.get("names") or {}
        pieces = text.strip().split("{line ")
        for i, piece in enumerate(pieces[1:], 1):
            number, _, rest = piece.partition("}")
            pieces[i] = f"line {names.get(number, number)}{rest}"
        error = type(kind, (Exception,), {})("".join(pieces))
        code = "\n" * (line - 1) + "raise error"
        exec(compile(code, "<submission>" if line else "<machine>", "exec"), {"error": error})

    def _call_on_gpu(
        self, name: str, tensors: Sequence[Tensor], shape: Sequence[int], numbers: Sequence[float]
    ) -> Tensor:
        assert self._gpu is not None
        out = torch.full(tuple(shape), float("nan"), device=tensors[0].device)
        pointers = [ctypes.c_void_p(x.data_ptr()) for x in (*tensors, out)]
        with torch.cuda.device(out.device):
            function = getattr(self._gpu, f"{self._answer}_{name}")
            code = function(*pointers, *map(_convert_kernel_number, numbers))
        if code:
            self._gpu.cuda_error.restype = ctypes.c_char_p
            says = self._gpu.cuda_error(code).decode()
            raise type("CudaError", (Exception,), {})(f"{says} (error {code} of CUDA)")
        return out


def _seed_kernel_inputs(tensors: Mapping[str, Tensor]) -> int:
    """Return a number that is the same whenever the inputs are."""
    return zlib.crc32(b"".join(x.flatten()[:64].numpy().tobytes() for x in tensors.values()))


def _view_kernel_bytes(x: Tensor) -> memoryview:
    return x.numpy().data.cast("B") if x.numel() else memoryview(b"")


def _decode_kernel_text(content: bytes) -> str:
    return content.partition(b"\0")[0].decode("utf-8", "replace")


def _convert_kernel_number(x: float) -> Any:
    return ctypes.c_float(x) if isinstance(x, float) else ctypes.c_int(x)


def _load_cuda_library(text: str) -> ctypes.CDLL:
    """Return a library from its bytes; remove its file as soon as it is loaded."""
    handle, path = tempfile.mkstemp(suffix=".so")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(zlib.decompress(base64.b64decode(text)))
        return ctypes.CDLL(path)
    finally:
        os.unlink(path)
