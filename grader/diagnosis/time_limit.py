"""Limits the time of a diagnosis: that of the grader's thread, and that of the answer's worker.

Time that other processes take does not count, so that a busy machine changes no report.
"""

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

DIAGNOSIS_SECONDS = 1.9  # of one answer, for everything that explains its failed checks
NAMING_SECONDS = 1.6  # of these, for the plainest failures and the names of mistakes
PLAINEST_SECONDS = 0.3  # of these, for the plainest failures
SINGLE_SECONDS = 1.1  # of these, for one mistake that fits everything
PAIR_SECONDS = 1.2  # of these, for two mistakes at once where a search for what mends comes after
REPAIR_SECONDS = 1.3  # of these, for changes of the answer that mend a failed check


class OutOfTime(Exception):
    """Raised where a search has used the seconds that it was given."""


@dataclass(frozen=True, slots=True)
class _Limit:
    end: float = math.inf
    waited: Callable[[], float] = lambda: 0.0  # seconds that the answer's worker has used

    def now(self) -> float:
        return time.thread_time() + self.waited()


_NO_LIMIT = _Limit()
_CURRENT_LIMIT: ContextVar[_Limit] = ContextVar("limit", default=_NO_LIMIT)


@contextmanager
def limit_diagnosis_time(
    seconds: float, waited: Callable[[], float] | None = None
) -> Iterator[None]:
    """Limit the time of a `with` block to so many seconds; a limit around the block holds too.

    waited  returns the seconds that the answer's worker has used; None: as in the limit around it
    """
    around = _CURRENT_LIMIT.get()
    limit = _Limit(waited=waited or around.waited)
    limit = _Limit(min(around.end, limit.now() + seconds), limit.waited)
    token = _CURRENT_LIMIT.set(limit)
    try:
        yield
    finally:
        _CURRENT_LIMIT.reset(token)


def is_diagnosis_time_left() -> bool:
    """Return whether the limits that hold here leave any time."""
    limit = _CURRENT_LIMIT.get()
    return limit.now() <= limit.end


def check_diagnosis_time() -> None:
    """Raise `OutOfTime` if no time is left."""
    if not is_diagnosis_time_left():
        raise OutOfTime
