"""The words in which a suite's `play.py` says what can be moved, and what is drawn of it.

A suite's `play.py` imports nothing of ours but the reference and these words:

    CONTROLS                 what a person moves: sliders, switches, a painted grid
    RIGHT                    the reference's functions, under the names of the exercise
    draw(functions, **values)  the pictures, computed by `functions`: RIGHT, or the student's

Sentences are English; their Chinese lies in `core/zh.toml`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from grader.core.running_sentence import RUNNING_SENTENCE

SENTENCE = tuple(RUNNING_SENTENCE.split())  # the tokens of a play that is about words


@dataclass(frozen=True, slots=True, kw_only=True)
class Slider:
    """A number between two others."""

    name: str
    says: str
    low: float
    high: float
    step: float
    begin: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Switch:
    """Something that is on or off."""

    name: str
    says: str
    begin: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Painted:
    """A grid of cells, each on or off, that the mouse paints and the keyboard toggles."""

    name: str
    says: str
    begin: tuple[tuple[bool, ...], ...]


Control = Slider | Switch | Painted
Value = float | bool | tuple[tuple[bool, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bars:
    """A bar for each value; the longest possible has the value `top`."""

    title: str
    labels: tuple[str, ...]
    values: tuple[float, ...]
    top: float = 1.0
    digits: int = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """A table of numbers, each cell as dark as its share of `top`; None is a hidden cell."""

    title: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    values: tuple[tuple[float | None, ...], ...]
    top: float = 1.0
    marked: frozenset[tuple[int, int]] = frozenset()  # cells with a frame
    digits: int = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A cell that moves when the next picture has it at another place."""

    label: str
    row: float
    column: float
    colour: int  # 0 to 5, of the style sheet


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocks:
    """Cells on a plane, in the same order in every picture."""

    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """A sentence, with values in the place of the names in braces."""

    says: str
    values: Mapping[str, str] = field(default_factory=dict)


Picture = Bars | Grid | Blocks | Note


def number_tokens(name: str, count: int) -> tuple[str, ...]:
    """Return labels such as `key 0`, `key 1`; without a name, the numbers alone."""
    return tuple(f"{name} {number}".strip() for number in range(count))


def table(values: Any) -> tuple[tuple[float | None, ...], ...]:
    """Return the rows of a matrix, or of lists of numbers and None, as plain numbers."""
    rows = values.tolist() if hasattr(values, "tolist") else values
    return tuple(tuple(row) for row in rows)
