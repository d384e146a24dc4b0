"""The parent's side of the nursery: starts it, asks it for workers, and ends what is left."""

import importlib.util
import os
import signal
import socket
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from grader.records import Limits
from grader.worker.child import frames
from grader.worker.faults import NurseryFailed

CHILD = Path(__file__).resolve().parent / "child"
START_SECONDS = 120.0  # a cold `import torch` from a slow disk
# Variables that let torch and CUDA find their libraries; nothing else of ours reaches a worker.
_PASSED_ON = ("PATH", "LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES", "CUDA_HOME", "SYSTEMROOT", "LANG")
_ONE_THREAD = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
# Fresh temporaries stay in the heap instead of going back to the kernel after every operator.
_MALLOC = {"MALLOC_MMAP_THRESHOLD_": "1073741824", "MALLOC_TRIM_THRESHOLD_": "1073741824"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """A worker as the nursery started it."""

    pid: int
    control: socket.socket


class Nursery:
    """Workers, a few milliseconds each, from one process that has imported torch.

    Starting returns at once; the first worker waits for the import.
    """

    def __init__(self) -> None:
        self.home = tempfile.TemporaryDirectory(prefix="grader-", ignore_cleanup_errors=True)
        self._launch()

    def _launch(self) -> None:
        ours, theirs = socket.socketpair()
        self._socket = ours
        self._ready = False
        command = [sys.executable, "-I", str(CHILD), str(theirs.fileno()), *_site_folders()]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env=_environment(self.home.name),
            cwd=self.home.name,
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
        """End the nursery; its workers end with it."""
        self._socket.close()
        try:
            self._process.communicate(timeout=2)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()
        self.home.cleanup()

    def start(self, *, home: Path, arenas: tuple[int, int], printed: int, limits: Limits,
              on_cuda: bool) -> Process:  # fmt: skip
        """Fork a worker that maps `arenas` and prints to the descriptor `printed`."""
        ours, theirs = socket.socketpair()
        memory = None if on_cuda else int(limits.memory_gib * 2**30)
        wanted = {"memory_bytes": memory, "cpu_seconds": int(2 * limits.exercise_seconds) + 1}
        request = {"op": "start", "home": str(home), "limits": wanted}
        reply = self._ask(request, [theirs.fileno(), *arenas, printed])
        theirs.close()
        return Process(pid=reply["pid"], control=ours)

    def end(self, process: Process) -> dict[str, int]:
        """Kill what is left of a worker, with its whole group, and say how it had ended."""
        process.control.close()
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            # Not yet the leader of its own group, or only a zombie is left of it.
            _kill(process.pid)
        return self._ask({"op": "status", "pid": process.pid}, [])

    def _ask(self, request: dict[str, Any], descriptors: list[int]) -> dict[str, Any]:
        try:
            self._wait_until_ready()
            socket.send_fds(self._socket, [frames.frame(request)], descriptors)
            return frames.receive(self._read)
        except (OSError, EOFError, frames.WireError) as error:
            words = self._last_words() or str(error)
            self._launch()  # what comes next meets a new one
            raise NurseryFailed(f"the process that starts workers went away: {words}") from None

    def _wait_until_ready(self) -> None:
        if not self._ready:
            self._socket.settimeout(START_SECONDS)
            frames.receive(self._read)
            self._socket.settimeout(30.0)
            self._ready = True

    def _read(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            more = self._socket.recv(count - len(data))
            if not more:
                raise EOFError("it ended")
            data += more
        return data

    def _last_words(self) -> str:
        """The last line of the nursery's own error output, which ends with this."""
        self._socket.close()
        self._process.kill()
        _, errors = self._process.communicate()
        lines = errors.decode("utf-8", "replace").strip().splitlines()
        return lines[-1] if lines else ""


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def _site_folders() -> list[str]:
    """Where numpy and torch lie, found without importing them."""
    specs = [importlib.util.find_spec(name) for name in ("numpy", "torch")]
    return sorted({str(Path(s.origin).parent.parent) for s in specs if s and s.origin})


def _environment(home: str) -> dict[str, str]:
    passed = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    own = {"HOME": home, "TMPDIR": home, "PYTHONUTF8": "1"}
    return passed | own | dict.fromkeys(_ONE_THREAD, "1") | _MALLOC
