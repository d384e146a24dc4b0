"""Which check of a suite runs which hard kind of input on which of the student's names.

A suite says so in its `hard.toml`, or says why a kind does not apply:

    [softmax.asked]
    one = ["test_values"]

    [softmax.not]
    square = "it has no queries and keys"

The kinds are those of `grader.judging.hard`. Where the manifest shows that a kind cannot apply (no
parameter called `device`, one length alone), nothing need be said of it.
"""

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from grader.authoring.solution_part import solution_judge
from grader.core.records import Exercise
from grader.judging import suite_runner
from grader.judging.hard import Hard

FILE = "hard.toml"
OF_CLASSES = frozenset({Hard.MODES, Hard.BRANCHES, Hard.FULL, Hard.FAILED})
SHORTEST_REASON = 8  # characters


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """What a suite says of one kind on one name: the checks that run it, or why none does."""

    name: str
    kind: Hard
    checks: tuple[str, ...]
    reason: str


class BadStatement(Exception):
    """A `hard.toml` that cannot be read; the message says why and what to do."""


def statements(exercise: Exercise) -> list[Statement]:
    """What the `hard.toml` of a suite says. Raises `BadStatement`."""
    path = exercise.folder / FILE
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise BadStatement(f"its suite needs a {FILE}. Write which check runs what.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as problem:
        raise BadStatement(f"{FILE} cannot be read: {problem}. Mend it.") from None
    found = []
    for name, table in tables.items():
        if not isinstance(table, dict) or not table.keys() <= {"asked", "not"}:
            raise BadStatement(f"{FILE}: [{name}] has [{name}.asked] and [{name}.not] alone.")
        for part, entries in table.items():
            found += [_statement(name, part, *entry) for entry in dict(entries).items()]
    return found


def _statement(name: str, part: str, kind: str, said: Any) -> Statement:
    if kind not in set(Hard):
        raise BadStatement(f"{FILE}: {name}.{part} has {kind!r}; the kinds are {', '.join(Hard)}.")
    if part == "asked" and isinstance(said, list) and said:
        return Statement(name=name, kind=Hard(kind), checks=tuple(map(str, said)), reason="")
    if part == "not" and isinstance(said, str) and len(said) >= SHORTEST_REASON:
        return Statement(name=name, kind=Hard(kind), checks=(), reason=said)
    wanted = "a list of checks" if part == "asked" else "a sentence that says why"
    raise BadStatement(f"{FILE}: {name}.{part}.{kind} should be {wanted}. Mend it.")


def hard_kinds(exercise: Exercise) -> Iterator[str]:
    """For each name of the student's and each hard kind of input, hard.toml names the checks that
    run it, or says why it does not apply."""
    if exercise.hunts:
        return
    try:
        said = statements(exercise)
    except BadStatement as problem:
        yield str(problem)
        return
    stated = {(s.name, s.kind) for s in said}
    checks = {check.id for check in suite_runner.checks(exercise)}
    for name in exercise.names:
        for kind in Hard:
            if _may_apply(kind, name, exercise) and (name, kind) not in stated:
                yield f"{FILE} says nothing of {kind} for {name}. Name the checks, or say why not."
    for one in said:
        if one.name not in exercise.names:
            yield f"{FILE} speaks of {one.name}, which the manifest does not declare. Mend it."
        for check in set(one.checks) - checks:
            yield f"{FILE}: {one.name} names {check}, which is no check of the suite. Mend it."
    if len(said) != len(stated):
        yield f"{FILE} says of a kind both which check runs it and why none does. Choose one."


def _may_apply(kind: Hard, name: str, exercise: Exercise) -> bool:
    """Whether the manifest leaves it open that a kind applies to a name."""
    if name in exercise.classes:
        declared = exercise.classes[name]
        methods = list(declared.methods.values())
        signatures = " ".join([declared.signature, *(m.signature for m in methods)])
    elif kind in OF_CLASSES:
        return False
    else:
        methods = [exercise.functions[name]]
        signatures = methods[0].signature
    shapes = [m.shapes for m in methods]
    letters = {w for s in shapes for text in s.values() for w in text.split()}
    match kind:
        case Hard.SQUARE:
            return len({w for w in letters if w.startswith("L")}) > 1
        case Hard.SAME:
            return any(len(s) > 1 for s in shapes)
        case Hard.OPTIONS:
            return "=" in signatures
        case Hard.DEVICE:
            return "device" in signatures
        case Hard.ONE | Hard.CHANGED | Hard.SCORES:
            return bool(letters)
    return True


def not_run(exercise: Exercise) -> list[str]:
    """What `hard.toml` says is run and was not, when the solution was asked everything."""
    if exercise.hunts:
        return []
    judge = solution_judge(exercise)
    return [
        f"{check} does not run {one.kind} on {one.name}"
        for one in statements(exercise)
        for check in one.checks
        if (one.name, one.kind.value, check) not in judge.hard
    ]
