"""Runs compilers on a text that nobody has looked at, in a process that can reach nothing else.

Started in a folder of its own, which holds what is to be compiled: as `compile <request>`, JSON:
{"stages": [[command, ...], ...], "limits": {"memory_bytes", "cpu_seconds"}, "files"}. The commands
of a stage run beside each other, the stages one after another, until one fails. `files` is None, or
what may be executed and read beside that folder (see `landlock`). Prints {"failed": null, or the
number of the command, counted from 0; "output": what it said}.
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

FILE_LIMIT = 64 << 20  # bytes of the largest file that may be written
SAID = 200_000  # bytes of what a command says that are kept
_DEVICES = ("/dev/null", "/dev/zero", "/dev/urandom")
_READ = ("/proc/self", "/proc/meminfo", "/proc/cpuinfo", "/sys/devices/system/cpu")


def main(request: str) -> None:
    """Print what came of the commands, for the parent to read."""
    wanted = json.loads(request)
    _limit(wanted["limits"])
    if sys.platform == "linux":
        linux.prctl(linux.PR_SET_PDEATHSIG, signal.SIGKILL)
        linux.prctl(linux.PR_SET_NO_NEW_PRIVS, 1)
    if wanted["files"] is not None:
        landlock.restrict(
            read=_READ, list_only=(), write=[os.getcwd()], devices=_DEVICES,
            execute=wanted["files"],
        )  # fmt: skip
    print(json.dumps(_run(wanted["stages"])))


def _limit(limits: Mapping[str, int]) -> None:
    seconds, memory = limits["cpu_seconds"], limits["memory_bytes"]
    for which, value in (
        (resource.RLIMIT_CORE, 0), (resource.RLIMIT_CPU, seconds), (resource.RLIMIT_AS, memory),
        (resource.RLIMIT_FSIZE, FILE_LIMIT),
    ):  # fmt: skip
        hard = resource.getrlimit(which)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(which, (value, value))


def _run(stages: list[list[list[str]]]) -> dict[str, Any]:
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
                return {"failed": number + i, "output": _said(number + i)}
        number += len(stage)
    return {"failed": None, "output": _said(number - 1)}


def _said(number: int) -> str:
    with open(f"said-{number}", "rb") as file:
        return file.read(SAID).decode("utf-8", "replace")
