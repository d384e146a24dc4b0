"""How long a learner waits for the report of `make grade`: `make bench-startup`.

All 18 solutions are graded from a folder of their own, with a store of kept results of its own. A
row is the time from the start of the command until its report is on the screen: its seconds, and
how many times a bare `import torch` of the same round that is. In every round each row is measured
once, so that a busy moment hits all; medians are printed. ARGS= says how many rounds; with --check it
fails if a ratio is much worse than recorded.
"""

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

from grader.core import catalog
from tests.bench.ratios import print_ratios

ROOT = Path(__file__).resolve().parent.parent.parent
CHANGED = "ex03_sdpa"  # an answer with speed points
FOOTER = "device "  # begins the line with which a report ends
ROUNDS = 3
UNTIMED = "--no-speed"
ENDS = "nothing changed, until it ends"  # one kept result has been judged again then


def main(rounds: int, *, check: bool) -> None:
    found: dict[str, list[float]] = defaultdict(list)
    with tempfile.TemporaryDirectory(prefix="startup-") as folder:
        answers = Path(folder) / "answers"
        shutil.copytree(ROOT / "solutions", answers)
        environment = {k: v for k, v in os.environ.items() if k != "CI"}
        environment["GRADER_KEPT"] = str(Path(folder) / "kept")
        for _ in range(rounds):
            measure_round(answers, environment, found)
    floor = found["import torch"]
    for name, seconds in found.items():
        print(f"{name:32} {statistics.median(seconds):6.2f} s")
    print_ratios("times import torch", {
        name: statistics.median(s / f for s, f in zip(seconds, floor, strict=True))
        for name, seconds in found.items() if name != "import torch"
    }, check=check)  # fmt: skip


def measure_round(
    answers: Path, environment: dict[str, str], found: dict[str, list[float]]
) -> None:
    """Measure each row once. The first run keeps what the others find unchanged."""
    number = len(catalog.list_catalog_exercises())
    started = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import torch"], check=True)
    found["import torch"].append(time.perf_counter() - started)
    rows = [
        (f"all {number} timed", ["--fresh"], False),
        ("nothing changed", [], False),
        ("one exercise changed, untimed", [UNTIMED], True),
        ("one exercise changed, timed", [], True),
        (f"all {number} untimed", ["--fresh", UNTIMED], False),
    ]
    for name, options, changes in rows:
        if changes:
            with (answers / f"{CHANGED}.py").open("a") as file:
                file.write("# changed\n")
        report, end = seconds_of_grading(answers, environment, options)
        found[name].append(report)
        if name == "nothing changed":
            found[ENDS].append(end)


def seconds_of_grading(
    answers: Path, environment: dict[str, str], options: list[str]
) -> tuple[float, float]:
    """Return the seconds until the report is on the screen, and until the command ends."""
    command = [sys.executable, "-m", "grader", "grade", "--submission", str(answers), *options]
    started = time.perf_counter()
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        shown = next(time.perf_counter() for line in process.stdout if line.startswith(FOOTER))
        process.stdout.read()
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {process.returncode}")
    return shown - started, time.perf_counter() - started


if __name__ == "__main__":
    rounds = [int(argument) for argument in sys.argv[1:] if argument.isdigit()]
    main(*rounds or [ROUNDS], check="--check" in sys.argv)
