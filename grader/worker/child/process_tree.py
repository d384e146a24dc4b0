"""The processes that a worker has started: found, stopped, ended. Linux only.

The nursery is a subreaper, so what a worker leaves behind becomes the nursery's own child, also
after it has taken a session of its own.
"""

import contextlib
import os
import signal
import time
from collections.abc import Iterable
from pathlib import Path

_ENDED = frozenset("ZX")  # a zombie, dead
_AT_REST = _ENDED | frozenset("Tt")  # stopped, traced
_STOP_SECONDS = 2.0  # what does not stand still so long, such as a call of the kernel, is left


def children(pid: int) -> list[int]:
    """The children of a process."""
    found: list[int] = []
    try:
        for task in Path(f"/proc/{pid}/task").iterdir():
            found += map(int, (task / "children").read_text().split())
    except OSError:  # it ended meanwhile, or this kernel does not list children
        return found
    return found


def descendants(pids: Iterable[int]) -> set[int]:
    """These processes, and all below them."""
    waiting, found = list(pids), set[int]()
    while waiting:
        pid = waiting.pop()
        if pid not in found:
            found.add(pid)
            waiting += children(pid)
    return found


def stop(worker: int, others: Iterable[int]) -> set[int]:
    """Have a worker, all below it, and every orphan stand still, but not what is the `others`'.

    This goes on until nobody new appears while all that were told to stand still do so: who was
    about to end when it was told may leave a child, which is seen only afterwards. The newest are
    told first, since some move on to a new process all the time.
    """
    others, told, ended = list(others), set[int](), set[int]()
    deadline = time.monotonic() + _STOP_SECONDS
    while True:
        states = {pid: state(pid) for pid in told - ended}
        ended |= {pid for pid, letters in states.items() if letters <= _ENDED}
        restless = [pid for pid, letters in states.items() if not letters <= _AT_REST]
        signal_all(restless, signal.SIGSTOP)
        known = len(told)
        _stop_new([worker, *children(os.getpid())], told, descendants(others) | ended)
        if len(told) == known and (not restless or time.monotonic() > deadline):
            return told


def _stop_new(roots: list[int], told: set[int], spared: set[int]) -> None:
    """Tell these processes and all below them to stand still, but those that were `told` before."""
    waiting, seen = list(roots), set(spared)
    while waiting:
        if (pid := waiting.pop()) not in seen:
            seen.add(pid)
            if pid not in told:
                _signal(pid, signal.SIGSTOP)
                told.add(pid)
            waiting += children(pid)


def state(pid: int) -> set[str]:
    """The letters of the states in which the threads of a process are; none if it is gone."""
    found = set[str]()
    with contextlib.suppress(OSError):  # the process ended meanwhile
        for task in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(OSError):  # the thread did
                stat = (task / "stat").read_text(errors="replace")
                found.add(stat.rpartition(") ")[2][:1])
    return found


def end(worker: int, others: Iterable[int]) -> set[int]:
    """Kill a worker, all below it, and every orphan, but not the `others` and what is theirs."""
    stopped = stop(worker, others)
    signal_all(stopped, signal.SIGKILL)
    return stopped


def signal_all(pids: Iterable[int], number: int) -> None:
    """Send a signal to each of these processes that is still there."""
    for pid in pids:
        _signal(pid, number)


def _signal(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):  # it ended meanwhile
        return
