"""Walks docs/scale.md on two machines, of which one loses its network for a minute."""

import csv
import os
import re
import signal
import subprocess
import sys
import time

import pytest

from grader.core.catalog import ROOT
from tests.walks.machines import CAN_MAKE_MACHINES, HEAD, set_network, two_machines
from tests.walks.pages import walk
from tests.walks.tree import SLUG, answer, copy_tree, put

pytestmark = [
    pytest.mark.weekly,
    pytest.mark.skipif(not CAN_MAKE_MACHINES, reason="needs root and iproute2"),
]
STUDENTS = 40
OUTAGE = 60  # seconds
BLOCKS = re.findall(r"^```sh\n(.*?)^```", (ROOT / "docs/scale.md").read_text(), re.S | re.M)
CLASS, TLS, SSH, SLURM = (block.replace("head:", f"{HEAD}:") for block in BLOCKS)
# A command for another machine runs in its network here; the home folder is that of the tree.
REMOTE = (
    'ssh() { local host=$1; shift; (cd "$HOME" && exec ip netns exec "$host" bash -c "$*"); }\n'
)


def results_of(tree):
    rows = csv.DictReader((tree / "results/grades.csv").open(newline=""))
    return {row["student"]: (row["total"], row["remarks"]) for row in rows}


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    home = tmp_path_factory.mktemp("home")
    tree = copy_tree(home / "attention-by-hand")
    for number in range(STUDENTS):
        put(tree / f"submissions/s{number:02}", answer(note=str(number)))
    subprocess.run(["bash", "-ec", TLS.partition("export")[0]], cwd=tree, check=True)
    exports = TLS[TLS.index("export") :].replace("$PWD", str(tree))
    (tree / "tls.sh").write_text(exports)
    return tree


@pytest.fixture(scope="module")
def through_ssh(tree):
    """The commands of the page, and what they print; one machine loses its network meanwhile."""
    run_class = SSH.splitlines()[-1]
    assert run_class == f"make class CLUSTER=tls://{HEAD}:8786"
    script = f"{REMOTE}source tls.sh\n{SSH.replace(run_class, 'wait')}"
    log = (tree / "cluster.log").open("w")
    with two_machines("lab1", "lab2"):
        cluster = subprocess.Popen(
            ["bash", "-c", script], cwd=tree, env=os.environ | {"HOME": str(tree.parent)},
            stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip
        try:
            _wait(
                lambda: (
                    (tree / "cluster.log").read_text().count("Registered to")
                    >= 2 * (os.cpu_count() or 1)
                )
            )
            command = f"source tls.sh; {run_class}"
            given = {"PYTHON": sys.executable, "EX": SLUG, "ARGS": "--no-speed"}
            run = subprocess.Popen(
                ["bash", "-c", command], cwd=tree, env=os.environ | given, text=True,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            )  # fmt: skip
            _wait(lambda: len(list(tree.glob("results/.parts/*/*.json"))) >= 4 or run.poll())
            assert run.poll() is None, run.stdout.read()
            set_network("lab2", "down")
            cut = time.monotonic()
            while time.monotonic() < cut + OUTAGE and run.poll() is None:
                time.sleep(0.2)
            before = len(list(tree.glob("results/.parts/*/*.json")))
            set_network("lab2", "up")
            said, _ = run.communicate(timeout=1500)
        finally:
            os.killpg(cluster.pid, signal.SIGKILL)
            log.close()
    return run.returncode, said, before


def _wait(found, seconds=300):
    until = time.monotonic() + seconds
    while not found():
        assert time.monotonic() < until, "it took too long"
        time.sleep(0.1)


def test_a_machine_that_loses_its_network_for_a_minute_costs_nothing(tree, through_ssh):
    status, said, before = through_ssh
    assert status == 0, said
    assert "Traceback" not in said
    assert before > 0, "nothing was graded while the network was away"
    assert f"Students: {STUDENTS}. Graded by this run: {STUDENTS}." in said
    assert results_of(tree) == {f"s{n:02}": ("10", "") for n in range(STUDENTS)}
    assert len(list(tree.glob("results/.parts/*/*.json"))) == STUDENTS


def test_nothing_is_graded_a_second_time(tree, through_ssh):
    again = walk("make class", tree, EX=SLUG, ARGS="--no-speed")
    assert "Graded by this run: 0." in again


def test_the_job_of_slurm_is_a_script_that_starts_workers():
    """Slurm itself is not here: the script's lines are those of the page, and bash reads them."""
    done = subprocess.run(["bash", "-n"], input=SLURM, text=True, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert SLURM.count("dask worker") == 1 and "SLURM_CPUS_ON_NODE" in SLURM
