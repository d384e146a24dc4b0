"""Draws docs/architecture.svg: the folders of the grader by floor, and the route of an answer."""

import ast
import textwrap
from collections.abc import Iterator, Mapping
from html import escape
from pathlib import Path

from grader.authoring.import_rules import FLOORS
from grader.core.catalog import ROOT

PATH = "docs/architecture.svg"
# The folders through which an answer goes until its report, in order.
ANSWER_ROUTE = (
    "cli", "grading", "submission", "cuda", "worker", "judging", "suites", "diagnosis",
    "timing", "reporting",
)  # fmt: skip
WIDTH, FLOOR_HEIGHT, GAP, MARGIN = 1040, 66, 10, 20  # pixels
LETTERS_PER_PIXEL = 1 / 6.1  # of the small text
STYLE = """
text { font: 12px sans-serif; fill: #333 } .name { font: bold 15px sans-serif; fill: #111 }
rect { fill: #f4f6fa; stroke: #8aa0c0 } .way rect { fill: #fdf3e2; stroke: #c9953f }
circle { fill: #c9953f } .step { font: bold 12px sans-serif; fill: #fff; text-anchor: middle }
"""


def render_generated_page() -> str:
    """Return the picture as SVG: higher folders import from lower ones, never the other way."""
    floors = [floor for floor in reversed(FLOORS) if "__main__" not in floor]
    height = 2 * MARGIN + len(floors) * (FLOOR_HEIGHT + GAP) - GAP
    boxes = "\n".join(
        box
        for number, floor in enumerate(floors)
        for box in _draw_architecture_floor(floor, MARGIN + number * (FLOOR_HEIGHT + GAP))
    )
    return (
        f"<!-- Generated from the code by `make skeletons`. -->\n"
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        f'width="{WIDTH}" height="{height}">\n<style>{STYLE}</style>\n'
        f'<rect width="{WIDTH}" height="{height}" style="fill: #fff; stroke: none"/>\n'
        f"{boxes}\n</svg>\n"
    )


def _draw_architecture_floor(folders: tuple[str, ...], top: int) -> Iterator[str]:
    """Yield the boxes of one floor, side by side."""
    width = (WIDTH - 2 * MARGIN - GAP * (len(folders) - 1)) / len(folders)
    for number, folder in enumerate(folders):
        yield _draw_architecture_folder(folder, MARGIN + number * (width + GAP), top, width)


def _draw_architecture_folder(folder: str, left: float, top: int, width: float) -> str:
    lines = textwrap.wrap(read_folder_purpose(folder), int((width - 60) * LETTERS_PER_PIXEL))
    texts = [f'<text class="name" x="{left + 12:g}" y="{top + 22}">{folder}</text>']
    texts += [
        f'<text x="{left + 12:g}" y="{top + 41 + 16 * number}">{escape(line)}</text>'
        for number, line in enumerate(lines)
    ]
    step = ""
    if folder in ANSWER_ROUTE:
        x, number = left + width - 20, ANSWER_ROUTE.index(folder) + 1
        step = f'<circle cx="{x:g}" cy="{top + 20}" r="11"/>'
        step += f'<text class="step" x="{x:g}" y="{top + 24}">{number}</text>'
    rect = f'<rect x="{left:g}" y="{top}" width="{width:g}" height="{FLOOR_HEIGHT}" rx="6"/>'
    kind = "way" if step else "room"
    return f'<g class="{kind}">{rect}{"".join(texts)}{step}</g>'


def read_folder_purpose(folder: str, root: Path = ROOT) -> str:
    """Return the first line of a folder's docstring."""
    text = (root / "grader" / folder / "__init__.py").read_text(encoding="utf-8")
    return (ast.get_docstring(ast.parse(text)) or "").partition("\n")[0]


def list_folder_purposes() -> Mapping[str, str]:
    """Return each folder's purpose, from the highest floor down."""
    return {
        f: read_folder_purpose(f)
        for floor in reversed(FLOORS)
        for f in floor
        if "__main__" not in floor
    }
