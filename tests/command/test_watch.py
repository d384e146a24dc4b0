"""Watching, in a terminal of its own: what appears after a save, and what is left at the end."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from grader.core.catalog import ROOT
from tests.command.terminal import PATIENCE, WATCH, Terminal
from tests.conftest import solution

NAMES = ("ex01_softmax", "ex02_masking")
ENDLESS = "print('it runs', flush=True)\nwhile True:\n    pass\n"
# To explain a failure would take seconds after each save.
UNEXPLAINED = (
    f"from grader.diagnosis import time_limit\ntime_limit.DIAGNOSIS_SECONDS = -1.0\n{WATCH}"
)
END_OF_OWN_SCREEN = "\x1b[?1049l"


def raising(marker: str) -> str:
    """An answer whose failure can be told from every other."""
    return (
        "def softmax_numpy(x, axis=-1):\n"
        f"    raise ValueError('{marker}')\n\n\n"
        "def softmax(x, dim=-1):\n    return x\n"
    )


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    return _skeletons(tmp_path_factory.mktemp("watched"))


@pytest.fixture(scope="module")
def watched(place):
    """A watch that has begun."""
    terminal = Terminal("-c", UNEXPLAINED, str(place), *NAMES)
    terminal.until("Read docs/lessons/ex01_softmax.en.md")
    yield terminal
    terminal.interrupt()
    terminal.exit_code()


@pytest.fixture
def answer(watched, place) -> Path:
    """The file of ex01, in a state whose verdict is on the screen."""
    path = place / "ex01_softmax.py"
    path.write_text(raising("before"))
    watched.until("ValueError: before")
    watched.until("Graded at")
    return path


def test_a_save_shows_the_first_failed_check_and_where_to_get_a_hint(watched, answer):
    answer.write_text(raising("saved"))
    text = watched.until("ValueError: saved")
    assert "✗ softmax_numpy gives exp(x) / sum(exp(x)) along the last axis" in text
    assert "· softmax_numpy works along the axis that it is given" in text
    assert "`make hint EX=ex01_softmax SUBMISSION=" in text
    assert "ex01 ✗" in text
    assert "ValueError: before" not in text


def test_a_passed_exercise_moves_on_to_the_next_and_a_save_leads_back(watched, answer):
    answer.write_text(solution("ex01_softmax"))
    text = watched.until("Read docs/lessons/ex02_masking.en.md, then write")
    assert "ex01_softmax is passed." in text
    assert "ex01 ✓  ex02 ·" in text
    answer.write_text(raising("worse again"))
    assert "is passed" not in watched.until("ValueError: worse again")


def test_a_save_is_graded_once(watched, answer):
    answer.write_text(raising("once"))
    watched.until("ValueError: once")
    watched.until("Graded at")
    begun = len(watched.raw)
    for _ in range(20):  # a second in which nothing should come
        watched.read()
    assert "Grading" not in watched.raw[begun:]


def test_a_save_by_rename_is_seen(watched, answer):
    new = answer.with_suffix(".new")
    new.write_text(raising("renamed"))
    new.replace(answer)
    watched.until("ValueError: renamed")


def test_a_file_that_is_written_in_two_halves_is_graded_as_a_whole_in_the_end(watched, answer):
    whole = raising("whole")
    with answer.open("w") as file:
        file.write(whole[:20])
        file.flush()
        watched.until("is not valid Python")
        file.write(whole[20:])
    watched.until("ValueError: whole")


def test_a_deleted_file_is_said_to_be_missing_until_it_is_back(watched, answer):
    answer.unlink()
    watched.until("ex01_softmax.py is not there.")
    answer.write_text(raising("back"))
    watched.until("ValueError: back")


def test_a_deleted_folder_is_no_end(watched, answer):
    shutil.rmtree(answer.parent)
    watched.until("is not there.")
    _skeletons(answer.parent)
    answer.write_text(raising("all back"))
    watched.until("ValueError: all back")


def test_a_crash_of_the_nursery_is_survived(watched, answer):
    for pid in _below(watched.child.pid):
        os.kill(pid, signal.SIGKILL)
    answer.write_text(raising("survived"))
    watched.until("ValueError: survived")


def test_an_endless_answer_gives_way_to_the_one_that_is_saved_next(watched, answer):
    answer.write_text(ENDLESS)
    watched.until("Grading ex01_softmax ...")
    answer.write_text(raising("mended"))
    begun = len(watched.raw)
    watched.until("ValueError: mended")
    assert "no answer within" not in watched.raw[begun:]


def test_a_window_of_another_size_shows_the_same(watched, answer):
    watched.resize(12, 70)
    answer.write_text(raising("in a low window"))
    watched.until("ValueError: in a low window")
    watched.resize(40, 110)
    watched.until("· The gradient of softmax flows")


def test_the_screen_is_drawn_in_place(watched, answer):
    begun = len(watched.raw)
    answer.write_text(raising("in place"))
    watched.until("ValueError: in place")
    drawn = watched.raw[begun:]
    assert watched.raw.count("\x1b[?1049h") == 1
    assert "\x1b[H" in drawn
    assert "\x1b[2J" not in drawn
    assert "\x1b[J" not in drawn


@pytest.mark.parametrize(
    "busy, end",
    [
        pytest.param(False, signal.SIGINT, id="waiting", marks=pytest.mark.weekly),
        pytest.param(True, signal.SIGINT, id="grading"),
        pytest.param(True, signal.SIGHUP, id="window closed"),
    ],
)
def test_it_ends_cleanly_and_leaves_nothing(tmp_path, tmp_path_factory, busy, end):
    scratch = tmp_path_factory.mktemp("scratch")
    terminal = Terminal("-c", UNEXPLAINED, str(_skeletons(tmp_path)), *NAMES, TMPDIR=str(scratch))
    terminal.until("Read docs/lessons/ex01_softmax.en.md")
    if busy:
        (tmp_path / "ex01_softmax.py").write_text(ENDLESS)
        terminal.until("Grading ex01_softmax ...")
    left = _below(terminal.child.pid)
    assert left
    if end is signal.SIGINT:
        _press_until_it_ends(terminal)
    else:
        terminal.child.kill(end)
    assert terminal.exit_code() == 0
    _wait_until_gone(left)
    assert list(scratch.iterdir()) == []
    after = terminal.raw.rpartition(END_OF_OWN_SCREEN)[2]
    assert "Exercises passed: 0 of 2. `make watch` goes on from here." in after
    assert "Traceback" not in terminal.raw


def test_it_begins_with_the_first_exercise_that_is_not_passed(tmp_path):
    place = _skeletons(tmp_path)
    (place / "ex01_softmax.py").write_text(solution("ex01_softmax"))
    terminal = Terminal("-c", UNEXPLAINED, str(place), *NAMES)
    assert "ex01 ✓  ex02 ·" in terminal.until("Read docs/lessons/ex02_masking.en.md")
    (place / "ex02_masking.py").write_text(solution("ex02_masking"))
    terminal.until("Every exercise here is passed.")
    terminal.interrupt()
    assert terminal.exit_code() == 0
    assert "Exercises passed: 2 of 2." in terminal.text


def test_without_a_terminal_views_follow_each_other(tmp_path):
    place = _skeletons(tmp_path)
    with subprocess.Popen(
        [sys.executable, "-u", "-c", UNEXPLAINED, str(place), *NAMES], cwd=ROOT, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env={**os.environ, "COLUMNS": "300"},
    ) as process:  # fmt: skip
        lines = iter(process.stdout.readline, "")
        assert any("Read docs/lessons/ex01_softmax.en.md" in line for line in lines)
        (place / "ex01_softmax.py").write_text(raising("piped"))
        assert any("ValueError: piped" in line for line in lines)
        process.send_signal(signal.SIGINT)
        rest = process.stdout.read()
    assert process.returncode == 0
    assert "\x1b" not in rest
    assert rest.endswith("Exercises passed: 0 of 2. `make watch` goes on from here.\n")


def _skeletons(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    for name in NAMES:
        shutil.copy(ROOT / "exercises" / f"{name}.py", folder)
    return folder


def _press_until_it_ends(terminal: Terminal) -> None:
    """Ctrl-C, and more of it, as the impatient do."""
    terminal.interrupt()
    while terminal.read():
        terminal.child.kill(signal.SIGINT)  # a further key would also discard what is written


def _below(pid: int) -> list[int]:
    """The processes that `pid` started, and those that these started."""
    listed = subprocess.run(["ps", "-eo", "pid=,ppid="], capture_output=True, text=True, check=True)
    pairs = [tuple(map(int, line.split())) for line in listed.stdout.splitlines()]
    children = [child for child, parent in pairs if parent == pid and _runs(child)]
    return [*children, *(p for child in children for p in _below(child))]


def _runs(pid: int) -> bool:
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True)
    return bool(state.stdout.strip()) and not state.stdout.strip().startswith("Z")


def _wait_until_gone(pids: list[int]) -> None:
    end = time.monotonic() + PATIENCE
    while any(map(_runs, pids)):
        assert time.monotonic() < end, f"of {pids} some still run"
        time.sleep(0.05)
