"""Times out a call by a clock that stands still while other processes have the processor.

On a busy machine a call that computes for a second may return after ten. So a call is charged the
time that passed, less the time that the worker spent waiting for a processor, but at least the
processor time of all its threads. Where these are unknown, it is charged the time that passed. A
call always times out once ten times its limit has passed.
"""

import socket
import time
from collections.abc import Callable
from typing import Any

from grader.worker.child import frames

MAX_ELAPSED_PER_LIMIT = 10  # of elapsed time, however busy the machine was
_UNMEASURED_SHARE = 0.1  # of the limit; most calls are shorter, so that they are not measured


class Patience:
    """The time that is left for a call."""

    def __init__(self, seconds: float, usage: Callable[[], dict[str, int]]) -> None:
        """Start counting now.

        usage  what the worker has used since it began (see `child.usage`)
        """
        self.seconds = seconds
        self._usage = usage
        self._started = time.monotonic()
        self._first = 0.0  # seconds of the call that had passed when `_before` was read
        self._before: dict[str, int] | None = None

    def seconds_left(self) -> float:
        """Return the seconds until the next check; raises `TimeoutError` if none are left."""
        passed = time.monotonic() - self._started
        if self._before is None:
            if passed < _UNMEASURED_SHARE * self.seconds:
                return _UNMEASURED_SHARE * self.seconds - passed
            self._first, self._before = passed, self._usage()
        if passed < self.seconds:
            return self.seconds - passed
        used = self._first + count_worker_seconds(passed - self._first, self._usage(), self._before)
        if used >= self.seconds or passed >= MAX_ELAPSED_PER_LIMIT * self.seconds:
            raise TimeoutError
        return self.seconds - used


def count_worker_seconds(
    passed: float, usage: dict[str, int], before: dict[str, int] | None = None
) -> float:
    """Return how many of the seconds that passed count against the time limit.

    usage   what the worker has used since it began
    before  its usage when these seconds began; None: they began with the worker
    """
    if "queued_ns" not in usage or before == {}:
        return passed
    before = before or {"queued_ns": 0, "cpu_ns": 0}
    queued, computed = ((usage[name] - before[name]) / 1e9 for name in ("queued_ns", "cpu_ns"))
    return max(passed - queued, min(passed, computed))


def send_request_to_worker(
    sock: socket.socket, request: dict[str, Any], patience: Patience
) -> dict[str, Any]:
    """Send a request and wait for its reply. Raises `TimeoutError`, `EOFError`, `WireError`."""
    sock.settimeout(patience.seconds)
    frames.send_frame(sock, request)
    return receive_reply_from_worker(sock, patience)


def receive_reply_from_worker(sock: socket.socket, patience: Patience) -> dict[str, Any]:
    """Wait for a reply. Raises `TimeoutError`, `EOFError`, `WireError`."""

    def read(count: int) -> bytes:
        data = bytearray()
        while len(data) < count:
            sock.settimeout(patience.seconds_left())
            try:
                more = sock.recv(count - len(data))
            except TimeoutError:
                continue  # `seconds_left` decides
            if not more:
                raise EOFError
            data.extend(more)
        return bytes(data)

    return frames.receive_frame(read)
