"""Contests, made up or of parties that a test wrote, and a stand-in for a process."""

import hashlib
import itertools
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from grader.core import catalog
from grader.core.records import DeclaredClass, DeclaredFunction, Exercise, Submission
from grader.judging import agree
from grader.judging.marks import SpeedCase
from grader.timing import meters
from grader.timing.contest import Contest
from grader.timing.meters import Party
from grader.worker.child.arrays import Arena
from grader.worker.parent.nursery import Nursery
from tests.timing.rounds import as_rows

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="Linux only")
ECHO = "def answer(x): return x\n"  # what a party answers unless a test says otherwise
FUNCTIONS = {
    name: DeclaredFunction(name=name, signature=signature, returns={"out": "any"})
    for name, signature in {"answer": "(x)", "used": "()"}.items()
}
BOX = DeclaredClass(name="Box", signature="()", methods={"open": FUNCTIONS["answer"]})


def case(bench: Callable[[Any], None] = lambda race: None, **more) -> SpeedCase:
    default = {"says": "As fast as can be.", "points": 100, "measures": "time", "cuda": False}
    return SpeedCase(bench=bench, **(default | more))


@dataclass(slots=True, kw_only=True)
class MadeUp(Contest):
    """Its sets are what `one_set(number)` says, times of shape (rounds, 3), till they are enough."""

    one_set: Callable[[int], Any]
    tries: list[bool]  # for each set that was run, whether it was of the second try
    stops: bool = True  # before the end of a set

    def run_a_set(self, plan, progress, enough=lambda times: False) -> None:
        self.tries.append(self.again)
        for row in as_rows(self.one_set(self.sets)):
            self.rows.append(row)
            if self.stops and enough(self.times):
                break
        self.flops = 1e9
        self.sets += 1
        progress(1.0)


def made_up(one_set: Callable[[int], Any], work: float = 0.0, stops: bool = True, **more) -> MadeUp:
    return MadeUp(
        exercise=catalog.find_catalog_exercise("ex05_causal_mask"), case=case(**more), answer=text(ECHO),
        nursery=None, seed=("a",), one_set=one_set, work=work, tries=[], stops=stops,
    )  # fmt: skip


def text(source: str) -> Submission:
    digest = hashlib.sha256(source.encode()).hexdigest()
    return Submission(slug="ex05_causal_mask", path=Path("x.py"), sha256=digest, source=source)


def exercise(folder: Path) -> Exercise:
    """An exercise that asks for answer(x), used() and a Box, and refuses nothing."""
    return replace(
        catalog.find_catalog_exercise("ex05_causal_mask"), folder=folder, functions=FUNCTIONS,
        classes={"Box": BOX}, refused=(),
    )  # fmt: skip


def contest(
    nursery: Nursery, folder: Path, bench: Callable[[Any], None], student: str = ECHO,
    *, zero: str = ECHO, reference: str = ECHO, seed: str = "a", **more,
) -> Contest:  # fmt: skip
    """A real one, whose parties are these texts, written below `folder`."""
    (folder / "parties").mkdir(exist_ok=True)
    (folder / "parties" / "zero.py").write_text(zero)
    (folder / "parties" / "reference.py").write_text(reference)
    return Contest(
        exercise=exercise(folder), case=case(bench, **more), answer=text(student),
        nursery=nursery, seed=(seed,),
    )  # fmt: skip


def feed(monkeypatch, **seconds: float) -> None:
    """Ask the parties for real, and have each call take so long by the grader's clock."""
    ticks = itertools.count(1)

    def fed(party: Party, call: Callable[[], Any]) -> tuple[float, Any]:
        with party.awake():
            answer = call()
        return seconds[party.name] * (1 + next(ticks) * 1e-6), answer

    monkeypatch.setattr(meters, "time_party_call", fed)


def echoes(race) -> None:
    for draw in race:
        x = draw.normal(3)
        for found in race.time("answer", x):
            agree(found, x)


@dataclass
class Worker:
    """Stands in for a process that has used so much, each time that it is looked at."""

    used: list[dict[str, int]]
    log: list[str] = field(default_factory=list)
    inputs: Arena = field(default_factory=lambda: Arena(bytearray()))

    def usage(self) -> dict[str, int]:
        return self.used.pop(0)

    def stop(self) -> None:
        self.log.append("stop")

    def resume(self) -> None:
        self.log.append("resume")

    def ping(self) -> None:
        self.log.append("ping")


def party(*usage: dict[str, int]) -> Party:
    worker = Worker(list(usage))
    return Party("student", None, worker, worker)
