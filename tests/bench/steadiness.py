"""How steady a speed grade is: the same three submissions, graded again and again.

`make bench-steadiness` prints, quiet and with every core kept busy (ARGS="20 busy" chooses), between
which values `speed.fraction` lay, and beside it what the usual way would have given in the same
run: each party's calls in one block of their own, in one process, by the median of its own clock.
"""

import math
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

import torch
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from grader.core import catalog
from grader.core.records import Submission
from grader.judging import suite_runner
from grader.timing.contest import Contest
from grader.timing.speed import measure_speed
from grader.timing.statistics import compute_speed_position
from grader.worker.parent import walls
from grader.worker.parent.nursery import Nursery
from tests.bench.submissions import SUBMISSIONS

EXERCISE = catalog.find_catalog_exercise("ex05_causal_mask")
SHAPE = (1, 1, 1536, 64)  # as in the exercise's own speed case
CALLS = 20
BURN = "while True: pass"
BURNERS = {"quiet": 0, "busy": os.cpu_count() or 1}  # processes


def main(gradings: int, loads: list[str]) -> None:
    console = Console()
    table = Table("machine", "submission", "fraction", "spread", "inconclusive", "the usual way",
                  "its spread", "seconds")  # fmt: skip
    with Progress(console=console) as bar, Nursery(walls.choose_wall("auto")) as nursery:
        rows = [(load, name) for load in loads for name in SUBMISSIONS]
        for load, name in bar.track(rows, description="grading"):
            with burning(BURNERS[load]):
                table.add_row(load, name, *graded(nursery, name, gradings))
    console.print(table)


@contextmanager
def burning(processes: int) -> Iterator[None]:
    """Keep so many cores busy meanwhile."""
    burners = [subprocess.Popen([sys.executable, "-c", BURN]) for _ in range(processes)]
    try:
        yield
    finally:
        for burner in burners:
            burner.kill()
            burner.wait()


def graded(nursery: Nursery, name: str, gradings: int) -> list[str]:
    """The cells of one submission's row."""
    ours, usual, inconclusive, started = [], [], 0, time.monotonic()
    for _ in range(gradings):
        found = ours_once(nursery, SUBMISSIONS[name])
        inconclusive += found is None
        ours += [] if found is None else [found]
        usual.append(usual_once(name))
    seconds = (time.monotonic() - started) / gradings
    return [*span(ours), f"{inconclusive} of {gradings}", *span(usual), f"{seconds:.0f}"]


def span(values: list[float]) -> tuple[str, str]:
    if not values:
        return "-", "-"
    return f"{min(values):.3f} to {max(values):.3f}", f"{max(values) - min(values):.3f}"


def ours_once(nursery: Nursery, source: str) -> float | None:
    """`speed.fraction`; None if it was inconclusive."""
    case = suite_runner.find_suite_speed_case(EXERCISE)
    assert case is not None
    answer = Submission(slug=EXERCISE.slug, path=Path(), sha256="", source=source)
    seed = (secrets.token_hex(8),)
    found = measure_speed(
        Contest(exercise=EXERCISE, case=case, answer=answer, nursery=nursery, seed=seed)
    )
    assert found.verdict in ("scored", "inconclusive"), found.why
    return found.fraction


def usual_once(name: str) -> float:
    """The position as a process of its own finds it in the usual way."""
    command = [sys.executable, "-m", "tests.bench.steadiness", "usual", name]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def usual(name: str) -> float:
    """One block of calls after the other, and the medians of what they took."""
    parties = EXERCISE.folder / "parties"
    zero, reference = ((parties / f"{p}.py").read_text() for p in ("zero", "reference"))
    x = compute_speed_position(
        *(median_seconds(text) for text in (zero, reference, SUBMISSIONS[name]))
    )
    return float(x)


def median_seconds(source: str) -> float:
    torch.set_num_threads(1)
    namespace: dict[str, object] = {"math": math, "torch": torch}
    exec(source, namespace)
    call = namespace["causal_attention"]
    assert callable(call)
    q, k, v = (torch.randn(SHAPE) for _ in range(3))
    seconds = []
    for _ in range(CALLS):
        started = time.perf_counter()
        call(q, k, v)
        seconds.append(time.perf_counter() - started)
    return median(seconds)


if __name__ == "__main__":
    if sys.argv[1:2] == ["usual"]:
        print(usual(sys.argv[2]))
    else:
        torch.set_num_threads(1)
        chosen = [load for load in BURNERS if load in sys.argv[1:]]
        main(int(next(filter(str.isdigit, sys.argv[1:]), 10)), chosen or list(BURNERS))
