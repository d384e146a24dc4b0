"""The ladder of walls between a submission and the grader: which of them works on this machine.

*process*: a process of its own with limits, everywhere. *locked*: it also gives up other files,
other processes and the network (Landlock and seccomp), on any Linux that has them. *contained*: all
that, in a place made by bubblewrap that holds nothing but Python and its packages.
"""

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from grader.worker import bubblewrap
from grader.worker.child import linux
from grader.worker.readable_paths import Visible, site_folders, visible

CHILD = Path(__file__).resolve().parent / "child"
NAMES = ("process", "locked", "contained")  # from the weakest to the strongest
_NOBODY = 65534
_PROBE_SECONDS = 60.0
_SETTINGS = Path("/proc/sys")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wall:
    """How the nursery is started and what its workers are left with."""

    name: str
    prefix: tuple[str, ...] = ()  # of the command that starts the nursery
    child: str = str(CHILD)  # the child's side, as the nursery finds it
    user: int | None = None  # whom the nursery becomes
    files: dict[str, Any] | None = field(default=None, hash=False)  # what a locked worker may open

    def command(self, mode: str, argument: str) -> list[str]:
        """The command line of the child's side (see `child/__main__.py`)."""
        settings = json.dumps({"sites": site_folders(), "user": self.user})
        python = [os.path.realpath(sys.executable), "-I", "-S"]
        return [*self.prefix, *python, self.child, mode, argument, settings]


PROCESS = Wall(name="process")


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """What came of trying a wall: the wall, or why it does not work here, and the cure."""

    name: str
    wall: Wall | None
    why: str = ""
    cure: str = ""


class NoSuchWall(Exception):
    """The wall that was asked for does not work here; the message says why, and the cure."""


def hide_this_process() -> None:
    """Close this process's memory, environment and descriptors to others of the same user."""
    if sys.platform == "linux":
        linux.prctl(linux.PR_SET_DUMPABLE, 0)


def choose(wanted: str, *, on_cuda: bool = False, weakest: str = "process") -> Wall:
    """The wall called `wanted`, or the strongest that works here for "auto".

    Raises `NoSuchWall` if it does not work here, or is weaker than the one that is demanded.
    """
    found = _chosen(wanted, on_cuda=on_cuda)
    if NAMES.index(found.name) < NAMES.index(weakest):
        here = "the strongest here" if wanted == "auto" else "what was asked for"
        raise NoSuchWall(f"The course demands the wall {weakest!r}, and {found.name!r} is {here}.")
    return found


def _chosen(wanted: str, *, on_cuda: bool) -> Wall:
    if wanted != "auto":
        tried = probe(wanted, on_cuda=on_cuda)
        if tried.wall is None:
            raise NoSuchWall(f"The wall {wanted!r} does not work here: {tried.why}. {tried.cure}")
        return tried.wall
    for name in reversed(NAMES):
        if (wall := probe(name, on_cuda=on_cuda).wall) is not None:
            return wall
    return PROCESS


def probe(name: str, *, on_cuda: bool = False) -> Probe:
    """Try a wall in a throw-away child."""
    if name == "process":
        return Probe(name=name, wall=PROCESS)
    if sys.platform != "linux":
        return Probe(name=name, wall=None, why="it needs Linux", cure="On Windows, WSL is one.")
    seen = visible(on_cuda=on_cuda)
    if name == "locked":
        wall = Wall(name=name, files=_files(seen))
        return _tried(wall, "Linux 5.13 or later is needed.", on_cuda=on_cuda)
    return _contained(seen, on_cuda=on_cuda)


def _contained(seen: Visible, *, on_cuda: bool) -> Probe:
    if bubblewrap.found() is None:
        why, cure = "bubblewrap is not installed", "Install it: `apt-get install bubblewrap`."
        return Probe(name="contained", wall=None, why=why, cure=cure)
    prefix = tuple(bubblewrap.command(seen, CHILD))
    users = (_NOBODY, None) if os.geteuid() == 0 else (None,)
    for user in users:
        wall = Wall(
            name="contained", prefix=prefix, child=bubblewrap.INSIDE, user=user, files=_files(seen)
        )
        tried = _tried(wall, cure_for_bubblewrap(), on_cuda=on_cuda)
        if tried.wall is not None:
            break
    return tried


def cure_for_bubblewrap(settings: Path = _SETTINGS) -> str:
    """What lets bubblewrap work, by the settings of the kernel."""
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


def _tried(wall: Wall, cure: str, *, on_cuda: bool = False) -> Probe:
    """The wall, if a process behind it is refused all that it should be refused."""
    needed = [str(Path(folder) / "torch" / "__init__.py") for folder in site_folders()]
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
        wrong = json.loads(ran.stdout) if ran.returncode == 0 else [_last_line(ran.stderr)]
    except (OSError, subprocess.TimeoutExpired) as error:
        wrong = [f"trying it failed ({type(error).__name__})"]
    if wrong:
        return Probe(name=wall.name, wall=None, why="; ".join(wrong), cure=cure)
    return Probe(name=wall.name, wall=wall)


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1] if lines else "it ended without a word"


def _files(seen: Visible) -> dict[str, Any]:
    read, list_only = seen.carved()
    return {"landlock": True, "read": read, "list_only": list_only, "devices": list(seen.devices)}
