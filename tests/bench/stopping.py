"""Whether timing that stops early gives the points of all rounds, and how many rounds it saves.

`make bench-stopping` records whole contests of the solutions, quiet and beside six busy loops
(ARGS="5 busy" chooses how many of each exercise, and one of the two). From these rounds it makes
200 gradings whose x is spread evenly over 0 to 1: the student's times of a recorded contest, all
multiplied by one factor. Each is judged twice, from all rounds and by the rule that stops early.
It prints also how much the parties' times differ from set to set (`stopping.LUCK_OF_SETS`).
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
from grader.core.records import Exercise, Submission
from grader.core.scoring import MARGIN
from grader.judging import suite_runner
from grader.timing.contest import Contest
from grader.timing.race import Plan
from grader.timing.speed import MAX_SETS, measure_speed
from grader.timing.statistics import QUANTILE, Times
from grader.worker.parent import walls
from grader.worker.parent.nursery import Nursery
from tests.bench.steadiness import burning
from tests.timing.contests import made_up

EXERCISES = [
    catalog.find_catalog_exercise(s)
    for s in ("ex03_sdpa", "ex05_causal_mask", "ex06_kv_cache", "ex13_mla")
]
SOLUTIONS = Path(__file__).parents[2] / "solutions"
BURNERS = {"quiet": 0, "busy": 6}  # processes
GRADINGS = 200
POINTS = (2, 3, 4)  # that an exercise may have for speed


def main(each: int, loads: Sequence[str]) -> None:
    torch.set_num_threads(1)
    console = Console()
    table = Table("machine", "points", "alike", "rounds", "of", "luck of sets")
    with Nursery(walls.choose_wall("auto")) as nursery:
        for load in loads:
            with burning(BURNERS[load]):
                rounds = [
                    record(nursery, exercise)
                    for _ in track(range(each), f"recording, {load}", console=console)
                    for exercise in EXERCISES
                ]
            for points in POINTS:
                table.add_row(load, str(points), *compare(rounds, points), luck_of_sets(rounds))
    console.print(table)


def record(nursery: Nursery, exercise: Exercise) -> list[Times]:
    """Run all sets of a contest of the solution; the times of each set, (rounds, 3)."""
    path = SOLUTIONS / f"{exercise.slug}.py"
    case = suite_runner.find_suite_speed_case(exercise)
    assert case is not None
    contest = Contest(
        exercise=exercise, case=case, nursery=nursery, seed=(secrets.token_hex(8),),
        answer=Submission(slug=exercise.slug, path=path, sha256="", source=path.read_text()),
    )  # fmt: skip
    found = []
    for _ in range(MAX_SETS):
        before = len(contest.rows)
        contest.run_a_set(Plan(), lambda _: None)
        found.append(contest.times[before:])
    return found


def compare(recorded: Sequence[Sequence[Times]], points: int) -> tuple[str, str, str]:
    """Grade with and without stopping: how many have the same points, and the rounds of both."""
    alike, rounds = 0, np.zeros((GRADINGS, 2))
    for number, x in enumerate(np.linspace(0, 1, GRADINGS)):
        sets = place(recorded[number % len(recorded)], x)
        verdicts = []
        for stops in (True, False):
            contest = made_up(sets.__getitem__, points=points, stops=stops)
            found = measure_speed(contest)
            rounds[number, int(not stops)] = len(contest.rows)
            verdicts.append((found.verdict, found.earned))
        alike += verdicts[0] == verdicts[1]
    return f"{alike} of {GRADINGS}", *(f"{mean:.0f}" for mean in rounds.mean(axis=0))


def place(sets: Sequence[Times], x: float) -> list[Times]:
    """Multiply the student's times by one factor, so that all of them give the position x."""
    zero, reference, student = np.quantile(np.concatenate(sets), QUANTILE, axis=0)
    factor = zero / student * (zero / (MARGIN * reference)) ** -x
    return [times * (1, 1, factor) for times in sets]


def luck_of_sets(recorded: Sequence[Sequence[Times]]) -> str:
    """The standard deviation of the logarithm of a party's time from set to set, by contest."""
    found = [
        np.std([np.log(np.quantile(s, QUANTILE, axis=0)) for s in sets], axis=0, ddof=1)
        for sets in recorded
    ]
    return f"{np.median(found):.3f} ({np.max(found):.3f} at most)"


if __name__ == "__main__":
    chosen = [load for load in BURNERS if load in sys.argv[1:]]
    main(int(next(filter(str.isdigit, sys.argv[1:]), 3)), chosen or list(BURNERS))
