"""Reads `hard.toml`: which check runs which hard kind of input on which of the student's names.

Or the file says why a kind does not apply:

    [softmax.asked]
    one = ["test_values"]

    [softmax.not]
    square = "it has no queries and keys"

The kinds are those of `grader.judging.hard`. Where the manifest shows that a kind cannot apply (no
parameter called `device`, one length alone), the file need not name the kind.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from grader.authoring.solution_part import run_judge_on_solution
from grader.core.records import Exercise
from grader.core.toml_file import TEXTS, BadFile, TomlKind, TomlTable, read_toml_table
from grader.judging import suite_runner
from grader.judging.hard import Hard

TOML = "hard.toml"
KINDS_OF_CLASSES = frozenset({Hard.MODES, Hard.BRANCHES, Hard.FULL, Hard.FAILED})
SHORTEST_REASON = 8  # characters
_CHECKS = TomlKind("a list of checks", lambda x: bool(x) and TEXTS.fits(x))
_REASON = TomlKind(
    "a sentence that says why", lambda x: isinstance(x, str) and len(x) >= SHORTEST_REASON
)
_WANTED = TomlTable(
    others=TomlTable(
        entries={
            "asked": TomlTable(entries=dict.fromkeys(Hard, _CHECKS)),
            "not": TomlTable(entries=dict.fromkeys(Hard, _REASON)),
        }
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """A suite's statement on one kind and one name: the checks that run it, or why none does."""

    name: str
    kind: Hard
    checks: tuple[str, ...]
    reason: str


def read_statements(exercise: Exercise) -> list[Statement]:
    """Read the `hard.toml` of a suite. Raise `BadFile` if it cannot be read."""
    path = exercise.folder / TOML
    if not path.exists():
        raise BadFile(f"its suite needs a {TOML}. Write which check runs what.")
    found = []
    for name, table in read_toml_table(path, _WANTED).items():
        for kind, checks in table.get("asked", {}).items():
            found.append(Statement(name=name, kind=Hard(kind), checks=tuple(checks), reason=""))
        for kind, reason in table.get("not", {}).items():
            found.append(Statement(name=name, kind=Hard(kind), checks=(), reason=reason))
    return found


def hard_kinds(exercise: Exercise) -> Iterator[str]:
    """For each name of the student's and each hard kind of input, hard.toml names the checks that
    run it, or says why it does not apply."""
    if exercise.hunts:
        return
    try:
        said = read_statements(exercise)
    except BadFile as problem:
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
