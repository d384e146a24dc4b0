"""What grading a class costs, how that grows, and what more processes bring.

`make bench-class` prints all tables; ARGS="throughput", "growth 10 100 1000", "parent 1000 5000" or
"scaling" one of them, and ARGS="growth 5000 ex01_softmax" one for the exercises named.
ARGS="scaling --check" fails if a second process brings much less than recorded. Every answer is a right one of the core
track, graded without speed, and no two files are alike. Seconds are of a whole `grader class`, its
start and its pages among them, and so grow with what else the machine does.
"""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from grader.cli.class_commands import count_processors_for_command
from grader.core import catalog
from grader.core.catalog import ROOT
from tests.bench.notebooks import PLAIN, plain, seconds
from tests.bench.ratios import print_ratios
from tests.classes.classroom import environment
from tests.classes.dask import Dask
from tests.notebooks.course import answered, grader, hand_in, run

SLUGS = [e.slug for e in catalog.list_catalog_exercises() if e.track == "core"]
STUDENTS = 6


class Cost(NamedTuple):
    """What a run took."""

    seconds: float
    memory: float  # the most MiB that the parent itself had


def main(arguments: list[str]) -> None:
    parts = {
        "throughput": throughput, "growth": growth, "parent": parent,
        "scaling": partial(scaling, check="--check" in arguments),
    }  # fmt: skip
    SLUGS[:] = [slug for slug in SLUGS if slug in arguments] or SLUGS
    for name in [a for a in arguments if a in parts] or parts:
        with tempfile.TemporaryDirectory() as folder:
            parts[name](Path(folder), [int(a) for a in arguments if a.isdigit()])


def throughput(folder: Path, _: list[int]) -> None:
    """The same notebooks through `grader class` and through nbgrader's executor."""
    grader("release", "-o", folder, "--no-speed")
    course = folder / "course"
    for student in range(STUDENTS):
        for slug in SLUGS:
            notebook = answered(course, slug)
            notebook.metadata["student"] = student
            file = hand_in(course, f"student{student}", notebook, slug=slug)
            place = folder / "submissions" / f"student{student}" / file.name
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(file.read_bytes())
    jobs = "--jobs", str(count_processors_for_command())
    took = graded(folder / "submissions", folder / "results", *jobs).seconds
    (course / "nbgrader_config.py").write_text(PLAIN)
    for path in course.rglob("*.ipynb"):
        path.write_text(json.dumps(plain(json.loads(path.read_text()))))
    for slug in SLUGS:
        run("nbgrader", "generate_assignment", slug, "--force", cwd=course)
    theirs = seconds(course, students := 2)
    table = Table("graded by", "answers", "processes", "seconds", "answers a minute and core")
    for name, count, processes, spent in (
        ("grader class", STUDENTS * len(SLUGS), count_processors_for_command(), took),
        ("nbgrader's executor, a bare assertion for each check", students * len(SLUGS), 1, theirs),
    ):
        each = f"{60 * count / spent / processes:.1f}"
        table.add_row(name, str(count), str(processes), f"{spent:.1f}", each)
    Console().print(table)


def growth(folder: Path, sizes: list[int]) -> None:
    """More and more answers: the time, and the most memory that the parent ever had."""
    columns = "seconds", "answers a minute and core", "MiB of the parent", "again, seconds"
    table = Table("answers", *columns)
    for size in sizes or [10, 100, 1000]:
        submissions = filled(folder / f"{size}", size)
        cost = graded(submissions, folder / f"results{size}")
        again = graded(submissions, folder / f"results{size}").seconds
        each = 60 * size / cost.seconds / count_processors_for_command()
        table.add_row(f"{size}", f"{cost.seconds:.1f}", f"{each:.1f}", f"{cost.memory:.0f}",
                      f"{again:.1f}")  # fmt: skip
    Console().print(table)


_PARENT = """
from pathlib import Path
from tests.classes.test_run import run
made = run(Path({folder!r}), speed=False)
assert made.graded == {size}
"""


def parent(folder: Path, sizes: list[int]) -> None:
    """The memory of a run itself, where the answers of many students are judged by nobody."""
    table = Table("answers", "seconds", "MiB of the parent")
    for size in sizes or [1000, 5000]:
        for number in range(size):
            place = folder / f"{size}/submissions/student{number:05}"
            place.mkdir(parents=True)
            (place / "ex01_softmax.py").write_text(f"right {number}", encoding="utf-8")
        code = _PARENT.format(folder=str(folder / f"{size}"), size=size)
        cost = _measure([sys.executable, "-c", code])
        table.add_row(f"{size}", f"{cost.seconds:.1f}", f"{cost.memory:.0f}")
    Console().print(table)


def scaling(folder: Path, _: list[int], *, check: bool) -> None:
    """One process and two, on this machine and as workers of a Dask scheduler."""
    submissions = filled(folder / "submissions", STUDENTS * len(SLUGS))
    table = Table("processes", "on this machine, seconds", "through Dask, seconds")
    spent: list[list[float]] = []
    for count in (1, 2):
        local = graded(submissions, folder / f"local{count}", "--jobs", f"{count}").seconds
        with scheduler(folder / f"dask{count}", count) as address:
            far = graded(submissions, folder / f"far{count}", "--cluster", address).seconds
        spent.append([local, far])
        table.add_row(f"{count}", f"{local:.1f}", f"{far:.1f}")
    Console().print(table)
    local, far = (one / two for one, two in zip(*spent, strict=True))
    faster = {"on this machine": local, "through Dask": far}
    print_ratios("times faster with two processes", faster, check=check)


@contextmanager
def scheduler(folder: Path, workers: int):
    folder.mkdir()
    made = Dask(folder)
    try:
        for _ in range(workers):
            made.worker()
        yield made.address
    finally:
        made.close()


def filled(submissions: Path, answers: int) -> Path:
    """A class that hands in so many answers, each student the whole track."""
    for number in range(answers):
        student, slug = divmod(number, len(SLUGS))
        file = submissions / f"student{student:04}" / f"{SLUGS[slug]}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        text = (ROOT / "solutions" / file.name).read_text(encoding="utf-8")
        file.write_text(f"{text}\n# by student {student}\n", encoding="utf-8")
    return submissions


def graded(submissions: Path, results: Path, *more: str) -> Cost:
    """Grade a class, and return what it took."""
    command = [sys.executable, "-m", "grader", "class", submissions, *SLUGS, "-o", results]
    cost = _measure([*command, "--no-speed", *more])
    if wrong := [e for e in _graded(results) if e["score"]["earned"] < e["score"]["possible"]]:
        sys.exit(f"A right answer to {wrong[0]['slug']} did not earn all its points.")
    return cost


def _measure(command: list[str | Path]) -> Cost:
    """Run a command to its end, and return what it took."""
    started, most = time.monotonic(), 0.0
    run = subprocess.Popen(
        command, env=environment(), cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    while run.poll() is None:
        most = max(most, _peak(run.pid))
        time.sleep(0.05)
    seconds = time.monotonic() - started
    if run.returncode:
        sys.exit(f"`{' '.join(map(str, command))}` ended with {run.returncode}.")
    return Cost(seconds, most)


def _graded(results: Path) -> Iterator[dict]:
    for path in results.glob("students/*/report.json"):
        found = json.loads(path.read_text())["exercises"]
        yield from (exercise for exercise in found if exercise["state"] != "missing")


def _peak(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) / 1024


if __name__ == "__main__":
    main(sys.argv[1:])
