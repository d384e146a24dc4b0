"""Bug hunts: a solution with one mistake of the catalogue in it, drawn by a seed.

A suite's drills.toml has such mistakes as edits of the solution; each text to replace occurs there
once. A drill is called "ex05_causal_mask 4711": the exercise, and a seed that chooses the edits.
"""

import contextlib
import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from grader.core import catalog, manifest, toml_file
from grader.core.errors import GraderFault
from grader.core.records import Exercise
from grader.judging import suite_runner
from grader.judging.marks import CannotEdit, Edits, Mistake, edited
from grader.submission.reader_client import UnreadableContent, ask_submission_reader

OFFERED_MISTAKES = 8
OFFERED_OF_SAME_NAME = 5  # of one function, if others have enough mistakes
MAX_SEED_DIGITS = 18  # digits of a seed
_DRILL_NAME = re.compile(rf"(ex\d\d_\w+) (\d{{1,{MAX_SEED_DIGITS}}})")


class NoDrill(Exception):
    """Raised for a name that is no drill. The message is a sentence for the person who gave it."""


class BadDrills(GraderFault):
    """Raised for a drills.toml that cannot be used. The message names the file and the cure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drill:
    """One mistake as edits of the solution: pairs of an old text and its replacement."""

    exercise: Exercise
    mistake: str
    edits: Edits
    alike: tuple[str, ...] = ()  # mistakes that look the same; none of these is offered

    def applied(self, source: str) -> str:
        """Return the source with the mistake in it."""
        try:
            return edited(source, self.edits)
        except CannotEdit as problem:
            where = f"{self.exercise.slug}/drills.toml, {self.mistake}"
            raise GraderFault(f"{where}: {problem}") from None


def read_judging_drills(exercise: Exercise) -> tuple[Drill, ...]:
    """Return all drills of an exercise; none if there is no drills.toml."""
    path = exercise.folder / "drills.toml"
    if not path.is_file():
        return ()
    try:
        entries = toml_file.read_toml_table(path, manifest.DRILLS_TABLE)["drills"]
    except toml_file.BadFile as problem:
        raise BadDrills(str(problem).removesuffix(".")) from None
    return tuple(
        Drill(
            exercise=exercise, mistake=e["mistake"], edits=tuple((a, b) for a, b in e["edits"]),
            alike=tuple(e.get("alike", ())),
        )
        for e in entries
    )  # fmt: skip


def drill(name: str) -> Drill:
    """Return the drill of this name, such as "ex05_causal_mask 4711"."""
    parts = _DRILL_NAME.fullmatch(name)
    if parts is None:
        raise NoDrill(f"{name[:40]!r} is no drill. `make drill` writes one.")
    try:
        exercise = catalog.find_catalog_exercise(parts[1])
    except catalog.UnknownExercise as problem:
        raise NoDrill(str(problem)) from None
    found = read_judging_drills(exercise)
    if not found:
        raise NoDrill(f"Nothing is drawn from {exercise.slug}: it has no drills.")
    return found[_derive_number_from_text(name) % len(found)]


def find_judged_hunt(source: str) -> Exercise | None:
    """Return the exercise from which a bug hunt was drawn, read from the text of its answer.

    Return None if the answer's function `drill` is not as `make drill` writes it.
    """
    with contextlib.suppress(NoDrill, UnreadableContent):
        return drill(ask_submission_reader("drawn", source)).exercise
    return None


def lend_judged_hunt(exercise: Exercise, source: str) -> Exercise:
    """Return a bug hunt with all that the exercise named in `source` requires, allows and is given.

    Any other exercise is returned as it is; so is a hunt whose answer names no exercise.
    """
    drawn = find_judged_hunt(source) if exercise.hunts else None
    if drawn is None:
        return exercise
    return replace(
        exercise, requires=drawn.requires, requires_on_cuda=drawn.requires_on_cuda,
        limits=drawn.limits, not_allowed=drawn.not_allowed,
        not_allowed_text=drawn.not_allowed_text, refused=drawn.refused, cure=drawn.cure,
        only=drawn.only, modules=drawn.modules, preload=drawn.preload, prelude=drawn.prelude,
    )  # fmt: skip


def choices(name: str) -> tuple[Mistake, ...]:
    """Return the mistakes to choose from for the one in a drill, in a drawn order."""
    wanted = drill(name)
    mistakes = suite_runner.list_suite_mistakes(wanted.exercise)
    known = [m for m in mistakes if not m.null and m.id not in wanted.alike]
    right = next((m for m in known if m.id == wanted.mistake), None)
    if right is None:
        raise BadDrills(
            f"{wanted.exercise.slug}/drills.toml: {wanted.mistake} is no mistake that can be"
            " offered. Name another of the suite's"
        )
    same = _shuffle_choices([m for m in known if m.of == right.of and m is not right], name)
    others = _shuffle_choices([m for m in known if m.of != right.of], name)
    offered = [
        right,
        *same[: OFFERED_OF_SAME_NAME - 1],
        *others,
        *same[OFFERED_OF_SAME_NAME - 1 :],
    ]
    return tuple(_shuffle_choices(offered[:OFFERED_MISTAKES], name))


def _shuffle_choices(mistakes: Sequence[Mistake], name: str) -> list[Mistake]:
    return sorted(mistakes, key=lambda m: _derive_number_from_text(f"{name} {m.id}"))


def _derive_number_from_text(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")
