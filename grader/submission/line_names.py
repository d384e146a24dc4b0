"""Names lines as the writer of an answer sees them."""

from collections.abc import Sequence


def unify_submission_line_ends(text: str) -> str:
    """Return a text whose lines end with `\\n` and nothing else, as Python counts lines.

    Python takes a lone `\\r` for the end of a line too.
    """
    return text.replace("\r\n", "\n").replace("\r", "\n")


def find_submission_line(source: str, number: int | None) -> str:
    """Return a line of a source by its number, stripped; "" if the source has no such line."""
    lines = source.split("\n")  # splitlines() also cuts at signs that Python reads over
    return lines[number - 1].strip() if number and 0 < number <= len(lines) else ""


def name_submission_line(lines: Sequence[tuple[int, int]], number: int) -> str:
    """Return the name of a line of a source: "3", or "3 of cell 4" in a notebook.

    lines  for each line of the source its cell and its line in the cell; empty if no notebook
    """
    if not 0 < number <= len(lines):
        return str(number)
    cell, line = lines[number - 1]
    return f"{line} of cell {cell}"
