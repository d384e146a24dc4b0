"""Whether a submission that spins slows the reference down: `make bench-spinner`.

Contests of ex05 with an honest answer and with one that keeps the processor busy while it is not
asked, in turn; beside each other the reference's times in both. Where idle parties stand still, the
ratio is 1.
"""

import secrets
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.progress import track
from rich.table import Table

from grader.core import catalog
from grader.core.records import Submission
from grader.judging import suite_runner
from grader.timing.contest import Contest
from grader.timing.race import Plan
from grader.timing.statistics import PARTIES, QUANTILE
from grader.worker.parent import walls
from grader.worker.parent.nursery import Nursery

EXERCISE = catalog.find_catalog_exercise("ex05_causal_mask")
HONEST = EXERCISE.folder / "parties/zero.py"
SPINNER = Path(__file__).parents[1] / "cheats/clock/slows_the_reference.py"


def main(sets: int, wall: str) -> None:
    torch.set_num_threads(1)
    times: dict[Path, list[float]] = {HONEST: [], SPINNER: []}
    with Nursery(walls.choose_wall(wall)) as nursery:
        for number in track(range(sets), "timing"):
            for answer in (HONEST, SPINNER) if number % 2 else (SPINNER, HONEST):
                times[answer].append(reference_seconds(nursery, answer))
    table = Table("the reference", "ms", "ratio")
    for answer, seconds in times.items():
        beside = np.median(np.divide(seconds, times[HONEST]))
        table.add_row(f"beside {answer.name}", milliseconds(seconds), f"{beside:.2f}")
    Console().print(table)


def reference_seconds(nursery: Nursery, answer: Path) -> float:
    """What the reference takes in one set of processes, as it is graded."""
    case = suite_runner.find_suite_speed_case(EXERCISE)
    assert case is not None
    submitted = Submission(slug=EXERCISE.slug, path=answer, sha256="", source=answer.read_text())
    seed = (secrets.token_hex(8),)
    contest = Contest(exercise=EXERCISE, case=case, answer=submitted, nursery=nursery, seed=seed)
    contest.run_a_set(Plan(), lambda _: None)
    return float(np.quantile(contest.times[:, PARTIES.index("reference")], QUANTILE))


def milliseconds(seconds: Sequence[float]) -> str:
    return f"{1e3 * min(seconds):.1f} to {1e3 * max(seconds):.1f}"


if __name__ == "__main__":
    main(int(next(filter(str.isdigit, sys.argv[1:]), 6)),
         next((word for word in sys.argv[1:] if not word.isdigit()), "auto"))  # fmt: skip
