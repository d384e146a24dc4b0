"""Lists, stops and kills the processes that a worker has started. Linux only.

The nursery is a subreaper, so a worker's orphans become the nursery's own children, even those with
a session of their own.
"""

import contextlib
import os
import signal
import time
from collections.abc import Iterable
from pathlib import Path

_ENDED_STATES = frozenset("ZX")  # a zombie, dead
_RESTING_STATES = _ENDED_STATES | frozenset("Tt")  # stopped, traced
_STOP_SECONDS = 2.0  # then leaves a process that still runs, as in a long system call


def list_child_processes(pid: int) -> list[int]:
    """Return the children of a process."""
    found: list[int] = []
    with contextlib.suppress(OSError):  # the process ended meanwhile
        for task in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(OSError):  # the thread did, or this kernel lists no children
                found += map(int, (task / "children").read_text().split())
    return found


def list_descendant_processes(pids: Iterable[int]) -> set[int]:
    """Return these processes and all their descendants."""
    waiting, found = list(pids), set[int]()
    while waiting:
        pid = waiting.pop()
        if pid not in found:
            found.add(pid)
            waiting += list_child_processes(pid)
    return found


def stop_process_tree(worker: int, others: Iterable[int]) -> set[int]:
    """Stop a worker, all below it, and every orphan, but not the `others` and their processes.

    Repeats until all signalled processes have stopped and no new one appears: a process that was
    about to end when it was signalled may leave a child, which appears only later. The newest are
    signalled first, since some programs move on to a new process all the time.
    """
    others, told, ended = list(others), set[int](), set[int]()
    deadline = time.monotonic() + _STOP_SECONDS
    while True:
        states = {pid: read_process_thread_states(pid) for pid in told - ended}
        ended |= {pid for pid, letters in states.items() if letters <= _ENDED_STATES}
        restless = [pid for pid, letters in states.items() if not letters <= _RESTING_STATES]
        signal_worker_processes(restless, signal.SIGSTOP)
        known = len(told)
        _stop_new_tree_processes(
            [worker, *list_child_processes(os.getpid())],
            told,
            list_descendant_processes(others) | ended,
        )
        if len(told) == known and (not restless or time.monotonic() > deadline):
            return told


def _stop_new_tree_processes(roots: list[int], told: set[int], spared: set[int]) -> None:
    """Stop the `roots` and their descendants, except the `spared` and those in `told`.

    `told` holds the processes that have been stopped; new ones are added to it.
    """
    waiting, seen = list(roots), set(spared)
    while waiting:
        if (pid := waiting.pop()) not in seen:
            seen.add(pid)
            if pid not in told:
                _signal_worker_process(pid, signal.SIGSTOP)
                told.add(pid)
            waiting += list_child_processes(pid)


def read_process_thread_states(pid: int) -> set[str]:
    """Return the state letters of the threads of a process; empty if the process has ended."""
    found = set[str]()
    with contextlib.suppress(OSError):  # the process ended meanwhile
        for task in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(OSError):  # the thread ended meanwhile
                stat = (task / "stat").read_text(errors="replace")
                found.add(stat.rpartition(") ")[2][:1])
    return found


def kill_process_tree(worker: int, others: Iterable[int]) -> set[int]:
    """Kill a worker, all below it, and every orphan, but not the `others` and their processes."""
    stopped = stop_process_tree(worker, others)
    signal_worker_processes(stopped, signal.SIGKILL)
    return stopped


def signal_worker_processes(pids: Iterable[int], number: int) -> None:
    """Send a signal to each of these processes that still runs."""
    for pid in pids:
        _signal_worker_process(pid, number)


def _signal_worker_process(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):  # it ended meanwhile
        return
