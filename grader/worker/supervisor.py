"""One submission's worker as the parent sees it: started, asked, timed, ended, started again."""

import mmap
import os
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Sequence
from typing import Any

from grader.core.records import Limits, Submission
from grader.worker.child import companion, frames, wire
from grader.worker.client import Client, raised
from grader.worker.faults import (
    Died,
    NoAnswer,
    NotHere,
    NurseryFailed,
    TimedOut,
    WorkerFault,
)
from grader.worker.harmless_text import harmless
from grader.worker.nursery import Nursery, Process
from grader.worker.patience import Patience, converse, counted

ARENA_BYTES = 512 << 20  # of address space; memory is used only where something was written
MAX_RESTARTS = 5
_FROM_OUTSIDE = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
SHOWN_OUTPUT = 2000  # characters of what a submission printed


class Supervisor:
    """Keeps one worker alive for one submission, inside its limits.

    `exchange` sends a request and returns the reply, or raises the `WorkerFault` that says what
    happened instead. After a fault the next request meets a fresh worker.
    """

    def __init__(
        self,
        nursery: Nursery,
        submission: Submission,
        limits: Limits,
        *,
        on_cuda: bool = False,
        refuse: Sequence[str] = (),
        preload: Sequence[str] = (),
        prelude: str = "",
        core: int | None = None,
        gives_back: bool = False,
    ) -> None:
        self._nursery = nursery
        self._submission = submission
        self._limits = limits
        self._on_cuda = on_cuda
        self._refuse = list(refuse)  # what the submission may not call
        self._preload = list(preload)  # modules that it finds imported
        self._prelude = prelude  # what runs before it
        self._core = core  # the processor to which it is bound
        self._gives_back = gives_back  # what it has freed, at once: for the meter of memory
        self._descriptors = (_shared_memory("inputs"), _shared_memory("answers"))
        self.inputs, self.answers = (wire.Arena(mmap.mmap(fd, 0)) for fd in self._descriptors)
        self._printed = tempfile.TemporaryFile()  # noqa: SIM115 (closed by us)
        self._program = companion.opened(submission.program) if submission.program else None
        self._process: Process | None = None
        self._starts = 0
        self._spent = 0.0  # seconds of the exercise that former workers used up
        self._asked = 0.0  # seconds for which this worker was asked
        self._failures = nursery.failures
        self._killed = False
        self.generation = 0  # handles belong to one generation and end with it

    def close(self) -> None:
        self._end()
        for descriptor in self._descriptors:
            os.close(descriptor)
        if self._program is not None:
            os.close(self._program)
        self._printed.close()

    @property
    def disturbed(self) -> bool:
        """Whether a process was killed, and it may not have been the submission that did it."""
        return self._killed or self._nursery.failures > self._failures

    def load(self) -> None:
        """Run the submission's file now, so that its own errors come first.

        Raises `NotHere` if its prelude says that nothing can be asked of it.
        """
        self._ensure_started()

    def exchange(self, request: dict[str, Any]) -> dict[str, Any]:
        """Ask and wait. The parent's clock decides how long (see `patience`)."""
        self._ensure_started()
        return self._ask(request)

    def reject(self) -> None:
        """End a worker whose reply was no answer; the next request meets a fresh one."""
        self._end()

    def stop(self) -> None:
        """Have the worker stand still until `resume`."""
        if self._process is not None:
            self._nursery.stop(self._process)

    def resume(self) -> None:
        """Let the worker go on; there need not be one."""
        if self._process is not None:
            self._nursery.resume(self._process)

    def usage(self) -> dict[str, int]:
        """What the worker has used so far (see `child.usage`); empty where that is not known."""
        return {} if self._process is None else self._nursery.usage(self._process)

    def client(self, *, watch: bool = True) -> Client:
        """Calls to this worker in the form of Python values."""
        return Client(
            self.exchange, self.inputs, self.answers, lambda: self.generation, self.reject,
            watch=watch,
        )  # fmt: skip

    def output(self) -> str:
        """The beginning of what the submission has printed."""
        self._printed.seek(0)
        return harmless(self._printed.read(SHOWN_OUTPUT).decode("utf-8", "replace"))

    def _ensure_started(self) -> None:
        if self._process is not None:
            return
        if self._nursery.failures > self._failures:
            raise NurseryFailed("the process that starts workers went away")
        if self._starts > MAX_RESTARTS:
            raise Died(f"the process ended {self._starts} times; nothing more was asked of it")
        self._starts += 1
        self.generation += 1
        self._process = self._nursery.start(
            arenas=self._descriptors,
            printed=self._printed.fileno(),
            program=self._program,
            limits=self._limits,
            on_cuda=self._on_cuda,
            core=self._core,
            preload=self._preload,
            gives_back=self._gives_back,
            kernels=f"{self._submission.slug}-{self._submission.sha256}" if self._on_cuda else "",
        )
        self._prepare()
        source, slug = self._submission.source, self._submission.slug
        reply = self._ask(
            {
                "op": "load", "slug": slug, "source": source, "refuse": self._refuse,
                "theirs": self._submission.theirs,
            }
        )  # fmt: skip
        if "error" in reply:
            self._end()
            raise LoadFailed(reply["error"])

    def _prepare(self) -> None:
        """Run the prelude, before anything of the submission's is in the process."""
        if not self._prelude:
            return
        reply = self._ask({"op": "prepare", "prelude": self._prelude})
        if "error" in reply:
            self._end()
            problem = f"{reply['error']['type']}: {reply['error']['message']}"
            raise NurseryFailed(f"the prelude of {self._submission.slug} failed ({problem})")
        if reply["value"]:
            self._end()
            raise NotHere(reply["value"])

    def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        assert self._process is not None
        seconds = min(self._left(), self._limits.call_seconds)
        if seconds <= 0:
            raise TimedOut(f"the exercise used up its {self._limits.exercise_seconds:g} seconds")
        try:
            return self._converse(self._process.control, request, seconds)
        except TimeoutError:
            self._end()
            raise TimedOut(f"no answer within {seconds:g} s") from None
        except frames.WireError as error:
            self._end()
            raise NoAnswer(f"the worker sent something that is no answer ({error})") from None
        except (EOFError, OSError):
            raise self._post_mortem() from None

    def _converse(
        self, sock: socket.socket, request: dict[str, Any], seconds: float
    ) -> dict[str, Any]:
        started = time.monotonic()
        try:
            return converse(sock, request, Patience(seconds, self.usage))
        finally:
            self._asked += time.monotonic() - started

    def _left(self) -> float:
        """Seconds of the exercise that are left. They are counted closely only near their end."""
        left = self._limits.exercise_seconds - self._spent - self._asked
        if left < self._limits.call_seconds:
            return left + self._asked - counted(self._asked, self.usage())
        return left

    def _post_mortem(self) -> WorkerFault:
        """How the worker ended, as a sentence."""
        ended = self._end(wait=True)
        if ended.get("alive"):
            return Died("the process closed its connection and gave no answer")
        number = ended.get("signal")
        if ended.get("crowded"):
            return Died("the process was killed: it started too many other processes")
        if ended.get("exit") == frames.DEVICE_LOST:
            return Died("a kernel broke off on the GPU (an access outside of its arrays, say)")
        if number is None:
            code = ended.get("exit")
            return Died(f"the process ended itself (exit code {code}) and gave no answer")
        self._killed = self._killed or number in _FROM_OUTSIDE
        if number in (signal.SIGXCPU, signal.SIGKILL):
            return Died("the process was killed: it used too much memory or processor time")
        return Died(f"the process crashed ({_signal_name(number)})")

    def _end(self, *, wait: bool = False) -> dict[str, int]:
        if self._process is None:
            return {}
        process, self._process = self._process, None
        self._spent += counted(self._asked, self._nursery.usage(process))
        self._asked = 0.0
        return self._nursery.end(process, wait=wait)


def _signal_name(number: int) -> str:
    if number == signal.SIGSEGV:
        return "a segmentation fault"
    known = {s.value: s.name for s in signal.Signals}
    return known.get(number, f"signal {number}")


class LoadFailed(WorkerFault):
    """The submission's file raised while it was loaded; `error` is as it crossed the wire."""

    def __init__(self, error: Any) -> None:
        problem = raised(error)
        super().__init__(f"the file could not be loaded again after a crash ({problem})")
        self.problem = problem


def _shared_memory(name: str) -> int:
    """A descriptor of memory that two processes can map; on Linux nobody can resize it."""
    if sys.platform == "linux":
        import fcntl

        descriptor = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(descriptor, ARENA_BYTES)
        seals = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, seals)
        return descriptor
    with tempfile.TemporaryFile() as file:  # no memfd: an unlinked file serves
        os.ftruncate(file.fileno(), ARENA_BYTES)
        return os.dup(file.fileno())
