"""Whether every sentence of a suite, and every cell of its lesson, is there in Chinese."""

import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

from grader.course.questions import questions
from grader.course.solutions import cells
from grader.judging import suite
from grader.records import Class, Exercise, Function


def complaints(exercise: Exercise) -> Iterator[str]:
    """What is missing, and what nobody asks for."""
    slug, path = exercise.slug, exercise.folder / "zh.toml"
    if not path.is_file():
        yield f"{slug}: zh.toml is missing, so that its sentences stay English. Write it."
        return
    there, wanted = _entries(tomllib.loads(path.read_text(encoding="utf-8"))), _wanted(exercise)
    for name in sorted(wanted - there):
        yield f"{slug}: zh.toml has no {name}. Write it."
    for name in sorted(there - wanted):
        yield f"{slug}: zh.toml has {name}, which the suite has not. Remove it."
    lesson = cells(exercise.solution.read_text("utf-8"))
    prose = [cell.language for cell in lesson if cell.kind == "markdown"]
    if prose != ["en", "zh"] * (len(prose) // 2):
        yield f"{slug}: in its lesson not every English cell has a Chinese one after it. Add them."


def _wanted(exercise: Exercise) -> set[str]:
    speed = suite.speed_case(exercise)
    written: dict[str, Function | Class] = {**exercise.functions, **exercise.classes}
    return {
        "title",
        *(["cure"] if exercise.cure else []),
        *(f"checks.{c.id}" for c in suite.checks(exercise)),
        *([f"speed.{speed.bench.__name__}"] if speed else []),
        *(f"hints.{n}.{i}" for n, w in written.items() for i in range(len(w.hints))),
        *(f"mistakes.{m.id}.{x}" for m in suite.mistakes(exercise) for x in ("says", "mend")),
        *(f"questions.{q.id}.{x}" for q in questions(exercise) for x in ("asks", "answer")),
    }


def _entries(table: Mapping[str, Any], front: str = "") -> set[str]:
    found: set[str] = set()
    for key, value in table.items():
        name = f"{front}{key}"
        if isinstance(value, Mapping):
            found |= _entries(value, f"{name}.")
        elif isinstance(value, list):
            found |= {f"{name}.{i}" for i in range(len(value))}
        else:
            found.add(name)
    return found
