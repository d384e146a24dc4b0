"""Whether every sentence of a suite, and every cell of its lesson, is there in Chinese."""

from collections.abc import Iterator, Mapping
from typing import Any

from grader.core import manifest, toml_values
from grader.core.questions import questions
from grader.core.records import Class, Exercise, Function
from grader.judging import suite_runner
from grader.submission.solution_text import cells


def missing(exercise: Exercise) -> Iterator[str]:
    """What a Chinese reader is told in English. No breach, but worth a note."""
    path = exercise.folder / "zh.toml"
    if not path.is_file():
        yield "zh.toml is missing, so that its sentences stay English. Write it."
    else:
        for name in sorted(_wanted(exercise) - _there(exercise)):
            yield f"zh.toml has no {name}. Write it."
    prose = [cell.language for cell in cells(exercise.solution.read_text("utf-8")) if cell.language]
    if prose != ["en", "zh"] * (len(prose) // 2):
        yield "in its lesson not every English cell has a Chinese one after it. Add them."


def needless(exercise: Exercise) -> Iterator[str]:
    """What nobody asks for: the suite has another name for it by now, or none."""
    for name in sorted(_there(exercise) - _wanted(exercise)):
        yield f"zh.toml has {name}, which the suite has not. Remove it."


def _there(exercise: Exercise) -> set[str]:
    path = exercise.folder / "zh.toml"
    return _names(toml_values.read(path, manifest.CHINESE)) if path.is_file() else set()


def _wanted(exercise: Exercise) -> set[str]:
    speed = suite_runner.speed_case(exercise)
    written: dict[str, Function | Class] = {**exercise.functions, **exercise.classes}
    return {
        "title",
        *(["cure"] if exercise.cure else []),
        *(f"checks.{c.id}" for c in suite_runner.checks(exercise)),
        *([f"speed.{speed.bench.__name__}"] if speed else []),
        *(f"hints.{n}.{i}" for n, w in written.items() for i in range(len(w.hints))),
        *(
            f"mistakes.{m.id}.{x}"
            for m in suite_runner.mistakes(exercise)
            for x in ("says", "mend")
        ),
        *(f"questions.{q.id}.{x}" for q in questions(exercise) for x in ("asks", "answer")),
    }


def _names(table: Mapping[str, Any], front: str = "") -> set[str]:
    found: set[str] = set()
    for key, value in table.items():
        name = f"{front}{key}"
        if isinstance(value, Mapping):
            found |= _names(value, f"{name}.")
        elif isinstance(value, list):
            found |= {f"{name}.{i}" for i in range(len(value))}
        else:
            found.add(name)
    return found
