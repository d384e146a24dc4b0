"""Says in words which line of an answer computes the first wrong value."""

from collections.abc import Iterator

from grader.core.diagnosis_records import PinnedLine
from grader.core.translation import Words


def report_pinned_line(pinned: PinnedLine | None, words: Words) -> Iterator[str]:
    """Yield the sentence about the line that is pinned, if one is."""
    if pinned is None:
        return
    line, got, right = str(pinned.line), pinned.got, pinned.right
    if pinned.cell:
        line = words("{line} of cell {cell}", line=line, cell=pinned.cell)
    returned = pinned.name.startswith("return")
    name = words("what it returns") if returned else f"`{pinned.name}`"
    if got == () and right in ((), None):
        said = words(
            "Line {line} is the first whose value differs from a right answer: "
            "{name} is another number.",
            line=line, name=name,
        )  # fmt: skip
    elif right is None:
        said = words(
            "Line {line} is the first whose value differs from a right answer: {name} is {got}.",
            line=line, name=name, got=got,
        )  # fmt: skip
    elif got != right:
        said = words(
            "Line {line} is the first whose value differs from a right answer: "
            "{name} is {got}, should be {right}.",
            line=line, name=name, got=got, right=right,
        )  # fmt: skip
    else:
        said = words(
            "Line {line} is the first whose value differs from a right answer: "
            "{name} is {got}, as it should be, but with other numbers.",
            line=line, name=name, got=got,
        )  # fmt: skip
    yield said
