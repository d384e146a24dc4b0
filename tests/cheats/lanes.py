"""Runs many cheats: several at a time, and one by one those on whom the grader's clock is set."""

from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType

from tests.cheats.cheat import Cheat
from tests.cheats.outcomes import Outcome, run

PARALLEL = 3  # at a time; most of a run is waiting


class Lanes:
    """`submit` a cheat and a wall; the outcome comes when it is asked for."""

    def __init__(self) -> None:
        self._timed = ThreadPoolExecutor(1)
        self._others = ThreadPoolExecutor(PARALLEL)

    def submit(self, cheat: Cheat, wall: str) -> "Future[Outcome]":
        """Start a run when there is room for it."""
        return (self._timed if cheat.timed else self._others).submit(run, cheat, wall)

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
