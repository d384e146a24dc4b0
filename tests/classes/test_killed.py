"""A run that is killed at any moment loses nothing: what it leaves is gone on with."""

import os
import random
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.classes.classroom import command, environment, fill, grade, written

KILLS = 20


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """A class, what an undisturbed run writes about it, how long that took, and its secret."""
    folder = tmp_path_factory.mktemp("undisturbed")
    submissions = fill(folder / "submissions")
    started = time.monotonic()
    assert grade(submissions, folder / "results").returncode == 0
    return submissions, folder / "results", time.monotonic() - started


def fresh(results: Path, secret: Path) -> Path:
    """An empty folder of results with the same secret, so that the same inputs are drawn."""
    shutil.rmtree(results, ignore_errors=True)
    results.mkdir()
    shutil.copy2(secret, results / ".secret")
    return results


def start(submissions: Path, results: Path) -> subprocess.Popen:
    return subprocess.Popen(
        command(submissions, results, "--resume"), env=environment(),
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip


def test_kill_9_at_twenty_random_moments_loses_nothing(undisturbed, tmp_path):
    submissions, expected, seconds = undisturbed
    results, moments = tmp_path / "results", random.Random(20)
    fresh(results, expected / ".secret")
    finished = 0
    for _ in range(KILLS):
        run = start(submissions, results)
        try:
            run.wait(timeout=moments.uniform(0, seconds))
        except subprocess.TimeoutExpired:
            run.kill()
            run.wait()
        else:
            assert run.returncode == 0
            assert written(results) == written(expected)
            finished += 1
            fresh(results, expected / ".secret")
    assert finished < KILLS
    assert grade(submissions, results, "--resume").returncode == 0
    assert written(results) == written(expected)


def children(pid: int) -> list[int]:
    """The processes of the pool: what this process started to grade."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                parent = (folder / "stat").read_text().rpartition(")")[2].split()[1]
                line = (folder / "cmdline").read_text()
            except OSError:
                continue
            if int(parent) == pid and "spawn_main" in line:
                found.append(int(folder.name))
    return found


def test_a_killed_process_of_the_pool_costs_a_second_try_and_no_result(undisturbed, tmp_path):
    submissions, expected, _ = undisturbed
    results = fresh(tmp_path / "results", expected / ".secret")
    run = start(submissions, results)
    while not list(results.glob(".parts/*/*")):  # the first answer is graded
        time.sleep(0.02)
        assert run.poll() is None
    os.kill(children(run.pid)[0], signal.SIGKILL)
    assert run.wait(timeout=120) == 0
    assert written(results) == written(expected)


def test_the_processes_of_a_killed_run_end_with_it(undisturbed, tmp_path):
    submissions, expected, _ = undisturbed
    results = fresh(tmp_path / "results", expected / ".secret")
    run = start(submissions, results)
    while not list(results.glob(".parts/*/*")):
        time.sleep(0.02)
        assert run.poll() is None
    pool = children(run.pid)
    assert pool
    run.kill()
    run.wait()
    until = time.monotonic() + 30
    while any(Path(f"/proc/{pid}").exists() for pid in pool):
        assert time.monotonic() < until
        time.sleep(0.1)


def test_ctrl_c_keeps_what_is_graded_and_says_so(undisturbed, tmp_path):
    submissions, expected, _ = undisturbed
    results = fresh(tmp_path / "results", expected / ".secret")
    run = subprocess.Popen(command(submissions, results), env=environment(), text=True,
                           stderr=subprocess.PIPE, start_new_session=True)  # fmt: skip
    while not list(results.glob(".parts/*/*")):
        time.sleep(0.02)
        assert run.poll() is None
    os.killpg(run.pid, signal.SIGINT)  # as a terminal does: to everybody
    _, said = run.communicate(timeout=60)
    assert said == "Stopped. What was graded is kept: `--resume` goes on.\n"
    assert run.returncode == 2
    assert list(results.glob(".parts/*/*"))
