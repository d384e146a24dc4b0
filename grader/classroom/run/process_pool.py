"""Hands tasks to processes that grade, and takes their results as they come.

A lane is as wide as tasks of its kind may run at once: judging on every processor, timing alone on
its machine. What ends its process costs a second try, by itself, so that no other task is blamed.
"""

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import (
    FIRST_COMPLETED,
    BrokenExecutor,
    Future,
    ProcessPoolExecutor,
    wait,
)
from contextlib import contextmanager
from functools import cache
from multiprocessing import connection
from typing import Any, Protocol, TypeVar

from grader.classroom.run.grade_task import SPEED, Task
from grader.classroom.run.grade_work import leave, perform_task

T = TypeVar("T")
Result = dict[str, Any]
POLL_SECONDS = 10.0  # seconds without a result, after which is asked whether there is anybody
FAREWELL_SECONDS = 15.0  # seconds that a process has to clean up after the run was killed


class Lanes(Protocol):
    """The places where tasks are graded."""

    losses: tuple[type[Exception], ...]  # what a result raises whose process ended

    def width(self, lane: str) -> int:
        """How many tasks may be under way at once."""

    def submit(self, task: Task) -> "Future[Result]":
        """Have a task graded."""

    def look(self, lane: str) -> None:
        """Raise `UserError` if nothing will come of what is under way."""

    def close(self, *, at_once: bool) -> None:
        """End it all; `at_once` gives up what is under way."""


def run_tasks(lanes: Lanes, tasks: Iterable[Task]) -> Iterator[tuple[Task, Result | None]]:
    """Yield each task with its result as results come; None if the task ended its process twice.

    Takes from `tasks` no more than is under way.
    """
    pending: dict[Future[Result], Task] = {}
    lost: list[Task] = []
    for task in tasks:
        while len(pending) >= lanes.width(task.lane):
            yield from _wait_for_finished(lanes, pending, lost)
        pending[lanes.submit(task)] = task
    while pending:
        yield from _wait_for_finished(lanes, pending, lost)
    for task in lost:
        pending, again = {lanes.submit(task): task}, list[Task]()
        while pending:
            yield from _wait_for_finished(lanes, pending, again)
        yield from ((task, None) for task in again)


def _wait_for_finished(
    lanes: Lanes, pending: dict["Future[Result]", Task], lost: list[Task]
) -> Iterator[tuple[Task, Result]]:
    """Return the finished tasks, at least one; put those that lost their process into `lost`."""
    while not (done := wait(pending, POLL_SECONDS, return_when=FIRST_COMPLETED).done):
        lanes.look(next(iter(pending.values())).lane)
    for future in done:
        task = pending.pop(future)
        try:
            result = future.result()
        except lanes.losses:
            lost.append(task)
        else:
            yield task, result


class LocalPool:
    """Processes on this machine, each with a nursery of its own."""

    losses: tuple[type[Exception], ...] = (BrokenExecutor,)

    def __init__(self, jobs: int, secret: str) -> None:
        self._jobs = jobs
        self._secret = secret
        self._pool = self._start()

    def _start(self) -> ProcessPoolExecutor:
        context = multiprocessing.get_context("spawn")
        return ProcessPoolExecutor(self._jobs, context, initializer=_begin_process)

    def width(self, lane: str) -> int:
        return 1 if lane == SPEED else self._jobs

    def submit(self, task: Task) -> "Future[Result]":
        return self.call(perform_task, task, self._secret)

    def call(self, function: Callable[..., T], *arguments: Any) -> "Future[T]":
        """Have one of the processes call a function."""
        with _hold_interrupts():
            try:
                return self._pool.submit(function, *arguments)
            except BrokenExecutor:
                self._pool.shutdown(wait=False)
                self._pool = self._start()
                return self._pool.submit(function, *arguments)

    def look(self, lane: str) -> None:
        """Do nothing: the local pool reports dead processes itself."""

    def close(self, *, at_once: bool) -> None:
        if at_once:
            for process in multiprocessing.active_children():
                process.terminate()
        self._pool.shutdown(cancel_futures=True)


@cache
def _run_in_own_process() -> LocalPool:
    return LocalPool(1, "")


def call_apart(function: Callable[..., T], *arguments: Any) -> T:
    """Return a function that calls another in one process of its own."""
    return _run_in_own_process().call(function, *arguments).result()


@contextmanager
def _hold_interrupts() -> Iterator[None]:
    """Hold Ctrl-C, so that a process that is started here does not receive it too early."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _begin_process() -> None:
    """Prepare a process: it ends with the run, and leaves Ctrl-C to it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    signal.signal(signal.SIGTERM, _end_processes)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_processes(number: int, frame: object) -> None:
    leave()
    os._exit(1)


def _end_with_parent() -> None:
    """Exit when the parent has died."""
    parent, main = multiprocessing.parent_process(), threading.main_thread().ident
    assert parent is not None and main is not None
    connection.wait([parent.sentinel])
    signal.pthread_kill(main, signal.SIGTERM)
    time.sleep(FAREWELL_SECONDS)
    os._exit(1)
