"""Writes docs/evidence.md: the figures that the proving commands print.

Each command owns the table between two comments that name the command. A run replaces the rows of
its exercises; all other rows stay, each with the day on which it was written.
"""

import platform
from collections.abc import Sequence
from datetime import date
from importlib import metadata
from pathlib import Path

from grader.core.catalog import ROOT

EVIDENCE_PATH = ROOT / "docs/evidence.md"
PACKAGES = ("torch", "numpy", "triton")
SUM_ROW = "all"


class NoSuchEvidence(Exception):
    """Raised if the page has no place for a command's table; the message names the cure."""


def write_evidence_rows(
    command: str, header: Sequence[str], rows: Sequence[Sequence[str]], *,
    sums: Sequence[str] = (), page: Path = EVIDENCE_PATH,
) -> None:  # fmt: skip
    """Write rows into a command's table on the page.

    rows  the first cell is the row's name; an earlier row of that name is replaced
    sums  the columns of whole numbers that the last row, `all`, adds up
    """
    begin, end = f"<!-- begin {command} -->\n", f"<!-- end {command} -->"
    text = page.read_text(encoding="utf-8")
    if text.count(begin) != 1 or text.count(end) != 1:
        raise NoSuchEvidence(f"{page.name} needs the lines {begin.strip()} and {end}, once each.")
    before, _, rest = text.partition(begin)
    part, _, after = rest.partition(end)
    columns = [*header, "written"]
    today = {row[0]: [*row, date.today().isoformat()] for row in rows}
    table = sorted({**_parse_evidence_rows(part, columns), **today}.items())
    body = [row for _, row in table]
    lines = [columns, ["---"] * len(columns), *body, *_sum_evidence_rows(columns, body, sums)]
    written = [*(f"| {' | '.join(row)} |" for row in lines), "", _write_evidence_versions()]
    page.write_text(before + begin + "\n".join(written) + "\n" + end + after, encoding="utf-8")


def _parse_evidence_rows(part: str, columns: Sequence[str]) -> dict[str, list[str]]:
    """Return the rows of a part's table by name; {} if the table has other columns."""
    lines = [line for line in part.splitlines() if line.startswith("| ")]
    rows = [line.removeprefix("| ").removesuffix(" |").split(" | ") for line in lines]
    if rows[:1] != [list(columns)]:
        return {}
    return {row[0]: row for row in rows[2:] if row[0] != SUM_ROW}


def _sum_evidence_rows(
    columns: Sequence[str], body: Sequence[Sequence[str]], sums: Sequence[str]
) -> list[list[str]]:
    """Return the last row, `all`, in a list; [] if no column is summed."""
    if not sums:
        return []
    cells = dict.fromkeys(columns, "") | {columns[0]: SUM_ROW}
    for name in sums:
        of_all = (row[columns.index(name)] for row in body)
        cells[name] = f"{sum(int(cell.replace(',', '')) for cell in of_all):,}"
    return [list(cells.values())]


def _write_evidence_versions() -> str:
    """Return a sentence with the versions of Python and of the packages."""
    found = [f"Python {platform.python_version()}"]
    for name in PACKAGES:
        try:
            found.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            found.append(f"no {name}")
    return f"Last written with {', '.join(found)}."
