"""What a grader makes beside its files, by whose name: so that the next one can clear away.

Folders for temporary files and control groups are named after the process that made them. Who is
killed cannot remove them; so each grader, when it starts, removes those of processes that are no
more.
"""

import os
import re
import secrets
import tempfile
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from grader.worker.child.remove_tree import wipe

_NAME = re.compile(r"grader-(\d+)-(\d+)-(\d+)-\w+")


def prefix() -> str:
    """What names of this process begin with: its process namespace, number and start."""
    return f"grader-{_namespace()}-{os.getpid()}-{_started(os.getpid())}-"


def name() -> str:
    """A new name of this process."""
    return prefix() + secrets.token_hex(4)


def left_in(folder: Path) -> Iterable[Path]:
    """What processes that are no more have made in a folder; of others' namespaces nothing."""
    try:
        found = [path for path in folder.iterdir() if _NAME.fullmatch(path.name)]
    except OSError:
        return []
    return [path for path in found if _is_over(path.name)]


@cache
def sweep_folders() -> None:
    """Remove the folders that this user's killed graders have left; once in a process."""
    for path in left_in(Path(tempfile.gettempdir())):
        try:
            ours = path.lstat().st_uid == os.getuid()
        except OSError:  # somebody else was quicker
            continue
        if ours:
            wipe(path)


def _is_over(name: str) -> bool:
    found = _NAME.fullmatch(name)
    assert found is not None
    namespace, pid, started = map(int, found.groups())
    return namespace == _namespace() and _started(pid) != started


def _started(pid: int) -> int:
    """When a process began, in the kernel's ticks; -1 if there is none; 0 where none are known."""
    if not Path("/proc/self/stat").exists():
        return 0 if _lives(pid) else -1
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    except OSError:
        return -1


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _namespace() -> int:
    try:
        return os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        return 0
