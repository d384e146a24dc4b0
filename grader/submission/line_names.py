"""Names lines as the writer of an answer sees them."""

from collections.abc import Sequence


def name_submission_line(lines: Sequence[tuple[int, int]], number: int) -> str:
    """Return the name of a line of a source: "3", or "3 of cell 4" in a notebook.

    lines  for each line of the source its cell and its line in the cell; empty if no notebook
    """
    if not 0 < number <= len(lines):
        return str(number)
    cell, line = lines[number - 1]
    return f"{line} of cell {cell}"
