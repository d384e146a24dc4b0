"""A run that is killed at any moment loses nothing: what it leaves is gone on with."""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.classes.classroom import command, environment, fill, graded_here, written

pytestmark = pytest.mark.weekly
KILLS = 60


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory, in_this_process):
    """A class, and what an undisturbed run writes about it."""
    folder = tmp_path_factory.mktemp("undisturbed")
    submissions = fill(folder / "submissions")
    assert graded_here(submissions, folder / "results").returncode == 0
    return submissions, folder / "results"


def fresh(results: Path, secret: Path) -> Path:
    """An empty folder of results with the same secret, so that the same inputs are drawn."""
    shutil.rmtree(results, ignore_errors=True)
    results.mkdir()
    shutil.copy2(secret, results / ".secret")
    return results


def run_known(submissions: Path, results: Path, known: Path, moment: int):
    """A run that takes each result from those of another, and is killed at a moment, or ends."""
    ask = command(submissions, results, "--resume")[3:]
    return subprocess.run(
        [sys.executable, "-m", "tests.classes.known", known, str(moment), *ask],
        env=environment(), capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip


def test_kill_9_at_random_moments_loses_nothing(undisturbed, tmp_path):
    """Killed is the process that keeps results and writes files; what grades is killed below.

    A moment is one of its changes of the file system, so that none depends on how fast it is.
    """
    submissions, expected = undisturbed
    results, moments = fresh(tmp_path / "results", expected / ".secret"), random.Random(20)
    whole = run_known(submissions, results, expected, moment=0)
    assert whole.returncode == 0, whole.stderr
    changes = int(whole.stdout.split()[-1])
    fresh(results, expected / ".secret")
    killed = 0
    for _ in range(KILLS):
        run = run_known(submissions, results, expected, moments.randrange(1, changes + 1))
        if run.returncode == -signal.SIGKILL:
            killed += 1
            continue
        assert run.returncode == 0, run.stderr
        assert written(results) == written(expected)
        fresh(results, expected / ".secret")
    assert killed >= KILLS // 2  # a run of an empty folder has all those moments
    assert graded_here(submissions, results, "--resume").returncode == 0
    assert written(results) == written(expected)


def until_one_is_kept(run: subprocess.Popen, results: Path) -> None:
    while not list(results.glob(".parts/*/*")):  # the first answer is graded
        time.sleep(0.02)
        assert run.poll() is None


def start(submissions: Path, results: Path, *more: str) -> subprocess.Popen:
    return subprocess.Popen(
        command(submissions, results, *more), env=environment(), text=True,
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip


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
    submissions, expected = undisturbed
    results = fresh(tmp_path / "results", expected / ".secret")
    run = start(submissions, results)
    until_one_is_kept(run, results)
    os.kill(children(run.pid)[0], signal.SIGKILL)
    _, said = run.communicate(timeout=120)
    assert run.returncode == 0, said
    assert written(results) == written(expected)


def test_the_processes_of_a_killed_run_end_with_it_and_it_is_gone_on_with(undisturbed, tmp_path):
    submissions, expected = undisturbed
    results = fresh(tmp_path / "results", expected / ".secret")
    run = start(submissions, results, "--jobs", "1")
    until_one_is_kept(run, results)
    pool = children(run.pid)
    assert pool
    run.kill()
    run.wait()
    assert graded_here(submissions, results, "--resume").returncode == 0
    assert written(results) == written(expected)
    until = time.monotonic() + 30
    while any(Path(f"/proc/{pid}").exists() for pid in pool):
        assert time.monotonic() < until
        time.sleep(0.1)


def test_ctrl_c_keeps_what_is_graded_and_says_so(undisturbed, tmp_path):
    submissions, expected = undisturbed
    results = fresh(tmp_path / "results", expected / ".secret")
    run = start(submissions, results, "--jobs", "1")
    until_one_is_kept(run, results)
    os.killpg(run.pid, signal.SIGINT)  # as a terminal does: to everybody
    _, said = run.communicate(timeout=60)
    assert said == "Stopped. What was graded is kept: `--resume` goes on.\n"
    assert run.returncode == 2
    assert list(results.glob(".parts/*/*"))
