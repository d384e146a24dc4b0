"""Makes wrong answers that no catalogue has: mechanical changes of solutions, and pairs of them."""

import ast
import random
import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass

from grader.authoring.changes import MechanicalChange, unparse_mechanical_source
from grader.authoring.mechanical import list_mechanical_changes, read_mechanical_source
from grader.core.records import Exercise
from grader.judging.contract import RETURNS_NOTHING
from grader.submission.replacements import ReplacementKind

TRIES_PER_PAIR = 20
# What a report says of a name without a value.
_UNSET = (
    "Nothing sets {}: ", "Nothing in this function sets {};", "This line sets {} itself, and no",
    "sets {}, but comes after this one", "sets {}, but did not in this call",
    "sets {}; another class does",
)  # fmt: skip
_RAISES = ("but should raise ValueError", "but should be a ValueError that names")


@dataclass(frozen=True, slots=True, kw_only=True)
class WrongAnswer:
    """A wrong answer, and what is known of its mistakes."""

    id: str
    says: str  # what is wrong in it
    mistakes: int
    source: str
    lines: tuple[int, ...] = ()  # of the source, that are wrong; () if not known
    parts: tuple[str, ...] = ()  # a source for each mistake, with that one alone; () if not known
    missing: tuple[str, ...] = ()  # parts of sentences, each of which says what was removed


@dataclass(frozen=True, slots=True)
class ChangedBlock:
    """The lines of a right text that a change replaces, counted from 0, and the new lines."""

    start: int
    end: int
    new: tuple[str, ...]

    def numbers(self, shift: int = 0) -> tuple[int, ...]:
        """Return the numbers of the new lines, counted from 1 and moved by `shift`."""
        first = self.start + 1 + shift
        return tuple(range(first, first + max(1, len(self.new))))


def find_changed_block(right: str, wrong: str) -> ChangedBlock:
    """Find the lines between the common beginning and the common end of two texts."""
    old, new = right.splitlines(), wrong.splitlines()
    shorter = min(len(old), len(new))
    start = next((i for i in range(shorter) if old[i] != new[i]), shorter)
    rest = shorter - start
    after = next((i for i in range(rest) if old[-1 - i] != new[-1 - i]), rest)
    return ChangedBlock(start, len(old) - after, tuple(new[start : len(new) - after]))


def list_changed_answers(exercise: Exercise, count: int | None, seed: str) -> list[WrongAnswer]:
    """Return so many mechanical changes of the solution, drawn at random; all if None."""
    right = unparse_mechanical_source(read_mechanical_source(exercise, ""))
    found = list_mechanical_changes(exercise, "")
    numbers = list(range(len(found)))
    if count is not None and count < len(numbers):
        numbers = sorted(random.Random(f"{seed} {exercise.slug}").sample(numbers, count))
    return [_make_changed_answer(n, found[n], right) for n in numbers]


def _make_changed_answer(number: int, change: MechanicalChange, right: str) -> WrongAnswer:
    return WrongAnswer(
        id=f"change-{number}", says=_describe_change(change), mistakes=1, source=change.source,
        lines=find_changed_block(right, change.source).numbers(),
        missing=_list_missing(change, right),
    )  # fmt: skip


def _list_missing(change: MechanicalChange, right: str) -> tuple[str, ...]:
    """Return the sentences by which a report tells of a removed statement what is missing."""
    if change.kind is ReplacementKind.CONDITION and change.new.strip() == "if False:":
        raises = re.search(rf"^\s*{re.escape(change.old.strip())}\n\s+raise ", right, re.MULTILINE)
        return _RAISES if raises else ()
    if change.kind is not ReplacementKind.STATEMENT:
        return ()
    block, name = find_changed_block(right, change.source), change.where.rpartition(".")[2]
    removed = textwrap.dedent("\n".join(right.splitlines()[block.start : block.end]))
    try:
        [statement] = ast.parse(removed).body
    except (SyntaxError, ValueError):  # an `elif`; or lines that the next statement has too
        return ()
    match statement:
        case ast.Return():
            return (RETURNS_NOTHING, f"No line of {name} returns a value")
        case ast.Assign(targets=targets):
            parts = [part for target in targets for part in ast.walk(target)]
            names = [ast.unparse(x) for x in parts if isinstance(x, ast.Name | ast.Attribute)]
            return tuple(text.format(name) for name in names for text in _UNSET)
        case ast.Expr(value=called) if ast.unparse(called) == "super().__init__()":
            return ("Write super().__init__() in the first line of __init__",)
        case ast.Raise() | ast.If(body=[ast.Raise()]):
            return _RAISES
    return ()


def _describe_change(change: MechanicalChange) -> str:
    return f"{change.where}, line {change.line}: {change.old.strip()} -> {change.new.strip()}"


def list_paired_answers(exercise: Exercise, count: int, seed: str) -> list[WrongAnswer]:
    """Return so many pairs of changes on different lines, half of them within one function."""
    right = unparse_mechanical_source(read_mechanical_source(exercise, ""))
    found = list_mechanical_changes(exercise, "")
    drawn = _draw_pairs_of_changes(found, random.Random(f"{seed} pairs {exercise.slug}"), count)
    pairs: dict[tuple[int, int], WrongAnswer] = {}
    for one, other in drawn:
        key = min(one, other), max(one, other)
        if key not in pairs and (made := _make_paired_answer(key, found, right)) is not None:
            pairs[key] = made
        if len(pairs) == count:
            break
    return list(pairs.values())


def _draw_pairs_of_changes(
    found: list[MechanicalChange], drawing: random.Random, count: int
) -> Iterator[tuple[int, int]]:
    """Yield pairs of numbers; every second pair is of one definition."""
    for n in range(count * TRIES_PER_PAIR):
        one = drawing.randrange(len(found))
        same = [i for i, c in enumerate(found) if c.definition == found[one].definition]
        yield one, drawing.choice(same if n % 2 else range(len(found)))


def _make_paired_answer(
    pair: tuple[int, int], found: list[MechanicalChange], right: str
) -> WrongAnswer | None:
    """Return an answer with both changes; None if they share a line."""
    changes = [found[n] for n in pair]
    blocks = [find_changed_block(right, c.source) for c in changes]
    first, last = sorted(blocks, key=lambda block: (block.start, block.end))
    if first.end > last.start or last.start in (first.start, first.end):
        return None
    lines = right.splitlines()
    lines[last.start : last.end] = last.new
    lines[first.start : first.end] = first.new
    shift = len(first.new) - (first.end - first.start)
    return WrongAnswer(
        id=f"changes-{pair[0]}+{pair[1]}", says="; ".join(map(_describe_change, changes)),
        mistakes=2, source="\n".join(lines) + "\n", lines=(*first.numbers(), *last.numbers(shift)),
        parts=tuple(c.source for c in changes),
        missing=tuple(text for c in changes for text in _list_missing(c, right)),
    )  # fmt: skip
