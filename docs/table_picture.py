"""Draws tables of numbers, three side by side, as SVG, readable on light and on dark pages."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import numpy as np
from rich.cells import cell_len

from reference.expected import Array

CELL, WIDE_CELL, HEIGHT, MARGIN, LABEL = 56, 96, 34, 20, 72  # pixels
TITLE, HEAD = 26, 22  # heights of a title and of the names of columns
LEAST_WIDTH = 290  # of a table, for its title
PER_LINE = 3  # tables side by side
STYLE = """
text { font: 13px sans-serif; fill: #1f2328 } .title { font-weight: bold }
.name { fill: #59636e } .number { text-anchor: middle } .column { text-anchor: middle }
.page { fill: #ffffff } .cell { fill: #0969da } .edge { fill: none; stroke: #8c959f }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 } .name { fill: #9198a1 } .page { fill: #0d1117 } .cell { fill: #58a6ff }
.edge { stroke: #656c76 }
}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class PictureTable:
    """A table of numbers, with names of rows and columns; what `keep` leaves out stays empty."""

    title: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    values: Array
    keep: Array | None = None
    digits: int = 2
    wide: bool = False

    @property
    def cell(self) -> int:
        """Return the width of a cell."""
        return WIDE_CELL if self.wide else CELL + 14 * (max(map(cell_len, self.columns)) > 5)

    @property
    def width(self) -> int:
        """Return the width of the table with the names of its rows."""
        title = 8 * cell_len(self.title)  # a Chinese letter takes the room of two others
        return max(LABEL + len(self.columns) * self.cell, LEAST_WIDTH, title)


def draw_table_picture(name: str, about: str, tables: Sequence[PictureTable]) -> str:
    """Return the tables as SVG, with a title and a description for those who cannot see them."""
    lines = [tables[at : at + PER_LINE] for at in range(0, len(tables), PER_LINE)]
    if len(tables) == PER_LINE + 1:  # two lines of equal length rather than one table alone
        lines = [tables[: PER_LINE - 1], tables[PER_LINE - 1 :]]
    width = max(sum(table.width + MARGIN for table in line) for line in lines) + MARGIN
    parts, height = [], MARGIN
    for line in lines:
        left = MARGIN
        for table in line:
            parts += _draw_table(table, left, height)
            left += table.width + MARGIN
        height += TITLE + HEAD + max(len(table.rows) for table in line) * HEIGHT + MARGIN
    body = "\n".join(parts)
    return (
        "<!-- Generated from the code by `make picture`. -->\n"
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" role="img" aria-labelledby="title about">\n'
        f'<title id="title">{escape(name)}</title>\n<desc id="about">{escape(about)}</desc>\n'
        f"<style>{STYLE}</style>\n"
        f'<rect class="page" width="{width}" height="{height}"/>\n{body}\n</svg>\n'
    )


def _draw_table(table: PictureTable, left: int, high: int) -> list[str]:
    top = high + TITLE + HEAD
    parts = [f'<text class="title" x="{left}" y="{high + 12}">{escape(table.title)}</text>']
    for j, name in enumerate(table.columns):
        x = left + LABEL + (j + 0.5) * table.cell
        parts.append(f'<text class="name column" x="{x:g}" y="{top - 7}">{escape(name)}</text>')
    shares = _share_of_largest(table.values)
    for i, name in enumerate(table.rows):
        y = top + i * HEIGHT
        parts.append(f'<text class="name" x="{left}" y="{y + 22}">{escape(name)}</text>')
        for j in range(len(table.columns)):
            shown = table.keep is None or bool(table.keep[i, j])
            text = f"{table.values[i, j] + 0.0:.{table.digits}f}" if shown else ""
            share = float(shares[i, j]) if shown else 0.0
            parts.append(_draw_cell(left + LABEL + j * table.cell, y, table.cell, share, text))
    return parts


def _draw_cell(x: int, y: int, width: int, share: float, text: str) -> str:
    return (
        f'<rect class="cell" x="{x}" y="{y}" width="{width}" height="{HEIGHT}" '
        f'fill-opacity="{share:.2f}"/><rect class="edge" x="{x}" y="{y}" width="{width}" '
        f'height="{HEIGHT}"/><text class="number" x="{x + width / 2:g}" '
        f'y="{y + 22}">{text}</text>'
    )


def _share_of_largest(values: Array) -> Array:
    """Return how deep each number is coloured: from 0 for the least to 0.55 for the largest.

    The number on it stays readable, on light pages and on dark ones.
    """
    low = min(float(values.min()), 0.0)
    span = float(values.max()) - low
    return np.zeros_like(values) if span == 0 else 0.55 * (values - low) / span
