"""Says how a submission's process ended."""

import signal
from collections.abc import Mapping

from grader.worker.child import frames
from grader.worker.parent.faults import WorkerDied

_OUTSIDE_SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)


def was_worker_killed_outside(ended: Mapping[str, int]) -> bool:
    """Return whether a process ended by a signal that others may have sent.

    ended  the nursery's reply to "end"
    """
    told = ended.get("alive") or ended.get("crowded")
    return not told and ended.get("signal") in _OUTSIDE_SIGNALS


def explain_worker_death(ended: Mapping[str, int]) -> WorkerDied:
    """Return the fault that says how a process ended; `ended` is the nursery's reply to "end"."""
    if ended.get("alive"):
        return WorkerDied("the process closed its connection and gave no answer")
    if ended.get("crowded"):
        return WorkerDied("the process was killed: it started too many other processes")
    if ended.get("exit") == frames.DEVICE_LOST_STATUS:
        return WorkerDied("a kernel broke off on the GPU (an access outside of its arrays, say)")
    number = ended.get("signal")
    if number is None:
        code = ended.get("exit")
        return WorkerDied(f"the process ended itself (exit code {code}) and gave no answer")
    if number in (signal.SIGXCPU, signal.SIGKILL):
        return WorkerDied("the process was killed: it used too much memory or processor time")
    return WorkerDied(f"the process crashed ({_name_worker_signal(number)})")


def _name_worker_signal(number: int) -> str:
    if number == signal.SIGSEGV:
        return "a segmentation fault"
    known = {s.value: s.name for s in signal.Signals}
    return known.get(number, f"signal {number}")
