"""Hands tasks to processes that grade, and takes their results as they come.

A lane's width is the number of its tasks that may run at once: judging uses every processor, timing
has its machine to itself. A task whose process ended gets a second try, alone, so that no other
task is blamed.
"""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, wait
from functools import cache
from typing import Any, Protocol, TypeVar

from grader.classroom.run.grade_task import SPEED, ClassTask
from grader.classroom.run.grade_work import perform_class_task
from grader.grading.process_pool import ProcessPool

T = TypeVar("T")
Result = dict[str, Any]
POLL_SECONDS = 10.0  # seconds without a result, after which is asked whether there is anybody


class Lanes(Protocol):
    """The places where tasks are graded."""

    losses: tuple[type[Exception], ...]  # what a result raises whose process ended

    def width(self, lane: str) -> int:
        """Return how many tasks of a lane may run at once."""

    def submit(self, task: ClassTask) -> "Future[Result]":
        """Have a task graded."""

    def look(self, lane: str) -> None:
        """Raise `UserError` if the running tasks of a lane will never finish."""

    def close(self, *, at_once: bool) -> None:
        """End all lanes; `at_once` gives up running tasks."""


def run_class_tasks(
    lanes: Lanes, tasks: Iterable[ClassTask]
) -> Iterator[tuple[ClassTask, Result | None]]:
    """Yield each task with its result, as results come; with None if its process ended twice.

    Take no more tasks from `tasks` than can run at once.
    """
    pending: dict[Future[Result], ClassTask] = {}
    lost: list[ClassTask] = []
    for task in tasks:
        while len(pending) >= lanes.width(task.lane):
            yield from _wait_for_class_tasks(lanes, pending, lost)
        pending[lanes.submit(task)] = task
    while pending:
        yield from _wait_for_class_tasks(lanes, pending, lost)
    for task in lost:
        pending, again = {lanes.submit(task): task}, list[ClassTask]()
        while pending:
            yield from _wait_for_class_tasks(lanes, pending, again)
        yield from ((task, None) for task in again)


def _wait_for_class_tasks(
    lanes: Lanes, pending: dict["Future[Result]", ClassTask], lost: list[ClassTask]
) -> Iterator[tuple[ClassTask, Result]]:
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


class LocalLanes(ProcessPool):
    """Processes on this machine, each with a nursery of its own."""

    losses: tuple[type[Exception], ...] = (BrokenExecutor,)

    def __init__(self, jobs: int, secret: str) -> None:
        super().__init__(jobs)
        self._secret = secret

    def width(self, lane: str) -> int:
        return 1 if lane == SPEED else self.processes

    def submit(self, task: ClassTask) -> "Future[Result]":
        return self.call(perform_class_task, task, self._secret)

    def look(self, lane: str) -> None:
        """Do nothing: the pool reports dead processes itself."""


@cache
def _open_class_pool() -> ProcessPool:
    return ProcessPool(1)


def call_class_process(function: Callable[..., T], *arguments: Any) -> T:
    """Call a function in one process of its own, and return what it returns."""
    return _open_class_pool().call(function, *arguments).result()
