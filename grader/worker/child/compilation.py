"""Runs compilers on an untrusted text, in a process that can open nothing else.

Started as `compile <request>` in a folder that holds the text. The request is JSON:
{"stages": [[command, ...], ...], "limits": {"memory_bytes", "cpu_seconds"}, "files"}. The commands
of a stage run in parallel, the stages one after another, until a command fails. `files` is None, or
the paths beside that folder that may be read and executed (see `landlock`). Prints {"failed": null,
or the number of the command, counted from 0; "output": what the command printed}.
"""

import contextlib
import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

from . import landlock, linux

MAX_FILE_BYTES = 64 << 20  # bytes of the largest file that may be written
MAX_OUTPUT_BYTES = 200_000  # bytes of a command's output that are kept
_DEVICE_PATHS = ("/dev/null", "/dev/zero", "/dev/urandom")
_READABLE_PATHS = ("/proc/self", "/proc/meminfo", "/proc/cpuinfo", "/sys/devices/system/cpu")


def compile_in_sandbox(request: str) -> None:
    """Run the commands of a request and print the result, for the parent to read."""
    wanted = json.loads(request)
    _limit_sandboxed_compiler(wanted["limits"])
    if sys.platform == "linux":
        linux.set_process_attribute(linux.PR_SET_PDEATHSIG, signal.SIGKILL)
        linux.set_process_attribute(linux.PR_SET_NO_NEW_PRIVS, 1)
    if wanted["files"] is not None:
        landlock.restrict_files_by_landlock(
            read=_READABLE_PATHS, list_only=(), write=[os.getcwd()], devices=_DEVICE_PATHS,
            execute=wanted["files"],
        )  # fmt: skip
    print(json.dumps(_run_sandboxed_compiler_stages(wanted["stages"])))


def _limit_sandboxed_compiler(limits: Mapping[str, int]) -> None:
    seconds, memory = limits["cpu_seconds"], limits["memory_bytes"]
    for which, value in (
        (resource.RLIMIT_CORE, 0), (resource.RLIMIT_CPU, seconds), (resource.RLIMIT_AS, memory),
        (resource.RLIMIT_FSIZE, MAX_FILE_BYTES),
    ):  # fmt: skip
        hard = resource.getrlimit(which)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(which, (value, value))


def _run_sandboxed_compiler_stages(stages: list[list[list[str]]]) -> dict[str, Any]:
    number = 0
    for stage in stages:
        running: list[subprocess.Popen[bytes]] = []
        for command in stage:
            with open(f"said-{number + len(running)}", "wb") as file:
                running.append(
                    subprocess.Popen(
                        command, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT
                    )
                )
        codes = [process.wait() for process in running]
        for i, code in enumerate(codes):
            if code != 0:
                return {"failed": number + i, "output": _read_sandboxed_compiler_output(number + i)}
        number += len(stage)
    return {"failed": None, "output": _read_sandboxed_compiler_output(number - 1)}


def _read_sandboxed_compiler_output(number: int) -> str:
    with open(f"said-{number}", "rb") as file:
        return file.read(MAX_OUTPUT_BYTES).decode("utf-8", "replace")
