"""Lists the cells of an exercise's notebook: prose in one language, code, and checks of tasks."""

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from grader.core.grade_ids import CUDA, SPEED, build_core_grade_id
from grader.core.records import Exercise
from grader.core.translation import Words
from grader.cuda import source as cuda_source
from grader.judging import suite_runner
from grader.judging.tasks import group_checks_by_task
from grader.submission.solution_text import Cell, has_solution_region


@dataclass(frozen=True, slots=True, kw_only=True)
class ExerciseCell:
    """A cell of a notebook; code has a name, and a check the points of its task."""

    text: str
    name: str = ""  # "" is prose
    solution: bool = False
    points: int | None = None


def count_task_points(exercise: Exercise, *, cuda: bool, speed: bool) -> dict[str, int]:
    """Return the points of each check cell of a notebook, and those of the speed case.

    cuda   whether to include points that need CUDA
    speed  whether to include points for speed
    """
    found = {
        t: sum(c.points for c in checks) for t, checks in group_checks_by_task(exercise).items()
    }
    if not cuda:
        found.pop(CUDA, None)
    case = suite_runner.find_suite_speed_case(exercise)
    if case is not None and speed and (cuda or not case.cuda):
        found[SPEED] = case.points
    return found


def list_exercise_cells(
    exercise: Exercise, cells: Iterable[Cell], words: Words, points: Mapping[str, int],
    shows: str = "open",
) -> Iterator[ExerciseCell]:  # fmt: skip
    """Yield the cells of an exercise in one language, with a check cell below each task.

    points  the points of each check cell, by its task
    shows   what the check cells show of a verdict: open, hints, verdicts or nothing
    """
    for number, cell in enumerate(cells):
        if cell.kind == "markdown":
            if cell.language == words.language:
                yield ExerciseCell(text=cell.text)
            continue
        in_cuda = exercise.language == "cuda"
        defined = _list_cuda_names(cell.text) if in_cuda else _list_python_names(cell.text)
        names = [name for name in exercise.names if name in defined]
        text = f"%%cuda\n{cell.text}" if in_cuda else cell.text
        if has_solution_region(cell.text):
            yield ExerciseCell(text=text, name="-".join(names) or f"code-{number}", solution=True)
        else:
            yield ExerciseCell(text=text, name=f"given-{number}")
        for name in names:
            yield from _list_check_cells(exercise, words, name, points, shows)
    for name in (CUDA, SPEED):
        yield from _list_check_cells(exercise, words, name, points, shows)


def _list_check_cells(
    exercise: Exercise, words: Words, name: str, points: Mapping[str, int], shows: str
) -> Iterator[ExerciseCell]:
    if name not in points:
        return
    told = words("1 point") if points[name] == 1 else words("{points} points", points=points[name])
    language = "" if words.language == "en" else f', lang="{words.language}"'
    limited = "" if shows == "open" else f', shows="{shows}"'
    text = f'check("{exercise.slug}", "{name}"{language}{limited})  # {told}'
    yield ExerciseCell(text=text, name=build_core_grade_id(name), points=points[name])


def _list_python_names(code: str) -> set[str]:
    definitions = (ast.FunctionDef, ast.ClassDef)
    return {node.name for node in ast.parse(code).body if isinstance(node, definitions)}


def _list_cuda_names(code: str) -> set[str]:
    return {
        function.name
        for function in cuda_source.find_cuda_functions(
            cuda_source.blank_cuda_comments(cuda_source.join_cuda_lines(code))
        )
    }
