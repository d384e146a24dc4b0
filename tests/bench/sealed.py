"""What a sealed bundle can grade: `python -m tests.bench.sealed [EX ...] [--all]`.

Every exercise is recorded as for a release; then the tape is played back to the solution, to every
right variant, and to named mistakes (eight of an exercise; with --all every one), each in the check
that must catch it. In the last column stand the checks that are left out.
"""

import importlib
import os
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from grader.core import catalog, sealed_bundle
from grader.core.records import CheckResult, Exercise, Verdict
from grader.cuda import compiled_answer as cuda
from grader.diagnosis import solution_modules
from grader.diagnosis.mistake_catalogue import MistakeCatalogue
from grader.judging import recorded_cases, suite_runner
from grader.judging.judge import Judge
from grader.judging.marks import Mistake, edited
from grader.judging.student import Student
from grader.release.sealed.record_cases import (
    Recorded,
    list_modules_to_seal,
    load_solution_to_seal,
    record_sealed_exercise_safely,
)
from grader.release.sealed.sealed_page import count_sealed_points
from grader.worker.parent.in_process import call_without_wall

SOME = 8


@dataclass
class Row:
    """What became of one exercise."""

    slug: str
    here: int = 0
    whole: int = 0
    size: int = 0
    solution: int = 0
    variants: list[str] = field(default_factory=list)  # that do not earn everything
    tried: int = 0
    asked: int = 0
    escaped: list[str] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)
    why: str = ""


def played(one: Recorded, every: bool) -> Row:
    """The verdicts of stored cases, in a process of its own."""
    exercise = catalog.find_catalog_exercise(one.slug)
    here, whole = count_sealed_points(exercise, one.left_out)
    row = Row(
        slug=one.slug, here=here, whole=whole, size=len(one.content), left_out=dict(one.left_out)
    )
    known, mistakes = MistakeCatalogue(exercise), suite_runner.list_suite_mistakes(exercise)
    variants = {v.id: _with(exercise, v) for v in suite_runner.list_suite_variants(exercise)}
    _take_place()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / sealed_bundle.STORED_CASES_FOLDER / f"{one.slug}.safetensors"
        path.parent.mkdir()
        path.write_bytes(one.content)
        tape = recorded_cases.RecordedTape(one.slug, Path(folder))
    row.solution = _earned(
        _asked(exercise, solution_modules.load_solution_for_judging(exercise), tape)
    )
    for name, module in variants.items():
        row.tried += 1
        if _earned(_asked(exercise, module, tape)) != here:
            row.variants.append(name)
    caught = [m for m in mistakes if m.caught_by not in one.left_out]
    for mistake in caught if every else caught[:: max(1, len(caught) // SOME)]:
        row.asked += 1
        checks = _asked(exercise, known.module(mistake), tape, mistake)
        if next(c.verdict for c in checks if c.id == mistake.caught_by) is not Verdict.FAILED:
            row.escaped.append(mistake.id)
    return row


def _take_place() -> None:
    """Put the stand-in of a sealed bundle into the place of the reference."""
    names = list_modules_to_seal(())
    for name in names:
        importlib.import_module(name)
    for name in names:
        sys.modules[name] = recorded_cases._Module(name)
    for name in names[1:]:
        setattr(
            sys.modules[recorded_cases.REFERENCE_PACKAGE],
            name.rpartition(".")[2],
            sys.modules[name],
        )
    for name in [n for n in sys.modules if n.startswith("grader.suites.")]:
        del sys.modules[name]  # they have the reference itself


def _with(exercise: Exercise, variant):
    if variant.edits:
        text = (catalog.ROOT / "solutions" / exercise.file).read_text(encoding="utf-8")
        return cuda.build_own_cuda_modules({"": edited(text, variant.edits)}, exercise, only={})[""]
    return load_solution_to_seal(exercise, variant)


def _asked(
    exercise: Exercise, module, tape, mistake: Mistake | None = None
) -> tuple[CheckResult, ...]:
    student = Student(exercise, call_without_wall(module, exercise.prelude))
    only = frozenset({mistake.caught_by}) if mistake else frozenset()
    with np.errstate(all="ignore"):
        return suite_runner.run_suite_checks(exercise, Judge(student, ("",), tape=tape), only)


def _earned(checks: tuple[CheckResult, ...]) -> int:
    return sum(c.earned for c in checks)


def measured(slug: str, every: bool) -> Row:
    """The row of one exercise: recorded in one process, played in another."""
    with ProcessPoolExecutor(1, get_context("spawn"), max_tasks_per_child=1) as pool:
        one = pool.submit(record_sealed_exercise_safely, slug, "measured").result()
        if not isinstance(one, Recorded):
            return Row(slug=slug, why=one[1])
        return pool.submit(played, one, every).result()


def show(row: Row) -> str:
    if row.why:
        return f"{row.slug:22} cannot be sealed: {row.why}"
    variants = f"{row.tried - len(row.variants)}/{row.tried} {' '.join(row.variants)}"
    mistakes = f"{row.asked - len(row.escaped)}/{row.asked} {' '.join(row.escaped)}"
    left = "; ".join(f"{check} ({why})" for check, why in row.left_out.items())
    return (
        f"{row.slug:22} {f'{row.here}/{row.whole}':>6} {row.size / 2**20:5.1f} MiB "
        f"solution {row.solution:2}  variants {variants} mistakes {mistakes}  {left}"
    )


def main() -> None:
    every = "--all" in sys.argv
    named = [name for name in sys.argv[1:] if not name.startswith("--")]
    slugs = [
        e.slug
        for e in (
            map(catalog.find_catalog_exercise, named) if named else catalog.list_catalog_exercises()
        )
    ]
    print("exercise               points  stored         earns     earn all     caught   left out")
    for slug in slugs:
        print(show(measured(slug, every)), flush=True)


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
