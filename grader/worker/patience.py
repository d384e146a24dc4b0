"""How long an answer may take: by a clock that stands still while others have the processor.

On a busy machine a call that computes for a second is done after ten. What counts is the time that
passed less that for which the worker was ready to run and did not, but no less than what it
computed in all its threads; where that is not known, the time that passed. In any case it ends
after ten times as long.
"""

import socket
import time
from collections.abc import Callable
from typing import Any

from .child import frames

MOST = 10  # times the limit, whatever the machine did meanwhile
_FIRST = 0.1  # of the limit: until then nobody asks what a call uses, for most calls are shorter


class Patience:
    """The time that is left for a call."""

    def __init__(self, seconds: float, usage: Callable[[], dict[str, int]]) -> None:
        """Begin now.

        usage  what the worker has used since it began (see `child.usage`)
        """
        self.seconds = seconds
        self._usage = usage
        self._started = time.monotonic()
        self._first = 0.0  # seconds of the call that had passed when `_before` was read
        self._before: dict[str, int] | None = None

    def left(self) -> float:
        """Seconds to wait before this is asked again. Raises `TimeoutError` when they are over."""
        passed = time.monotonic() - self._started
        if self._before is None:
            if passed < _FIRST * self.seconds:
                return _FIRST * self.seconds - passed
            self._first, self._before = passed, self._usage()
        if passed < self.seconds:
            return self.seconds - passed
        used = self._first + counted(passed - self._first, self._usage(), self._before)
        if used >= self.seconds or passed >= MOST * self.seconds:
            raise TimeoutError
        return self.seconds - used


def counted(passed: float, usage: dict[str, int], before: dict[str, int] | None = None) -> float:
    """The seconds that count, of those that passed.

    usage   what the worker has used since it began
    before  the same when these seconds began; None: they began with the worker
    """
    if "queued_ns" not in usage or before == {}:
        return passed
    before = before or {"queued_ns": 0, "cpu_ns": 0}
    queued, computed = ((usage[name] - before[name]) / 1e9 for name in ("queued_ns", "cpu_ns"))
    return max(passed - queued, min(passed, computed))


def converse(sock: socket.socket, request: dict[str, Any], patience: Patience) -> dict[str, Any]:
    """Send a request and wait for its reply. Raises `TimeoutError`, `EOFError`, `WireError`."""

    def read(count: int) -> bytes:
        data = bytearray()
        while len(data) < count:
            sock.settimeout(patience.left())
            try:
                more = sock.recv(count - len(data))
            except TimeoutError:
                continue  # the next look at what is left decides
            if not more:
                raise EOFError
            data.extend(more)
        return bytes(data)

    sock.settimeout(patience.seconds)
    frames.send(sock, request)
    return frames.receive(read)
