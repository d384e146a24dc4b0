"""Makes the names of a process's folders and control groups; removes those of ended processes.

A grader that is killed cannot remove its folders and groups. So each grader, when it starts,
removes those of processes that have ended.
"""

import os
import re
import secrets
import tempfile
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from grader.worker.child.remove_tree import remove_worker_folder

_NAME_PATTERN = re.compile(r"grader-(\d+)-(\d+)-(\d+)-\w+")


def build_worker_trace_prefix() -> str:
    """Return the start of this process's names: its process namespace, pid and start time."""
    return f"grader-{_read_process_namespace()}-{os.getpid()}-{_read_start_ticks(os.getpid())}-"


def new_worker_trace_name() -> str:
    """Return a new name for a folder or group of this process."""
    return build_worker_trace_prefix() + secrets.token_hex(4)


def find_orphaned_worker_traces(folder: Path) -> Iterable[Path]:
    """Return the paths in `folder` that ended graders of this process namespace have made."""
    try:
        found = [path for path in folder.iterdir() if _NAME_PATTERN.fullmatch(path.name)]
    except OSError:
        return []
    return [path for path in found if _has_worker_owner_ended(path.name)]


@cache
def sweep_worker_folders() -> None:
    """Remove the folders that this user's killed graders have left; once a process."""
    for path in find_orphaned_worker_traces(Path(tempfile.gettempdir())):
        try:
            ours = path.lstat().st_uid == os.getuid()
        except OSError:  # another grader was quicker
            continue
        if ours:
            remove_worker_folder(path)


def _has_worker_owner_ended(name: str) -> bool:
    found = _NAME_PATTERN.fullmatch(name)
    assert found is not None
    namespace, pid, started = map(int, found.groups())
    return namespace == _read_process_namespace() and _read_start_ticks(pid) != started


def _read_start_ticks(pid: int) -> int:
    """Return a process's start in kernel ticks; -1 if it has ended; 0 if ticks are unknown."""
    if not Path("/proc/self/stat").exists():
        return 0 if _is_process_alive(pid) else -1
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    except OSError:
        return -1


def _is_process_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _read_process_namespace() -> int:
    try:
        return os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        return 0
