"""Commands for a terminal that concern the Python that runs, not the one that is found first."""

import shlex
import sys
from pathlib import Path


def find_this_python() -> str:
    """Return the path of this Python, relative to the current folder if it lies below."""
    path, here = Path(sys.executable), Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


def build_pip_command(*words: str) -> str:
    """Return a command that calls pip for this Python, quoted for a shell."""
    return shlex.join([find_this_python(), "-m", "pip", *words])


def build_pip_install_command(*requirements: str) -> str:
    """Return the command that installs requirements for this Python."""
    return build_pip_command("install", *requirements)
