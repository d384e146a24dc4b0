"""Draws a trace as heat maps: each head a row; yours, the reference and the difference."""

import io
from collections.abc import Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from grader.core.this_python import build_pip_install_command
from grader.core.translation import Words
from grader.practice.show.sentence import CannotShow
from grader.practice.show.trace import Array, ShownStep, Trace

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PICTURE_SUFFIXES = (".png", ".svg", ".pdf")
MAX_NUMBERED_TOKENS = 10  # tokens up to which every cell has its number
Labels = tuple[Sequence[str], Sequence[str]]


def show_heat_maps(trace: Trace, words: Words) -> "Figure":
    """Draw the masks and the weights: of the requested head, or else of all heads."""
    try:
        from matplotlib import rc_context
        from matplotlib.figure import Figure
    except ImportError:
        cure = build_pip_install_command("matplotlib")
        raise CannotShow(f"Pictures need matplotlib: `{cure}`.") from None

    panels = list(_show_heat_map_panels(trace))
    beside = max(len(_split_shown_panel(step)) for step, _ in panels)
    tall = [0.36 * step.reference.shape[-2] + 0.5 for step, _ in panels]
    wide = 0.5 * max(step.reference.shape[-1] for step, _ in panels) + 1.6
    plain = lacks_font_to_show(trace, words)
    with rc_context(
        {"font.family": _list_fonts_to_show(_list_shown_letters(trace, words)), "font.size": 9}
    ):
        drawn = Figure(figsize=(beside * wide, sum(tall) + 0.4), layout="constrained")
        grid = drawn.add_gridspec(len(panels), beside, height_ratios=tall)
        for number, (step, head) in enumerate(panels):
            labels = _show_axis_labels(trace, step, plain)
            for place, part in enumerate(_split_shown_panel(step)):
                axes = drawn.add_subplot(grid[number, place])
                title = _show_panel_title(step, head, part, trace, Words() if plain else words)
                _show_panel(axes, step, part, head, labels, title)
    return drawn


def show_heat_maps_png(trace: Trace, words: Words) -> bytes:
    """Return the heat maps as the bytes of a PNG file."""
    file = io.BytesIO()
    show_heat_maps(trace, words).savefig(file, format="png", dpi=110)
    return file.getvalue()


def lacks_font_to_show(trace: Trace, words: Words) -> bool:
    """Return True if no installed font has all letters; the picture then numbers the tokens."""
    return not _find_font_to_show(
        frozenset(c for c in _list_shown_letters(trace, words) if ord(c) > 0x2FF)
    )


def _show_heat_map_panels(trace: Trace) -> Iterator[tuple[ShownStep, int]]:
    for step in trace.grids:
        heads = range(step.tables) if trace.head is None else [min(trace.head, step.tables - 1)]
        yield from ((step, head) for head in heads)


def _split_shown_panel(step: ShownStep) -> tuple[str, ...]:
    return ("Reference",) if step.yours is None else ("Yours", "Reference", "Difference")


def _show_panel_title(step: ShownStep, head: int, part: str, trace: Trace, words: Words) -> str:
    name = words(step.name)
    if step.tables > 1:
        name += words(", head {head} of {heads}", head=head, heads=step.tables)
    return f"{words(part)}: {name}" if trace.embedding or step.yours is not None else name


def _show_panel(
    axes: "Axes", step: ShownStep, part: str, head: int, labels: Labels, title: str
) -> None:
    source = {"Yours": step.yours, "Reference": step.reference, "Difference": step.difference}
    values = step.table(source[part], head)
    assert values is not None
    numbers = values.astype(float)
    top = float(np.abs(numbers[np.isfinite(numbers)]).max(initial=0.0)) or 1.0
    how: dict[str, Any] = {"cmap": "Blues", "vmin": 0, "vmax": max(1.0, top)}
    if part == "Difference":
        how = {"cmap": "RdBu_r", "vmin": -max(top, 0.01), "vmax": max(top, 0.01)}
    axes.imshow(np.ma.masked_invalid(numbers), aspect="auto", **how)
    axes.set_facecolor("orange")  # where there is no number
    axes.set_title(title, fontsize=9)
    rows, columns = labels
    axes.set_xticks(range(len(columns)), columns)
    axes.set_yticks(range(len(rows)), rows)
    axes.set_xticks(np.arange(0.5, len(columns) - 1), minor=True)
    axes.set_yticks(np.arange(0.5, len(rows) - 1), minor=True)
    axes.grid(which="minor", color="lightgrey", linewidth=0.6)
    axes.tick_params(which="both", length=0)
    axes.tick_params(top=True, bottom=False, labeltop=True, labelbottom=False)
    if not step.is_mask and len(columns) <= MAX_NUMBERED_TOKENS:
        _show_cell_numbers(axes, numbers, how["vmax"])


def _show_cell_numbers(axes: "Axes", numbers: Array, top: float) -> None:
    from grader.practice.show.show_text import format_shown_number

    for (row, column), value in np.ndenumerate(numbers):
        dark = np.isfinite(value) and abs(value) > 0.6 * top
        axes.text(column, row, format_shown_number(value), ha="center", va="center", fontsize=7,
                  color="white" if dark else "black")  # fmt: skip


def _show_axis_labels(trace: Trace, step: ShownStep, plain: bool) -> Labels:
    rows, columns = trace.rows(step), trace.columns(step)
    if not plain:
        return rows, columns
    first = len(columns) - len(rows)  # queries are the last of the tokens
    numbered = [str(n + 1) for n in range(len(columns))]
    return (["*"] if rows == ("*",) else numbered[first:]), numbered


def _list_shown_letters(trace: Trace, words: Words) -> frozenset[str]:
    said = [words(word) for word in ("Yours", "Reference", "Difference")]
    said += [words(", head {head} of {heads}", head=0, heads=0)]
    return frozenset("".join([*trace.tokens, *said, *(words(s.name) for s in trace.grids)]))


def _list_fonts_to_show(letters: frozenset[str]) -> list[str]:
    found = _find_font_to_show(frozenset(c for c in letters if ord(c) > 0x2FF))
    return list(dict.fromkeys(name for name in (found, "DejaVu Sans") if name))


@cache
def _find_font_to_show(letters: frozenset[str]) -> str:
    """Return the name of a font of this machine that has all these letters; "" if none has."""
    from matplotlib import font_manager
    from matplotlib.ft2font import FT2Font

    fonts = sorted(font_manager.fontManager.ttflist, key=lambda f: f.name != "DejaVu Sans")
    for font in fonts:
        if font.name.startswith("Last Resort"):  # it has every letter, as an empty box
            continue
        try:
            known = FT2Font(font.fname).get_charmap()
        except (OSError, RuntimeError):  # a font that was removed, or that cannot be read
            continue
        if all(ord(letter) in known for letter in letters):
            return font.name
    return ""
