"""Checks that every sentence of a suite and every cell of its lesson has a translation."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from grader.core import manifest, toml_file
from grader.core.questions import read_questions_toml
from grader.core.records import DeclaredClass, DeclaredFunction, Exercise
from grader.judging import suite_runner
from grader.submission.solution_text import split_cells


def list_untranslated_exercise_texts(exercise: Exercise) -> Iterator[str]:
    """Yield a note for each sentence without a Chinese translation; no breach."""
    path = exercise.folder / "zh.toml"
    if not path.is_file():
        yield "zh.toml is missing, so that its sentences stay English. Write it."
    else:
        for name in sorted(
            _list_wanted_translations(exercise) - _list_exercise_translations(exercise)
        ):
            yield f"zh.toml has no {name}. Write it."
    prose = [
        cell.language for cell in split_cells(exercise.solution.read_text("utf-8")) if cell.language
    ]
    if prose != ["en", "zh"] * (len(prose) // 2):
        yield "in its lesson not every English cell has a Chinese one after it. Add them."


def check_needless_translations_law(exercise: Exercise) -> Iterator[str]:
    """Yield a breach for each entry of zh.toml whose name the suite does not have."""
    for name in sorted(_list_exercise_translations(exercise) - _list_wanted_translations(exercise)):
        if not name.startswith("said."):
            yield f"zh.toml has {name}, which the suite has not. Remove it."
        elif strange := sorted(
            _list_translated_words(name.removeprefix("said.")) - _list_said(exercise)
        ):
            yield f"zh.toml has {name}, but no check says {', '.join(strange)}. Remove it."


def _list_said(exercise: Exercise) -> set[str]:
    """Return the words in the modules of a suite, from which its checks make what they say."""
    texts = (path.read_text("utf-8") for path in exercise.folder.glob("*.py"))
    return {word for text in texts for word in _list_translated_words(text)}


def _list_translated_words(text: str) -> set[str]:
    return set(re.findall(r"[A-Za-z]{3,}", text))


def _list_exercise_translations(exercise: Exercise) -> set[str]:
    path = exercise.folder / "zh.toml"
    return (
        _flatten_exercise_translations(toml_file.read_toml_table(path, manifest.CHINESE_TABLE))
        if path.is_file()
        else set()
    )


def _list_wanted_translations(exercise: Exercise) -> set[str]:
    speed = suite_runner.find_suite_speed_case(exercise)
    written: dict[str, DeclaredFunction | DeclaredClass] = {
        **exercise.functions,
        **exercise.classes,
    }
    return {
        "title",
        *(["cure"] if exercise.cure else []),
        *(f"learned.{i}" for i in range(len(exercise.learned))),
        *(f"checks.{c.id}" for c in suite_runner.list_suite_checks(exercise)),
        *([f"speed.{speed.bench.__name__}"] if speed else []),
        *(f"variants.{v.id}" for v in suite_runner.list_shown_variants(exercise)),
        *(f"hints.{n}.{i}" for n, w in written.items() for i in range(len(w.hints))),
        *(f"hints.{n}.{i}" for n, told in exercise.hints.items() for i in range(len(told))),
        *(
            f"mistakes.{m.id}.{x}"
            for m in suite_runner.list_suite_mistakes(exercise)
            for x in ("says", "mend")
        ),
        *(
            f"questions.{q.id}.{x}"
            for q in read_questions_toml(exercise)
            for x in ("asks", "answer")
        ),
    }


def _flatten_exercise_translations(table: Mapping[str, Any], front: str = "") -> set[str]:
    found: set[str] = set()
    for key, value in table.items():
        name = f"{front}{key}"
        if isinstance(value, Mapping):
            found |= _flatten_exercise_translations(value, f"{name}.")
        elif isinstance(value, list):
            found |= {f"{name}.{i}" for i in range(len(value))}
        else:
            found.add(name)
    return found
