"""Limits the memory and processes of the nursery and its workers together, by control groups.

The groups (cgroups(7), version 2 or 1) are made inside the group of this process. That takes root,
or a group delegated to this user; without it only the limits of each worker hold.
"""

import contextlib
import os
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from grader.worker.parent import traces

MAX_MEMORY_BYTES = 8 << 30
MAX_PROCESSES = 512  # threads count as well
_CGROUP_ROOT = Path("/sys/fs/cgroup")
_LIMITS_OF_VERSION_1 = {
    "memory": {"memory.limit_in_bytes": MAX_MEMORY_BYTES},
    "pids": {"pids.max": MAX_PROCESSES},
}
_REMOVAL_TRIES = 100  # attempts to remove a group, 10 ms apart


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlGroup:
    """The control groups of one nursery: none, one (version 2), or one a limit (version 1)."""

    groups: tuple[Path, ...] = ()

    @classmethod
    def where_possible(cls) -> "ControlGroup":
        """Make groups with limits; return a share without groups where the system refuses them."""
        name, made = traces.new_worker_trace_name(), list[Path]()
        for parents, limits in _list_parent_control_groups():
            ControlGroup(
                groups=tuple(g for p in parents for g in traces.find_orphaned_worker_traces(p))
            ).close()
            group = next(
                filter(None, (_make_control_group(p / name, limits) for p in parents)), None
            )
            if group is not None:
                made.append(group)
        share = cls(groups=tuple(made))
        if (
            made
            and subprocess.run(
                [*share.prefix(), "true"], capture_output=True, check=False
            ).returncode
        ):
            share.close()
            return cls()
        return share

    def prefix(self) -> list[str]:
        """Return the start of a command that runs in the groups."""
        if not self.groups:
            return []
        files = [str(group / "cgroup.procs") for group in self.groups]
        enter = " && ".join(f'echo $$ > "{file}"' for file in files)
        return ["/bin/sh", "-c", f'{enter} && exec "$@"', "sh"]

    def kill(self) -> None:
        """Kill all processes in the groups."""
        for group in self.groups:
            for pid in _list_control_group_processes(group):
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, 9)

    def close(self) -> None:
        """Kill all processes in the groups and remove the groups."""
        self.kill()
        for group in self.groups:
            for _ in range(_REMOVAL_TRIES):
                try:
                    group.rmdir()
                    break
                except OSError:
                    time.sleep(0.01)


def _list_parent_control_groups() -> Iterator[tuple[list[Path], dict[str, int]]]:
    """Yield pairs: parents for a new group, nearest first, and the limits it would get there."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            own = Path(path.lstrip("/"))
            if not controllers and (_CGROUP_ROOT / "cgroup.controllers").exists():
                parents = [_CGROUP_ROOT / place for place in (own, *own.parents)]
                yield parents, {"memory.max": MAX_MEMORY_BYTES, "pids.max": MAX_PROCESSES}
            elif controllers in _LIMITS_OF_VERSION_1:
                yield [_CGROUP_ROOT / controllers / own], _LIMITS_OF_VERSION_1[controllers]


def _make_control_group(group: Path, limits: dict[str, int]) -> Path | None:
    try:
        group.mkdir()
    except OSError:  # this process may not make it
        return None
    try:
        for file, value in limits.items():
            (group / file).write_text(str(value))
    except OSError:  # the group lacks this controller
        group.rmdir()
        return None
    return group


def _list_control_group_processes(group: Path) -> list[int]:
    with contextlib.suppress(OSError):
        return [int(pid) for pid in (group / "cgroup.procs").read_text().split()]
    return []
