"""The command line that starts the nursery in namespaces of its own by bubblewrap (bwrap(1))."""

import functools
import os
import re
import shutil
import subprocess
from pathlib import Path

from grader.worker.parent.readable_paths import VisiblePaths

CHILD_FOLDER_INSIDE = "/run/attention_worker"  # where bubblewrap mounts the folder `child`
_TEMP_BYTES = 256 << 20


def find_bubblewrap() -> str | None:
    """Return the path of bubblewrap; None if it is not installed."""
    return shutil.which("bwrap")


@functools.cache
def read_bubblewrap_version() -> tuple[int, ...]:
    """Return the version of bubblewrap; () if it is not installed or prints none."""
    program = find_bubblewrap()
    if program is None:
        return ()
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
    return tuple(map(int, re.findall(r"\d+", said.stdout)))


def build_bubblewrap_command(visible: VisiblePaths, child: Path) -> list[str]:
    """Return the start of a command that hides network and course, and mounts files read-only.

    Root keeps the capabilities to become another user; other users get a user namespace.
    """
    program = find_bubblewrap()
    assert program is not None
    root = os.geteuid() == 0
    spaces = ["ipc", "pid", "net", "uts"] + ([] if root else ["user"])
    arguments = [program, *(f"--unshare-{space}" for space in spaces), "--unshare-cgroup-try"]
    arguments += ["--die-with-parent", "--new-session", "--hostname", "worker", "--cap-drop", "ALL"]
    if root:
        arguments += ["--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
    size = ["--size", str(_TEMP_BYTES)] if read_bubblewrap_version() >= (0, 7) else []
    arguments += ["--proc", "/proc", "--dev", "/dev", "--perms", "1777", *size, "--tmpfs", "/tmp"]
    folders = [Path(path).parent for path in (*visible.read, CHILD_FOLDER_INSIDE)]
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
    arguments += ["--ro-bind", str(child), CHILD_FOLDER_INSIDE]
    return [*arguments, "--chdir", "/tmp", "--remount-ro", "/", "--"]
