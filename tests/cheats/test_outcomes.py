"""The judge of the cheats sees each harm, also those that no cheat does any more."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.cheats import outcomes
from tests.cheats.cheat import all_cheats
from tests.cheats.outcomes import Harm
from tests.cheats.room import Room

CHEAT = all_cheats()[0]
EXERCISE = {
    "speed": None,
    "sentence": "",
    "output": "",
    "checks": [],
    "seconds": 1.0,
    "state": "graded",
}
FULL, NONE = {"earned": 12, "possible": 12}, {"earned": 0, "possible": 10}
linux = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc and a subreaper")


def reaped(folder: Path, script: str, seconds: float = 20) -> dict:
    """What the reaper says about a command."""
    return outcomes.reap([sys.executable, "-c", script], folder, seconds)


@linux
def test_a_daemon_is_found_and_ended(tmp_path):
    daemon = (
        "import os, sys, time\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    if os.fork() == 0: time.sleep(600)\n"
        "    os._exit(0)\n"
        "os.wait()"
    )
    assert len(reaped(tmp_path, daemon)["left"]) == 1


@pytest.mark.parametrize(
    "script, ended",
    [
        ("", 0),
        ("raise SystemExit(3)", 3),
        ("import os; os.abort()", -6),
        ("import os; os.kill(os.getpid(), 19)", "stopped"),
        ("while True: pass", "hung"),
    ],
)
def test_how_a_run_ended_is_said(tmp_path, script, ended):
    assert reaped(tmp_path, script, seconds=2)["ended"] == ended


def made_a_file(room: Path) -> None:
    (room / "outside" / "x").touch()


def planted_bytecode(room: Path) -> None:
    (room / "course/grader/__pycache__/x.pyc").touch()


def deleted_a_solution(room: Path) -> None:
    (room / "course/solutions/ex01_softmax.py").unlink()


def opened_a_folder(room: Path) -> None:
    (room / "course/grader/suites").chmod(0o777)


@pytest.mark.parametrize(
    "act, harms",
    [
        (lambda room: None, set()),
        (made_a_file, {Harm.FILES}),
        (planted_bytecode, {Harm.CHANGES}),
        (deleted_a_solution, {Harm.CHANGES}),
        (opened_a_folder, {Harm.CHANGES}),
    ],
)
def test_what_became_of_the_files_is_seen(act, harms):
    with Room() as room:
        room.hand_in(CHEAT)
        act(room.path)
        done = {"ended": 0, "left": []}
        assert dict(outcomes.to_the_machine(room, done, finished=True)).keys() == harms
    assert not room.path.exists()


@pytest.mark.parametrize(
    "exercise, witness, harms",
    [
        ({"score": NONE}, {"score": FULL}, set()),
        ({"score": NONE | {"earned": 1}}, {"score": FULL}, {Harm.EARNS}),
        ({"score": None}, {"score": FULL}, {Harm.FAULT}),
        ({"score": NONE}, {"score": NONE}, {Harm.WITNESS}),
        ({"score": NONE}, {"score": None}, {Harm.WITNESS}),
        ({"score": NONE, "seconds": 500.0}, {"score": FULL}, {Harm.SECONDS}),
    ],
)
def test_what_became_of_the_marks_is_seen(exercise, witness, harms):
    cheat = replace(CHEAT, earns=0)
    found = outcomes.to_the_marks(cheat, EXERCISE | exercise, EXERCISE | witness)
    assert dict(found).keys() == harms


@pytest.mark.parametrize(
    "said, log, harms",
    [
        ({"output": "hello: :\n"}, "", set()),
        ({"output": "hello\ngot away: everything\n"}, "", {Harm.BOASTS}),
        ({"output": "hello\n  ::error::x"}, "", {Harm.COMMANDS}),
        ({"sentence": "x\r::notice::y"}, "", {Harm.COMMANDS}),
        ({"checks": [{"why": "ValueError:\n::error::x"}]}, "", {Harm.COMMANDS}),
        ({}, "hello\n::error::x\n", {Harm.COMMANDS}),
    ],
)
def test_what_was_said_is_seen(said, log, harms):
    assert dict(outcomes.in_words(EXERCISE | said, log)).keys() == harms
