"""What came of a cheat behind a wall; `run` grades it by the real command."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from grader.core import catalog
from grader.core.records import Limits
from grader.worker.parent import walls
from tests.cheats.cheat import HERE, Cheat
from tests.cheats.room import WITNESS, Room

SPARE_SECONDS = 30.0  # beyond two tries at an exercise
HUNG_SECONDS = 180.0  # for the rest of the run, on a machine that may be busy
TRIES = 2  # at a speed, while the machine is too busy
PATIENT = Limits(call_seconds=60, exercise_seconds=360)
CALLS = 6  # at their limit, and an exercise is at its own, where waiting can earn nothing
NOT_STARTED = 2  # the exit code of a command that is used wrongly
BOAST = "got away: "  # a line that a cheat prints when its sin succeeded
_VALUES = re.compile(r"\] is .*, but should be ")


class Harm(StrEnum):
    """What a cheat can do, in the words with which its `process:` line admits it."""

    EARNS = "earns"
    RUN = "ends the grading run"
    FAULT = "makes the exercise a fault"
    WITNESS = "costs the next exercise"
    PROCESSES = "leaves a process"
    FILES = "leaves a file"
    CHANGES = "changes"
    BOASTS = "gets away with"
    COMMANDS = "gives CI a command"
    SECONDS = "takes longer"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of one cheat behind one wall."""

    harms: dict[Harm, str]  # in words; empty if everything held
    state: str = ""
    earned: int = 0
    why: str = ""  # the report's sentence, or the first failure
    speed: str = ""  # the verdict on its speed, if that was measured
    reference: float = 0.0  # seconds that the reference took beside it, if it was timed

    def __str__(self) -> str:
        points = f"{self.earned} points of its own" if self.earned else "0 points"
        told = "; ".join(self.harms.values()) or points
        more = "; ".join(filter(None, (self.why, self.speed and f"speed {self.speed}")))
        return f"{told} ({more})" if more and not self.harms else told


def working_walls() -> list[str]:
    """The walls that work on this machine, weakest first."""
    return [name for name in walls.WALL_NAMES if walls.probe_wall(name).wall is not None]


def admitted(cheat: Cheat, wall: str) -> set[Harm]:
    """What a cheat says that it does behind this wall."""
    return {harm for harm in Harm if wall == "process" and harm.value in cheat.process}


def run(cheat: Cheat, wall: str) -> Outcome:
    """Grade the cheat and then the witness; again if the machine was too busy to time anything.

    Behind the weakest wall that is often so: whoever disturbs may there be the cheat itself.
    """
    for _ in range(TRIES):
        outcome = _run(cheat, wall)
        if outcome.speed != "inconclusive" or wall == walls.PROCESS.name:
            break
    return outcome


def _run(cheat: Cheat, wall: str) -> Outcome:
    with Room() as room:
        room.limit(cheat.exercise, limits_of(cheat))
        if cheat.past_the_list:
            room.open_the_list()
        room.hand_in(cheat)
        done = _grade(room, cheat, wall)
        log = (room.path / "log").read_text("utf-8", "replace")
        if done["ended"] == NOT_STARTED:
            raise RuntimeError(log)
        file = room.path / "report.json"
        report = json.loads(file.read_text("utf-8")) if file.exists() else None
        return judged(room, cheat, wall, done | {"report": report}, log)


def judged(room: Room, cheat: Cheat, wall: str, done: Mapping[str, Any], log: str) -> Outcome:
    """The outcome of a grading.

    done  how it "ended" (None if the process goes on), what is "left", and the "report", or None
    """
    report = done["report"]
    harms = dict(to_the_machine(room, done, finished=report is not None))
    if report is None:
        return Outcome(harms={Harm.RUN: f"ENDED THE RUN ({done['ended']})"} | harms)
    assert report["isolation"] == wall
    graded = {e["slug"]: e for e in (*report["exercises"], *report["further"])}
    exercise, witness = graded[cheat.exercise], graded[WITNESS]
    harms |= dict(to_the_marks(cheat, exercise, witness)) | dict(in_words(exercise, log))
    return Outcome(
        harms=harms, state=exercise["state"], earned=_earned(exercise), why=_why(exercise),
        speed=exercise["speed"]["verdict"] if cheat.timed and exercise["speed"] else "",
        reference=_reference(exercise["speed"] or {}),
    )  # fmt: skip


def _grade(room: Room, cheat: Cheat, wall: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "grader", "grade", cheat.exercise, WITNESS]
    command += ["--submission", "../submissions", "--isolation", wall]
    command += ["--format", "json", "-o", "../report.json"]
    command += [] if cheat.timed else ["--no-speed"]
    return reap(
        command, room.path / "course", most_seconds(cheat) + HUNG_SECONDS, surroundings(room)
    )


def surroundings(room: Room) -> dict[str, str]:
    """The environment of a command that grades there."""
    changes = {"TMPDIR": room.path / "tmp", "GITHUB_ENV": room.path / "outside/github_env"}
    # A planted __pycache__ is a change like any other, so that Python writes none.
    own = {"PYTHONDONTWRITEBYTECODE": "1"} | {name: str(path) for name, path in changes.items()}
    return os.environ | own


def limits_of(cheat: Cheat) -> Limits:
    """Less than those of its exercise where waiting can earn nothing.

    What it earns or does must not depend on how busy the machine is: there they are wider.
    """
    if cheat.timed:
        return catalog.find_catalog_exercise(cheat.exercise).limits
    if cheat.earns or cheat.process:
        return PATIENT
    return Limits(call_seconds=cheat.call_seconds, exercise_seconds=CALLS * cheat.call_seconds)


def most_seconds(cheat: Cheat) -> float:
    """The longest that its exercise may take."""
    return 2.0 * limits_of(cheat).exercise_seconds + SPARE_SECONDS


def reap(
    command: Sequence[str],
    folder: Path,
    seconds: float,
    environment: Mapping[str, str] = os.environ,
) -> dict[str, Any]:
    """How a command ended, and which processes it left; what it printed is in log beside."""
    log = str(folder.parent / "log")
    done = subprocess.run(
        [sys.executable, str(HERE / "reaper.py"), "once", str(seconds), log, *command],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        start_new_session=True,
        timeout=seconds + 30,
        check=True,
    )
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def to_the_machine(
    room: Room, done: Mapping[str, Any], *, finished: bool
) -> Iterator[tuple[Harm, str]]:
    if finished and done["ended"] not in (None, 0, 3):
        yield Harm.RUN, f"ENDED THE RUN after its report ({done['ended']})"
    if done["left"]:
        yield Harm.PROCESSES, f"left {len(done['left'])} processes ({done['left'][0]})"
    if files := room.left(also_in_tmp=finished):
        yield Harm.FILES, f"left {len(files)} files ({files[0]})"
    if changed := room.changed():
        yield Harm.CHANGES, f"changed {len(changed)} files ({changed[0]})"


def to_the_marks(
    cheat: Cheat, exercise: dict[str, Any], witness: dict[str, Any]
) -> Iterator[tuple[Harm, str]]:
    if _earned(exercise) > cheat.earns:
        yield Harm.EARNS, f"EARNED {_earned(exercise)} points"
    if exercise["score"] is None:
        yield Harm.FAULT, f"made itself a fault ({exercise['sentence'] or _why(exercise)})"
    if witness["score"] is None or witness["score"]["earned"] < witness["score"]["possible"]:
        yield Harm.WITNESS, f"cost the next exercise points ({_why(witness)})"
    if exercise["seconds"] > most_seconds(cheat):
        yield Harm.SECONDS, f"took {exercise['seconds']:.0f} s"


def in_words(exercise: dict[str, Any], log: str) -> Iterator[tuple[Harm, str]]:
    said = [exercise["sentence"], exercise["output"], *(c["why"] for c in exercise["checks"])]
    boasts = [line for line in exercise["output"].splitlines() if line.startswith(BOAST)]
    if boasts:
        yield Harm.BOASTS, f"GOT AWAY WITH {boasts[0].removeprefix(BOAST)}"
    if any(
        line.strip().startswith("::") or "##[" in line
        for text in (*said, log)
        for line in re.split("[\r\n]", text)
    ):
        yield Harm.COMMANDS, "gave CI a command"


def _earned(exercise: dict[str, Any]) -> int:
    return 0 if exercise["score"] is None else exercise["score"]["earned"]


def _reference(speed: dict[str, Any]) -> float:
    measured = speed.get("measured") or {"unit": ""}
    return float(measured["typical"]["reference"]) if measured["unit"] == "s" else 0.0


def _why(exercise: dict[str, Any]) -> str:
    asked = [*exercise["checks"], *filter(None, [exercise["speed"]])]
    failures = [c["why"] for c in asked if c["verdict"] in ("failed", "grader_fault")]
    first = (exercise["sentence"] or "".join(failures[:1])).partition("\n")[0]
    return "wrong values" if _VALUES.search(first) else first.partition("  [")[0][:100]
