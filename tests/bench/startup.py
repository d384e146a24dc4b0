"""How long grading takes, beside the `import torch` that nothing can avoid: `make bench-startup`.

Prints the median of five runs of each command. Absolute times depend on the machine; the column
to read is how many times the import each one takes.
"""

import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
GRADE = ["-m", "grader", "grade", "--submission", "solutions"]
COMMANDS = {
    "import torch": ["-c", "import torch"],
    "one exercise (ex01_softmax)": [*GRADE, "ex01_softmax"],
    "the eight exercises": GRADE,
}
RUNS = 5


def seconds(arguments: list[str]) -> float:
    started = time.perf_counter()
    subprocess.run([sys.executable, *arguments], cwd=ROOT, check=True, capture_output=True)
    return time.perf_counter() - started


def main() -> None:
    times = {name: [] for name in COMMANDS}
    for _ in range(RUNS):
        for name, arguments in COMMANDS.items():  # interleaved, so that a busy moment hits all
            times[name].append(seconds(arguments))
    floor = statistics.median(times["import torch"])
    for name, runs in times.items():
        middle = statistics.median(runs)
        print(f"{name:30} {middle:6.2f} s   {middle / floor:5.1f} x import torch")


if __name__ == "__main__":
    main()
