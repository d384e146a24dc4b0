"""The processes that a worker has started: found, stopped, ended. Linux only.

The nursery is a subreaper, so what a worker leaves behind becomes the nursery's own child, also
after it has taken a session of its own.
"""

import os
import signal
from collections.abc import Iterable
from pathlib import Path


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

    This goes on until nothing new appears: a stopped process does not fork.
    """
    others, stopped = list(others), set[int]()
    while True:
        spared = descendants(others)
        roots = {worker, *children(os.getpid())} - spared
        running = descendants(roots) - spared - stopped
        if not running:
            return stopped
        signal_all(running, signal.SIGSTOP)
        stopped |= running


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
