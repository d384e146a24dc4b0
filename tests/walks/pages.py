"""Walks a page of docs: runs its own commands, in their order, and loses none."""

import os
import re
import subprocess
import sys
from pathlib import Path

from grader.core.catalog import ROOT

_SECONDS = 1500


def read_page_commands(page: str, *, under: str = "") -> list[str]:
    """Return the commands in the shell blocks of a page, or of one section, without comments."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    if under:
        text = re.split(r"^#+ ", text.partition(f"# {under}\n")[2], maxsplit=1, flags=re.M)[0]
    blocks = re.findall(r"^```sh\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    lines = "".join(blocks).replace("\\\n", "").splitlines()
    return [found for line in lines if (found := re.sub(r"(^|\s)#( .*)?$", "", line).strip())]


def walk(command: str, folder: Path, *, status: int = 0, **environment: object) -> str:
    """Run a page's command as it stands, and return what it prints.

    The grader's Python is the one of this process. `make` takes its own variables from here.
    """
    beside = str(Path(sys.executable).parent)
    path = os.pathsep.join((beside, os.environ["PATH"]))
    given = {name: str(value) for name, value in environment.items()}
    done = subprocess.run(
        ["bash", "-c", command], cwd=folder, capture_output=True, text=True, check=False,
        timeout=_SECONDS,
        env=os.environ | {"PATH": path, "PYTHON": sys.executable, "LANG": "C.UTF-8"} | given,
    )  # fmt: skip
    said = done.stdout + done.stderr
    assert done.returncode == status, f"{command} ended with {done.returncode}:\n{said}"
    assert "Traceback" not in said, said
    return said
