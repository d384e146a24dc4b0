"""docs/evidence.md: what is proven, with the figures that the commands print.

Each command owns the part between two comments that name it, and writes it anew.
"""

import platform
import re
from collections.abc import Sequence
from datetime import date
from importlib import metadata
from pathlib import Path

from grader.catalog import ROOT

PAGE = ROOT / "docs/evidence.md"
PACKAGES = ("torch", "numpy", "triton")


class NoSuchPart(Exception):
    """The page has no place for what a command writes; the message says what to do."""


def write(
    command: str, header: Sequence[str], rows: Sequence[Sequence[object]], told: str,
    page: Path = PAGE,
) -> None:  # fmt: skip
    """Write a command's table, and its summary below, in the place that the page has for it."""
    begin, end = f"<!-- begin {command} -->\n", f"<!-- end {command} -->"
    text = page.read_text(encoding="utf-8")
    if text.count(begin) != 1 or text.count(end) != 1:
        raise NoSuchPart(f"{page.name} needs the lines {begin.strip()} and {end}, once each.")
    lines = [_row(header), _row(["---"] * len(header)), *map(_row, rows), "", told, "", _origin()]
    pattern = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.DOTALL)
    part = begin + "\n".join(lines) + "\n" + end
    page.write_text(pattern.sub(lambda _: part, text), encoding="utf-8")


def _row(cells: Sequence[object]) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def _origin() -> str:
    """When and with which versions the figures were made."""
    found = [f"Python {platform.python_version()}"]
    for name in PACKAGES:
        try:
            found.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            found.append(f"no {name}")
    return f"Written on {date.today().isoformat()} with {', '.join(found)}."
