"""Says in words which line of an answer computes the first wrong value, or is mended."""

from collections.abc import Iterator

from grader.core.diagnosis_records import PinnedLine
from grader.core.translation import Words

# What a report says of a change: its kind, or what it leaves out, and not what must be written.
_CHANGES = {
    "OPERATOR": "another operator there",
    "COMPARISON": "another comparison there",
    "AND_OR": "`and` and `or` exchanged there",
    "SIGN": "a sign or a `not` taken away there",
    "CONSTANT": "another constant there",
    "CONDITION": "another condition there",
    "DEFAULT": "another default value there",
    "ARGUMENT": "an argument taken away there",
    "EXCHANGE": "two parts exchanged there",
    "CALL": "a call taken away there",
    "SLICE": "a bound taken away from a slice there",
    "STATEMENT": "this statement left out",
    "ADDED": "one more argument there",
    "SIGN_ADDED": "one more sign or `not` there",
    "BOUND": "one more bound in a slice there",
    "NAME": "another name there",
    "FUNCTION": "another function or attribute there",
    "NEGATED": "another condition there",
    "KEYWORD": "one more argument there",
    "CALL_ADDED": "one more call there",
    "CALL_LACKED": "one more call there",
}


def report_pinned_line(pinned: PinnedLine | None, words: Words) -> Iterator[str]:
    """Yield the sentence about the line that is pinned, if one is."""
    if pinned is None:
        return
    place = (
        words("Line {line} of cell {cell}", line=pinned.line, cell=pinned.cell)
        if pinned.cell
        else words("Line {line}", line=pinned.line)
    )
    if pinned.change:
        yield _report_change(pinned, place, words)
    else:
        yield _report_first_wrong_value(pinned, place, words)


def _report_change(pinned: PinnedLine, place: str, words: Words) -> str:
    change = words(_CHANGES.get(pinned.change, "a change there"))
    if pinned.dropped:
        change = words("`{argument}` left out", argument=pinned.dropped)
    return words(
        "{place}, `{text}`: with {change}, this check passes.",
        place=place, text=pinned.text, change=change,
    )  # fmt: skip


def _report_first_wrong_value(pinned: PinnedLine, place: str, words: Words) -> str:
    got, right = pinned.got, pinned.right
    if not pinned.name:
        return words("{place} is the first whose value differs from a right answer.", place=place)
    returned = pinned.name.startswith("return")
    name = words("what it returns") if returned else f"`{pinned.name}`"
    if got == () and right in ((), None):
        return words(
            "{place} is the first whose value differs from a right answer: "
            "{name} is another number.",
            place=place, name=name,
        )  # fmt: skip
    if right is None:
        return words(
            "{place} is the first whose value differs from a right answer: {name} is {got}.",
            place=place, name=name, got=got,
        )  # fmt: skip
    if got != right:
        return words(
            "{place} is the first whose value differs from a right answer: "
            "{name} is {got}, should be {right}.",
            place=place, name=name, got=got, right=right,
        )  # fmt: skip
    return words(
        "{place} is the first whose value differs from a right answer: "
        "{name} is {got}, as it should be, but with other numbers.",
        place=place, name=name, got=got,
    )  # fmt: skip
