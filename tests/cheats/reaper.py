"""Runs a command and says as JSON how it ended and which processes it left; then ends those.

`python reaper.py once SECONDS LOG COMMAND...` runs it to its end.

`python reaper.py serve LOG COMMAND...` adds a descriptor to the command, a socket on which it says
that it is ready, as a line of JSON, and then answers every line with a line. What is read from
standard input, `{"seconds": ..., "request": ...}`, goes to the command; what it replies is printed
together with how it ended, if it did, and with the processes that were not there when it was ready.
A reply with `"last": true` announces that the command now ends. At the end of the input so it does.

On Linux every orphan becomes a child of this process, so that nothing escapes by a session of its
own.
"""

import contextlib
import ctypes
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_PR_SET_CHILD_SUBREAPER = 36
GRACE = 2.0  # seconds in which whatever is about to end does something for it
START_SECONDS = 120.0  # a cold `import torch` from a slow disk
END_SECONDS = 30.0  # to close what is open
_POLL_SECONDS = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """A process as /proc shows it; `state` is a letter, see proc_pid_stat(5)."""

    pid: int
    parent: int
    name: str
    state: str


class Running:
    """A command that was started, and everything that came of it."""

    def __init__(self, command: Sequence[str], log: str, descriptors: Collection[int] = ()) -> None:
        with open(log, "wb") as file:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=file, stderr=file,
                start_new_session=True, pass_fds=descriptors,
            )  # fmt: skip
        self.pid = process.pid
        self.ended: int | str | None = None  # its exit code, minus its signal, or what was done

    def wait(self, deadline: float) -> int | str:
        """Wait until the command has ended; stop it if it is suspended, or at the deadline."""
        while self.look() is None:
            if time.monotonic() > deadline:
                self._kill("hung")
            time.sleep(_POLL_SECONDS)
        assert self.ended is not None
        return self.ended

    def look(self) -> int | str | None:
        """Reap whatever has ended, and return how the command ended, if it did."""
        for pid, status in _changes_of_children():
            if pid == self.pid and os.WIFSTOPPED(status):
                self._kill("stopped")
            elif pid == self.pid:
                self.ended = os.waitstatus_to_exitcode(status)
        return self.ended

    def end_others(self, known: Collection[int] = ()) -> list[str]:
        """End the processes that are not `known`, and return their names."""
        self._wait_for_others(known)
        left = {pid: p.name for pid, p in self._others(known).items()}
        while found := self._others(known):
            for pid in found:
                with contextlib.suppress(ProcessLookupError):  # it ended meanwhile
                    os.kill(pid, signal.SIGKILL)
            time.sleep(_POLL_SECONDS)
        return sorted(left.values())

    def family(self) -> "dict[int, Process]":
        """The processes below this one, by their pids."""
        self.look()
        ours, found = {os.getpid()}, {}
        for process in sorted(_processes(), key=lambda p: p.pid):
            if process.parent in ours:
                ours.add(process.pid)
                found[process.pid] = process
        return found

    def _wait_for_others(self, known: Collection[int]) -> None:
        """Wait for those that are about to end; one that lacks only a processor has more time."""
        began = quiet = time.monotonic()
        while others := self._others(known):
            now = time.monotonic()
            if any(p.state in "RD" for p in others.values()):
                quiet = now
            if now > quiet + GRACE or now > began + END_SECONDS:
                return
            time.sleep(_POLL_SECONDS)

    def _others(self, known: Collection[int]) -> "dict[int, Process]":
        return {pid: p for pid, p in self.family().items() if pid not in known}

    def _kill(self, why: str) -> None:
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        self.ended = why


def once(seconds: str, log: str, *command: str) -> None:
    """Run the command to its end, and print what came of it."""
    started = time.monotonic()
    running = Running(command, log)
    ended = running.wait(started + float(seconds))
    took = time.monotonic() - started
    print(json.dumps({"ended": ended, "seconds": took, "left": running.end_others()}))


def serve(log: str, *command: str) -> None:
    """Pass on requests and replies, and look after each reply at what has become of the command."""
    ours, theirs = socket.socketpair()
    running = Running([*command, str(theirs.fileno())], log, [theirs.fileno()])
    theirs.close()
    ready = _reply(running, ours, START_SECONDS)
    known = set(running.family())
    _tell(running, ready, known)
    for line in sys.stdin:
        order = json.loads(line)
        with contextlib.suppress(ConnectionError):  # it has ended: there is no reply either
            ours.sendall(json.dumps(order["request"]).encode() + b"\n")
        _tell(running, _reply(running, ours, order["seconds"]), known)
        if running.ended is not None:
            return
    ours.close()
    _tell(running, {"last": True}, known)


def _tell(running: Running, reply: dict[str, Any] | None, known: Collection[int]) -> None:
    if reply is not None and reply.get("last"):
        running.wait(time.monotonic() + END_SECONDS)
    left = running.end_others(known if running.ended is None else ())
    print(json.dumps({"ended": running.ended, "left": left, **(reply or {})}), flush=True)


def _reply(running: Running, sock: socket.socket, seconds: float) -> dict[str, Any] | None:
    """The next line that the command sends; None if it ended instead, by itself or by us."""
    deadline, data = time.monotonic() + seconds, b""
    while not data.endswith(b"\n"):
        if select.select([sock], [], [], _POLL_SECONDS)[0]:
            more = _received(sock)
            if not more:
                running.wait(min(deadline, time.monotonic() + END_SECONDS))
                return None
            data += more
        elif running.look() is not None:
            return None
        elif time.monotonic() > deadline:
            running.wait(deadline)
            return None
    reply: dict[str, Any] = json.loads(data)
    return reply


def _received(sock: socket.socket) -> bytes:
    try:
        return sock.recv(1 << 16)
    except ConnectionError:  # it was killed with something of ours unread
        return b""


def _changes_of_children() -> Iterator[tuple[int, int]]:
    """The pid and status of every child that has ended or was suspended meanwhile."""
    with contextlib.suppress(ChildProcessError):  # there is none any more
        while (change := os.waitpid(-1, os.WNOHANG | os.WUNTRACED))[0]:
            yield change


def _processes() -> Iterator[Process]:
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        try:
            front, _, back = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")
        except OSError:  # it ended meanwhile
            continue
        state, parent = back.split()[:2]
        if state != "Z":
            name = front.partition(" (")[2]
            yield Process(pid=int(pid), parent=int(parent), name=name, state=state)


if __name__ == "__main__":
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    modes: dict[str, Callable[..., None]] = {"once": once, "serve": serve}
    modes[sys.argv[1]](*sys.argv[2:])
