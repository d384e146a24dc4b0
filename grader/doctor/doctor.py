"""Reports what this machine can do, and every problem found on it, with its cure."""

import platform
from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import chain
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from grader.core import catalog
from grader.core.catalog import ROOT
from grader.core.installed_copies import is_wheel_installed
from grader.core.records import Limits, Submission
from grader.core.translation import Words
from grader.doctor import package_problems, system_problems
from grader.doctor.machine_facts import MachineFacts, TorchFacts, read_machine_facts
from grader.doctor.problem import KINDS, Problem, ProblemKind, Problems
from grader.worker.parent import walls
from grader.worker.parent.control_group import MAX_MEMORY_BYTES, MAX_PROCESSES, ControlGroup
from grader.worker.parent.faults import NurseryFailed, WorkerFault
from grader.worker.parent.walls import WallProbe

_HIDDEN_PACKAGES = ("grader", "reference", "solutions")
_IMPORT_PROBE = """
import importlib.util
def found(names):
    return [name for name in names if importlib.util.find_spec(name) is not None]
"""
_WALL_DESCRIPTIONS = {
    "process": "a process of its own, a clean environment, limits",
    "locked": "no other files, no other processes, no network",
    "contained": "nothing there but Python, its packages and a folder for its files",
}
_PROBLEM_TITLES = {
    "stops": "What stops grading here:",
    "limits": "Not available on this machine:",
    "note": "Worth knowing:",
}
_PROBLEM_COLOURS = {"stops": "red", "limits": "yellow", "note": "dim"}


def print_doctor_report(console: Console, words: Words) -> bool:
    """Print the report; return whether answers can be graded here."""
    machine = read_machine_facts()
    for line in _write_doctor_machine_lines(machine, words):
        console.print(escape(line), highlight=False)
    probes = [walls.probe_wall(name) for name in walls.WALL_NAMES]
    console.print(_write_doctor_wall_lines(probes, words))
    strongest = [probe.wall for probe in probes if probe.wall is not None][-1]
    console.print(
        words("`make grade` takes the strongest that works: {wall}.", wall=strongest.name)
    )
    share = ControlGroup.where_possible()
    share.close()
    if share.groups:
        bound = words(
            "Behind each of them an answer has {memory} GiB and {most} processes, all that it "
            "starts together.",
            memory=MAX_MEMORY_BYTES >> 30, most=MAX_PROCESSES,
        )  # fmt: skip
        console.print(bound, highlight=False)
    found = [*_find_doctor_problems(machine, probes, shared=bool(share.groups))]
    if not any(problem.kind == "stops" for problem in found):
        found += _find_doctor_wall_problems(strongest)
    print_doctor_problems(found, console, words)
    return not any(problem.kind == "stops" for problem in found)


def print_doctor_problems(found: Sequence[Problem], console: Console, words: Words) -> None:
    """Print the problems, the worst first; or that there are none."""
    for kind in KINDS:
        if of_kind := [problem for problem in found if problem.kind == kind]:
            console.print(f"\n[bold]{words(_PROBLEM_TITLES[kind])}[/]")
            for problem in of_kind:
                console.print(
                    _print_doctor_fact(problem, kind, words), highlight=False, soft_wrap=True
                )
    if not any(problem.kind != "note" for problem in found):
        console.print(f"\n[green]{words('Everything can be graded here.')}[/]")


def _print_doctor_fact(problem: Problem, kind: ProblemKind, words: Words) -> str:
    both = words.joined(words.said(problem.says), words.said(problem.cure))
    return f"[{_PROBLEM_COLOURS[kind]}]-[/] {escape(both)}"


def _find_doctor_problems(
    machine: MachineFacts, probes: Sequence[WallProbe], *, shared: bool
) -> Problems:
    """Yield every problem that can be found without running an answer."""
    exercises = catalog.list_catalog_exercises()
    core, notebooks = (
        package_problems.list_packages_for_doctor(ROOT),
        package_problems.list_packages_for_doctor(ROOT, "notebooks"),
    )
    have = package_problems.find_installed_for_doctor(
        [*core, *notebooks, *chain(*(e.requires for e in exercises))]
    )
    contained = probes[-1].wall is not None
    yield from package_problems.find_missing_core_problems(core, have)
    if "torch" in have:
        yield from package_problems.find_torch_problems(machine)
    yield from system_problems.find_temporary_folder_problems(
        machine, exercises, contained=contained
    )
    yield from package_problems.find_cuda_problems(machine, exercises)
    yield from system_problems.find_wall_problems(probes, machine.system)
    yield from system_problems.find_memory_problems(machine)
    yield from system_problems.find_core_problems(machine)
    yield from system_problems.find_compiler_problems(machine, exercises)
    yield from package_problems.find_missing_extra_problems(exercises, have, machine.system)
    yield from system_problems.find_control_group_problems(shared)
    yield from system_problems.find_terminal_problems(machine)
    if not is_wheel_installed():
        yield from system_problems.find_environment_problems(machine)
        yield from package_problems.find_missing_nbgrader_problem(notebooks, have)
    yield from package_problems.find_untested_version_problems(
        package_problems.list_pins_for_doctor(ROOT), have
    )
    yield from package_problems.find_torch_mismatch_problems(
        have, package_problems.read_torch_for_doctor()
    )


def _write_doctor_machine_lines(machine: MachineFacts, words: Words) -> Iterator[str]:
    yield words(
        "{system}, {cores} cores, {memory} GiB",
        system=f"{platform.system()} {platform.release()}, {platform.machine()}",
        cores=f"{machine.cores:g}", memory=f"{machine.memory_bytes / (1 << 30):.1f}",
    )  # fmt: skip
    match machine.torch:
        case TorchFacts(version=version, gpu=gpu):
            yield f"Python {platform.python_version()}, torch {version}"
        case _:
            yield f"Python {platform.python_version()}"
            return
    none = words("none that this torch sees; what needs it is not run and costs nothing")
    yield f"CUDA: {gpu or none}"


def _write_doctor_wall_lines(probes: Sequence[WallProbe], words: Words) -> Table:
    table = Table(box=None, pad_edge=False)
    for title in ("Wall", "", "What it leaves to an answer"):
        table.add_column(words(title) if title else "")
    for probe in probes:
        if probe.wall is None:
            table.add_row(probe.name, f"[red]{words('no')}[/]", escape(words.said(probe.why)))
        else:
            what = words(_WALL_DESCRIPTIONS[probe.name])
            user = words("; as another user") if probe.wall.user is not None else ""
            table.add_row(probe.name, f"[green]{words('works')}[/]", f"{what}{user}")
    return table


def _find_doctor_wall_problems(wall: walls.Wall) -> Problems:
    """Run an answer behind the wall, and yield the problems: a failure, or what it could import."""
    from grader.worker.parent.nursery import Nursery
    from grader.worker.parent.supervisor import Supervisor  # imports torch

    answer = Submission(slug="look", path=Path("look.py"), sha256="", source=_IMPORT_PROBE)
    try:
        with Nursery(wall) as nursery, closing(Supervisor(nursery, answer, Limits())) as worker:
            asked: list[Any] = [list(_HIDDEN_PACKAGES)]
            seen: Any = worker.client().call(None, "found", asked, {}, graph=False).value
    except (NurseryFailed, WorkerFault) as problem:
        says = f"No answer can be graded behind the wall {wall.name}: {problem}".rstrip(".") + "."
        yield Problem("stops", says, "Try another wall: `make grade ISOLATION=process`.")
        return
    yield from system_problems.find_import_problems(seen)
