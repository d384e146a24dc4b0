"""A locked worker whose exercise compiles on CUDA starts the compilers, and nothing else."""

from pathlib import Path

import pytest

from grader.worker.parent import bubblewrap, compiler_programs, faults, readable_paths, walls
from grader.worker.parent.nursery import Nursery
from grader.worker.parent.walls import Wall
from tests.worker.asking import call, worker
from tests.worker.test_walls import REFUSED, SOURCE

# A worker that compiles forks and runs programs; on CUDA nothing limits its address space.
FREE = {"fork", "run a program", "raise its own limits"}
COMPILED = """
import ctypes, glob, subprocess

def compiled(compiler):
    with open("six.c", "w") as file:
        file.write("#include <stdlib.h>\\n#include <Python.h>\\nint six(void) { return abs(-6); }")
    include = __import__("sysconfig").get_path("include")
    subprocess.run([compiler, "-shared", "-fPIC", "-O3", f"-I{include}", "six.c", "-o", "six.so"], check=True)
    return ctypes.CDLL("./six.so").six()

def started(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout

def copied(program):
    with open(program, "rb") as old, open("own", "wb") as new:
        new.write(old.read())
    return started("./own", "--version")
"""
SEEN = readable_paths.collect_worker_paths(on_cuda=True)
FILES = walls._list_files_behind_wall(SEEN)
COMPILER = next(iter(compiler_programs.find_worker_compilers()), "")


def build_walls():
    """The two walls of a run on CUDA, but for CUDA, which a machine without a GPU cannot start."""
    yield Wall(name="locked", files=FILES)
    if walls.probe_wall("contained").wall is not None:
        prefix = tuple(bubblewrap.build_bubblewrap_command(SEEN, walls.CHILD_FOLDER))
        yield Wall(
            name="contained", prefix=prefix, child=bubblewrap.CHILD_FOLDER_INSIDE, files=FILES
        )


WALLS = list(build_walls()) if walls.probe_wall("locked").wall is not None else []
pytestmark = [
    pytest.mark.skipif(not WALLS, reason="no process can be locked on this machine"),
    pytest.mark.skipif(not COMPILER, reason="no C compiler is installed"),
]


@pytest.fixture(scope="module", params=WALLS, ids=lambda wall: wall.name)
def nursery(request):
    with Nursery(request.param) as nursery:
        yield nursery


@pytest.fixture
def client(nursery):
    with worker(nursery, SOURCE + COMPILED, on_cuda=True, compiles_on_cuda=True) as (client, _):
        yield client


def test_it_compiles_and_loads_what_it_compiled(client):
    assert call(client, "compiled", COMPILER) == 6


def test_it_starts_ptxas(client):
    ptxas = [
        path for path in compiler_programs.find_worker_compilers() if Path(path).name == "ptxas"
    ]
    if not ptxas:
        pytest.skip("triton, which brings ptxas, is not installed")
    assert "NVIDIA" in call(client, "started", ptxas[0], "--version")


@pytest.mark.parametrize("program", ["/bin/sh", "/usr/bin/env", "/usr/bin/python3"])
def test_it_starts_no_other_program(client, program):
    with pytest.raises(faults.AnswerRaised, match=r"PermissionError|FileNotFoundError"):
        call(client, "started", program, "--version")


def test_it_starts_no_program_of_its_own_making(client):
    with pytest.raises(faults.AnswerRaised, match="PermissionError"):
        call(client, "copied", COMPILER)


@pytest.mark.parametrize("what", sorted(REFUSED.keys() - FREE))
def test_all_else_stays_refused(client, tmp_path, what):
    outside = tmp_path / "solution.py"
    outside.write_text("return softmax")
    with pytest.raises(
        faults.AnswerRaised, match=r"OSError|PermissionError|FileNotFound|ValueError"
    ):
        call(client, "attempt", REFUSED[what], outside=str(outside))
    assert outside.read_text() == "return softmax"


def test_a_crowd_of_its_processes_is_ended(nursery):
    allowed = {"on_cuda": True, "compiles_on_cuda": True, "call_seconds": 20}
    with worker(nursery, SOURCE, **allowed) as (client, _):
        with pytest.raises(faults.WorkerDied, match="started too many other processes"):
            call(client, "crowd")
        assert call(client, "threads") == 8


@pytest.mark.parametrize("more", [{"on_cuda": True}, {"compiles_on_cuda": True}])
def test_another_worker_starts_no_compiler(nursery, more):
    with (
        worker(nursery, COMPILED, **more) as (client, _),
        pytest.raises(faults.AnswerRaised, match=r"PermissionError|FileNotFoundError"),
    ):
        call(client, "compiled", COMPILER)
