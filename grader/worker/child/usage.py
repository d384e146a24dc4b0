"""What a worker has used so far, read from outside it. Linux only; elsewhere nothing is known."""

import re
import sys
import time
from pathlib import Path

_PROCESS_CLOCK = 2  # CPUCLOCK_SCHED of the kernel: the processor time of all threads


def of(pid: int, *, may_fork: bool) -> dict[str, int]:
    """Of a running process: {} where it cannot be known, or

    cpu_ns      processor time of all its threads
    waited_ns   time for which its first thread was ready to run and others ran instead; 0 where it
                `may_fork`, since those others may be its own
    queued_ns   the same whoever the others were: enough where it only makes a limit wider
    peak_bytes  the largest resident memory so far (VmHWM)

    and what nobody can set back:

    mapped_bytes  the largest address space so far (VmPeak)
    faults        pages that were touched for the first time, and again after they were given back
    child_faults  the same of processes that it waited for
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
