"""Lanes for tests: what grades in this process, and what grades nothing."""

from concurrent.futures import Future, ThreadPoolExecutor

from grader.classroom.run.grade_task import SPEED, ClassTask
from grader.classroom.run.grade_work import perform_class_task
from grader.core.result_store import ResultStore
from grader.core.scoring import SPEED_TO_COME


class InThisProcess:
    """Grades for real, one answer after the other, with one nursery for all runs of a secret."""

    losses = ()

    def __init__(self, jobs: int, secret: str) -> None:
        self._secret = secret

    def width(self, lane: str) -> int:
        return 1

    def submit(self, task: ClassTask) -> Future:
        future: Future = Future()
        future.set_result(perform_class_task(task, self._secret))
        return future

    def look(self, lane: str) -> None:
        raise AssertionError("nothing is under way")

    def close(self, *, at_once: bool) -> None:
        """The nursery stays for the next run."""


class Known:
    """Gives what another run has found out, two at a time."""

    losses = ()

    def __init__(self, store: ResultStore) -> None:
        self._store = store
        self._pool = ThreadPoolExecutor(2)

    def width(self, lane: str) -> int:
        return 2

    def submit(self, task: ClassTask) -> Future:
        return self._pool.submit(self._found, task)

    def _found(self, task: ClassTask) -> dict:
        found = self._store.get(task.key)
        assert found is not None
        return found

    def look(self, lane: str) -> None:
        """A thread does not go away."""

    def close(self, *, at_once: bool) -> None:
        self._pool.shutdown()


def result(earned: int | None, speed: str | None = None, why: str = "") -> dict:
    """An exercise's report as JSON has it, of one check."""
    score = None if earned is None else {"earned": earned, "possible": 2, "not_run": 0}
    timed = speed and {
        "verdict": speed, "says": "It is fast.", "points": 3, "earned": 3 if speed == "scored" else 0,
        "why": why, "fraction": None, "ratio": None, "interval": None, "measured": None,
    }  # fmt: skip
    return {
        "slug": "ex01_softmax", "title": "Softmax", "path": "", "sha256": "", "state": "graded",
        "sentence": "", "score": score, "checks": [], "speed": timed, "output": "", "seconds": 0.1,
    }  # fmt: skip


class Pretended:
    """Grades nothing; an answer's first word names its result: right, slow, busy, fault, deadly or anything else."""

    losses = (BrokenPipeError,)

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []  # lane, student
        self.closed: list[bool] = []

    def width(self, lane: str) -> int:
        return 1 if lane == SPEED else 3

    def submit(self, task: ClassTask) -> Future:
        self.asked.append((task.lane, task.student))
        future: Future = Future()
        word = task.content.split()[0].decode() if task.content else task.state
        if word == "deadly":
            future.set_exception(BrokenPipeError())
        elif word == "fault":
            future.set_result(result(None))
        elif task.lane == SPEED:
            future.set_result(result(5, "inconclusive" if word == "busy" else "scored"))
        elif word in ("right", "busy"):
            future.set_result(result(2, "not_run", SPEED_TO_COME))
        else:
            future.set_result(result(0, "failed"))
        return future

    def look(self, lane: str) -> None:
        raise AssertionError("nothing is under way")

    def close(self, *, at_once: bool) -> None:
        self.closed.append(at_once)
