"""The doctor: every problem from a machine that has it, and none from one that has not."""

import io
import os
import re
import runpy
import sys
from dataclasses import replace
from itertools import chain
from types import SimpleNamespace

import pytest
from rich.console import Console

from grader.cli import app
from grader.core import catalog
from grader.core.catalog import ROOT
from grader.core.translation import Words
from grader.doctor import doctor, package_problems, system_problems
from grader.doctor.machine_facts import MachineFacts, TorchFacts, read_machine_facts
from grader.doctor.problem import Problem
from grader.worker.parent import walls
from grader.worker.parent.faults import NurseryFailed
from grader.worker.parent.walls import PROCESS, WallProbe

HAN = re.compile("[\u4e00-\u9fff]")
GIB = 1 << 30
EXERCISES = catalog.list_catalog_exercises()
HEALTHY = MachineFacts(
    system="Linux", environment={}, prefix="/venv", encoding="utf-8", cores=4, load=0.3,
    memory_bytes=16 * GIB, address_bytes=None, temporary="/tmp", free_bytes=20 * GIB,
    loads_libraries=True, counts_waiting=True, programs=frozenset({"g++", "objdump", "strip"}),
    driver=False, devices=False, torch=TorchFacts(version="2.13.0", cuda=None, gpu="", numpy=True),
)  # fmt: skip
ON_CUDA = TorchFacts(version="2.13.0", cuda="13.0", gpu="NVIDIA H200", numpy=True)
BLIND = replace(ON_CUDA, gpu="")
HAVE = {"torch": "2.13.0+cpu", "numpy": "2.4.6", "triton": "3.7.1", "nbgrader": "0.9.6"}
LOCKED, CONTAINED = (replace(PROCESS, name=name) for name in ("locked", "contained"))


def probes(*working: str, why: str = "bubblewrap is not installed") -> list[WallProbe]:
    wall = {"process": PROCESS, "locked": LOCKED, "contained": CONTAINED}
    cure = "Install it: `apt-get install bubblewrap`."
    return [
        WallProbe(name=name, wall=wall[name])
        if name in ("process", *working)
        else WallProbe(name=name, wall=None, why=why, cure=cure)
        for name in walls.WALL_NAMES
    ]


def machine(**changes) -> MachineFacts:
    return replace(HEALTHY, **changes)


def on(**changes) -> MachineFacts:
    """A machine with NVIDIA's driver."""
    return machine(driver=True, devices=True) if not changes else machine(driver=True, **changes)


# What is found on which machine: its kind, words of the sentence, words of the cure.
BAD = [
    (package_problems.find_missing_core_problems(["torch>=2.5"], {}), "stops", "torch is not installed", "make grade"),
    (package_problems.find_missing_core_problems(["torch>=2.5"], {"torch": "2.4.1"}), "limits", "torch 2.4.1 is installed", "-m pip install 'torch>=2.5'"),
    (package_problems.find_missing_extra_problems(EXERCISES, {}, "Linux"), "limits", "ex14_triton needs triton>=3.7.1", "pip install 'triton"),
    (package_problems.find_missing_extra_problems(EXERCISES, {"triton": "3.0"}, "Darwin"), "limits", "ex14_triton needs", "outside Linux"),
    (package_problems.find_missing_nbgrader_problem(["nbgrader>=0.9.5", "setuptools"], {}), "note", "nbgrader is not installed", "make release"),
    (package_problems.find_untested_version_problems({"torch": "2.13.0"}, {"torch": "2.12.1+cpu"}), "note", "torch 2.12.1+cpu is not 2.13.0", "Every report"),
    (package_problems.find_torch_mismatch_problems(HAVE | {"torchvision": "0.25.0"}, {"torchvision": ["numpy", "torch==2.10.0"]}), "note", "torchvision 0.25.0 is for torch==2.10.0", "pip uninstall torchvision"),
    (package_problems.find_torch_problems(machine(torch="ImportError: libcudart.so.13: cannot open")), "stops", "libcudart.so.13", "pip install --force-reinstall torch"),
    (package_problems.find_torch_problems(machine(torch="it is killed by SIGILL", environment={"LD_LIBRARY_PATH": "/usr/local/cuda"})), "stops", "SIGILL", "LD_LIBRARY_PATH"),
    (package_problems.find_torch_problems(machine(torch=replace(BLIND, numpy=False))), "stops", "do not work together", "pip install --upgrade numpy torch"),
    (package_problems.find_cuda_problems(on(), EXERCISES), "limits", "built without CUDA", "TORCH=cuda"),
    (package_problems.find_cuda_problems(on(torch=BLIND), EXERCISES), "limits", "and no GPU is", "--gpus all"),
    (package_problems.find_cuda_problems(on(torch=BLIND, devices=True, environment={"CUDA_VISIBLE_DEVICES": ""}), EXERCISES), "limits", "CUDA_VISIBLE_DEVICES is set", "Remove it"),
    (package_problems.find_cuda_problems(on(torch=BLIND, devices=True), EXERCISES), "limits", "built for CUDA 13.0", "nvidia-smi"),
    (package_problems.find_cuda_problems(on(torch=ON_CUDA, devices=True), EXERCISES), "limits", "ex15_cuda_kernel needs nvcc", "nvidia-cuda-nvcc"),
    (system_problems.find_memory_problems(machine(memory_bytes=2 * GIB)), "limits", "There are 2.0 GiB of memory, and one answer may use 4", "more"),
    (system_problems.find_memory_problems(machine(memory_bytes=6 * GIB)), "note", "There are 6.0 GiB of memory, less than the 8", "JOBS=1"),
    (system_problems.find_memory_problems(machine(address_bytes=GIB)), "limits", "1.0 GiB of addresses", "ulimit -v unlimited"),
    (system_problems.find_temporary_folder_problems(machine(temporary=None), EXERCISES, contained=True), "stops", "no folder for temporary files", "TMPDIR"),
    (system_problems.find_temporary_folder_problems(machine(free_bytes=64 << 20), EXERCISES, contained=True), "limits", "/tmp has 64 MiB left", "Make room"),
    (system_problems.find_temporary_folder_problems(machine(loads_libraries=False), EXERCISES, contained=False), "limits", "noexec, so ex15_cuda_kernel", "TMPDIR"),
    (system_problems.find_core_problems(machine(cores=0.5)), "limits", "0.5 cores may be used", "--no-speed"),
    (system_problems.find_core_problems(machine(load=3.7)), "note", "a load of 3.7 on 4 cores", "steadier"),
    (system_problems.find_core_problems(machine(counts_waiting=False)), "note", "does not count how long", "nothing running"),
    (system_problems.find_terminal_problems(machine(encoding="ascii")), "note", "written as ascii", "LC_ALL=C.UTF-8"),
    (system_problems.find_environment_problems(machine(environment={"VIRTUAL_ENV": "/old"})), "note", "uses the environment /old", "unset VIRTUAL_ENV"),
    (system_problems.find_compiler_problems(machine(programs=frozenset({"objdump"})), EXERCISES), "limits", "ex15_cuda_kernel needs programs that are not installed: g++, strip.", "apt-get install g++"),
    (system_problems.find_compiler_problems(machine(system="Darwin"), EXERCISES), "limits", "ex15_cuda_kernel runs on Linux only", "container"),
    (system_problems.find_wall_problems(probes("locked"), "Linux"), "note", "The wall contained does not work: bubblewrap is not installed.", "apt-get install bubblewrap"),
    (system_problems.find_wall_problems(probes(), "Linux"), "limits", "The wall locked does not work", "Install it"),
    (system_problems.find_wall_problems(probes(), "Linux"), "limits", "no class is graded", "another machine"),
    (system_problems.find_wall_problems(probes(), "Darwin"), "limits", "no other wall", "on Linux"),
    (system_problems.find_control_group_problems(False), "note", "No bound can be set", "root"),
    (system_problems.find_import_problems(["grader", "reference"]), "stops", "could import grader and reference", "please report it"),
]  # fmt: skip


@pytest.mark.parametrize("found, kind, says, cure", [(tuple(f), *rest) for f, *rest in BAD])
def test_a_problem_is_told_with_its_cure_in_both_languages(found, kind, says, cure):
    [problem] = [p for p in found if says in p.says]
    assert problem.kind == kind
    assert cure in problem.cure
    for text in (problem.says, problem.cure):
        assert "\n" not in text
        assert HAN.search(Words("zh").said(text)), text


def test_of_a_healthy_machine_nothing_is_told():
    need, extras = (
        package_problems.list_packages_for_doctor(ROOT),
        package_problems.list_packages_for_doctor(ROOT, "notebooks"),
    )
    have = {package_problems.Requirement(text).name: "99" for text in need} | HAVE
    found = chain(
        package_problems.find_missing_core_problems(need, have), package_problems.find_torch_problems(HEALTHY), package_problems.find_cuda_problems(HEALTHY, EXERCISES),
        package_problems.find_missing_extra_problems(EXERCISES, have, "Linux"), package_problems.find_missing_nbgrader_problem(extras, have),
        package_problems.find_untested_version_problems(package_problems.list_pins_for_doctor(ROOT), have),
        package_problems.find_torch_mismatch_problems(have | {"torchvision": "0.28"}, {"torchvision": ["torch==2.13.0"]}),
        system_problems.find_memory_problems(HEALTHY), system_problems.find_temporary_folder_problems(HEALTHY, EXERCISES, contained=False),
        system_problems.find_core_problems(HEALTHY), system_problems.find_terminal_problems(HEALTHY), system_problems.find_compiler_problems(HEALTHY, EXERCISES),
        system_problems.find_environment_problems(machine(environment={"VIRTUAL_ENV": "/venv"})), system_problems.find_control_group_problems(True),
        system_problems.find_wall_problems(probes("locked", "contained"), "Linux"), system_problems.find_import_problems([]),
        package_problems.find_cuda_problems(on(torch=ON_CUDA, programs=frozenset({"nvcc"})), EXERCISES),
    )  # fmt: skip
    assert list(found) == []


def told(found: list[Problem], language: str = "en") -> str:
    console = Console(width=200, record=True, file=open(os.devnull, "w"))  # noqa: SIM115
    doctor.print_doctor_problems(found, console, Words(language))
    return console.export_text()


def test_a_machine_without_problems_is_said_to_be_fit():
    assert told([]).strip() == "Everything can be graded here."
    assert told([], "zh").strip() == "在这里什么都能评分。"


def test_what_stops_grading_is_told_first():
    note, stops = (Problem(kind, f"It {kind}.", "[cure]") for kind in ("note", "stops"))
    lines = told([note, stops]).splitlines()
    assert [line for line in lines if line] == [
        "What stops grading here:", "- It stops. [cure]", "Worth knowing:", "- It note. [cure]",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "limits, fit", [([], True), (["limits", "note"], True), (["stops"], False)]
)
def test_only_what_stops_grading_fails(monkeypatch, limits, fit):
    bad = [Problem(kind, "It is bad.", "Mend it.") for kind in limits]
    monkeypatch.setattr(doctor, "read_machine_facts", lambda: HEALTHY)
    monkeypatch.setattr(walls, "probe_wall", lambda name: WallProbe(name=name, wall=PROCESS))
    monkeypatch.setattr(doctor, "_find_doctor_problems", lambda *_, **__: iter(bad))
    monkeypatch.setattr(doctor, "_find_doctor_wall_problems", lambda wall: iter(()))
    with open(os.devnull, "w") as nowhere:
        assert doctor.print_doctor_report(Console(file=nowhere), Words()) is fit


def test_of_a_real_environment_nothing_is_told_that_stops_grading():
    found = doctor._find_doctor_problems(HEALTHY, probes("locked", "contained"), shared=True)
    assert [problem for problem in found if problem.kind == "stops"] == []


def test_an_answer_that_cannot_be_asked_stops_grading(monkeypatch):
    def fails(self, wall):
        raise NurseryFailed("the process that starts workers ended.")

    monkeypatch.setattr("grader.worker.parent.nursery.Nursery.__init__", fails)
    [problem] = doctor._find_doctor_wall_problems(PROCESS)
    assert problem.kind == "stops"
    assert "behind the wall process: the process that starts workers ended." in problem.says
    assert HAN.search(Words("zh").said(problem.says))


def test_an_answer_is_asked_and_can_import_nothing_of_ours():
    assert list(doctor._find_doctor_wall_problems(PROCESS)) == []


def test_this_machine_can_be_read():
    here = read_machine_facts()
    assert here.cores > 0
    assert here.memory_bytes > GIB
    assert isinstance(here.torch, TorchFacts) and here.torch.numpy


@pytest.mark.parametrize(
    "name, value, cure",
    [
        ("kernel/apparmor_restrict_unprivileged_userns", "1", "`sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0`"),
        ("kernel/unprivileged_userns_clone", "0", "`sudo sysctl -w kernel.unprivileged_userns_clone=1`"),
        ("user/max_user_namespaces", "0", "`sudo sysctl -w user.max_user_namespaces=15000`"),
        ("user/max_user_namespaces", "94000", "A container must be started so"),
    ],
)  # fmt: skip
def test_why_bubblewrap_is_refused_is_read_off_the_kernels_settings(tmp_path, name, value, cure):
    (tmp_path / name).parent.mkdir()
    (tmp_path / name).write_text(f"{value}\n")
    found = walls.describe_bubblewrap_cure(tmp_path)
    assert cure in found
    assert HAN.search(Words("zh").said(found))


@pytest.mark.parametrize(
    "changes, says",
    [
        ({"version_info": (3, 10, 4)}, ["this is 3.10.4", "make BASE_PYTHON=", "需要 Python 3.11"]),
        ({"platform": "win32"}, ["wsl --install", "请安装 WSL"]),
    ],
)  # fmt: skip
def test_where_nothing_can_be_started_a_sentence_says_so(monkeypatch, changes, says):
    monkeypatch.setitem(
        sys.modules,
        "sys",
        SimpleNamespace(exit=sys.exit, **{"version_info": (3, 12), "platform": "linux"} | changes),
    )
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(ROOT / "grader/__main__.py"), run_name="__main__")
    assert all(part in ended.value.code for part in says)


def test_a_terminal_that_cannot_show_a_sign_gets_question_marks(monkeypatch):
    printed = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(printed, encoding="ascii"))
    monkeypatch.setattr(app, "app", lambda: print("✓ 通过", flush=True))
    app.run_command_line()
    assert printed.getvalue() == b"? ??\n"
