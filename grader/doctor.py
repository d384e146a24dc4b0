"""Says what this machine can do: the interpreter, the device, the walls, and how to get more."""

import os
import platform
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from grader.records import Limits, Submission
from grader.worker import walls
from grader.worker.faults import NurseryFailed, WorkerFault
from grader.worker.nursery import Nursery
from grader.worker.share import MEMORY_BYTES, PROCESSES, Share
from grader.worker.supervisor import Supervisor
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


def show(console: Console) -> bool:
    """Print it; whether answers can be graded here."""
    for line in _machine():
        console.print(escape(line), highlight=False)
    probes = [walls.probe(name) for name in walls.NAMES]
    console.print(_ladder(probes))
    console.print(_bound(), highlight=False)
    strongest = [probe.wall for probe in probes if probe.wall is not None][-1]
    console.print(f"`make grade` takes the strongest that works: {strongest.name}.")
    try:
        seen = _seen_from(strongest)
    except (NurseryFailed, WorkerFault) as problem:
        console.print(f"[red]No answer can be graded here: {escape(str(problem))}[/]")
        return False
    if seen:
        console.print(
            f"[red]An answer could import {' and '.join(seen)}, so it is not graded fairly here. "
            "Uninstall attention-by-hand from this environment; it runs from its own folder.[/]"
        )
    return not seen


def _machine() -> Iterator[str]:
    import torch

    yield f"{platform.system()} {platform.release()}, {platform.machine()}, {os.cpu_count()} cores"
    yield f"Python {platform.python_version()}, torch {torch.__version__}"
    if torch.cuda.is_available():
        yield f"CUDA: {torch.cuda.get_device_name()}"
    else:
        yield "CUDA: none that this torch sees; what needs it is not run and costs nothing"


def _ladder(probes: Sequence[Probe]) -> Table:
    table = Table(box=None, pad_edge=False)
    for title in ("Wall", "", "What it leaves to an answer"):
        table.add_column(title)
    for probe in probes:
        if probe.wall is None:
            table.add_row(probe.name, "[red]no[/]", escape(f"{probe.why}. {probe.cure}"))
        else:
            user = "; as another user" if probe.wall.user is not None else ""
            table.add_row(probe.name, "[green]works[/]", f"{_WHAT[probe.name]}{user}")
    return table


def _bound() -> str:
    share = Share.where_possible()
    share.close()
    if share.groups:
        most = f"{MEMORY_BYTES >> 30} GiB and {PROCESSES} processes"
        return f"Behind each of them an answer has {most}, all that it starts together."
    return (
        "No bound can be set here on what an answer starts together: that takes root, or a control "
        "group that this user may divide. The limits of each process hold all the same."
    )


def _seen_from(wall: walls.Wall) -> Any:
    """Which of our packages a submission behind the wall could import."""
    answer = Submission(slug="look", path=Path("look.py"), sha256="", source=_LOOK)
    with Nursery(wall) as nursery, closing(Supervisor(nursery, answer, Limits())) as worker:
        return worker.client().call(None, "found", [list(_NEVER_SEEN)], {}, graph=False).value
