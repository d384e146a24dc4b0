"""Reads the facts about this machine; judges none of them."""

import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from grader.cuda import compiler

_TORCH_PROBE = """
import json, torch
try:
    numpy = float(torch.ones(1).numpy()[0]) == 1
except (RuntimeError, ImportError):
    numpy = False
name = torch.cuda.get_device_name() if torch.cuda.is_available() else ""
print(json.dumps(dict(version=torch.__version__, cuda=torch.version.cuda, gpu=name, numpy=numpy)))
"""
_TORCH_PROBE_SECONDS = 120.0  # a cold import from a slow disk
_CONTROL_GROUPS = Path("/sys/fs/cgroup")
_NO_LIMIT = 1 << 60  # bytes; version 1 of control groups has no word for none


@dataclass(frozen=True, slots=True, kw_only=True)
class TorchFacts:
    """The installed torch, as a process of its own imported it."""

    version: str
    cuda: str | None  # the CUDA that it was built for
    gpu: str  # the first device that it sees; "" if none
    numpy: bool  # whether a tensor becomes an array


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineFacts:
    """The facts from which the problems are found."""

    system: str  # as `platform.system()` has it
    environment: Mapping[str, str]
    prefix: str  # where this Python has its packages
    encoding: str  # of what is printed
    cores: float  # that may be used
    load: float  # how many are busy
    memory_bytes: int
    address_bytes: int | None  # that a process may have, where that is limited
    temporary: str | None  # the folder for temporary files; None if there is none
    free_bytes: int  # in that
    loads_libraries: bool  # whether a library there may be loaded
    counts_waiting: bool  # whether the kernel counts how long a process waits for a processor
    programs: frozenset[str]
    driver: bool  # NVIDIA's
    devices: bool  # whether a GPU of NVIDIA's is among the devices
    torch: TorchFacts | str  # or why it cannot be imported


PROGRAMS = ("g++", "objdump", "strip")


def read_machine_facts() -> MachineFacts:
    """Return the facts about this machine."""
    temporary = _read_temporary_folder_facts()
    programs = {name for name in PROGRAMS if shutil.which(name)}
    return MachineFacts(
        system=platform.system(),
        environment=os.environ,
        prefix=sys.prefix,
        encoding=sys.stdout.encoding or "utf-8",
        cores=_read_core_facts(),
        load=os.getloadavg()[0],
        memory_bytes=_read_memory_facts(),
        address_bytes=_read_address_space_facts(),
        temporary=temporary,
        free_bytes=shutil.disk_usage(temporary).free if temporary else 0,
        loads_libraries=temporary is None or not os.statvfs(temporary).f_flag & _read_noexec_fact(),
        counts_waiting=os.path.exists("/proc/thread-self/schedstat"),
        programs=frozenset(programs | ({"nvcc"} if compiler.find_nvcc() else set())),
        driver=os.path.exists("/proc/driver/nvidia/version"),
        devices=os.path.exists("/dev/nvidiactl"),
        torch=_read_torch_facts(),
    )


def _read_torch_facts() -> TorchFacts | str:
    """Return what torch reports in a process of its own, which importing it may kill."""
    try:
        ran = subprocess.run(
            [sys.executable, "-c", _TORCH_PROBE], capture_output=True, text=True, check=False,
            timeout=_TORCH_PROBE_SECONDS,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return f"it takes longer than {_TORCH_PROBE_SECONDS:g} seconds"
    if ran.returncode < 0:
        return f"it is killed by {signal.Signals(-ran.returncode).name}"
    if ran.returncode:
        return (ran.stderr.strip().splitlines() or ["it ends without a word"])[-1].rstrip(".")
    return TorchFacts(**json.loads(ran.stdout.splitlines()[-1]))


def _read_temporary_folder_facts() -> str | None:
    try:
        return tempfile.gettempdir()
    except FileNotFoundError:
        return None


def _read_noexec_fact() -> int:
    return getattr(os, "ST_NOEXEC", 0)  # where it is not known, nothing is claimed


def _read_core_facts() -> float:
    """Return the processors of this process, or the share that its container may use."""
    own = (
        os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1)
    )
    quota, period = (
        _read_machine_number(_CONTROL_GROUPS / f"cpu/cpu.cfs_{n}_us") for n in ("quota", "period")
    )
    if words := _read_machine_text(_CONTROL_GROUPS / "cpu.max").split():
        quota, period = (int(word) if word.isdigit() else None for word in words)
    return min(len(own), quota / period) if quota and period and quota > 0 else len(own)


def _read_memory_facts() -> int:
    """Return the bytes of memory of the machine, or of its container."""
    most = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    limits = (
        _read_machine_number(_CONTROL_GROUPS / n)
        for n in ("memory.max", "memory/memory.limit_in_bytes")
    )
    return min([most, *(limit for limit in limits if limit)])


def _read_address_space_facts() -> int | None:
    import resource

    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    return None if limit in (resource.RLIM_INFINITY, -1) or limit > _NO_LIMIT else limit


def _read_machine_number(file: Path) -> int | None:
    text = _read_machine_text(file).strip()
    return int(text) if text.lstrip("-").isdigit() else None


def _read_machine_text(file: Path) -> str:
    try:
        return file.read_text()
    except OSError:
        return ""
