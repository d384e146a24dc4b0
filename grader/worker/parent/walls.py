"""Chooses the wall between a submission and the grader: the strongest that works on this machine.

*process*: a process of its own with limits, on every system. *locked*: that process also gives up
other files, other processes and the network (Landlock and seccomp), on any Linux that has them.
*contained*: a locked process in a bubblewrap container that holds only Python and its packages.
"""

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from grader.worker.child import linux
from grader.worker.parent import bubblewrap
from grader.worker.parent.readable_paths import (
    OUR_PACKAGES,
    VisiblePaths,
    collect_worker_paths,
    find_worker_site_folders,
)

CHILD_FOLDER = Path(__file__).resolve().parents[1] / "child"
WALL_NAMES = ("process", "locked", "contained")  # from the weakest to the strongest
_NOBODY_USER = 65534
_PROBE_SECONDS = 60.0
_KERNEL_SETTINGS = Path("/proc/sys")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wall:
    """How to start the nursery, and the files that its workers may open."""

    name: str
    prefix: tuple[str, ...] = ()  # of the command that starts the nursery
    child: str = str(CHILD_FOLDER)  # the folder `child`, at its path behind the wall
    user: int | None = None  # the user id that the nursery takes
    files: dict[str, Any] | None = field(default=None, hash=False)  # what a locked worker may open

    def command(self, mode: str, argument: str) -> list[str]:
        """Return the command line that runs `child/__main__.py` in one of its modes."""
        settings = json.dumps(
            {"sites": find_worker_site_folders(), "hidden": OUR_PACKAGES, "user": self.user}
        )
        python = [os.path.realpath(sys.executable), "-I", "-S"]
        return [*self.prefix, *python, self.child, mode, argument, settings]


PROCESS = Wall(name="process")


@dataclass(frozen=True, slots=True, kw_only=True)
class WallProbe:
    """The result of probing a wall: the wall, or why it does not work here, and the cure."""

    name: str
    wall: Wall | None
    why: str = ""
    cure: str = ""


class NoSuchWall(Exception):
    """Raised when a wall does not work here; the message says why, and the cure."""


def hide_grader_from_workers() -> None:
    """Hide this process's memory, environment and descriptors from its user's other processes."""
    if sys.platform == "linux":
        linux.set_process_attribute(linux.PR_SET_DUMPABLE, 0)


def choose_wall(wanted: str, *, on_cuda: bool = False, weakest: str = "process") -> Wall:
    """Return the wall called `wanted`, or for "auto" the strongest that works here.

    Raises `NoSuchWall` if the wall does not work here, or is weaker than `weakest`.
    """
    found = _choose_working_wall(wanted, on_cuda=on_cuda)
    if WALL_NAMES.index(found.name) < WALL_NAMES.index(weakest):
        here = "the strongest here" if wanted == "auto" else "what was asked for"
        raise NoSuchWall(f"The course demands the wall {weakest!r}, and {found.name!r} is {here}.")
    return found


def _choose_working_wall(wanted: str, *, on_cuda: bool) -> Wall:
    if wanted != "auto":
        tried = probe_wall(wanted, on_cuda=on_cuda)
        if tried.wall is None:
            raise NoSuchWall(f"The wall {wanted!r} does not work here: {tried.why}. {tried.cure}")
        return tried.wall
    for name in reversed(WALL_NAMES):
        if (wall := probe_wall(name, on_cuda=on_cuda).wall) is not None:
            return wall
    return PROCESS


def probe_wall(name: str, *, on_cuda: bool = False) -> WallProbe:
    """Probe a wall in a throw-away process."""
    if name == "process":
        return WallProbe(name=name, wall=PROCESS)
    if sys.platform != "linux":
        return WallProbe(name=name, wall=None, why="it needs Linux", cure="On Windows, WSL is one.")
    seen = collect_worker_paths(on_cuda=on_cuda)
    if name == "locked":
        wall = Wall(name=name, files=_list_files_behind_wall(seen))
        return _probe_built_wall(wall, "Linux 5.13 or later is needed.", on_cuda=on_cuda)
    return _probe_contained_wall(seen, on_cuda=on_cuda)


def _probe_contained_wall(seen: VisiblePaths, *, on_cuda: bool) -> WallProbe:
    if bubblewrap.find_bubblewrap() is None:
        why, cure = "bubblewrap is not installed", "Install it: `apt-get install bubblewrap`."
        return WallProbe(name="contained", wall=None, why=why, cure=cure)
    prefix = tuple(bubblewrap.build_bubblewrap_command(seen, CHILD_FOLDER))
    child, files = bubblewrap.CHILD_FOLDER_INSIDE, _list_files_behind_wall(seen)
    users = (_NOBODY_USER, None) if os.geteuid() == 0 else (None,)
    for user in users:
        wall = Wall(name="contained", prefix=prefix, child=child, user=user, files=files)
        tried = _probe_built_wall(wall, describe_bubblewrap_cure(), on_cuda=on_cuda)
        if tried.wall is not None:
            break
    return tried


def describe_bubblewrap_cure(settings: Path = _KERNEL_SETTINGS) -> str:
    """Say which kernel setting keeps bubblewrap from working, and the command that changes it."""
    known = [
        ("kernel/apparmor_restrict_unprivileged_userns", "1", "0",
         "Ubuntu refuses user namespaces to programs that it does not know"),
        ("kernel/unprivileged_userns_clone", "0", "1", "User namespaces are for root alone here"),
        ("user/max_user_namespaces", "0", "15000", "User namespaces are switched off here"),
    ]  # fmt: skip
    for name, bad, good, says in known:
        file = settings / name
        if file.exists() and file.read_text().strip() == bad:
            return f"{says}: `sudo sysctl -w {name.replace('/', '.')}={good}`."
    return (
        "A container must be started so that it may make user namespaces and mount /proc "
        "(docs/trust.md has the options); the wall locked works without."
    )


def _probe_built_wall(wall: Wall, cure: str, *, on_cuda: bool = False) -> WallProbe:
    """Probe a wall; it works if a process behind it is refused all that the wall must refuse."""
    needed = [str(Path(folder) / "torch" / "__init__.py") for folder in find_worker_site_folders()]
    request = {
        "files": wall.files,
        "needed": [path for path in needed if Path(path).exists()],
        "outside": __file__,
        "on_cuda": on_cuda,
    }
    try:
        with tempfile.TemporaryDirectory() as home:
            ran = subprocess.run(
                wall.command("probe", json.dumps(request)), cwd=home, env={}, check=False,
                stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_PROBE_SECONDS,
            )  # fmt: skip
        wrong = (
            json.loads(ran.stdout) if ran.returncode == 0 else [_find_last_probe_line(ran.stderr)]
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        wrong = [f"trying it failed ({type(error).__name__})"]
    if wrong:
        return WallProbe(name=wall.name, wall=None, why="; ".join(wrong), cure=cure)
    return WallProbe(name=wall.name, wall=wall)


def _find_last_probe_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1] if lines else "it ended without a word"


def _list_files_behind_wall(seen: VisiblePaths) -> dict[str, Any]:
    read, list_only = seen.carve_out_hidden()
    return {"landlock": True, "read": read, "list_only": list_only, "devices": list(seen.devices)}
