"""Wraps a text at the width of a terminal: Chinese between any two of its characters.

What follows `STUCK`, a blank at which no line is broken, stays with the word before it.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.text import Text

STUCK = "\u00a0"
_HAN = "\u4e00-\u9fff"
_BLANK = rf"[^\S{STUCK}]"
# A Chinese character or a word, with the opening signs before it and the closing ones behind.
_PIECE = re.compile(
    rf"{_BLANK}*[\u3008-\u3010\u201c\uff08]*(?:[{_HAN}]|[^\s\u3000-\u303f\uff00-\uff5e{_HAN}]+|\S)"
    r"[\u3001\u3002\u3009-\u3011\u201d\uff01\uff09\uff0c\uff1a\uff1b\uff1f]*"
    rf"(?:{STUCK}+[^\s]+)*{_BLANK}*"
)


@dataclass(frozen=True)
class WrappedText:
    """A text that is broken between Chinese characters as well, and nowhere at `STUCK`."""

    text: Text

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for line in self.text.split(allow_blank=True):
            for part in line.divide(list(find_text_breaks(line.plain, options.max_width))):
                part.rstrip()
                part.plain = part.plain.replace(STUCK, " ")
                yield part


def wrap_text(text: Text) -> RenderableType:
    """Return a text that wraps well; one that rich wraps well stays as it is."""
    return WrappedText(text) if re.search(f"[{STUCK}{_HAN}]", text.plain) else text


def find_text_breaks(line: str, width: int) -> Iterator[int]:
    """Yield the places at which a line is broken; a longer word than a line is left to rich."""
    used = 0
    for piece in _PIECE.finditer(line):
        if used and used + cell_len(piece[0].rstrip()) > width:
            yield piece.start()
            used = 0
        used += cell_len(piece[0])
