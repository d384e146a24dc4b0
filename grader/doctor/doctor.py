"""Says what this machine can do, and every problem that it finds there, with its cure."""

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
from grader.core.records import Limits, Submission
from grader.core.translation import Words
from grader.doctor import package_problems, system_problems
from grader.doctor.machine_facts import MachineFacts, Torch, this_machine
from grader.doctor.problem import KINDS, Kind, Problem, Problems
from grader.worker import walls
from grader.worker.control_group import MEMORY_BYTES, PROCESSES, Share
from grader.worker.faults import NurseryFailed, WorkerFault
from grader.worker.walls import Probe

_NEVER_SEEN = ("grader", "reference", "solutions")
_LOOK = """
import importlib.util
def found(names):
    return [name for name in names if importlib.util.find_spec(name) is not None]
"""
_WHAT = {
    "process": "a process of its own, a clean environment, limits",
    "locked": "no other files, no other processes, no network",
    "contained": "nothing there but Python, its packages and a folder for its files",
}
_TITLES = {
    "stops": "What stops grading here:",
    "limits": "Not available on this machine:",
    "note": "Worth knowing:",
}
_COLOURS = {"stops": "red", "limits": "yellow", "note": "dim"}


def show(console: Console, words: Words) -> bool:
    """Print it; whether answers can be graded here."""
    machine = this_machine()
    for line in _about(machine, words):
        console.print(escape(line), highlight=False)
    probes = [walls.probe(name) for name in walls.NAMES]
    console.print(_ladder(probes, words))
    strongest = [probe.wall for probe in probes if probe.wall is not None][-1]
    console.print(
        words("`make grade` takes the strongest that works: {wall}.", wall=strongest.name)
    )
    share = Share.where_possible()
    share.close()
    if share.groups:
        bound = words(
            "Behind each of them an answer has {memory} GiB and {most} processes, all that it "
            "starts together.",
            memory=MEMORY_BYTES >> 30, most=PROCESSES,
        )  # fmt: skip
        console.print(bound, highlight=False)
    found = [*_problems(machine, probes, shared=bool(share.groups))]
    if not any(problem.kind == "stops" for problem in found):
        found += _trial(strongest)
    tell(found, console, words)
    return not any(problem.kind == "stops" for problem in found)


def tell(found: Sequence[Problem], console: Console, words: Words) -> None:
    """Print the problems, the worst first; or that there are none."""
    for kind in KINDS:
        if of_kind := [problem for problem in found if problem.kind == kind]:
            console.print(f"\n[bold]{words(_TITLES[kind])}[/]")
            for problem in of_kind:
                console.print(_line(problem, kind, words), highlight=False, soft_wrap=True)
    if not any(problem.kind != "note" for problem in found):
        console.print(f"\n[green]{words('Everything can be graded here.')}[/]")


def _line(problem: Problem, kind: Kind, words: Words) -> str:
    both = words.joined(words.said(problem.says), words.said(problem.cure))
    return f"[{_COLOURS[kind]}]-[/] {escape(both)}"


def _problems(machine: MachineFacts, probes: Sequence[Probe], *, shared: bool) -> Problems:
    """Everything that can be told without running an answer."""
    exercises = catalog.exercises()
    core, notebooks = package_problems.needed(ROOT), package_problems.needed(ROOT, "notebooks")
    have = package_problems.installed([*core, *notebooks, *chain(*(e.requires for e in exercises))])
    contained = probes[-1].wall is not None
    yield from package_problems.core(core, have)
    if "torch" in have:
        yield from package_problems.torch(machine)
    yield from system_problems.temporary(machine, exercises, contained=contained)
    yield from package_problems.cuda(machine, exercises)
    yield from system_problems.walls(probes, machine.system)
    yield from system_problems.memory(machine)
    yield from system_problems.cores(machine)
    yield from system_problems.compilers(machine, exercises)
    yield from package_problems.extras(exercises, have, machine.system)
    yield from system_problems.share(shared)
    yield from system_problems.terminal(machine)
    yield from system_problems.environment(machine)
    yield from package_problems.other_versions(package_problems.pinned(ROOT), have)
    yield from package_problems.beside_torch(have, package_problems.asked_beside_torch())
    yield from package_problems.notebooks(notebooks, have)


def _about(machine: MachineFacts, words: Words) -> Iterator[str]:
    yield words(
        "{system}, {cores} cores, {memory} GiB",
        system=f"{platform.system()} {platform.release()}, {platform.machine()}",
        cores=f"{machine.cores:g}", memory=f"{machine.memory_bytes / (1 << 30):.1f}",
    )  # fmt: skip
    match machine.torch:
        case Torch(version=version, gpu=gpu):
            yield f"Python {platform.python_version()}, torch {version}"
        case _:
            yield f"Python {platform.python_version()}"
            return
    none = words("none that this torch sees; what needs it is not run and costs nothing")
    yield f"CUDA: {gpu or none}"


def _ladder(probes: Sequence[Probe], words: Words) -> Table:
    table = Table(box=None, pad_edge=False)
    for title in ("Wall", "", "What it leaves to an answer"):
        table.add_column(words(title) if title else "")
    for probe in probes:
        if probe.wall is None:
            table.add_row(probe.name, f"[red]{words('no')}[/]", escape(words.said(probe.why)))
        else:
            what = words(_WHAT[probe.name])
            user = words("; as another user") if probe.wall.user is not None else ""
            table.add_row(probe.name, f"[green]{words('works')}[/]", f"{what}{user}")
    return table


def _trial(wall: walls.Wall) -> Problems:
    """What comes of asking an answer behind the wall, and what that answer could import."""
    from grader.worker.nursery import Nursery
    from grader.worker.supervisor import Supervisor  # imports torch

    answer = Submission(slug="look", path=Path("look.py"), sha256="", source=_LOOK)
    try:
        with Nursery(wall) as nursery, closing(Supervisor(nursery, answer, Limits())) as worker:
            asked: list[Any] = [list(_NEVER_SEEN)]
            seen: Any = worker.client().call(None, "found", asked, {}, graph=False).value
    except (NurseryFailed, WorkerFault) as problem:
        says = f"No answer can be graded behind the wall {wall.name}: {problem}"
        yield Problem("stops", says, "Try another wall: `make grade ISOLATION=process`.")
        return
    yield from system_problems.importable(seen)
