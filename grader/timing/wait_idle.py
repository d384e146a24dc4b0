"""Waits until the processor is undisturbed.

On a rented machine the other thread of a core may belong to somebody else. While that one works,
a softmax takes a third longer here, a matrix product less than that, and nothing in /proc says so.
A small piece of the grader's own work tells: it is timed before every call, on the core of the
parties while they stand still, and while it takes longer than it can the call waits; up to a limit.
"""

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch

CALM_RATIO = 1.2  # times the least that the piece ever took: less may be the processor's own clock
PATIENCE_SECONDS = 10.0  # seconds of waiting for one exercise
PAUSE_SECONDS = 0.01  # seconds
MAX_CORES = 8  # that are tried
_PIECE_INPUT = torch.linspace(-4, 4, 128 * 1024).reshape(128, 1024)
_PIECE_REPEATS = 6

least_piece_seconds = float("inf")  # seconds that the piece took at best, in this process


class Calm:
    """The patience of one exercise. Its parties are bound to `core`; to none where that is None."""

    def __init__(
        self, patience: float = PATIENCE_SECONDS, piece: Callable[[], float] | None = None
    ) -> None:
        self.core: int | None = None
        self._patience = patience
        self._piece = piece or _time_piece

    def choose(self) -> None:
        """Choose the core for the next set of processes: the calmest one."""
        if sys.platform != "linux":
            return
        found = {}
        for core in sorted(os.sched_getaffinity(0))[-MAX_CORES:]:
            with _run_on_core(core):
                found[core] = self._piece()
        self.core = min(found, key=found.__getitem__)

    def wait(self) -> None:
        """Return when the core is calm, or when patience is at its end."""
        if self.core is None or self._patience <= 0:
            return
        started = time.perf_counter()
        with _run_on_core(self.core):
            while not self._is_calm():
                if time.perf_counter() - started > self._patience:
                    break
                time.sleep(PAUSE_SECONDS)
        self._patience -= time.perf_counter() - started

    def _is_calm(self) -> bool:
        global least_piece_seconds
        taken = self._piece()
        least_piece_seconds = min(least_piece_seconds, taken)
        return taken <= CALM_RATIO * least_piece_seconds


def _time_piece() -> float:
    """The least that the piece takes now."""
    taken = []
    for _ in range(_PIECE_REPEATS):
        started = time.perf_counter()
        torch.softmax(_PIECE_INPUT, -1)
        taken.append(time.perf_counter() - started)
    return min(taken)


@contextmanager
def _run_on_core(core: int) -> Iterator[None]:
    """Run this thread on one core meanwhile."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
