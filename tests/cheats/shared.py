"""Grades many cheats one after another in one process, and looks after each at what it did."""

import json
import shutil
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tests.cheats.cheat import HERE, Cheat
from tests.cheats.outcomes import (
    HUNG_SECONDS,
    Harm,
    Outcome,
    judged,
    limits_of,
    most_seconds,
    surroundings,
)
from tests.cheats.room import WITNESS, Room

SPOILS = {Harm.RUN, Harm.FAULT, Harm.WITNESS, Harm.PROCESSES, Harm.FILES, Harm.CHANGES}


class NotAsItWas(Exception):
    """Something that no cheat was seen to do was found at the end."""


class GradingProcess:
    """A room, and in it one process that grades behind one wall, and its nursery.

    After a harm to the machine or the grader it is `spoilt`: what it would say of the next cheat
    could be the work of the last.
    """

    def __init__(self, wall: str, room: Room) -> None:
        self.wall = wall
        self.spoilt = True  # until it has shown that it can grade
        self._room = room
        course = self._room.path / "course"
        for file in (HERE / "grade_many.py", HERE.parent / "open_list.py"):
            shutil.copy(file, course)
        command = [sys.executable, "-m", "grade_many", wall, WITNESS]
        self._reaper = subprocess.Popen(
            [sys.executable, str(HERE / "reaper.py"), "serve", str(self._log), *command],
            cwd=course,
            env=surroundings(self._room),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
            text=True,
        )
        report = self._said()["report"]
        if report is None or report["score"]["earned"] < report["score"]["possible"]:
            problem = self._log.read_text("utf-8")
            self.close()
            raise RuntimeError(f"a new process does not grade: {problem}")
        self.spoilt = False

    def grade(self, cheat: Cheat) -> Outcome:
        """What comes of a cheat; and after it of the witness, from the same nursery."""
        self.spoilt = True  # until all is seen to be as it was
        self._room.hand_in(cheat)
        begin = self._log.stat().st_size
        limits = {k: v for k, v in asdict(limits_of(cheat)).items() if k.endswith("_seconds")}
        request = {"slugs": [cheat.exercise, WITNESS], "place": "../submissions",
                   "limits": {cheat.exercise: limits},
                   "open": cheat.past_the_list}  # fmt: skip
        self._tell({"seconds": most_seconds(cheat) + HUNG_SECONDS, "request": request})
        done = self._said()
        outcome = judged(self._room, cheat, self.wall, done, self._printed_since(begin))
        self.spoilt = done["ended"] is not None or bool(SPOILS & outcome.harms.keys())
        return outcome

    def close(self) -> None:
        """End the process; raise if it does not end well, or if there is more than was seen."""
        assert self._reaper.stdin is not None
        self._reaper.stdin.close()
        assert self._reaper.stdout is not None
        at_the_end = self._reaper.stdout.readlines()
        self._reaper.wait()
        with self._room as room:
            if self.spoilt:
                return
            done = json.loads(at_the_end[-1])
            found = [*done["left"], *room.changed(again=True), *room.left(also_in_tmp=True)]
            if done["ended"] != 0 or found:
                raise NotAsItWas(f"ended: {done['ended']}; {found}; {self._log.read_text('utf-8')}")

    @property
    def _log(self) -> Path:
        return self._room.path / "log"

    def _printed_since(self, begin: int) -> str:
        printed = self._log.read_bytes()  # a cheat may have emptied it
        return printed[begin if len(printed) >= begin else 0 :].decode("utf-8", "replace")

    def _tell(self, order: dict[str, Any]) -> None:
        assert self._reaper.stdin is not None
        self._reaper.stdin.write(json.dumps(order) + "\n")
        self._reaper.stdin.flush()

    def _said(self) -> dict[str, Any]:
        assert self._reaper.stdout is not None
        said: dict[str, Any] = {"report": None, **json.loads(self._reaper.stdout.readline())}
        return said
