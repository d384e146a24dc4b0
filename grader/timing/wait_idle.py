"""Waits until the processor is undisturbed.

On a rented machine the other thread of a core may belong to somebody else. While that thread works,
a softmax takes a third longer here, a matrix product less than that, and nothing in /proc shows it.
So a small piece of the grader's own work is timed before every call, on the parties' core, while
the parties are stopped. As long as the piece takes clearly longer than its shortest time so far,
the call waits, up to a limit.
"""

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch

CALM_RATIO = 1.2  # to the least time of the piece: less may be the processor's own clock
PATIENCE_SECONDS = 10.0  # for one exercise
PAUSE_SECONDS = 0.01  # between two timings of the piece
MAX_CORES = 8  # to choose from
_PIECE_INPUT = torch.linspace(-4, 4, 128 * 1024).reshape(128, 1024)
_PIECE_REPEATS = 6

least_idle_piece_seconds = float("inf")  # of all timings in this process


class IdleWaiter:
    """The patience of one exercise, and the `core` of its parties; None if they are not bound."""

    def __init__(
        self, patience: float = PATIENCE_SECONDS, piece: Callable[[], float] | None = None
    ) -> None:
        self.core: int | None = None
        self._patience = patience
        self._piece = piece or _time_idle_piece

    def choose(self) -> None:
        """Choose the calmest core for the next set of processes."""
        if sys.platform != "linux":
            return
        found = {}
        for core in sorted(os.sched_getaffinity(0))[-MAX_CORES:]:
            with _run_on_idle_core(core):
                found[core] = self._piece()
        self.core = min(found, key=found.__getitem__)

    def wait(self) -> None:
        """Wait until the core is calm, or the patience is used up."""
        if self.core is None or self._patience <= 0:
            return
        started = time.perf_counter()
        with _run_on_idle_core(self.core):
            while not self._is_calm():
                if time.perf_counter() - started > self._patience:
                    break
                time.sleep(PAUSE_SECONDS)
        self._patience -= time.perf_counter() - started

    def _is_calm(self) -> bool:
        global least_idle_piece_seconds
        taken = self._piece()
        least_idle_piece_seconds = min(least_idle_piece_seconds, taken)
        return taken <= CALM_RATIO * least_idle_piece_seconds


def _time_idle_piece() -> float:
    """Return the least seconds of the piece in a few repeats."""
    taken = []
    for _ in range(_PIECE_REPEATS):
        started = time.perf_counter()
        torch.softmax(_PIECE_INPUT, -1)
        taken.append(time.perf_counter() - started)
    return min(taken)


@contextmanager
def _run_on_idle_core(core: int) -> Iterator[None]:
    """Bind this thread to one core inside the `with` block."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
