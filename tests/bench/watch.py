"""How long a learner waits: from a save to the verdict on the screen: `make bench-watch`.

A watch runs in a terminal of its own. Its file is saved as a wrong and as a right answer in turn;
the right one takes longer, as all its checks are asked. The promise is one second for NumPy
(ex01_softmax) and two for PyTorch (ex03_sdpa).
"""

import statistics
import tempfile
import time
from pathlib import Path

from tests.command.terminal import WATCH, Terminal
from tests.conftest import solution

SLUGS = ("ex01_softmax", "ex03_sdpa")
FIRST = {"ex01_softmax": "softmax_numpy", "ex03_sdpa": "attention_numpy"}
ROUNDS = 10


def main() -> None:
    for slug in SLUGS:
        with tempfile.TemporaryDirectory() as folder:
            waits = waited(slug, Path(folder) / f"{slug}.py")
        for kind, seconds in waits.items():
            middle, longest = statistics.median(seconds), max(seconds)
            print(f"{slug:14} {kind:6} median {middle:5.2f} s   longest {longest:5.2f} s")


def waited(slug: str, path: Path) -> dict[str, list[float]]:
    """Seconds from save to verdict, of wrong and of right answers."""
    waits: dict[str, list[float]] = {"wrong": [], "right": []}
    terminal = Terminal("-c", WATCH, str(path.parent), slug)
    terminal.until("is not there")
    for number in range(ROUNDS):
        wrong = f"\n\ndef {FIRST[slug]}(*args, **kwargs):\n    raise ValueError('round {number}')\n"
        waits["wrong"].append(_saved(terminal, path, solution(slug) + wrong, f"round {number}"))
        waits["right"].append(_saved(terminal, path, solution(slug), "Every exercise here is"))
    terminal.interrupt()
    terminal.exit_code()
    return waits


def _saved(terminal: Terminal, path: Path, source: str, verdict: str) -> float:
    started = time.perf_counter()
    path.write_text(source, encoding="utf-8")
    terminal.until(verdict)
    return time.perf_counter() - started


if __name__ == "__main__":
    main()
