"""docs/evidence.md: what is proven, with the figures that the commands print.

Each command owns the table between two comments that name it. It writes the rows of the exercises
that it was asked about; all other rows stay, each with the day on which it was written.
"""

import platform
from collections.abc import Sequence
from datetime import date
from importlib import metadata
from pathlib import Path

from grader.core.catalog import ROOT

PAGE = ROOT / "docs/evidence.md"
PACKAGES = ("torch", "numpy", "triton")
ALL = "all"


class NoSuchPart(Exception):
    """The page has no place for what a command writes; the message says what to do."""


def write(
    command: str, header: Sequence[str], rows: Sequence[Sequence[str]], *,
    sums: Sequence[str] = (), page: Path = PAGE,
) -> None:  # fmt: skip
    """Write rows of a command's table in the place that the page has for it.

    rows  their first cell names them; a row of that name is replaced
    sums  the columns of whole numbers that a last row, `all`, adds up
    """
    begin, end = f"<!-- begin {command} -->\n", f"<!-- end {command} -->"
    text = page.read_text(encoding="utf-8")
    if text.count(begin) != 1 or text.count(end) != 1:
        raise NoSuchPart(f"{page.name} needs the lines {begin.strip()} and {end}, once each.")
    before, _, rest = text.partition(begin)
    part, _, after = rest.partition(end)
    columns = [*header, "written"]
    today = {row[0]: [*row, date.today().isoformat()] for row in rows}
    table = sorted({**_rows(part, columns), **today}.items())
    body = [row for _, row in table]
    lines = [columns, ["---"] * len(columns), *body, *_all(columns, body, sums)]
    written = [*(f"| {' | '.join(row)} |" for row in lines), "", _origin()]
    page.write_text(before + begin + "\n".join(written) + "\n" + end + after, encoding="utf-8")


def _rows(part: str, columns: Sequence[str]) -> dict[str, list[str]]:
    """The rows that stand in a part, by name; none if its table has other columns."""
    lines = [line for line in part.splitlines() if line.startswith("| ")]
    rows = [line.removeprefix("| ").removesuffix(" |").split(" | ") for line in lines]
    if rows[:1] != [list(columns)]:
        return {}
    return {row[0]: row for row in rows[2:] if row[0] != ALL}


def _all(
    columns: Sequence[str], body: Sequence[Sequence[str]], sums: Sequence[str]
) -> list[list[str]]:
    """The last row, if there are sums to show."""
    if not sums:
        return []
    cells = dict.fromkeys(columns, "") | {columns[0]: ALL}
    for name in sums:
        of_all = (row[columns.index(name)] for row in body)
        cells[name] = f"{sum(int(cell.replace(',', '')) for cell in of_all):,}"
    return [list(cells.values())]


def _origin() -> str:
    """With which versions the newest figures were made."""
    found = [f"Python {platform.python_version()}"]
    for name in PACKAGES:
        try:
            found.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            found.append(f"no {name}")
    return f"Last written with {', '.join(found)}."
