"""Runs one submission's worker from the parent: starts, times, ends and restarts it."""

import mmap
import os
import socket
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from grader.core.records import Limits, Submission
from grader.worker.child import companion, frames, wire
from grader.worker.parent.client import Client, decode_worker_exception
from grader.worker.parent.deaths import explain_worker_death, was_worker_killed_outside
from grader.worker.parent.faults import (
    AnswerTimedOut,
    LoadFailed,
    NoAnswer,
    NurseryFailed,
    UnmetRequirement,
    WorkerDied,
    WorkerFault,
)
from grader.worker.parent.harmless_text import clean_worker_text
from grader.worker.parent.nursery import Nursery, NurseryProcess
from grader.worker.parent.patience import (
    Patience,
    count_worker_seconds,
    receive_reply_from_worker,
    send_request_to_worker,
)
from grader.worker.parent.shared_memory import make_shared_memory

MAX_RESTARTS = 5
CHANGED_CALL_SECONDS = 1.0  # for a call of a changed text
UNCOUNTED_SECONDS = 0.05  # of requests, before it is asked again what a worker has used
LINE_SECONDS = 3.0  # for a worker to say where it is; one that computes in C may not
MAX_SHOWN_CHARACTERS = 2000  # characters of what a submission printed


class Supervisor:
    """Keeps one worker running for one submission, inside its limits.

    `exchange` sends a request and returns the reply, or raises the `WorkerFault` that says what
    happened instead. After a fault the next request goes to a new worker.
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
        self._refuse = list(refuse)  # operators and functions that the submission may not call
        self._preload = list(preload)  # modules that the nursery imports before the fork
        self._prelude = prelude  # the text that runs before the submission
        self._core = core  # the processor to which the worker is bound
        self._gives_back = gives_back  # freed memory goes back at once: for measuring memory
        self._descriptors = (make_shared_memory("inputs"), make_shared_memory("answers"))
        self.inputs, self.answers = (wire.Arena(mmap.mmap(fd, 0)) for fd in self._descriptors)
        self._printed = tempfile.TemporaryFile()  # noqa: SIM115 (closed by us)
        self._program = (
            companion.open_worker_memory_file(submission.program) if submission.program else None
        )
        self._process: NurseryProcess | None = None
        self._starts = 0
        self._spent = 0.0  # seconds of the exercise that former workers used up
        self._asked = 0.0  # seconds that requests to this worker have taken
        self._counted = 0.0, 0.0  # these when `count_seconds` last looked, and what it found
        self._used = 0.0  # what `count_seconds` counts of former workers
        self._failures = nursery.failures
        self._killed = False
        self.generation = 0  # handles belong to one generation and end with it

    def close(self) -> None:
        self._end_worker()
        for descriptor in self._descriptors:
            os.close(descriptor)
        if self._program is not None:
            os.close(self._program)
        self._printed.close()

    @property
    def disturbed(self) -> bool:
        """Whether a process was killed, possibly not by the submission."""
        return self._killed or self._nursery.failures > self._failures

    def load(self) -> None:
        """Run the submission's file now, so that its own errors come first.

        Raises `UnmetRequirement` if the prelude of the exercise says that the exercise cannot run
        here.
        """
        self._ensure_started()

    def exchange(self, request: dict[str, Any]) -> dict[str, Any]:
        """Send a request and wait for the reply, timed by the parent's clock (see `patience`)."""
        self._ensure_started()
        return self._send_request(request)

    def reject(self) -> None:
        """End a worker whose reply had the wrong form; the next request starts a new worker."""
        self._end_worker()

    def stop(self) -> None:
        """Stop the worker until `resume`."""
        if self._process is not None:
            self._nursery.stop(self._process)

    def resume(self) -> None:
        """Continue the worker, if there is one."""
        if self._process is not None:
            self._nursery.resume(self._process)

    def usage(self) -> dict[str, int]:
        """Return what the worker has used so far (see `child.usage`); {} if unknown."""
        return {} if self._process is None else self._nursery.usage(self._process)

    def client(self, *, watch: bool = True) -> Client:
        """Return a client that calls this worker with Python values."""
        return Client(
            self.exchange, self.inputs, self.answers, lambda: self.generation, self.reject,
            watch=watch, count_seconds=self.count_seconds,
            text=self if self._submission.theirs else None,
        )  # fmt: skip

    def count_seconds(self) -> float:
        """Return the seconds that workers have used; the last `UNCOUNTED_SECONDS` may be missing.

        They are processor time, so that a busy machine adds none; where a system does not tell it,
        they are the seconds that requests have taken.
        """
        if self._asked - self._counted[0] > UNCOUNTED_SECONDS:
            used = self.usage().get("cpu_ns")
            self._counted = self._asked, self._asked if used is None else used / 1e9
        return self._used + self._counted[1]

    def output(self) -> str:
        """Return the first characters that the submission has printed; "..." if there are more."""
        self._printed.seek(0)
        found = self._printed.read(MAX_SHOWN_CHARACTERS + 1)
        text = clean_worker_text(found[:MAX_SHOWN_CHARACTERS].decode("utf-8", "replace"))
        return f"{text} ..." if len(found) > MAX_SHOWN_CHARACTERS else text

    def _ensure_started(self) -> None:
        if self._process is not None:
            return
        if self._nursery.failures > self._failures:
            raise NurseryFailed("the process that starts workers went away")
        if self._starts > MAX_RESTARTS:
            raise WorkerDied(
                f"the process ended {self._starts} times; nothing more was asked of it"
            )
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
        self._run_prelude()
        reply = self._load_text(self._submission.source, refuse=self._refuse)
        if "error" in reply:
            self._end_worker()
            raise LoadFailed(decode_worker_exception(reply["error"]))

    def _load_text(self, source: str, **more: Any) -> dict[str, Any]:
        slug, theirs = self._submission.slug, self._submission.theirs
        request = {"op": "load", "slug": slug, "source": source, "theirs": theirs}
        return self._send_request(request | more)

    @property
    def source(self) -> str:
        """Return the text of the submission."""
        return self._submission.source

    @contextmanager
    def change(self) -> Iterator[Callable[[str], bool]]:
        """Let changed versions of the answer run in the worker, then end the worker.

        The next request starts a new one. No verdict depends on what the versions do: if one ends
        the worker, that does not count as a disturbance.
        """
        self._ensure_started()
        limits, killed, generation = self._limits, self._killed, self.generation
        self._limits = replace(limits, call_seconds=min(limits.call_seconds, CHANGED_CALL_SECONDS))

        def load(source: str) -> bool:
            if self._process is None or self.generation != generation:
                raise WorkerDied("the process of a changed text ended")
            return "error" not in self._load_text(source)

        try:
            yield load
        finally:
            self._end_worker()
            self._limits, self._killed = limits, killed
            self._starts -= self.generation - generation + 1

    def _run_prelude(self) -> None:
        """Run the prelude in the worker, before the submission's file is loaded there."""
        if not self._prelude:
            return
        reply = self._send_request({"op": "prepare", "prelude": self._prelude})
        if "error" in reply:
            self._end_worker()
            problem = f"{reply['error']['type']}: {reply['error']['message']}"
            raise NurseryFailed(f"the prelude of {self._submission.slug} failed ({problem})")
        if reply["value"]:
            self._end_worker()
            raise UnmetRequirement(reply["value"])

    def _send_request(self, request: dict[str, Any]) -> dict[str, Any]:
        assert self._process is not None
        seconds = min(self._exercise_seconds_left(), self._limits.call_seconds)
        if seconds <= 0:
            raise AnswerTimedOut(
                f"the exercise used up its {self._limits.exercise_seconds:g} seconds"
            )
        try:
            return self._converse_timed(self._process.control, request, seconds)
        except TimeoutError:
            line = self._ask_line_of_call()
            self._end_worker()
            raise AnswerTimedOut(f"no answer within {seconds:g} s", line) from None
        except frames.WireError as error:
            self._end_worker()
            raise NoAnswer(f"the worker sent something that is no answer ({error})") from None
        except (EOFError, OSError):
            raise self._explain_death() from None

    def _ask_line_of_call(self) -> int | None:
        """Break off the worker's call, and return the line at which it was; None if unknown."""
        if self._process is None or not self._submission.theirs:
            return None  # the lines of a module of ours mean nothing to a student
        self._nursery.interrupt(self._process)
        no_usage = Patience(LINE_SECONDS, dict)
        try:
            reply = receive_reply_from_worker(self._process.control, no_usage)
        except (TimeoutError, EOFError, OSError, frames.WireError):
            return None
        try:
            return decode_worker_exception(reply.get("error")).line
        except NoAnswer:
            return None

    def _converse_timed(
        self, sock: socket.socket, request: dict[str, Any], seconds: float
    ) -> dict[str, Any]:
        started = time.monotonic()
        try:
            return send_request_to_worker(sock, request, Patience(seconds, self.usage))
        finally:
            self._asked += time.monotonic() - started

    def _exercise_seconds_left(self) -> float:
        """Return the exercise's seconds that are left; near the end, by the worker's usage."""
        left = self._limits.exercise_seconds - self._spent - self._asked
        if left < self._limits.call_seconds:
            return left + self._asked - count_worker_seconds(self._asked, self.usage())
        return left

    def _explain_death(self) -> WorkerFault:
        """End the worker and return the fault that says how it ended."""
        ended = self._end_worker(wait=True)
        self._killed = self._killed or was_worker_killed_outside(ended)
        return explain_worker_death(ended)

    def _end_worker(self, *, wait: bool = False) -> dict[str, int]:
        if self._process is None:
            return {}
        process, self._process = self._process, None
        usage = self._nursery.usage(process)
        spent = count_worker_seconds(self._asked, usage)
        self._spent += spent
        self._used += usage["cpu_ns"] / 1e9 if "cpu_ns" in usage else spent
        self._asked, self._counted = 0.0, (0.0, 0.0)
        return self._nursery.end(process, wait=wait)
