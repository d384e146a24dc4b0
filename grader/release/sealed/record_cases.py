"""Records the cases of a suite: what is drawn, and what the reference answers.

Every exercise is recorded in a process of its own, in which the suite gets recorders for what it
imports as the reference. It is asked of the solution, and again of right answers written otherwise;
a check whose tape then differs asks what depends on the answer, and is left out. So what is stored
is the same whichever right answer was at hand.
"""

import atexit
import importlib
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from grader.authoring import mutants
from grader.core import catalog
from grader.core.catalog import ROOT
from grader.core.records import CheckResult, Exercise, Verdict
from grader.cuda import compiled_answer as cuda
from grader.judging import suite_imports, suite_runner
from grader.judging.judge import Judge
from grader.judging.marks import Variant, edited
from grader.judging.recorded_cases import NAME
from grader.judging.student import Student
from grader.release.sealed.case_recorder import Module, Recorder
from grader.worker import requirements
from grader.worker.faults import NotHere
from grader.worker.in_process import in_process, load

DEPENDS = "what it asks depends on the answer"
Cases = Mapping[str, Any]


class CannotSeal(Exception):
    """An exercise without stored cases; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """The stored cases of one exercise."""

    slug: str
    content: bytes  # of the safetensors file
    left_out: Mapping[str, str]  # by check, why it is


def modules(exercises: Iterable[Exercise]) -> list[str]:
    """The names of the modules of the reference, with those of packs."""
    homes = {ROOT, *(exercise.home for exercise in exercises)}
    stems = {path.stem for home in homes for path in (home / NAME).glob("*.py")}
    return [NAME, *sorted(f"{NAME}.{stem}" for stem in stems - {"__init__", "expected"})]


def record_all(exercises: Sequence[Exercise], seed: str) -> Iterator[Recorded | tuple[str, str]]:
    """The stored cases of each exercise; of one that cannot be sealed, its slug and why."""
    context = get_context("spawn")
    with ProcessPoolExecutor(
        min(len(exercises), os.cpu_count() or 1), context, max_tasks_per_child=1
    ) as pool:
        yield from pool.map(record_one, [e.slug for e in exercises], [seed] * len(exercises))


def record_one(slug: str, seed: str) -> Recorded | tuple[str, str]:
    """The stored cases of one exercise, or its slug and why there are none."""
    try:
        return recorded(catalog.find(slug), seed)
    except CannotSeal as why:
        return slug, str(why)


def recorded(exercise: Exercise, seed: str) -> Recorded:
    """The stored cases of an exercise; raises `CannotSeal`. For a process of its own."""
    from safetensors.torch import save

    if exercise.hunts:
        raise CannotSeal("its checks need the catalogue of mistakes")
    if lacking := requirements.lacking(requirements.required(exercise, on_cuda=False)):
        raise CannotSeal(f"it {lacking}")
    answers = right_answers(exercise)
    suite_imports.reach(exercise)
    recorder = _take_place(modules([exercise]))
    (checks, cases), *others = (_asked(exercise, one, seed, recorder) for one in answers)
    left_out = {c.id: _why(c) for c in checks if c.verdict is not Verdict.PASSED}
    for other_checks, other in others:
        passed = {c.id for c in other_checks if c.verdict is Verdict.PASSED}
        for check in passed & dependent(cases, other, recorder.check_of):
            left_out.setdefault(check, DEPENDS)
    left_out |= {check: f"{kind} cannot be stored" for check, kind in recorder.unstorable.items()}
    left_out = {c.id: left_out[c.id] for c in checks if c.id in left_out}
    if len(left_out) == len(checks):
        raise CannotSeal("; ".join(dict.fromkeys(left_out.values())))
    kept = {case: told for case, told in cases.items() if recorder.check_of[case] not in left_out}
    return Recorded(
        slug=exercise.slug, left_out=left_out, content=_file(kept, left_out, recorder, save)
    )


def dependent(cases: Cases, other: Cases, check_of: Mapping[str, str]) -> set[str]:
    """The checks with a case that asked something else of another answer, or was told it."""
    return {
        check_of[case]
        for case, told in cases.items()
        if json.dumps(told) != json.dumps(other.get(case))  # as text a NaN is like another
    }


def _file(kept: Cases, left_out: Mapping[str, str], recorder: Recorder, save: Any) -> bytes:
    told = {"left_out": left_out, "values": sorted(recorder.values), "cases": kept}
    text = json.dumps(told, separators=(",", ":"))
    tensors = {name: x for name, x in recorder.tensors.items() if name in text}
    return bytes(save(tensors, {"cases": text}))


def _why(check: CheckResult) -> str:
    return check.why.partition("\n")[0] or check.verdict.value


def right_answers(exercise: Exercise) -> list[ModuleType]:
    """The solution; and the solution with the first, and with the last, variant of each name."""
    if not exercise.solution.is_file():
        raise CannotSeal("its solution is not at hand")
    variants = suite_runner.variants(exercise)
    if exercise.language != "python":
        return _compiled(exercise, exercise.solution.read_text(encoding="utf-8"), variants)
    # Of several for one name, the one that is put last stays.
    chosen = ({v.of: v for v in order} for order in (variants[::-1], variants))
    return [written(exercise), *(written(exercise, *those.values()) for those in chosen)]


def written(exercise: Exercise, *variants: Variant) -> ModuleType:
    """The solution with variants behind it. Its file stays: Triton reads kernels from there."""
    text = exercise.solution.read_text(encoding="utf-8")
    added = [mutants.variant_source(exercise, v).removeprefix(text) for v in variants]
    folder = Path(tempfile.mkdtemp(prefix="sealed-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = folder / exercise.file
    path.write_text("".join([text, *added]), encoding="utf-8")
    return load(path, exercise.slug, exercise.prelude)


def _compiled(exercise: Exercise, text: str, variants: Sequence[Variant]) -> list[ModuleType]:
    chosen = {v.id: edited(text, v.edits) for v in (variants[0], variants[-1])}
    try:
        return list(cuda.modules({"": text, **chosen}, exercise, only={}).values())
    except NotHere as needs:
        raise CannotSeal(str(needs)) from None


def _take_place(names: Sequence[str]) -> Recorder:
    """Put recorders into the place of the modules of the reference."""
    recorder = Recorder()
    real = {name: importlib.import_module(name) for name in names}
    for name, module in real.items():
        sys.modules[name] = Module(recorder, module)
    for name in real:
        if name != NAME:
            setattr(sys.modules[NAME], name.rpartition(".")[2], sys.modules[name])
    return recorder


def _asked(
    exercise: Exercise, module: ModuleType, seed: str, recorder: Recorder
) -> tuple[tuple[CheckResult, ...], dict[str, Any]]:
    """The verdicts on one right answer, and the tape of each case."""
    recorder.rewind((seed, exercise.slug))
    student = Student(exercise, in_process(module, exercise.prelude))
    with np.errstate(all="ignore"):
        checks = suite_runner.ask(exercise, Judge(student, (seed, exercise.slug), tape=recorder))
    return checks, recorder.cases
