"""Finds problems of memory, disk, processors, the terminal, and the environment."""

import os
from collections.abc import Iterable, Sequence

from grader.core.records import Exercise, Limits
from grader.doctor.machine_facts import PROGRAMS, MachineFacts
from grader.doctor.problem import Problem, Problems, name_cuda_for_doctor
from grader.worker.parent.control_group import MAX_MEMORY_BYTES
from grader.worker.parent.walls import WallProbe

_GIB = 1 << 30
_FREE_BYTES = 1 << 30  # compiled answers, files of answers, reports
_QUIET_CORES = 2  # one for the party that is asked, one for the grader and the rest


def find_memory_problems(machine: MachineFacts) -> Problems:
    """Yield a problem if an answer may use more memory than the machine has."""
    answer, all_of_it = Limits().memory_gib, f"{machine.memory_bytes / _GIB:.1f}"
    if machine.memory_bytes < answer * _GIB:
        says = f"There are {all_of_it} GiB of memory, and one answer may use {answer:g}."
        cure = "Give the machine or its container more, or the system may kill what is graded."
        yield Problem("limits", says, cure)
    elif machine.memory_bytes < MAX_MEMORY_BYTES:
        says = (
            f"There are {all_of_it} GiB of memory, less than the {MAX_MEMORY_BYTES // _GIB} that "
            "an "
            "answer may have with all that it starts."
        )
        yield Problem("note", says, "Grade a class with `JOBS=1`, and nothing else beside it.")
    if machine.address_bytes is not None and machine.address_bytes < answer * _GIB:
        here = f"{machine.address_bytes / _GIB:.1f}"
        says = (
            f"A process may have {here} GiB of addresses here, and one answer may use {answer:g}."
        )
        yield Problem("limits", says, "Lift the limit: `ulimit -v unlimited`.")


def find_temporary_folder_problems(
    machine: MachineFacts, exercises: Iterable[Exercise], *, contained: bool
) -> Problems:
    """Yield problems of the folder for temporary files: missing, full, or mounted with noexec.

    contained  whether answers have a place of their own instead
    """
    other = "`export TMPDIR=FOLDER` names another folder."
    if machine.temporary is None:
        yield Problem("stops", "There is no folder for temporary files that can be written.", other)
        return
    if machine.free_bytes < _FREE_BYTES:
        says = f"{machine.temporary} has {machine.free_bytes >> 20} MiB left for temporary files."
        yield Problem("limits", says, f"Make room; or {other}")
    if (slugs := name_cuda_for_doctor(exercises)) and not contained and not machine.loads_libraries:
        says = f"{machine.temporary} is mounted with noexec, so {slugs} cannot be run from there."
        yield Problem("limits", says, other)


def find_core_problems(machine: MachineFacts) -> Problems:
    """Yield a problem if there are too few processors to measure speed, or busy ones."""
    if machine.cores < _QUIET_CORES:
        says = f"{machine.cores:.2g} cores may be used, and speeds need {_QUIET_CORES}."
        cure = "Give the machine or its container more, or leave speeds out: `ARGS=--no-speed`."
        yield Problem("limits", says, cure)
    elif machine.load > machine.cores / 2:
        says = f"The machine is busy: a load of {machine.load:.1f} on {machine.cores:g} cores."
        cure = "Timing is steadier on an idle machine; correctness is unaffected."
        yield Problem("note", says, cure)
    if machine.system == "Linux" and not machine.counts_waiting:
        says = "This kernel does not count how long a process waits for a processor."
        yield Problem("note", says, "Leave nothing running beside speeds; they are less steady.")


def find_terminal_problems(machine: MachineFacts) -> Problems:
    """Yield a problem if signs of the report cannot be printed."""
    if machine.encoding.lower().replace("-", "") not in ("utf8", "utf8sig"):
        says = (
            f"What is printed is written as {machine.encoding}: other signs become question marks."
        )
        yield Problem("note", says, "`export LC_ALL=C.UTF-8` makes it UTF-8.")


def find_environment_problems(machine: MachineFacts) -> Problems:
    """Yield a problem if `make` uses another environment than this Python."""
    named = machine.environment.get("VIRTUAL_ENV", "")
    if named and os.path.realpath(named) != os.path.realpath(machine.prefix):
        says = f"`make` uses the environment {named}, and this Python is that of {machine.prefix}."
        yield Problem("note", says, "`unset VIRTUAL_ENV`, or activate the one that you mean.")


def find_compiler_problems(machine: MachineFacts, exercises: Iterable[Exercise]) -> Problems:
    """Yield a problem if kernels cannot be compiled for the CPU."""
    missing = [name for name in PROGRAMS if name not in machine.programs]
    if not (slugs := name_cuda_for_doctor(exercises)):
        return
    if machine.system != "Linux":
        says = f"{slugs} runs on Linux only."
        yield Problem("limits", says, "Grade it in a virtual machine or a container with Linux.")
    elif missing:
        says = f"{slugs} needs programs that are not installed: {', '.join(missing)}."
        yield Problem("limits", says, "Install it: `apt-get install g++`.")


def find_wall_problems(probes: Sequence[WallProbe], system: str) -> Problems:
    """Yield a problem for each wall that does not work here."""
    missing = [probe for probe in probes if probe.wall is None]
    weak = len(missing) == len(probes) - 1  # *process* always works
    if system != "Linux":
        says = (
            "Without Linux an answer has a process of its own and no other wall: enough for your "
            "own, but no class is graded so, and points for memory are not run."
        )
        cure = "Grade a class on Linux: a virtual machine, a container, WSL."
        yield Problem("limits", says, cure)
        return
    for probe in missing:
        says = f"The wall {probe.name} does not work: {probe.why}."
        yield Problem("limits" if weak else "note", says, probe.cure)
    if weak:
        says = "Behind process alone no class is graded."
        yield Problem("limits", says, "Mend one of the other two, or grade on another machine.")


def find_control_group_problems(possible: bool) -> Problems:
    """Yield a problem if nothing limits all processes of an answer together."""
    if not possible:
        says = "No bound can be set on what an answer starts together, only on each process."
        cure = "That takes root, or a control group that this user may divide."
        yield Problem("note", says, cure)


def find_import_problems(seen: Sequence[str]) -> Problems:
    """Yield a problem if submissions can import the grader."""
    if seen:
        says = f"An answer could import {' and '.join(seen)}, so it is not graded fairly here."
        cure = "This is a fault of the grader: please report it."
        yield Problem("stops", says, cure)
