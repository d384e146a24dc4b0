"""Lines as the writer of an answer knows them."""

from collections.abc import Sequence


def written_as(lines: Sequence[tuple[int, int]], number: int) -> str:
    """A line of a source: "3", or "3 of cell 4" in a notebook.

    lines  of each line its cell, and there; nothing if it is no notebook
    """
    if not 0 < number <= len(lines):
        return str(number)
    cell, line = lines[number - 1]
    return f"{line} of cell {cell}"
