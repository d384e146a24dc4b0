"""Processes of the trusted side that grade at the same time, each with a nursery of its own."""

import atexit
import gc
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from multiprocessing import connection
from typing import Any, TypeVar

from grader.worker.parent.walls import hide_grader_from_workers

T = TypeVar("T")
FAREWELL_SECONDS = 15.0  # seconds that a process has to clean up after the run was killed

AT_THE_END = ExitStack()  # what this process does last: it ends what it started
atexit.register(AT_THE_END.close)


class ProcessPool:
    """A number of processes; one that dies is replaced."""

    def __init__(self, processes: int) -> None:
        self.processes = processes
        self._pool = self._start()

    def call(self, function: Callable[..., T], *arguments: Any) -> "Future[T]":
        """Have one of the processes call a function."""
        with _hold_grading_interrupts():
            try:
                return self._pool.submit(function, *arguments)
            except BrokenExecutor:
                self._pool.shutdown(wait=False)
                self._pool = self._start()
                return self._pool.submit(function, *arguments)

    def close(self, *, at_once: bool) -> None:
        """End the processes; `at_once` gives up running calls."""
        if at_once:
            for process in multiprocessing.active_children():
                process.terminate()
        self._pool.shutdown(cancel_futures=True)

    def _start(self) -> ProcessPoolExecutor:
        context = multiprocessing.get_context("spawn")
        return ProcessPoolExecutor(self.processes, context, initializer=_begin_grading_process)


@contextmanager
def _hold_grading_interrupts() -> Iterator[None]:
    """Hold Ctrl-C, so that a process that is started here does not receive it too early."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _begin_grading_process() -> None:
    """Prepare a process: it ends with the run, and leaves Ctrl-C to it."""
    hide_grader_from_workers()  # it is about to hold secrets
    atexit.register(gc.freeze)  # at its end Python would search for garbage for half a second
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    signal.signal(signal.SIGTERM, _end_grading_processes)
    threading.Thread(target=_end_pool_process_with_parent, daemon=True).start()


def _end_grading_processes(number: int, frame: object) -> None:
    AT_THE_END.close()
    os._exit(1)


def _end_pool_process_with_parent() -> None:
    """Exit when the parent has died."""
    parent, main = multiprocessing.parent_process(), threading.main_thread().ident
    assert parent is not None and main is not None
    connection.wait([parent.sentinel])
    signal.pthread_kill(main, signal.SIGTERM)
    time.sleep(FAREWELL_SECONDS)
    os._exit(1)
