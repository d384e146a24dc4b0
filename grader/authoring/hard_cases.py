"""Reads `hard.toml`: which check runs which hard kind of input on which of the student's names.

Or the file says why a kind does not apply:

    [softmax.asked]
    one = ["test_values"]

    [softmax.not]
    square = "it has no queries and keys"

The kinds are those of `grader.judging.hard`. Where the manifest shows that a kind cannot apply (no
parameter called `device`, one length alone), the file need not name the kind.
"""

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from grader.authoring.solution_part import run_judge_on_solution
from grader.core.records import Exercise
from grader.judging import suite_runner
from grader.judging.hard import Hard

TOML = "hard.toml"
KINDS_OF_CLASSES = frozenset({Hard.MODES, Hard.BRANCHES, Hard.FULL, Hard.FAILED})
SHORTEST_REASON = 8  # characters


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """A suite's statement on one kind and one name: the checks that run it, or why none does."""

    name: str
    kind: Hard
    checks: tuple[str, ...]
    reason: str


class BadStatement(Exception):
    """Raised if a `hard.toml` cannot be read; the message names the reason and the cure."""


def read_statements(exercise: Exercise) -> list[Statement]:
    """Read the `hard.toml` of a suite. Raise `BadStatement` if it cannot be read."""
    path = exercise.folder / TOML
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise BadStatement(f"its suite needs a {TOML}. Write which check runs what.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as problem:
        raise BadStatement(f"{TOML} cannot be read: {problem}. Mend it.") from None
    found = []
    for name, table in tables.items():
        if not isinstance(table, dict) or not table.keys() <= {"asked", "not"}:
            raise BadStatement(f"{TOML}: [{name}] has [{name}.asked] and [{name}.not] alone.")
        for part, entries in table.items():
            found += [_parse_statement(name, part, *entry) for entry in dict(entries).items()]
    return found


def _parse_statement(name: str, part: str, kind: str, said: Any) -> Statement:
    if kind not in set(Hard):
        raise BadStatement(f"{TOML}: {name}.{part} has {kind!r}; the kinds are {', '.join(Hard)}.")
    if part == "asked" and isinstance(said, list) and said:
        return Statement(name=name, kind=Hard(kind), checks=tuple(map(str, said)), reason="")
    if part == "not" and isinstance(said, str) and len(said) >= SHORTEST_REASON:
        return Statement(name=name, kind=Hard(kind), checks=(), reason=said)
    wanted = "a list of checks" if part == "asked" else "a sentence that says why"
    raise BadStatement(f"{TOML}: {name}.{part}.{kind} should be {wanted}. Mend it.")


def hard_kinds(exercise: Exercise) -> Iterator[str]:
    """For each name of the student's and each hard kind of input, hard.toml names the checks that
    run it, or says why it does not apply."""
    if exercise.hunts:
        return
    try:
        said = read_statements(exercise)
    except BadStatement as problem:
        yield str(problem)
        return
    stated = {(s.name, s.kind) for s in said}
    checks = {check.id for check in suite_runner.suite_checks(exercise)}
    for name in exercise.names:
        for kind in Hard:
            if _can_apply(kind, name, exercise) and (name, kind) not in stated:
                yield f"{TOML} says nothing of {kind} for {name}. Name the checks, or say why not."
    for one in said:
        if one.name not in exercise.names:
            yield f"{TOML} speaks of {one.name}, which the manifest does not declare. Mend it."
        for check in set(one.checks) - checks:
            yield f"{TOML}: {one.name} names {check}, which is no check of the suite. Mend it."
    if len(said) != len(stated):
        yield f"{TOML} says of a kind both which check runs it and why none does. Choose one."


def _can_apply(kind: Hard, name: str, exercise: Exercise) -> bool:
    """Return whether a kind can apply to a name, as far as the manifest shows."""
    if name in exercise.classes:
        declared = exercise.classes[name]
        methods = list(declared.methods.values())
        signatures = " ".join([declared.signature, *(m.signature for m in methods)])
    elif kind in KINDS_OF_CLASSES:
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


def statements_not_run(exercise: Exercise) -> list[str]:
    """Run the suite on the solution; return the statements of `hard.toml` that no check ran."""
    if exercise.hunts:
        return []
    judge = run_judge_on_solution(exercise)
    return [
        f"{check} does not run {one.kind} on {one.name}"
        for one in read_statements(exercise)
        for check in one.checks
        if (one.name, one.kind.value, check) not in judge.hard
    ]
