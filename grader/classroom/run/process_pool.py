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
from grader.classroom.run.grade_work import leave, perform

T = TypeVar("T")
Result = dict[str, Any]
LOOK = 10.0  # seconds without a result, after which is asked whether there is anybody
LAST_WORDS = 15.0  # seconds that a process has to clean up after the run was killed


class Lanes(Protocol):
    """Where tasks are graded."""

    losses: tuple[type[Exception], ...]  # what a result raises whose process ended

    def width(self, lane: str) -> int:
        """How many tasks may be under way at once."""

    def submit(self, task: Task) -> "Future[Result]":
        """Have a task graded."""

    def look(self, lane: str) -> None:
        """Raise `UserError` if nothing will come of what is under way."""

    def close(self, *, at_once: bool) -> None:
        """End it all; `at_once` gives up what is under way."""


def results(lanes: Lanes, tasks: Iterable[Task]) -> Iterator[tuple[Task, Result | None]]:
    """Each task with its result, as they come; None for what ended its process twice.

    Takes from `tasks` no more than is under way.
    """
    pending: dict[Future[Result], Task] = {}
    lost: list[Task] = []
    for task in tasks:
        while len(pending) >= lanes.width(task.lane):
            yield from _finished(lanes, pending, lost)
        pending[lanes.submit(task)] = task
    while pending:
        yield from _finished(lanes, pending, lost)
    for task in lost:
        pending, again = {lanes.submit(task): task}, list[Task]()
        while pending:
            yield from _finished(lanes, pending, again)
        yield from ((task, None) for task in again)


def _finished(
    lanes: Lanes, pending: dict["Future[Result]", Task], lost: list[Task]
) -> Iterator[tuple[Task, Result]]:
    """What has finished by now, at least one; those that lost their process go to `lost`."""
    while not (done := wait(pending, LOOK, return_when=FIRST_COMPLETED).done):
        lanes.look(next(iter(pending.values())).lane)
    for future in done:
        task = pending.pop(future)
        try:
            result = future.result()
        except lanes.losses:
            lost.append(task)
        else:
            yield task, result


class Local:
    """Processes on this machine, each with a nursery of its own."""

    losses: tuple[type[Exception], ...] = (BrokenExecutor,)

    def __init__(self, jobs: int, secret: str) -> None:
        self._jobs = jobs
        self._secret = secret
        self._pool = self._start()

    def _start(self) -> ProcessPoolExecutor:
        context = multiprocessing.get_context("spawn")
        return ProcessPoolExecutor(self._jobs, context, initializer=_in_process)

    def width(self, lane: str) -> int:
        return 1 if lane == SPEED else self._jobs

    def submit(self, task: Task) -> "Future[Result]":
        return self.call(perform, task, self._secret)

    def call(self, function: Callable[..., T], *arguments: Any) -> "Future[T]":
        """Have one of the processes call a function."""
        with _without_interrupts():
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
def _own() -> Local:
    return Local(1, "")


def apart(function: Callable[..., T], *arguments: Any) -> T:
    """What a function gives in a process of its own, one and the same for all calls."""
    return _own().call(function, *arguments).result()


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """Ctrl-C waits; a process that is started here does not get it before it can leave it to us."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _in_process() -> None:
    """What a process does first: it ends with the run, and leaves Ctrl-C to it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    signal.signal(signal.SIGTERM, _end)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end(number: int, frame: object) -> None:
    leave()
    os._exit(1)


def _end_with_parent() -> None:
    """Exit when the parent has died."""
    parent, main = multiprocessing.parent_process(), threading.main_thread().ident
    assert parent is not None and main is not None
    connection.wait([parent.sentinel])
    signal.pthread_kill(main, signal.SIGTERM)
    time.sleep(LAST_WORDS)
    os._exit(1)
