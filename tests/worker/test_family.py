"""Processes are stopped and ended also while they come and go."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from grader.worker.child import process_tree

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="processes are listed by Linux only")
RUNS_AWAY = """
import os, time
print("ready", flush=True)
for _ in range(20_000):
    if os.fork() != 0:
        os._exit(0)
    time.sleep(0.0005)
"""


def test_the_child_of_one_that_was_ending_when_it_was_stopped_is_found(monkeypatch):
    """The second look finds nobody new: who the first leaves is not yet the nursery's child."""
    me, first, second = os.getpid(), 1001, 1002
    looks = iter([[first], [first], [first, second], [first, second]])
    states = {first: iter("RZ"), second: iter("T")}
    told: list[int] = []
    monkeypatch.setattr(
        process_tree, "list_child_processes", lambda pid: next(looks) if pid == me else []
    )
    monkeypatch.setattr(process_tree, "read_process_thread_states", lambda pid: {next(states[pid])})
    monkeypatch.setattr(
        process_tree, "_signal_worker_process", lambda pid, number: told.append(pid)
    )
    assert process_tree.stop_process_tree(first, []) == {first, second}
    assert told == [first, first, second]


@LINUX
def test_every_thread_of_a_process_has_a_state():
    threads = "import threading, time; threading.Thread(target=time.sleep, args=[60]).start()"
    process = subprocess.Popen(
        [sys.executable, "-c", f"{threads}; print(1, flush=True)"], stdout=subprocess.PIPE
    )
    process.stdout.readline()
    assert process_tree.read_process_thread_states(process.pid) <= {"S", "R"}
    process.send_signal(signal.SIGSTOP)
    os.waitpid(process.pid, os.WUNTRACED)
    assert process_tree.read_process_thread_states(process.pid) == {"T"}
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert process_tree.read_process_thread_states(process.pid) == {"Z"}
    process.wait()
    assert process_tree.read_process_thread_states(process.pid) == set()


@LINUX
def test_a_thread_that_outlives_the_first_one_is_not_overlooked():
    program = (
        "import ctypes, threading, time; threading.Thread(target=time.sleep, args=[60]).start();"
        "ctypes.CDLL(None).pthread_exit(None)"
    )
    process = subprocess.Popen([sys.executable, "-c", program])
    until = time.monotonic() + 30
    while process_tree.read_process_thread_states(process.pid) != {"Z", "S"}:  # not asleep yet
        assert time.monotonic() < until
        time.sleep(0.01)
    process.kill()
    process.wait()


@LINUX
def test_who_moves_on_to_a_new_process_all_the_time_is_ended():
    """In a process of its own, which takes the orphans in as the nursery does."""
    program = f"""
import os, subprocess, sys, time
from grader.worker.child import linux, process_tree
linux.set_process_attribute(linux.PR_SET_CHILD_SUBREAPER, 1)
for _ in range(10):
    process = subprocess.Popen([sys.executable, "-c", {RUNS_AWAY!r}], stdout=subprocess.PIPE)
    process.stdout.readline()
    time.sleep(0.02)
    ended = process_tree.kill_process_tree(process.pid, [])
    while any(process_tree.read_process_thread_states(pid) - set("Z") for pid in ended):
        time.sleep(0.01)
    left = process_tree.list_child_processes(os.getpid())
    time.sleep(0.05)
    assert process_tree.list_child_processes(os.getpid()) == left, "somebody goes on"
    while True:
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            break
print("all ended")
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=Path(process_tree.__file__).parents[3],
                          capture_output=True, text=True, timeout=120)  # fmt: skip
    assert done.stdout == "all ended\n", done.stderr


@LINUX
def test_a_process_is_waited_for_that_is_ours_only_when_its_parent_has_ended():
    program = """
import os, signal, subprocess, sys, threading
from grader.worker.child import fork_server, linux, process_tree
linux.set_process_attribute(linux.PR_SET_CHILD_SUBREAPER, 1)
starts = "import subprocess, time; print(subprocess.Popen(['sleep', '60']).pid, flush=True); time.sleep(60)"
parent = subprocess.Popen([sys.executable, "-c", starts], stdout=subprocess.PIPE)
child = int(parent.stdout.readline())
os.kill(child, signal.SIGKILL)
threading.Timer(0.5, parent.kill).start()
fork_server._reap_worker_orphans({child})
print(process_tree.read_process_thread_states(child))
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=Path(process_tree.__file__).parents[3],
                          capture_output=True, text=True, timeout=120)  # fmt: skip
    assert done.stdout == "set()\n", done.stderr
