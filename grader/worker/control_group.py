"""A bound on what the nursery and its workers use together, where the system lets us set one.

Control groups (cgroups(7)), version 2 or 1, in the group that this process is in. That takes
root, or a group handed over to this user; everybody else has the limits of each worker alone.
"""

import contextlib
import os
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from grader.worker import traces

MEMORY_BYTES = 8 << 30
PROCESSES = 512  # threads count as well
_ROOT = Path("/sys/fs/cgroup")
_LIMITS_OF_VERSION_1 = {
    "memory": {"memory.limit_in_bytes": MEMORY_BYTES},
    "pids": {"pids.max": PROCESSES},
}
_TRIES = 100  # times that a group is tried to be removed, 10 ms apart


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """The groups made for one nursery: none, one (version 2), or one for each limit (version 1)."""

    groups: tuple[Path, ...] = ()

    @classmethod
    def where_possible(cls) -> "Share":
        """New groups with their limits set, or none."""
        name, made = traces.name(), list[Path]()
        for parents, limits in _places():
            Share(groups=tuple(g for p in parents for g in traces.left_in(p))).close()
            group = next(filter(None, (_made(p / name, limits) for p in parents)), None)
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
        """What to put in front of a command so that it runs in the groups."""
        if not self.groups:
            return []
        files = [str(group / "cgroup.procs") for group in self.groups]
        enter = " && ".join(f'echo $$ > "{file}"' for file in files)
        return ["/bin/sh", "-c", f'{enter} && exec "$@"', "sh"]

    def kill(self) -> None:
        """Kill whatever is in the groups."""
        for group in self.groups:
            for pid in _members(group):
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, 9)

    def close(self) -> None:
        """Remove the groups, once what was in them has ended."""
        self.kill()
        for group in self.groups:
            for _ in range(_TRIES):
                try:
                    group.rmdir()
                    break
                except OSError:
                    time.sleep(0.01)


def _places() -> Iterator[tuple[list[Path], dict[str, int]]]:
    """Where a group with these limits might be made: our own group, and those above it."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            own = Path(path.lstrip("/"))
            if not controllers and (_ROOT / "cgroup.controllers").exists():
                parents = [_ROOT / place for place in (own, *own.parents)]
                yield parents, {"memory.max": MEMORY_BYTES, "pids.max": PROCESSES}
            elif controllers in _LIMITS_OF_VERSION_1:
                yield [_ROOT / controllers / own], _LIMITS_OF_VERSION_1[controllers]


def _made(group: Path, limits: dict[str, int]) -> Path | None:
    try:
        group.mkdir()
    except OSError:  # not ours to make
        return None
    try:
        for file, value in limits.items():
            (group / file).write_text(str(value))
    except OSError:  # this group does not count that
        group.rmdir()
        return None
    return group


def _members(group: Path) -> list[int]:
    with contextlib.suppress(OSError):
        return [int(pid) for pid in (group / "cgroup.procs").read_text().split()]
    return []
