"""The command line that puts the nursery into a place of its own with bubblewrap (bwrap(1))."""

import functools
import os
import re
import shutil
import subprocess
from pathlib import Path

from grader.worker.readable_paths import Visible

INSIDE = "/run/attention_worker"  # where the child's side lies in there
_TEMP_BYTES = 256 << 20


def found() -> str | None:
    """Where bubblewrap is installed."""
    return shutil.which("bwrap")


@functools.cache
def version() -> tuple[int, ...]:
    """Its version; () if it is not installed or does not say."""
    program = found()
    if program is None:
        return ()
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
    return tuple(map(int, re.findall(r"\d+", said.stdout)))


def command(visible: Visible, child: Path) -> list[str]:
    """What to put in front of a Python: no network, no view of the course, nothing to write to.

    Root keeps, until it becomes another user, what that takes; anybody else gets a user namespace.
    """
    program = found()
    assert program is not None
    root = os.geteuid() == 0
    spaces = ["ipc", "pid", "net", "uts"] + ([] if root else ["user"])
    arguments = [program, *(f"--unshare-{space}" for space in spaces), "--unshare-cgroup-try"]
    arguments += ["--die-with-parent", "--new-session", "--hostname", "worker", "--cap-drop", "ALL"]
    if root:
        arguments += ["--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
    size = ["--size", str(_TEMP_BYTES)] if version() >= (0, 7) else []
    arguments += ["--proc", "/proc", "--dev", "/dev", "--perms", "1777", *size, "--tmpfs", "/tmp"]
    folders = [Path(path).parent for path in (*visible.read, INSIDE)]
    for folder in dict.fromkeys(p for f in folders for p in (*reversed(f.parents), f)):
        if folder not in (Path("/"), Path("/tmp")):
            arguments += ["--perms", "0755", "--dir", str(folder)]
    for path in visible.read:
        link = os.path.islink(path)
        arguments += ["--symlink", os.readlink(path), path] if link else ["--ro-bind", path, path]
    for path in visible.hidden:
        arguments += ["--tmpfs", path]
    for path in visible.devices:
        arguments += ["--dev-bind", path, path]
    arguments += ["--ro-bind", str(child), INSIDE]
    return [*arguments, "--chdir", "/tmp", "--remount-ro", "/", "--"]
