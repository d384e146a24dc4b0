"""Reads what a worker has used so far, from outside the worker. Linux only."""

import re
import sys
import time
from pathlib import Path

_PROCESS_CLOCK = 2  # CPUCLOCK_SCHED of the kernel: the processor time of all threads


def measure_worker_process(pid: int, *, may_fork: bool) -> dict[str, int]:
    """Return what a running process has used; {} if the system does not tell.

    cpu_ns      processor time of all its threads
    waited_ns   time for which its first thread was ready to run and other processes ran instead;
                0 where the process `may_fork`, since the others may be its own children
    queued_ns   the same time, also if the process `may_fork`: used to widen time limits
    peak_bytes  the largest resident memory so far (VmHWM)

    and counters that the process cannot reset:

    mapped_bytes  the largest address space so far (VmPeak)
    faults        page faults: the first use of a page, also after the page went back to the kernel
    child_faults  page faults of the child processes that it waited for
    """
    if sys.platform != "linux":
        return {}
    try:
        status = Path(f"/proc/{pid}/status").read_text()
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        _, waited, _ = Path(f"/proc/{pid}/schedstat").read_text().split()
        cpu = time.clock_gettime_ns((~pid << 3) | _PROCESS_CLOCK)
    except OSError:  # it ended meanwhile
        return {}
    kilobytes = dict(re.findall(r"(VmHWM|VmPeak):\s+(\d+) kB", status))
    if len(kilobytes) < 2:
        return {}
    return {
        "cpu_ns": cpu,
        "waited_ns": 0 if may_fork else int(waited),
        "queued_ns": int(waited),
        "peak_bytes": int(kilobytes["VmHWM"]) << 10,
        "mapped_bytes": int(kilobytes["VmPeak"]) << 10,
        "faults": int(fields[7]),
        "child_faults": int(fields[8]),
    }
