"""Runs a command and says as JSON how it ended and which processes it left; then ends those.

`python reaper.py SECONDS LOG COMMAND...`. On Linux every orphan becomes a child of this process,
so that nothing escapes by a session of its own.
"""

import contextlib
import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

_PR_SET_CHILD_SUBREAPER = 36
GRACE = 2.0  # seconds for what was killed to be gone


def main(seconds: str, log: str, *command: str) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    started = time.monotonic()
    with open(log, "wb") as file:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=file, stderr=file, start_new_session=True
        )
    ended = _wait(process.pid, started + float(seconds))
    took = time.monotonic() - started
    print(json.dumps({"ended": ended, "seconds": took, "left": _left_over()}))


def _wait(pid: int, deadline: float) -> int | str:
    """Its exit code, minus its signal, or what was done to it; then it is no more."""
    while time.monotonic() < deadline:
        ended, status = os.waitpid(pid, os.WNOHANG | os.WUNTRACED)
        if ended and not os.WIFSTOPPED(status):
            return os.waitstatus_to_exitcode(status)
        if ended:
            os.kill(pid, signal.SIGKILL)
            return "stopped"
        time.sleep(0.02)
    os.kill(pid, signal.SIGKILL)
    return "hung"


def _left_over() -> list[str]:
    """The names of the processes that are still there; they are ended."""
    deadline = time.monotonic() + GRACE
    while time.monotonic() < deadline and dict(_descendants()):
        time.sleep(0.02)
    left = dict(_descendants())
    while found := dict(_descendants()):
        for pid in found:
            with contextlib.suppress(ProcessLookupError):  # it ended meanwhile
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)
    return sorted(left.values())


def _descendants() -> Iterator[tuple[int, str]]:
    """Pid and name of every process below this one. Children that have ended are reaped."""
    _reap()
    ours = {os.getpid()}
    for pid, parent, name in sorted(_processes(), key=lambda p: p[0]):
        if parent in ours:
            ours.add(pid)
            yield pid, name


def _processes() -> Iterator[tuple[int, int, str]]:
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            front, _, back = stat.read_text().rpartition(") ")
        except OSError:
            continue
        state, parent = back.split()[:2]
        if state != "Z":
            yield int(stat.parent.name), int(parent), front.partition(" (")[2]


def _reap() -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return


if __name__ == "__main__":
    main(*sys.argv[1:])
