"""What benchmarks measured last, and their goals: `recorded.toml` beside this file.

A ratio compares two times of one run, so that it says the same on a slow and on a busy machine.
"""

import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path

from rich.console import Console
from rich.table import Table

RECORDED = Path(__file__).with_name("recorded.toml")
WORSE = 1.5  # times the recorded ratio: a benchmark with --check fails


def print_ratios(part: str, ratios: Mapping[str, float], *, check: bool) -> None:
    """Print ratios beside what was recorded and the goals; end with 1 if `check` finds one worse."""
    recorded = tomllib.loads(RECORDED.read_text(encoding="utf-8"))[part]
    table = Table(part, "ratio", "recorded", "goal")
    for name, ratio in ratios.items():
        known = recorded[name]
        table.add_row(name, f"{ratio:.2f}", f"{known['ratio']:.2f}", f"{known['goal']:.2f}")
    Console().print(table)
    worse = [name for name, ratio in ratios.items() if is_worse(ratio, recorded[name])]
    if check and worse:
        sys.exit(f"More than {WORSE} times worse than recorded: {', '.join(worse)}.")


def is_worse(ratio: float, known: Mapping[str, float | bool]) -> bool:
    """Return whether a ratio is much worse than the recorded one; more is better where it says so."""
    if known.get("more_is_better"):
        return ratio * WORSE < known["ratio"]
    return ratio > known["ratio"] * WORSE
