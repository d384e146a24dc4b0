"""Lists the steps of a run, in order: the quickest and most telling first, speed last."""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from grader.core import catalog
from grader.core.records import Exercise
from grader.judging import suite_runner

COMPILE_FILE = "compiled.py"  # of a suite: compiles the solution's kernels


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuStep:
    """One process: its name in the results, and its command line.

    by_line  whether a new process can go on after the lines of an earlier one (`--after N`)
    """

    name: str
    command: tuple[str, ...]
    by_line: bool = False


def plan_gpu_steps(names: Sequence[str], device: str, *, speed: bool = True) -> list[GpuStep]:
    """Return all steps about these exercises, or about every exercise if none is named.

    Raises `ValueError` with a sentence about a name that is no exercise.
    """
    try:
        exercises = [catalog.find_catalog_exercise(name) for name in names] or list(
            catalog.list_catalog_exercises()
        )
    except catalog.UnknownExercise as unknown:
        raise ValueError(str(unknown)) from None
    ordered = sorted(exercises, key=lambda e: (not _has_gpu_part(e), e.order))
    found = [
        _plan_gpu_python_step("machine", "grader.gpu_check.machine_lines", device),
        _plan_gpu_python_step("fast path", "reference.on_device", device, by_line=True),
    ]
    for exercise in ordered:
        found += _plan_gpu_suite_steps(exercise, device)
    if speed:
        found += [
            _plan_gpu_python_step(
                f"speed of {e.slug}", "grader.gpu_check.grade_solution", e.slug, device, "--speed"
            )
            for e in ordered
            if _is_timed_on_gpu(e)
        ]
    return found


def _plan_gpu_suite_steps(exercise: Exercise, device: str) -> Iterator[GpuStep]:
    offline = exercise.folder / COMPILE_FILE
    if offline.is_file():
        command = (sys.executable, str(offline), str(exercise.solution), device)
        yield GpuStep(name=f"compiling {exercise.slug}", command=command)
    yield _plan_gpu_python_step(
        exercise.slug, "grader.gpu_check.grade_solution", exercise.slug, device
    )


def _plan_gpu_python_step(
    name: str, module: str, *arguments: str, by_line: bool = False
) -> GpuStep:
    return GpuStep(name=name, command=(sys.executable, "-m", module, *arguments), by_line=by_line)


def _has_gpu_part(exercise: Exercise) -> bool:
    return _is_timed_on_gpu(exercise) or any(
        check.cuda for check in suite_runner.list_suite_checks(exercise)
    )


def _is_timed_on_gpu(exercise: Exercise) -> bool:
    case = suite_runner.find_suite_speed_case(exercise)
    return case is not None and case.cuda
