"""Runs many cheats: several at a time, and one by one those on whom the grader's clock is set."""

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType

from tests.cheats.cheat import Cheat
from tests.cheats.outcomes import Outcome
from tests.cheats.room import Room
from tests.cheats.shared import GradingProcess

PARALLEL = 3  # at a time; much of a run is waiting


class Lanes:
    """`submit` a cheat and a wall to `run`; the outcome comes when it is asked for."""

    def __init__(self, run: Callable[[Cheat, str], Outcome]) -> None:
        self._run = run
        self._timed = ThreadPoolExecutor(1)
        self._others = ThreadPoolExecutor(PARALLEL)

    def submit(self, cheat: Cheat, wall: str) -> "Future[Outcome]":
        """Start a run when there is room for it."""
        return (self._timed if cheat.timed else self._others).submit(self._run, cheat, wall)

    def __enter__(self) -> "Lanes":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for lane in (self._timed, self._others):
            lane.shutdown(cancel_futures=True)


class GradingProcesses:
    """One process for every lane, kept for the cheats to come behind the same wall."""

    def __init__(self) -> None:
        self._idle: list[GradingProcess] = []
        self._lock = threading.Lock()

    def run(self, cheat: Cheat, wall: str) -> Outcome:
        """Grade a cheat in a process that is as it was when it was started."""
        process = self._taken(wall)
        try:
            return process.grade(cheat)
        finally:
            self._give_back(process)

    def _taken(self, wall: str) -> GradingProcess:
        with self._lock:
            for process in self._idle:
                if process.wall == wall:
                    self._idle.remove(process)
                    return process
            others, self._idle = self._idle, []
        for other in others:  # its wall has had its turn, and memory is short
            other.close()
        return GradingProcess(wall, Room())

    def _give_back(self, process: GradingProcess) -> None:
        if process.spoilt:
            process.close()
            return
        with self._lock:
            self._idle.append(process)

    def __enter__(self) -> "GradingProcesses":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for process in self._idle:
            process.close()
