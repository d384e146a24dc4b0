"""Loads our own modules in this process: the solution of an exercise, also with mistakes."""

from functools import cache
from types import ModuleType

from grader.core import catalog
from grader.core.records import Exercise
from grader.cuda import compiled_answer as cuda
from grader.judging import suite_runner
from grader.judging.marks import Mistake, edited
from grader.worker.parent.in_process import load_file_without_wall


def load_solution_for_judging(exercise: Exercise) -> ModuleType | None:
    """Load a fresh copy of the solution; None in a course handed out without solutions."""
    path = exercise.solution
    if not path.is_file():
        return None
    if exercise.language == "python":
        return load_file_without_wall(path, exercise.slug, exercise.prelude)
    return _copy_solution_module(_compile_solution_modules(exercise.slug)[""])


def load_mistaken_solution(exercise: Exercise, mistake: Mistake) -> ModuleType | None:
    """Load the solution with a mistake that is an edit of its text; None without solutions."""
    if not exercise.solution.is_file():
        return None
    return _copy_solution_module(_compile_solution_modules(exercise.slug)[mistake.id])


def _copy_solution_module(module: ModuleType) -> ModuleType:
    copy = ModuleType(module.__name__)
    copy.__dict__.update(module.__dict__)
    return copy


@cache
def _compile_solution_modules(slug: str) -> dict[str, ModuleType]:
    """Compile, once and together, the solution (as "") and each mistake that is an edit of it."""
    exercise = catalog.find_catalog_exercise(slug)
    text = exercise.solution.read_text(encoding="utf-8")
    mistakes = [m for m in suite_runner.list_suite_mistakes(exercise) if m.edits]
    wrong = {m.id: edited(text, m.edits) for m in mistakes}
    return cuda.build_own_cuda_modules(
        {"": text, **wrong}, exercise, only={m.id: m.of for m in mistakes}
    )
