"""Serves the nursery's requests: forks workers, and ends them with their processes."""

import atexit
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
from .deferred_dynamo import defer_dynamo_import
from .remove_tree import remove_worker_folder
from .worker import INTERRUPT_SIGNAL, become_worker

MAX_PROCESSES = 64  # processes that a worker may start; with more it is ended
_CROWD_CHECK_SECONDS = 0.1
_STOP_SECONDS = 2.0
_ENDING_HUNDREDTHS = 100  # hundredths of a second
_ON_LINUX = sys.platform == "linux"


@dataclass(slots=True)
class _Worker:
    home: Path
    watched: bool  # not locked: it can start processes
    helped: bool  # it waits for a program beside it (see `companion`)
    crowded: bool = False


def serve_worker_forks(descriptor: int) -> None:
    """Fork workers until the parent goes away."""
    parent = socket.socket(fileno=descriptor)
    listed, _ = _receive_frame_with_descriptors(parent)
    defer_dynamo_import()
    operator_list.refuse_unlisted_worker_operators(listed["operators"], listed["without"])
    names.guard_worker_classes()
    operator_list.allow_autocast_in_worker()
    torch.set_num_threads(1)
    gc.freeze()  # what stays is searched by no collection, here or in a worker
    gc.enable()
    if _ON_LINUX:
        linux.set_process_attribute(linux.PR_SET_CHILD_SUBREAPER, 1)
        linux.set_process_attribute(
            linux.PR_SET_DUMPABLE, 0
        )  # no worker may read or trace it, or another worker
    frames.send_frame(parent, {"ready": True})
    workers: dict[int, _Worker] = {}
    try:
        while True:
            _wait_for_fork_request(parent, workers)
            request, descriptors = _receive_frame_with_descriptors(parent)
            frames.send_frame(parent, _answer_fork_request(request, descriptors, workers))
    except (EOFError, ConnectionError):
        for pid in list(workers):
            _end_worker(pid, workers, wait=False)
        remove_worker_folder(Path.cwd())  # a killed parent cannot
        # Python itself would take all modules apart, for a quarter of a second.
        atexit._run_exitfuncs()
        os._exit(0)


def _answer_fork_request(
    request: dict[str, Any], descriptors: list[int], workers: dict[int, _Worker]
) -> dict[str, Any]:
    match request["op"]:
        case "start":
            return {"pid": _fork_worker(request, descriptors, workers)}
        case "stop":
            return _stop_worker(request["pid"], workers)
        case "continue":
            return _continue_worker(request["pid"], workers)
        case "interrupt":
            if request["pid"] in workers:
                process_tree.signal_worker_processes([request["pid"]], INTERRUPT_SIGNAL)
            return {}
        case "usage":
            worker = workers.get(request["pid"])
            return _measure_worker_usage(request["pid"], worker) if worker else {}
        case _:
            return _end_worker(request["pid"], workers, wait=request["wait"])


def _wait_for_fork_request(parent: socket.socket, workers: dict[int, _Worker]) -> None:
    """Wait for the next request; meanwhile kill a worker that starts too many processes."""
    watched = {pid: worker for pid, worker in workers.items() if worker.watched}
    while not select.select([parent], [], [], _CROWD_CHECK_SECONDS if watched else None)[0]:
        crowd = process_tree.list_descendant_processes([os.getpid()]) - {os.getpid(), *workers}
        if len(crowd) > MAX_PROCESSES:
            for pid, worker in watched.items():
                worker.crowded = True
                _kill_worker(pid, workers)


def _fork_worker(
    request: dict[str, Any], descriptors: list[int], workers: dict[int, _Worker]
) -> int:
    os.environ.update(request["environment"])
    _preload_worker_modules(request["preload"])
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
    watched = _ON_LINUX and (request["lock"] is None or bool(request["compilers"]))
    workers[pid] = _Worker(home, watched=watched, helped=len(descriptors) > 4)
    return pid


def _measure_worker_usage(pid: int, worker: _Worker) -> dict[str, int]:
    """Return what a worker and the program beside it have used (see `usage`)."""
    own = usage.measure_worker_process(pid, may_fork=worker.watched)
    beside = process_tree.list_child_processes(pid) if worker.helped else []
    others = [usage.measure_worker_process(child, may_fork=worker.watched) for child in beside]
    return {name: n + sum(used.get(name, 0) for used in others) for name, n in own.items()}


def _preload_worker_modules(names: list[str]) -> None:
    """Import slow modules here, once, so that no worker waits for them."""
    new = [name for name in names if name not in sys.modules]
    if not new:
        return
    gc.disable()
    for name in new:
        with contextlib.suppress(ImportError):  # the submission's own import will say so
            importlib.import_module(name)
    gc.freeze()
    gc.enable()


def _stop_worker(pid: int, workers: dict[int, _Worker]) -> dict[str, Any]:
    """Stop a worker and its processes, and return once they have stopped; kill a restless one."""
    worker = workers.get(pid)
    if worker is None:  # it belonged to a nursery that is no more
        return {}
    deadline = time.monotonic() + _STOP_SECONDS
    while not _try_to_stop_worker(pid, worker, workers):
        if time.monotonic() > deadline:  # it wakes again and again
            _kill_worker(pid, workers)
            break
    return {}


def _try_to_stop_worker(pid: int, worker: _Worker, workers: dict[int, _Worker]) -> bool:
    """Stop a worker; return whether it stops or ends within some milliseconds."""
    if worker.watched:
        process_tree.stop_process_tree(pid, set(workers) - {pid})
    else:
        process_tree.signal_worker_processes([pid], signal.SIGSTOP)
    for _ in range(100 if _ON_LINUX else 0):
        if os.waitid(os.P_PID, pid, os.WSTOPPED | os.WEXITED | os.WNOHANG | os.WNOWAIT):
            return True
        time.sleep(0.0002)
    return not _ON_LINUX


def _continue_worker(pid: int, workers: dict[int, _Worker]) -> dict[str, Any]:
    """Continue a stopped worker; its orphans stay stopped."""
    if pid in workers:
        process_tree.signal_worker_processes(
            process_tree.list_descendant_processes([pid]), signal.SIGCONT
        )
    return {}


def _end_worker(pid: int, workers: dict[int, _Worker], *, wait: bool) -> dict[str, Any]:
    """Kill a worker and its processes; return how the worker ended."""
    worker = workers.pop(pid, None)
    if worker is None:  # it belonged to a nursery that is no more
        return {"signal": signal.SIGKILL}
    alive = wait and not _is_worker_ending_itself(pid)
    orphans = _kill_worker(pid, workers) - {pid}
    _, status = os.waitpid(pid, 0)
    _reap_worker_orphans(orphans)
    remove_worker_folder(worker.home)
    more = {"crowded": worker.crowded, "alive": alive}
    if os.WIFSIGNALED(status):
        return {"signal": os.WTERMSIG(status)} | more
    return {"exit": os.WEXITSTATUS(status)} | more


def _reap_worker_orphans(orphans: set[int]) -> None:
    """Wait for killed processes: each becomes the nursery's child once its parent has ended."""
    while orphans:
        for pid in list(orphans):
            try:
                os.waitpid(pid, 0)
            except ChildProcessError:
                if process_tree.read_process_thread_states(pid):
                    time.sleep(0.001)
                    continue
            orphans.remove(pid)


def _is_worker_ending_itself(pid: int) -> bool:
    """Return whether a worker ends by itself within a second; the worker stays a zombie."""
    for _ in range(_ENDING_HUNDREDTHS):
        if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
            return True
        time.sleep(0.01)
    return False


def _kill_worker(pid: int, workers: dict[int, _Worker]) -> set[int]:
    """Kill a worker, its process group, and on Linux all its descendants; return the killed."""
    killed = process_tree.kill_process_tree(pid, set(workers) - {pid}) if _ON_LINUX else set()
    for kill in (os.killpg, os.kill):  # it may not lead a group of its own yet
        with contextlib.suppress(ProcessLookupError, PermissionError):
            kill(pid, signal.SIGKILL)
    return killed


def _receive_frame_with_descriptors(sock: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """Receive one frame, and the descriptors that came with its first bytes."""
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
    return frames.receive_frame(read), descriptors
