"""The nursery's loop: forks workers, and ends them with all that they started (see `__main__`)."""

import contextlib
import gc
import importlib
import os
import select
import signal
import socket
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np  # noqa: F401 (imported here once, so that no worker waits for it)
import torch

from . import builtin_names as names
from . import frames, linux, operator_list, process_tree, usage
from .remove_tree import wipe
from .worker import become_worker

CROWD = 64  # processes that a worker may have started before it is ended
_WATCH_SECONDS = 0.1
_STOP_SECONDS = 2.0
_LAST_MOMENTS = 100  # hundredths of a second
_ON_LINUX = sys.platform == "linux"


@dataclass(slots=True)
class _Worker:
    home: Path
    watched: bool  # a locked worker cannot start processes
    helped: bool  # a program runs beside it, and it waits for that
    crowded: bool = False


def serve(descriptor: int) -> None:
    """Fork workers until the parent goes away."""
    parent = socket.socket(fileno=descriptor)
    listed, _ = _receive_with_descriptors(parent)
    operator_list.close(listed["operators"], listed["without"])
    names.look_at_fields()
    operator_list.let_autocast_be_anywhere()
    torch.set_num_threads(1)
    gc.collect()
    gc.freeze()
    if _ON_LINUX:
        linux.prctl(linux.PR_SET_CHILD_SUBREAPER, 1)
        linux.prctl(linux.PR_SET_DUMPABLE, 0)  # no worker reads or traces it, or another worker
    frames.send(parent, {"ready": True})
    workers: dict[int, _Worker] = {}
    try:
        while True:
            _watch(parent, workers)
            request, descriptors = _receive_with_descriptors(parent)
            frames.send(parent, _answer(request, descriptors, workers))
    except (EOFError, ConnectionError):
        for pid in list(workers):
            _end(pid, workers, wait=False)
        wipe(Path.cwd())  # also when the parent was killed and cannot


def _answer(
    request: dict[str, Any], descriptors: list[int], workers: dict[int, _Worker]
) -> dict[str, Any]:
    match request["op"]:
        case "start":
            return {"pid": _start(request, descriptors, workers)}
        case "stop":
            return _stop(request["pid"], workers)
        case "continue":
            return _go_on(request["pid"], workers)
        case "usage":
            worker = workers.get(request["pid"])
            return _usage(request["pid"], worker) if worker else {}
        case _:
            return _end(request["pid"], workers, wait=request["wait"])


def _watch(parent: socket.socket, workers: dict[int, _Worker]) -> None:
    """Wait for the next request; meanwhile end a worker that starts too many processes."""
    watched = {pid: worker for pid, worker in workers.items() if worker.watched}
    while not select.select([parent], [], [], _WATCH_SECONDS if watched else None)[0]:
        crowd = process_tree.descendants([os.getpid()]) - {os.getpid(), *workers}
        if len(crowd) > CROWD:
            for pid, worker in watched.items():
                worker.crowded = True
                _kill(pid, workers)


def _start(request: dict[str, Any], descriptors: list[int], workers: dict[int, _Worker]) -> int:
    os.environ.update(request["environment"])
    _import(request["preload"])
    home = Path(tempfile.mkdtemp(prefix="worker-", dir=Path.cwd()))
    kernels = Path.cwd() / f"kernels-{request['kernels']}" if request["kernels"] else None
    if kernels is not None:
        kernels.mkdir(exist_ok=True)
    nursery = os.getpid()
    pid = os.fork()
    if pid == 0:
        become_worker(request, home, kernels, descriptors, nursery)
    for fd in descriptors:
        os.close(fd)
    watched = _ON_LINUX and request["lock"] is None
    workers[pid] = _Worker(home, watched=watched, helped=len(descriptors) > 4)
    return pid


def _usage(pid: int, worker: _Worker) -> dict[str, int]:
    """What a worker has used, and with it the program beside it (see `usage`)."""
    own = usage.of(pid, may_fork=worker.watched)
    beside = process_tree.children(pid) if worker.helped else []
    others = [usage.of(child, may_fork=worker.watched) for child in beside]
    return {name: n + sum(used.get(name, 0) for used in others) for name, n in own.items()}


def _import(names: list[str]) -> None:
    """Import what is slow to import here, once, so that no worker waits for it."""
    new = [name for name in names if name not in sys.modules]
    for name in new:
        with contextlib.suppress(ImportError):  # the submission's own import will say so
            importlib.import_module(name)
    if new:
        gc.collect()
        gc.freeze()


def _stop(pid: int, workers: dict[int, _Worker]) -> dict[str, Any]:
    """Have a worker stand still, with all that it started, and come back when it does."""
    worker = workers.get(pid)
    if worker is None:  # it belonged to a nursery that is no more
        return {}
    deadline = time.monotonic() + _STOP_SECONDS
    while not _stands_still(pid, worker, workers):
        if time.monotonic() > deadline:  # it has itself woken again and again
            _kill(pid, workers)
            break
    return {}


def _stands_still(pid: int, worker: _Worker, workers: dict[int, _Worker]) -> bool:
    """Stop a worker; whether it has stopped, or ended, within some milliseconds."""
    if worker.watched:
        process_tree.stop(pid, set(workers) - {pid})
    else:
        process_tree.signal_all([pid], signal.SIGSTOP)
    for _ in range(100 if _ON_LINUX else 0):
        if os.waitid(os.P_PID, pid, os.WSTOPPED | os.WEXITED | os.WNOHANG | os.WNOWAIT):
            return True
        time.sleep(0.0002)
    return not _ON_LINUX


def _go_on(pid: int, workers: dict[int, _Worker]) -> dict[str, Any]:
    """Continue a stopped worker; its orphans stay stopped."""
    if pid in workers:
        process_tree.signal_all(process_tree.descendants([pid]), signal.SIGCONT)
    return {}


def _end(pid: int, workers: dict[int, _Worker], *, wait: bool) -> dict[str, Any]:
    """Kill what is left of a worker, and say how it had ended."""
    worker = workers.pop(pid, None)
    if worker is None:  # it belonged to a nursery that is no more
        return {"signal": signal.SIGKILL}
    alive = wait and not _ends_by_itself(pid)
    orphans = _kill(pid, workers) - {pid}
    _, status = os.waitpid(pid, 0)
    _reap(orphans)
    wipe(worker.home)
    more = {"crowded": worker.crowded, "alive": alive}
    if os.WIFSIGNALED(status):
        return {"signal": os.WTERMSIG(status)} | more
    return {"exit": os.WEXITSTATUS(status)} | more


def _reap(orphans: set[int]) -> None:
    """Wait for what was killed: each is the nursery's own child once its parent has ended."""
    while orphans:
        for pid in list(orphans):
            try:
                os.waitpid(pid, 0)
            except ChildProcessError:
                if process_tree.state(pid):
                    time.sleep(0.001)
                    continue
            orphans.remove(pid)


def _ends_by_itself(pid: int) -> bool:
    """Whether a worker that has closed its socket is ending; it stays to be waited for."""
    for _ in range(_LAST_MOMENTS):
        if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
            return True
        time.sleep(0.01)
    return False


def _kill(pid: int, workers: dict[int, _Worker]) -> set[int]:
    """Kill a worker, its group, and where the system lists them all that came of it."""
    killed = process_tree.end(pid, set(workers) - {pid}) if _ON_LINUX else set()
    for kill in (os.killpg, os.kill):  # it may not be the leader of its own group yet
        with contextlib.suppress(ProcessLookupError, PermissionError):
            kill(pid, signal.SIGKILL)
    return killed


def _receive_with_descriptors(sock: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """One frame, and the descriptors that came with its first bytes."""
    start, descriptors, _, _ = socket.recv_fds(sock, 1 << 16, 5)
    buffer = bytearray(start)

    def read(count: int) -> bytes:
        while len(buffer) < count:
            more = sock.recv(1 << 16)
            if not more:
                raise EOFError
            buffer.extend(more)
        taken = bytes(buffer[:count])
        del buffer[:count]
        return taken

    if not start:
        raise EOFError
    return frames.receive(read), descriptors
