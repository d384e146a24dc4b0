"""Commands for a terminal that concern the Python that runs, not the one that is found first."""

import shlex
import sys
from pathlib import Path


def interpreter() -> str:
    """Return the path of this Python, relative to the current folder if it lies below."""
    path, here = Path(sys.executable), Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


def pip(*words: str) -> str:
    """Return a command that calls pip for this Python, quoted for a shell."""
    return shlex.join([interpreter(), "-m", "pip", *words])


def pip_install(*requirements: str) -> str:
    """Return the command that installs requirements for this Python."""
    return pip("install", *requirements)
