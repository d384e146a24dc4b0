"""Records the cases of a suite: the values drawn, and the answers of the reference.

Every exercise is recorded in a process of its own, in which recorders replace the reference's
modules. The suite runs with the solution, and again with right answers that are written otherwise.
A check whose tapes differ makes calls that depend on the answer, and is left out. So the stored
cases are the same whichever right answer was recorded.
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
from grader.judging.recorded_cases import REFERENCE_PACKAGE
from grader.judging.student import Student
from grader.release.sealed.case_recorder import RecordedModule, SealedRecorder
from grader.worker.parent import requirements
from grader.worker.parent.faults import UnmetRequirement
from grader.worker.parent.in_process import call_without_wall, load_file_without_wall

CASE_DEPENDS_ON_ANSWER = "what it asks depends on the answer"
Cases = Mapping[str, Any]


class CannotSeal(Exception):
    """Raised when the cases of an exercise cannot be stored; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """The stored cases of one exercise."""

    slug: str
    content: bytes  # of the safetensors file
    left_out: Mapping[str, str]  # by check, why it is left out


def list_modules_to_seal(exercises: Iterable[Exercise]) -> list[str]:
    """Return the names of the reference's modules, with the modules of packs."""
    homes = {ROOT, *(exercise.home for exercise in exercises)}
    stems = {path.stem for home in homes for path in (home / REFERENCE_PACKAGE).glob("*.py")}
    return [
        REFERENCE_PACKAGE,
        *sorted(f"{REFERENCE_PACKAGE}.{stem}" for stem in stems - {"__init__", "expected"}),
    ]


def record_all_sealed_cases(
    exercises: Sequence[Exercise], seed: str
) -> Iterator[Recorded | tuple[str, str]]:
    """Yield the stored cases of each exercise, or its slug and why it cannot be sealed."""
    context = get_context("spawn")
    with ProcessPoolExecutor(
        min(len(exercises), os.cpu_count() or 1), context, max_tasks_per_child=1
    ) as pool:
        yield from pool.map(
            record_sealed_exercise_safely, [e.slug for e in exercises], [seed] * len(exercises)
        )


def record_sealed_exercise_safely(slug: str, seed: str) -> Recorded | tuple[str, str]:
    """Return the stored cases of one exercise, or its slug and why it cannot be sealed."""
    try:
        return record_sealed_exercise(catalog.find_catalog_exercise(slug), seed)
    except CannotSeal as why:
        return slug, str(why)


def explain_unsealable_exercise(exercise: Exercise) -> str:
    """Return why an exercise cannot be sealed here; '' if that has to be tried."""
    if exercise.hunts:
        return "its checks need the catalogue of mistakes"
    lacking = requirements.find_unmet_worker_requirement(
        requirements.list_worker_requirements(exercise, on_cuda=False)
    )
    return f"it {lacking}" if lacking else ""


def record_sealed_exercise(exercise: Exercise, seed: str) -> Recorded:
    """Record the cases of an exercise, in a process of its own; raise `CannotSeal` if it fails."""
    from safetensors.torch import save

    if why := explain_unsealable_exercise(exercise):
        raise CannotSeal(why)
    answers = load_answers_to_seal(exercise)
    suite_imports.make_suite_pack_importable(exercise)
    recorder = _replace_reference_to_seal(list_modules_to_seal([exercise]))
    (checks, cases), *others = (
        _record_sealed_suite(exercise, one, seed, recorder) for one in answers
    )
    left_out = {c.id: _explain_unsealed_check(c) for c in checks if c.verdict is not Verdict.PASSED}
    for other_checks, other in others:
        passed = {c.id for c in other_checks if c.verdict is Verdict.PASSED}
        for check in passed & list_checks_not_sealed(cases, other, recorder.check_of):
            left_out.setdefault(check, CASE_DEPENDS_ON_ANSWER)
    left_out |= {check: f"{kind} cannot be stored" for check, kind in recorder.unstorable.items()}
    left_out = {c.id: left_out[c.id] for c in checks if c.id in left_out}
    if len(left_out) == len(checks):
        raise CannotSeal("; ".join(dict.fromkeys(left_out.values())))
    kept = {case: told for case, told in cases.items() if recorder.check_of[case] not in left_out}
    return Recorded(
        slug=exercise.slug,
        left_out=left_out,
        content=_pack_sealed_cases(kept, left_out, recorder, save),
    )


def list_checks_not_sealed(cases: Cases, other: Cases, check_of: Mapping[str, str]) -> set[str]:
    """Return the checks with a case whose tape differs with another right answer."""
    return {
        check_of[case]
        for case, told in cases.items()
        if json.dumps(told) != json.dumps(other.get(case))  # as text a NaN is like another
    }


def _pack_sealed_cases(
    kept: Cases, left_out: Mapping[str, str], recorder: SealedRecorder, save: Any
) -> bytes:
    told = {"left_out": left_out, "values": sorted(recorder.values), "cases": kept}
    text = json.dumps(told, separators=(",", ":"))
    tensors = {name: x for name, x in recorder.tensors.items() if name in text}
    return bytes(save(tensors, {"cases": text}))


def _explain_unsealed_check(check: CheckResult) -> str:
    return check.why.partition("\n")[0] or check.verdict.value


def load_answers_to_seal(exercise: Exercise) -> list[ModuleType]:
    """Load the solution alone, with the first variant of each name, and with the last."""
    if not exercise.solution.is_file():
        raise CannotSeal("its solution is not at hand")
    variants = suite_runner.list_suite_variants(exercise)
    if exercise.language != "python":
        return _compile_cuda_to_seal(
            exercise, exercise.solution.read_text(encoding="utf-8"), variants
        )
    # Of several variants of one name, the last of an order is chosen.
    chosen = ({v.of: v for v in order} for order in (variants[::-1], variants))
    return [
        load_solution_to_seal(exercise),
        *(load_solution_to_seal(exercise, *those.values()) for those in chosen),
    ]


def load_solution_to_seal(exercise: Exercise, *variants: Variant) -> ModuleType:
    """Load the solution with variants appended, from a file kept until exit: Triton reads it."""
    text = exercise.solution.read_text(encoding="utf-8")
    added = [mutants.write_variant_to_prove(exercise, v).removeprefix(text) for v in variants]
    folder = Path(tempfile.mkdtemp(prefix="sealed-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = folder / exercise.file
    path.write_text("".join([text, *added]), encoding="utf-8")
    return load_file_without_wall(path, exercise.slug, exercise.prelude)


def _compile_cuda_to_seal(
    exercise: Exercise, text: str, variants: Sequence[Variant]
) -> list[ModuleType]:
    chosen = {v.id: edited(text, v.edits) for v in (variants[0], variants[-1])}
    try:
        return list(cuda.build_own_cuda_modules({"": text, **chosen}, exercise, only={}).values())
    except UnmetRequirement as needs:
        raise CannotSeal(str(needs)) from None


def _replace_reference_to_seal(names: Sequence[str]) -> SealedRecorder:
    """Replace the reference's modules in `sys.modules` by recorders."""
    recorder = SealedRecorder()
    real = {name: importlib.import_module(name) for name in names}
    for name, module in real.items():
        sys.modules[name] = RecordedModule(recorder, module)
    for name in real:
        if name != REFERENCE_PACKAGE:
            setattr(sys.modules[REFERENCE_PACKAGE], name.rpartition(".")[2], sys.modules[name])
    return recorder


def _record_sealed_suite(
    exercise: Exercise, module: ModuleType, seed: str, recorder: SealedRecorder
) -> tuple[tuple[CheckResult, ...], dict[str, Any]]:
    """Run a suite with one right answer; return its verdicts and the tape of each case."""
    recorder.rewind((seed, exercise.slug))
    student = Student(exercise, call_without_wall(module, exercise.prelude))
    with np.errstate(all="ignore"):
        checks = suite_runner.run_suite_checks(
            exercise, Judge(student, (seed, exercise.slug), tape=recorder)
        )
    return checks, recorder.cases
