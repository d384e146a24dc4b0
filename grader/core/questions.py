"""Reads the questions that follow an exercise in an interview: `questions.toml` of its suite."""

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grader.core.errors import UserError
from grader.core.records import Exercise

QUESTIONS_FILE = "questions.toml"
_TEXT_ENTRIES = ("id", "asks", "answer")


class BadQuestions(UserError):
    """A questions.toml that cannot be used. The message names the file, the entry, the cure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question and a model answer, in English; `Words.question` has the Chinese."""

    id: str
    asks: str
    answer: str


def read_questions(exercise: Exercise) -> tuple[Question, ...]:
    """Return the questions on an exercise, in the order of the file; empty without a file."""
    path = exercise.folder / QUESTIONS_FILE
    try:
        entries = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise BadQuestions(f"{path} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise BadQuestions(f"{path} is not UTF-8 text: save it as UTF-8.") from None
    except tomllib.TOMLDecodeError as error:
        raise BadQuestions(f"{path} is not valid TOML: {error}.") from None
    listed = entries.get("questions")
    if entries.keys() != {"questions"} or not isinstance(listed, list):
        raise BadQuestions(f"{path} should hold [[questions]] and nothing else: mend it.")
    found = [_read_question(path, number, entry) for number, entry in enumerate(listed, 1)]
    ids = [question.id for question in found]
    if twice := sorted({id for id in ids if ids.count(id) > 1}):
        raise BadQuestions(f"{path} has more than one question {twice[0]!r}: rename one.")
    return tuple(found)


def _read_question(path: Path, number: int, entry: Any) -> Question:
    """Return one entry, if it has the three texts and no other."""
    there = entry if isinstance(entry, dict) else {}
    for name in _TEXT_ENTRIES:
        text = there.get(name)
        if not (isinstance(text, str) and text.strip()):
            raise BadQuestions(f"{path}: question {number} has no text `{name}`: add it.")
    if other := sorted(there.keys() - set(_TEXT_ENTRIES)):
        raise BadQuestions(f"{path}: nothing reads `{other[0]}` of question {number}: remove it.")
    return Question(**{name: " ".join(there[name].split()) for name in _TEXT_ENTRIES})
