"""The parent's side of the nursery: starts the nursery, has it fork workers, and ends both."""

import os
import socket
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from grader.core import allowed_tables
from grader.core.records import Limits
from grader.worker.child import frames
from grader.worker.child.remove_tree import remove_worker_folder
from grader.worker.parent import compiler_programs, traces
from grader.worker.parent.control_group import ControlGroup
from grader.worker.parent.faults import NurseryFailed
from grader.worker.parent.readable_paths import find_worker_driver_folders
from grader.worker.parent.walls import PROCESS, Wall

START_SECONDS = 120.0  # a cold `import torch` from a slow disk
# Variables that let torch and CUDA find their libraries; nothing else of ours reaches a worker.
_VARIABLES = ("PATH", "LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES", "CUDA_HOME", "SYSTEMROOT", "LANG")
THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
# Freed temporaries stay in the heap instead of going back to the kernel after every operator, which
# steadies times. Where memory is measured a worker undoes this (`gives_back`): holes between blocks
# would count.
_MALLOC_VARIABLES = {"MALLOC_MMAP_THRESHOLD_": "1073741824", "MALLOC_TRIM_THRESHOLD_": "1073741824"}


@dataclass(frozen=True, slots=True, kw_only=True)
class NurseryProcess:
    """A worker: its pid, which only the nursery can use, and its socket."""

    pid: int
    control: socket.socket


class Nursery:
    """A process that has imported torch and forks workers, each in a few milliseconds.

    The constructor returns at once; the first worker waits for the import. `failures` counts how
    often the process ended and was started again.
    """

    def __init__(self, wall: Wall = PROCESS) -> None:
        self.wall = wall
        self.failures = 0
        traces.sweep_worker_folders()
        # Behind bubblewrap the workers' folders lie in a tmpfs that ends with the nursery.
        self._home = (
            None
            if wall.prefix
            else Path(tempfile.mkdtemp(prefix=traces.build_worker_trace_prefix()))
        )
        self._share = ControlGroup.where_possible()
        self._launch_process()

    def _launch_process(self) -> None:
        ours, theirs = socket.socketpair()
        if self._home:
            self._home.mkdir(exist_ok=True)
        listed, without = allowed_tables.load_allowed_operators()
        frames.send_frame(ours, {"operators": listed, "without": without})
        self._socket = ours
        self._ready = False
        self._process = subprocess.Popen(
            [*self._share.prefix(), *self.wall.command("serve", str(theirs.fileno()))],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env=_build_nursery_environment(str(self._home or "/tmp")),
            cwd=self._home or "/",
            pass_fds=[theirs.fileno()],
            start_new_session=True,
        )
        theirs.close()

    def __enter__(self) -> "Nursery":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the nursery and its workers, and remove its folder."""
        self._socket.close()
        self._end_and_read_error(seconds=10)
        self._share.close()
        if self._home:
            remove_worker_folder(self._home)

    def start(self, *, arenas: tuple[int, int], printed: int, program: int | None, limits: Limits,
              on_cuda: bool, core: int | None, preload: Sequence[str] = (),
              gives_back: bool = False, kernels: str = "") -> NurseryProcess:  # fmt: skip
        """Fork a worker that maps `arenas`, prints to `printed`, and stays on `core` if given.

        `program` is the descriptor of a file that runs as a program beside the worker.

        The nursery imports the modules of `preload` before the fork, once for all later workers. A
        worker that `gives_back` returns freed memory to the kernel. Workers with the same `kernels`
        share the folder in which Triton keeps compiled kernels.
        """
        ours, theirs = socket.socketpair()
        memory = None if on_cuda else int(limits.memory_gib * 2**30)
        wanted = {"memory_bytes": memory, "cpu_seconds": int(2 * limits.exercise_seconds) + 1}
        # Triton reads this at its import: it compiles for a GPU, and interprets kernels elsewhere.
        environment = {"TRITON_INTERPRET": "0" if on_cuda else "1"}
        compiles = on_cuda and limits.compiles_on_cuda
        compilers = compiler_programs.find_worker_compilers() if compiles else ()
        if compiles and (
            driver := find_worker_driver_folders()
        ):  # else Triton would start ldconfig to find it
            environment["TRITON_LIBCUDA_PATH"] = driver[0]
        request = {"op": "start", "limits": wanted, "lock": self.wall.files, "core": core,
                   "environment": environment, "preload": list(preload),
                   "gives_back": gives_back, "kernels": kernels,
                   "compilers": compilers}  # fmt: skip
        descriptors = [theirs.fileno(), *arenas, printed]
        descriptors += [] if program is None else [program]
        try:
            reply = self._send_request(request, descriptors)
        finally:
            theirs.close()
        return NurseryProcess(pid=reply["pid"], control=ours)

    def end(self, process: NurseryProcess, *, wait: bool = False) -> dict[str, int]:
        """Kill a worker and the processes it started; return how the worker ended.

        With `wait` the worker gets a second to end by itself; "alive" says that it did not.
        """
        process.control.close()
        return self._send_request({"op": "end", "pid": process.pid, "wait": wait}, [])

    def stop(self, process: NurseryProcess) -> None:
        """Stop a worker and the processes it started, and wait until they have stopped."""
        self._send_request({"op": "stop", "pid": process.pid}, [])

    def resume(self, process: NurseryProcess) -> None:
        """Continue a stopped worker."""
        self._send_request({"op": "continue", "pid": process.pid}, [])

    def interrupt(self, process: NurseryProcess) -> None:
        """Have a worker break off the call that it runs, and reply at which line that was."""
        self._send_request({"op": "interrupt", "pid": process.pid}, [])

    def usage(self, process: NurseryProcess) -> dict[str, int]:
        """Return what a worker has used so far (see `child.usage`); {} if unknown."""
        return self._send_request({"op": "usage", "pid": process.pid}, [])

    def _send_request(self, request: dict[str, Any], descriptors: list[int]) -> dict[str, Any]:
        try:
            self._wait_until_ready()
            socket.send_fds(self._socket, [frames.encode_frame(request)], descriptors)
            return frames.receive_frame(self._receive_bytes)
        except (OSError, EOFError, frames.WireError) as error:
            self._socket.close()
            words = self._end_and_read_error() or str(error)
            self.failures += 1
            self._launch_process()  # the next request goes to a new process
            raise NurseryFailed(f"the process that starts workers went away: {words}") from None

    def _wait_until_ready(self) -> None:
        if not self._ready:
            self._socket.settimeout(START_SECONDS)
            frames.receive_frame(self._receive_bytes)
            self._socket.settimeout(30.0)
            self._ready = True

    def _receive_bytes(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            more = self._socket.recv(count - len(data))
            if not more:
                raise EOFError("it ended")
            data += more
        return data

    def _end_and_read_error(self, seconds: float = 0.0) -> str:
        """End the process, kill it after `seconds`, and return the last line of its errors."""
        try:
            _, errors = self._process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._share.kill()
            _, errors = self._process.communicate()
        lines = errors.decode("utf-8", "replace").strip().splitlines()
        return lines[-1] if lines else ""


def _build_nursery_environment(home: str) -> dict[str, str]:
    passed = {name: os.environ[name] for name in _VARIABLES if name in os.environ}
    own = {"HOME": home, "TMPDIR": home, "PYTHONUTF8": "1"}
    return passed | own | dict.fromkeys(THREAD_VARIABLES, "1") | _MALLOC_VARIABLES
