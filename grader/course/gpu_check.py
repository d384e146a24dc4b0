"""`make gpu-check`: every suite and the fast path on CUDA, with whatever torch is here.

It prints a short table and writes a JSON file. The fast path is asked in a process of its own
(`python -m reference.on_device cuda`), so that the grader needs no reference by name.
"""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from grader import catalog
from grader.catalog import ROOT
from grader.grading import grade_all
from grader.records import ExerciseReport, Report, Verdict
from grader.reporting import as_json


def run(output: Path, console: Console) -> bool:
    """Check, print and write; True if every suite ran and everything that it asked is right."""
    import torch

    if not torch.cuda.is_available():
        console.print("This torch sees no CUDA device, so there is nothing to check.")
        return False
    fast = _fast_path()
    report = grade_all(catalog.exercises(), ROOT / "solutions", student="gpu-check", device="cuda")
    console.print(f"{fast['device']}\n")
    console.print(_suites(report), _backends(fast))
    wrong = [case for case in fast["cases"] if not case["agrees"]]
    for case in wrong:
        console.print(f"fast path differs: {case}", highlight=False)
    for e in report.exercises:
        for check in (c for c in e.checks if c.verdict is not Verdict.PASSED):
            console.print(f"{e.slug} {check.id}: {check.verdict}. {check.why}", markup=False)
    found = {"fast_path": fast, "suites": as_json.to_dict(report)}
    output.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    console.print(f"written to {output}")
    return bool(fast["cases"]) and not wrong and all(map(_earned_all, report.exercises))


def _earned_all(e: ExerciseReport) -> bool:
    """Return whether an exercise earned every point that was asked, and any was."""
    return e.score is not None and e.score.earned == e.score.possible > 0


def _fast_path() -> dict[str, Any]:
    command = [sys.executable, "-m", "reference.on_device", "cuda"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"the fast path could not be checked: {done.stderr.strip()[-500:]}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _suites(report: Report) -> Table:
    table = Table("suite on CUDA", "points", "seconds")
    for e in report.exercises:
        points = "-" if e.score is None else f"{e.score.earned}/{e.score.possible}"
        table.add_row(e.slug, points, f"{e.seconds:.1f}")
    return table


def _backends(fast: dict[str, Any]) -> Table:
    """How many cases of each dtype and mask ran on which kernel, and how many agreed."""
    table = Table("dtype", "mask", "kernels", "agree")
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for case in fast["cases"]:
        groups.setdefault((case["dtype"], case["mask"]), []).append(case)
    for (dtype, mask), cases in groups.items():
        kernels = Counter(case["backend"].split(":")[0] for case in cases)
        counted = ", ".join(f"{name} {n}" for name, n in kernels.items())
        table.add_row(dtype, mask, counted, f"{sum(c['agrees'] for c in cases)}/{len(cases)}")
    return table
