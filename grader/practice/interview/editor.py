"""Opens the person's own editor in the foreground while the clock runs."""

import os
import shlex
import shutil
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from grader.core.errors import UserError


class NoEditor(UserError):
    """Raised if no editor can be opened. The message says why, and how to fix it."""


def choose_interview_editor(environment: Mapping[str, str] = os.environ) -> list[str]:
    """Return the editor command that VISUAL or EDITOR names."""
    named = environment.get("VISUAL") or environment.get("EDITOR") or ""
    try:
        command = shlex.split(named)
    except ValueError:
        command = []
    if not command:
        raise NoEditor(
            "VISUAL and EDITOR name no editor: set one of them, or open the file yourself, "
            "without --edit."
        )
    if shutil.which(command[0]) is None:
        raise NoEditor(
            f"The editor {command[0]} is not there: name another in VISUAL or EDITOR, or open the "
            "file yourself, without --edit."
        )
    return command


def open_interview_editor(
    command: list[str], path: Path, seconds: float
) -> subprocess.Popen[bytes]:
    """Open the file in the editor; return after it was closed or the time was over."""
    process = subprocess.Popen([*command, str(path)])
    with suppress(subprocess.TimeoutExpired):
        process.wait(seconds)
    return process
