"""`grader class --cluster`: the same results through a real Dask scheduler and its workers."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from grader.course.class_run.cluster import _check_address, _check_lane
from grader.course.class_run.lanes import Stopped
from grader.course.class_run.task import SPEED, VALUES
from tests.classes.classroom import command, environment, fill, grade, written


class Dask:
    """A scheduler on this machine, and workers that are started one by one."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._processes: list[subprocess.Popen] = []
        log = self._start("scheduler", "scheduler", "--host", "127.0.0.1", "--port", "0",
                          "--no-dashboard")  # fmt: skip
        self.address = self._wait_for(log, r"Scheduler at:\s+(tcp://\S+)")

    def worker(self, resources: str = "CPU=1", **environ: str) -> subprocess.Popen:
        name = f"worker{len(self._processes)}"
        log = self._start(name, "worker", self.address, "--host", "127.0.0.1", "--nthreads", "1",
                          "--no-dashboard", "--resources", resources, "--no-nanny",
                          "--local-directory", str(self._folder), **environ)  # fmt: skip
        self._wait_for(log, r"(Registered to)")
        return self._processes[-1]

    def _start(self, name: str, what: str, *arguments: str, **environ: str) -> Path:
        log = self._folder / f"{name}.log"
        with log.open("w") as file:
            process = subprocess.Popen(
                [sys.executable, "-m", "dask", what, *arguments], stdout=file, stderr=file,
                env=environment() | environ, cwd=self._folder,
            )  # fmt: skip
        self._processes.append(process)
        return log

    def _wait_for(self, log: Path, pattern: str) -> str:
        until = time.monotonic() + 60
        while not (found := re.search(pattern, log.read_text())):
            assert time.monotonic() < until, log.read_text()
            assert self._processes[-1].poll() is None, log.read_text()
            time.sleep(0.1)
        return found[1]

    def close(self) -> None:
        for process in reversed(self._processes):
            process.terminate()
        for process in self._processes:
            process.wait(timeout=30)


@pytest.fixture(scope="module")
def dask(tmp_path_factory):
    made = Dask(tmp_path_factory.mktemp("dask"))
    yield made
    made.close()


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    """A class, and what a run on this machine writes about it."""
    folder = tmp_path_factory.mktemp("local")
    submissions = fill(folder / "submissions")
    assert grade(submissions, folder / "results").returncode == 0
    return submissions, folder / "results"


def with_secret_of(results: Path, other: Path) -> Path:
    results.mkdir()
    shutil.copy2(other / ".secret", results / ".secret")
    return results


def test_without_a_worker_there_is_a_sentence(dask, expected, tmp_path):
    refused = grade(expected[0], tmp_path / "results", "--cluster", dask.address)
    assert refused.returncode == 2
    assert refused.stderr == "The scheduler has no worker: start some (docs/scale.md).\n"


def test_a_worker_that_is_killed_costs_a_retry_and_no_result(dask, expected, tmp_path):
    submissions, local = expected
    results = with_secret_of(tmp_path / "results", local)
    doomed = dask.worker()
    dask.worker()
    run = subprocess.Popen(command(submissions, results, "--cluster", dask.address),
                           env=environment(), stderr=subprocess.PIPE, text=True)  # fmt: skip
    while not list(results.glob(".parts/*/*")):
        time.sleep(0.02)
        assert run.poll() is None, run.communicate()
    os.kill(doomed.pid, signal.SIGKILL)
    _, said = run.communicate(timeout=200)
    assert run.returncode == 0, said
    assert written(results) == written(local)


def test_another_version_of_the_grader_is_refused(dask, expected, tmp_path):
    """A worker with other code would give other marks."""
    other = tmp_path / "other"
    from grader.catalog import ROOT

    for name in ("grader", "reference"):
        shutil.copytree(ROOT / name, other / name, ignore=shutil.ignore_patterns("__pycache__"))
    with (other / "grader/suites/ex01_softmax/test_softmax.py").open("a") as file:
        file.write("\n# newer\n")
    stranger = dask.worker(PYTHONPATH=str(other))
    refused = grade(expected[0], tmp_path / "results", "--cluster", dask.address)
    stranger.terminate()
    stranger.wait(timeout=30)
    assert refused.returncode == 2
    assert "cannot grade with this machine: the grader's code for ex01_softmax is" in refused.stderr


def test_a_worker_without_the_grader_is_refused(dask, expected, tmp_path):
    stranger = dask.worker(PYTHONPATH="")
    refused = grade(expected[0], tmp_path / "results", "--cluster", dask.address)
    stranger.terminate()
    stranger.wait(timeout=30)
    assert refused.returncode == 2
    assert "No module named 'grader'" in refused.stderr
    assert "Traceback" not in refused.stderr


@pytest.mark.parametrize(
    "address, safe",
    [
        ("tcp://127.0.0.1:8786", True), ("127.0.0.1:8786", True), ("tcp://localhost:8786", True),
        ("tcp://[::1]:8786", True), ("tls://10.0.0.7:8786", True), ("tcp://10.0.0.7:8786", False),
        ("10.0.0.7:8786", False), ("ws://127.0.0.1:8786", False), ("tcp://grader.example:1", False),
        ("tcp://0.0.0.0:8786", False),
    ],
)  # fmt: skip
def test_only_tls_or_this_machine(address, safe):
    if safe:
        _check_address(address, "The scheduler")
    else:
        with pytest.raises(Stopped, match="without TLS"):
            _check_address(address, "The scheduler")


def test_a_scheduler_that_is_not_there_gets_a_sentence(expected, tmp_path, monkeypatch):
    done = grade(expected[0], tmp_path / "results", "--cluster", "tcp://127.0.0.1:9")
    assert done.returncode == 2
    assert done.stderr.startswith("No Dask scheduler answers at tcp://127.0.0.1:9: ")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "lane, offers, says",
    [
        (VALUES, {"a": [{"CPU": 1}]}, None),
        (SPEED, {"a": [{"CPU": 1}, {"TIMING": 1}], "b": [{"TIMING": 1}]}, None),
        (VALUES, {"a": [{"TIMING": 1}]}, "No worker offers CPU"),
        (SPEED, {"a": [{"CPU": 1}]}, "No worker offers TIMING.*--no-speed"),
        (SPEED, {"a": [{"TIMING": 1}, {"TIMING": 1}]}, "More than one worker on a offers TIMING"),
        (SPEED, {"a": [{"TIMING": 2}]}, "More than one worker on a offers TIMING"),
    ],
)
def test_each_lane_is_served_and_timing_by_one_of_each_machine(lane, offers, says):
    workers = [(f"tcp://{host}", host, offer) for host, all in offers.items() for offer in all]
    if says is None:
        _check_lane(lane, workers)
    else:
        with pytest.raises(Stopped, match=says):
            _check_lane(lane, workers)
