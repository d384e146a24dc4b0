"""`grader class --cluster`: the same results through a real Dask scheduler and its workers."""

import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
from distributed import Security

from grader.classroom.run import cluster
from grader.classroom.run.cluster import _check_cluster_address, _check_workers_of_cluster
from grader.classroom.run.grade_task import SPEED, VALUES
from grader.core.catalog import ROOT
from grader.core.errors import UserError
from tests.classes.classroom import (
    RIGHT,
    command,
    environment,
    fill,
    graded_here,
    here,
    written,
)
from tests.classes.dask import Dask


@pytest.fixture(scope="module")
def dask(tmp_path_factory):
    made = Dask(tmp_path_factory.mktemp("dask"))
    yield made
    made.close()


@pytest.fixture(scope="module")
def worker(dask):
    """A worker that judges, for all tests from the first that needs one."""
    return dask.worker()


@pytest.fixture(scope="module")
def submissions(tmp_path_factory, in_this_process):
    """A class."""
    return fill(tmp_path_factory.mktemp("local") / "submissions")


@pytest.fixture(scope="module")
def expected(submissions):
    """A class, and what a run on this machine writes about it."""
    results = submissions.parent / "results"
    assert graded_here(submissions, results).returncode == 0
    return submissions, results


def with_secret_of(results: Path, other: Path) -> Path:
    results.mkdir()
    shutil.copy2(other / ".secret", results / ".secret")
    return results


def test_without_a_worker_there_is_a_sentence(dask, submissions, tmp_path):
    refused = graded_here(submissions, tmp_path / "results", "--cluster", dask.address)
    assert refused.returncode == 2
    assert refused.stderr == "The scheduler has no worker: start some (docs/scale.md).\n"


def test_a_run_that_never_began_leaves_nothing_to_resume(dask, submissions, tmp_path):
    asked = submissions, tmp_path / "results", "--cluster", dask.address
    first, second = graded_here(*asked), graded_here(*asked)
    assert first.stderr == second.stderr
    assert "not finished" not in second.stderr
    assert not (tmp_path / "results/.run.json").exists()


@pytest.mark.weekly
def test_a_worker_that_is_killed_costs_a_retry_and_no_result(dask, worker, expected, tmp_path):
    submissions, local = expected
    results = with_secret_of(tmp_path / "results", local)
    doomed = dask.worker()
    run = subprocess.Popen(command(submissions, results, "--cluster", dask.address),
                           env=environment(), stderr=subprocess.PIPE, text=True)  # fmt: skip
    while not list(results.glob(".parts/*/*")):
        time.sleep(0.02)
        assert run.poll() is None, run.communicate()
    os.kill(doomed.pid, signal.SIGKILL)
    _, said = run.communicate(timeout=200)
    assert run.returncode == 0, said
    assert written(results) == written(local)


def test_another_version_of_the_grader_is_refused(dask, submissions, tmp_path):
    """A worker with other code would give other marks."""
    other = tmp_path / "other"
    for name in ("grader", "reference"):
        shutil.copytree(ROOT / name, other / name, ignore=shutil.ignore_patterns("__pycache__"))
    with (other / "grader/suites/ex01_softmax/test_softmax.py").open("a") as file:
        file.write("\n# newer\n")
    stranger = dask.worker(PYTHONPATH=str(other))
    refused = graded_here(submissions, tmp_path / "results", "--cluster", dask.address)
    stranger.kill()
    stranger.wait(timeout=30)
    assert refused.returncode == 2
    assert "cannot grade with this machine: the grader's code for ex01_softmax is" in refused.stderr


def test_a_worker_without_the_grader_is_refused(dask, submissions, tmp_path):
    stranger = dask.worker(PYTHONPATH="")
    refused = graded_here(submissions, tmp_path / "results", "--cluster", dask.address)
    stranger.kill()
    stranger.wait(timeout=30)
    assert refused.returncode == 2
    assert "No module named 'grader'" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_an_answer_does_not_reach_the_scheduler(dask, worker, tmp_path):
    host, port = dask.address.removeprefix("tcp://").split(":")
    (tmp_path / "submissions/mal").mkdir(parents=True)
    reach = f"import socket\nsocket.create_connection(({host!r}, {port}), 5)\n"
    (tmp_path / "submissions/mal/ex01_softmax.py").write_text(reach + RIGHT)
    results = tmp_path / "results"
    assert graded_here(tmp_path / "submissions", results, "--cluster", dask.address).returncode == 0
    [exercise] = json.loads((results / "students/mal/report.json").read_text())["exercises"]
    assert exercise["state"] == "refused"
    assert "socket is not on the list" in exercise["sentence"]


@pytest.mark.weekly
def test_speed_is_timed_by_the_worker_that_offers_it(dask, worker, expected, tmp_path):
    """It is judged here, and has a case of memory: that is measured soon, on a busy machine too."""
    slug = "ex07_mqa_gqa"
    (tmp_path / "submissions/ada").mkdir(parents=True)
    shutil.copy2(ROOT / f"solutions/{slug}.py", tmp_path / "submissions/ada")
    results = with_secret_of(tmp_path / "results", expected[1])
    ask = ("class", tmp_path / "submissions", slug, "-o", results, "--lang", "en")
    assert here(*ask, "--no-speed").returncode == 0
    refused = here(*ask, "--cluster", dask.address)
    assert refused.returncode == 2
    assert refused.stderr.startswith("No worker offers TIMING")
    timer = dask.worker("TIMING=1")
    done = here(*ask, "--cluster", dask.address, "--resume")
    timer.kill()
    timer.wait(timeout=30)
    assert done.returncode == 0, done.stderr
    assert "Graded by this run: 1." in done.stdout
    report = json.loads((results / "students/ada/report.json").read_text())
    assert report["exercises"][0]["speed"]["verdict"] == "scored"


def test_when_no_worker_comes_back_the_run_stops_with_a_sentence(dask, tmp_path, monkeypatch):
    monkeypatch.setattr(cluster, "PATIENCE_SECONDS", -1.0)
    lanes = cluster.Cluster(dask.address, "secret", "cpu")
    try:
        with pytest.raises(UserError, match=r"No worker has offered TIMING.*--resume"):
            lanes.look(SPEED)
        lanes.look(VALUES)
    finally:
        lanes.close(at_once=True)


def test_a_nanny_is_told_to_stay_away(dask, submissions, tmp_path):
    stranger = dask.worker(nanny=True)
    refused = graded_here(submissions, tmp_path / "results", "--cluster", dask.address)
    stranger.kill()
    stranger.wait(timeout=30)
    assert refused.returncode == 2
    assert "start it with `--no-nanny`" in refused.stderr


def test_a_scheduler_that_listens_to_everybody_is_refused(submissions, tmp_path):
    """It is reached through this machine's own address, and through every other as well."""
    made = Dask(tmp_path, host="0.0.0.0")
    try:
        port = made.address.rpartition(":")[2]
        refused = graded_here(submissions, tmp_path / "results", "--cluster", f"127.0.0.1:{port}")
        assert refused.returncode == 2
        assert refused.stderr.startswith("The scheduler listens at tcp://")
        assert "without TLS" in refused.stderr
    finally:
        made.close()


@pytest.mark.parametrize(
    "address", ["", "foo", "tcp://", "tcp://[bad", "127.0.0.1", "tcp://127.0.0.1:abc", "http://a:1"]
)
def test_what_is_no_address_gets_a_sentence(address):
    with pytest.raises(UserError, match="is no address of a Dask scheduler"):
        cluster.Cluster(address, "secret", "cpu")


def test_tls_without_certificates_gets_a_sentence():
    with pytest.raises(UserError, match=r"There are no certificates for tls://127\.0\.0\.1:1"):
        cluster.Cluster("tls://127.0.0.1:1", "secret", "cpu")


@pytest.mark.weekly
def test_tls_from_the_command_line_to_the_workers(expected, tmp_path):
    """The certificates come from Dask's own settings; without them nobody gets in."""
    submissions, local = expected
    made = Security.temporary()
    files = {"CA_FILE": made.tls_ca_file}
    for who in ("client", "scheduler", "worker"):
        files[f"{who.upper()}__CERT"] = getattr(made, f"tls_{who}_cert")
        files[f"{who.upper()}__KEY"] = getattr(made, f"tls_{who}_key")
    settings = {}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
        settings[f"DASK_DISTRIBUTED__COMM__TLS__{name}"] = str(tmp_path / name)
    dask = Dask(tmp_path, protocol="tls", **settings)
    try:
        dask.worker(**settings)
        ask = command(submissions, with_secret_of(tmp_path / "results", local),
                      "--cluster", dask.address)  # fmt: skip
        done = subprocess.run(ask, env=environment() | settings, capture_output=True, text=True,
                              timeout=200, check=False)  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert written(tmp_path / "results") == written(local)
        stranger = graded_here(submissions, tmp_path / "other", "--cluster", dask.address)
        assert stranger.returncode == 2
        assert stranger.stderr.startswith(f"There are no certificates for {dask.address}")
    finally:
        dask.close()


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
        _check_cluster_address(address, "The scheduler")
    else:
        with pytest.raises(UserError, match="without TLS"):
            _check_cluster_address(address, "The scheduler")


def test_a_scheduler_that_is_not_there_gets_a_sentence(submissions, tmp_path, monkeypatch):
    done = graded_here(submissions, tmp_path / "results", "--cluster", "tcp://127.0.0.1:9")
    assert done.returncode == 2
    assert done.stderr.startswith("No Dask scheduler answers at tcp://127.0.0.1:9: ")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "lane, device, wanted",
    [
        (VALUES, "cpu", {"CPU": 1}), (SPEED, "cpu", {"TIMING": 1}),
        (VALUES, "cuda", {"CPU": 1, "GPU": 1}), (SPEED, "cuda", {"TIMING": 1, "GPU": 1}),
    ],
)  # fmt: skip
def test_a_task_asks_for_its_lane_and_its_device(lane, device, wanted):
    assert cluster.list_cluster_lane_resources(lane, device) == wanted


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
        _check_workers_of_cluster(lane, workers)
    else:
        with pytest.raises(UserError, match=says):
            _check_workers_of_cluster(lane, workers)
