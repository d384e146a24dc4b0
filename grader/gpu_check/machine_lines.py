"""Prints tools and walls of this machine: `python -m grader.gpu_check.machine_lines DEVICE`."""

import json
import subprocess
import sys
from collections.abc import Iterator

from grader.cuda import compiler
from grader.worker.parent import walls


def list_gpu_machine_lines(device: str) -> Iterator[dict[str, str]]:
    """Yield the versions of nvcc, the driver and compute-sanitizer, and which walls work."""
    yield {"about": "tool", "nvcc": _read_last_gpu_line(compiler.find_nvcc(), "--version")}
    yield {
        "about": "tool",
        "compute-sanitizer": _read_last_gpu_line(compiler.find_cuda_sanitizer(), "--version"),
    }
    query = "--query-gpu=driver_version,memory.total,clocks.max.sm,power.limit"
    yield {
        "about": "tool",
        "nvidia-smi": _read_last_gpu_line("nvidia-smi", query, "--format=csv,noheader"),
    }
    for name in walls.WALL_NAMES:
        probe = walls.probe_wall(name, on_cuda=device == "cuda")
        yield {"about": "wall", name: "works" if probe.wall else f"does not work: {probe.why}"}


def _read_last_gpu_line(program: str | None, *arguments: str) -> str:
    """Return the last line that a program prints, or why there is none."""
    if not program:
        return "not found"
    try:
        done = subprocess.run([program, *arguments], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"does not run ({type(error).__name__})"
    printed = (done.stdout or done.stderr).strip().splitlines()
    return printed[-1] if printed else f"status {done.returncode}"


if __name__ == "__main__":
    for found in list_gpu_machine_lines(sys.argv[1]):
        print(json.dumps(found), flush=True)
