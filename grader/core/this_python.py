"""Terminal commands for the Python that is running now, not for the first one on the path."""

import os
import shlex
import shutil
import sys
import sysconfig
from pathlib import Path

SCRIPT = "attention-by-hand"  # of an installed package
_OF_UVX = "archive-v0"  # the folder of uv's cache in which uvx makes an environment for one command


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


def find_own_command() -> str:
    """Return what calls this grader in a shell: its script, by its path where it must be."""
    if "UV" in os.environ and _OF_UVX in Path(sys.prefix).parts:
        return f"uvx '{SCRIPT}[learn]'"
    script, found = _locate_own_script(), shutil.which(SCRIPT)
    if found and os.path.realpath(found) == os.path.realpath(script):
        return SCRIPT
    words = [str(script)] if script.is_file() else [sys.executable, "-m", "grader"]
    return shlex.join(words)


def is_grader_installed() -> bool:
    """Return whether this Python finds the grader from any folder, not only in a clone."""
    return _locate_own_script().is_file()


def _locate_own_script() -> Path:
    return Path(sysconfig.get_path("scripts")) / SCRIPT
