"""`grade` in a terminal: what is right is shown before it is timed, and timing says how long."""

from rich.progress import Progress

from grader.core.progress import _SecondsLeft
from tests.command.terminal import Terminal
from tests.conftest import solution

SLUGS = ("ex03_sdpa", "ex05_causal_mask")
# `grade`, whose timing takes until there is a file.
HELD = """
import pathlib, sys, time
from grader.cli.app import run_command_line
from grader.core.records import Speed
from grader.grading import exercise

def held(contest, progress):
    while not pathlib.Path(FILE).exists():
        progress(0.5)
        time.sleep(0.01)
    case = contest.case
    return Speed(says=case.says, verdict="scored", points=case.points, earned=1)

exercise.measure_speed = held
run_command_line()
"""


def test_verdicts_are_on_the_screen_before_anything_is_timed(tmp_path):
    for slug in SLUGS:
        (tmp_path / f"{slug}.py").write_text(solution(slug))
    file = tmp_path / "go on"
    script = HELD.replace("FILE", repr(str(file)))
    options = ("--submission", str(tmp_path), "--isolation", "process", "--lang", "en")
    terminal = Terminal("-c", script, "grade", *SLUGS, *options)
    terminal.until("timing ex03_sdpa")
    assert terminal.text.count("all right; ") == 2
    assert terminal.text.count("(not timed yet)") == 2
    assert "All checks passed" not in terminal.text
    file.touch()
    terminal.until("seed ")
    assert terminal.exit_code() == 0
    assert terminal.text.count("all right, speed 1 of ") == 2
    assert "Traceback" not in terminal.raw


def test_the_seconds_that_are_left_follow_from_the_pace():
    now = [0.0]
    progress = Progress(get_time=lambda: now[0])
    task = progress.add_task("timing", total=1.0)
    shown = []
    for second in range(5):
        now[0] = float(second)
        progress.update(task, completed=second / 10)
        shown.append(_SecondsLeft().render(progress.tasks[0]).plain)
    assert shown[0] == ""
    assert shown[-2:] == ["7 s", "6 s"]
