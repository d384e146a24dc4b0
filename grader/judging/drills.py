"""Bug hunts: a solution with one mistake of its catalogue in it, drawn by a seed.

A suite's drills.toml has such mistakes as edits of the solution, each text to be found there once.
A drill is called "ex05_causal_mask 4711": the exercise, and the seed that chooses among its edits.
"""

import contextlib
import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from grader.core import catalog, manifest, toml_values
from grader.core.errors import GraderFault
from grader.core.records import Exercise
from grader.judging import suite_runner
from grader.judging.marks import CannotEdit, Edits, Mistake, edited
from grader.submission.reader_client import Unread, ask

OFFERED_MISTAKES, OFFERED_OF_SAME_NAME = (
    8,
    5,
)  # mistakes that are offered, and how many of them of one function
LONGEST = 18  # digits of a seed
_DRILL_NAME = re.compile(rf"(ex\d\d_\w+) (\d{{1,{LONGEST}}})")


class NoDrill(Exception):
    """There is no such drill. The message is a sentence for the person who asked for it."""


class BadDrills(GraderFault):
    """A drills.toml that cannot be used. The message names it and the cure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drill:
    """One mistake as edits of the solution: pairs of what is found and what stands there then."""

    exercise: Exercise
    mistake: str
    edits: Edits
    alike: tuple[str, ...] = ()  # mistakes that cannot be told from this one: they are not offered

    def applied(self, source: str) -> str:
        """The source with the mistake in it."""
        try:
            return edited(source, self.edits)
        except CannotEdit as problem:
            where = f"{self.exercise.slug}/drills.toml, {self.mistake}"
            raise GraderFault(f"{where}: {problem}") from None


def drills(exercise: Exercise) -> tuple[Drill, ...]:
    """All drills of an exercise; none if it has no drills.toml."""
    path = exercise.folder / "drills.toml"
    if not path.is_file():
        return ()
    try:
        entries = toml_values.read(path, manifest.DRILLS)["drills"]
    except toml_values.BadFile as problem:
        raise BadDrills(str(problem).removesuffix(".")) from None
    return tuple(
        Drill(
            exercise=exercise, mistake=e["mistake"], edits=tuple((a, b) for a, b in e["edits"]),
            alike=tuple(e.get("alike", ())),
        )
        for e in entries
    )  # fmt: skip


def drill(name: str) -> Drill:
    """The drill of this name, such as "ex05_causal_mask 4711"."""
    parts = _DRILL_NAME.fullmatch(name)
    if parts is None:
        raise NoDrill(f"{name[:40]!r} is no drill. `make drill` writes one.")
    try:
        exercise = catalog.find(parts[1])
    except catalog.UnknownExercise as problem:
        raise NoDrill(str(problem)) from None
    found = drills(exercise)
    if not found:
        raise NoDrill(f"Nothing is drawn from {exercise.slug}: it has no drills.")
    return found[_digest_number(name) % len(found)]


def stated_exercise(source: str) -> Exercise | None:
    """The exercise that an answer to a bug hunt says it was drawn from: read, not run.

    None where `drill` is not written as `make drill` writes it.
    """
    with contextlib.suppress(NoDrill, Unread):
        return drill(ask("drawn", source)).exercise
    return None


def held(exercise: Exercise, source: str) -> Exercise:
    """A bug hunt, held to what the exercise in this answer requires, allows and is given.

    Any other exercise is as it was, and so is a hunt whose answer does not say where it is from.
    """
    drawn = stated_exercise(source) if exercise.hunts else None
    if drawn is None:
        return exercise
    return replace(
        exercise, requires=drawn.requires, requires_on_cuda=drawn.requires_on_cuda,
        limits=drawn.limits, not_allowed=drawn.not_allowed,
        not_allowed_text=drawn.not_allowed_text, refused=drawn.refused, cure=drawn.cure,
        only=drawn.only, modules=drawn.modules, preload=drawn.preload, prelude=drawn.prelude,
    )  # fmt: skip


def choices(name: str) -> tuple[Mistake, ...]:
    """The mistakes offered to somebody who looks for the one in a drill, in a drawn order."""
    wanted = drill(name)
    mistakes = suite_runner.mistakes(wanted.exercise)
    known = [m for m in mistakes if not m.null and m.id not in wanted.alike]
    right = next((m for m in known if m.id == wanted.mistake), None)
    if right is None:
        raise BadDrills(
            f"{wanted.exercise.slug}/drills.toml: {wanted.mistake} is no mistake that can be"
            " offered. Name another of mistakes.py"
        )
    same = _shuffle_mistakes([m for m in known if m.of == right.of and m is not right], name)
    others = _shuffle_mistakes([m for m in known if m.of != right.of], name)
    offered = [
        right,
        *same[: OFFERED_OF_SAME_NAME - 1],
        *others,
        *same[OFFERED_OF_SAME_NAME - 1 :],
    ]
    return tuple(_shuffle_mistakes(offered[:OFFERED_MISTAKES], name))


def _shuffle_mistakes(mistakes: Sequence[Mistake], name: str) -> list[Mistake]:
    return sorted(mistakes, key=lambda m: _digest_number(f"{name} {m.id}"))


def _digest_number(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")
