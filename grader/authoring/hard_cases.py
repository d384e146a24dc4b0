"""Reads `hard.toml`: which check runs which hard kind of input on which function or class.

If a kind does not apply, the file says why:

    [softmax.asked]
    one = ["test_values"]

    [softmax.not]
    square = "it has no queries and keys"

The kinds are those of `grader.judging.hard`. Where the manifest shows that a kind cannot apply (no
parameter called `device`, one length alone), the file need not name the kind.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from grader.core.records import Exercise
from grader.core.toml_file import TEXTS, BadFile, TomlKind, TomlTable, read_toml_table
from grader.judging import suite_runner
from grader.judging.hard import Hard

HARD_CASES_NAME = "hard.toml"
KINDS_OF_CLASSES = frozenset({Hard.MODES, Hard.BRANCHES, Hard.FULL, Hard.FAILED})
MIN_REASON_CHARACTERS = 8  # characters
_CHECKS = TomlKind("a list of checks", lambda x: bool(x) and TEXTS.fits(x))
_REASON = TomlKind(
    "a sentence that says why", lambda x: isinstance(x, str) and len(x) >= MIN_REASON_CHARACTERS
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
class HardStatement:
    """A suite's statement on one kind and one name: the checks that run it, or why none does."""

    name: str
    kind: Hard
    checks: tuple[str, ...]
    reason: str


def read_hard_statements(exercise: Exercise) -> list[HardStatement]:
    """Read the `hard.toml` of a suite. Raise `BadFile` if it cannot be read."""
    path = exercise.folder / HARD_CASES_NAME
    if not path.exists():
        raise BadFile(f"its suite needs a {HARD_CASES_NAME}. Write which check runs what.")
    found = []
    for name, table in read_toml_table(path, _WANTED).items():
        for kind, checks in table.get("asked", {}).items():
            found.append(HardStatement(name=name, kind=Hard(kind), checks=tuple(checks), reason=""))
        for kind, reason in table.get("not", {}).items():
            found.append(HardStatement(name=name, kind=Hard(kind), checks=(), reason=reason))
    return found


def check_hard_kinds_law(exercise: Exercise) -> Iterator[str]:
    """For each name that an answer defines and each hard kind of input, hard.toml lists the checks
    that run it, or says why it does not apply."""
    if exercise.hunts:
        return
    try:
        said = read_hard_statements(exercise)
    except BadFile as problem:
        yield str(problem)
        return
    stated = {(s.name, s.kind) for s in said}
    checks = {check.id for check in suite_runner.list_suite_checks(exercise)}
    for name in exercise.names:
        for kind in Hard:
            if _can_hard_kind_apply(kind, name, exercise) and (name, kind) not in stated:
                yield (
                    f"{HARD_CASES_NAME} says nothing of {kind} for {name}. Name the checks, or "
                    "say why not."
                )
    for one in said:
        if one.name not in exercise.names:
            yield (
                f"{HARD_CASES_NAME} speaks of {one.name}, which the manifest does not declare. "
                "Mend it."
            )
        for check in set(one.checks) - checks:
            yield (
                f"{HARD_CASES_NAME}: {one.name} names {check}, which is no check of the suite. "
                "Mend it."
            )
    if len(said) != len(stated):
        yield (
            f"{HARD_CASES_NAME} says of a kind both which check runs it and why none does. "
            "Choose one."
        )


def _can_hard_kind_apply(kind: Hard, name: str, exercise: Exercise) -> bool:
    """Return whether a kind can apply to a name, as far as the manifest shows."""
    if name in exercise.classes:
        declared = exercise.classes[name]
        methods = list(declared.methods.values())
        attends = "forward" in declared.methods
        signatures = " ".join([declared.signature, *(m.signature for m in methods)])
    elif kind in KINDS_OF_CLASSES:
        return False
    else:
        methods = [exercise.functions[name]]
        signatures = methods[0].signature
        attends = "q" in methods[0].shapes
    shapes = [m.shapes for m in methods]
    letters = {w for s in shapes for text in s.values() for w in text.split()}
    match kind:
        case Hard.SQUARE:
            return len({w for w in letters if w.startswith("L")}) > 1
        case Hard.SAME:
            return any(len(s) > 1 for s in shapes)
        case Hard.OPTIONS:
            return "=" in signatures
        case Hard.COMBINED:
            return signatures.count("=") > 1
        case Hard.DEVICE:
            return "device" in signatures
        case Hard.ONE | Hard.CHANGED | Hard.SCORES:
            return bool(letters)
        case Hard.TIES | Hard.LOW | Hard.LEARN:
            return attends
    return True


def list_hard_statements_unrun(
    exercise: Exercise, hard: Mapping[str, Iterable[Sequence[str]]]
) -> list[str]:
    """Return the statements of `hard.toml` that no check ran.

    hard  of each check the names that it calls, each with a hard kind: the proof of the solution
    """
    if exercise.hunts:
        return []
    ran = {(name, kind, check) for check, run in hard.items() for name, kind in run}
    return [
        f"{check} does not run {one.kind} on {one.name}"
        for one in read_hard_statements(exercise)
        for check in one.checks
        if (one.name, one.kind.value, check) not in ran
    ]
