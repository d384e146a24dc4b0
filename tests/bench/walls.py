"""What walls, reading in a process of its own and the list of operators cost: `make bench-walls`.

A worker is timed from the request until it has answered its first one (it has loaded a submission
of one line), and beside it a fresh `import torch`; a nursery, until its first worker answers, and
without the import. Medians; the order is shuffled, so that a busy moment hits all alike.
"""

import random
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from contextlib import closing
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.table import Table

from grader.core import catalog
from grader.core.records import Limits, Submission
from grader.submission import readers
from grader.submission.reader_client import ask_submission_reader
from grader.worker.parent import walls
from grader.worker.parent.nursery import Nursery
from grader.worker.parent.supervisor import Supervisor

ROUNDS, STARTS = 40, 3
LINE = Submission(slug="ex99_bench", path=Path("x.py"), sha256="", source="x = 1")


def worker(nursery: Nursery) -> float:
    """Milliseconds for one worker."""
    with closing(Supervisor(nursery, LINE, Limits())) as supervisor:
        started = time.perf_counter()
        supervisor.load()
        return 1e3 * (time.perf_counter() - started)


def first_worker(wall: walls.Wall) -> float:
    started = time.perf_counter()
    with Nursery(wall) as nursery, closing(Supervisor(nursery, LINE, Limits())) as supervisor:
        supervisor.load()
        return 1e3 * (time.perf_counter() - started)


def reading() -> tuple[float, float]:
    """Milliseconds to read a solution in the reader, and in this process."""
    exercise = catalog.find_catalog_exercise("ex03_sdpa")
    text = exercise.solution.read_text(encoding="utf-8")
    given = {"exercise": exercise, "slugs": frozenset()}
    times = []
    for read in (
        partial(ask_submission_reader, "python", text),
        partial(readers.read_python_submission, text.encode()),
    ):
        started = time.perf_counter()
        read(**given)
        times.append(1e3 * (time.perf_counter() - started))
    return times[0], times[1]


CALLS = """
import sys, time
import torch
from grader.core import allowed_tables
from grader.worker.child import operator_list

torch.set_num_threads(1)
if sys.argv[1] == "True":
    operator_list.refuse_unlisted_worker_operators(*allowed_tables.load_allowed_operators())
x = torch.randn(4, 4, requires_grad=True)
times = []
for _ in range(200):
    started = time.perf_counter()
    for _ in range(20):
        ((x @ x.mT).softmax(-1) @ x).sum().backward()
    times.append(time.perf_counter() - started)
print(sorted(times)[len(times) // 2] / 20)
"""


def small_call(*, closed: bool) -> float:
    """Microseconds for a small call, with the operators as in a worker, or all of them."""
    command = [sys.executable, "-c", CALLS, str(closed)]
    return 1e6 * float(subprocess.run(command, check=True, capture_output=True).stdout)


def import_torch() -> float:
    started = time.perf_counter()
    subprocess.run([sys.executable, "-I", "-c", "import torch"], check=True)
    return 1e3 * (time.perf_counter() - started)


def probing(name: str) -> float:
    started = time.perf_counter()
    walls.probe_wall(name)
    return 1e3 * (time.perf_counter() - started)


def main() -> None:
    here = {p.name: p.wall for p in map(walls.probe_wall, walls.WALL_NAMES) if p.wall is not None}
    times: dict[tuple[str, str], list[float]] = defaultdict(list)
    for _ in range(STARTS):
        times["import torch", ""].append(import_torch())
        for name, wall in random.sample(sorted(here.items()), len(here)):
            times[name, "first"].append(first_worker(wall))
            times[name, "probe"].append(probing(name))
    nurseries = {name: Nursery(wall) for name, wall in here.items()}
    for nursery in nurseries.values():
        worker(nursery)
    for _ in range(ROUNDS):
        for name in random.sample(sorted(nurseries), len(nurseries)):
            times[name, "worker"].append(worker(nurseries[name]))
    for nursery in nurseries.values():
        nursery.close()
    apart, here_too = zip(*(reading() for _ in range(ROUNDS)), strict=True)
    print(
        f"reading ex03: {statistics.median(apart):.1f} ms in the reader, "
        f"{statistics.median(here_too):.1f} ms in this process"
    )
    calls = [(small_call(closed=True), small_call(closed=False)) for _ in range(STARTS)]
    listed, all_ = zip(*calls, strict=True)
    print(
        f"a small call: {statistics.median(listed):.1f} us with the operators that are listed, "
        f"{statistics.median(all_):.1f} us with all of them"
    )
    _show(here, {key: statistics.median(values) for key, values in times.items()})


def _show(here: dict[str, walls.Wall], medians: dict[tuple[str, str], float]) -> None:
    table = Table(box=None, pad_edge=False)
    for title in ("Wall", "worker, ms", "first worker, ms", "probe, ms"):
        table.add_column(title, justify="left" if title == "Wall" else "right")
    for name in here:
        cells = (medians[name, "worker"], medians[name, "first"], medians[name, "probe"])
        table.add_row(name, *(f"{cell:.1f}" for cell in cells))
    console = Console()
    console.print(table)
    console.print(f"a fresh `import torch`: {medians['import torch', '']:.0f} ms")


if __name__ == "__main__":
    main()
