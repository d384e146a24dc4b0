"""Reads the questions that follow an exercise in an interview: `questions.toml` of its suite."""

from dataclasses import dataclass

from grader.core.records import Exercise
from grader.core.toml_file import FILLED_TEXT, BadFile, TomlTable, TomlTables, read_toml_table

QUESTIONS_FILE = "questions.toml"
_TEXT_ENTRIES = ("id", "asks", "answer")
_WANTED = TomlTable(
    entries={
        "questions": TomlTables(
            TomlTable(entries=dict.fromkeys(_TEXT_ENTRIES, FILLED_TEXT), needs=_TEXT_ENTRIES)
        )
    },
    needs=("questions",),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question and a model answer, in English; `Words.question` has the Chinese."""

    id: str
    asks: str
    answer: str


def read_questions_toml(exercise: Exercise) -> tuple[Question, ...]:
    """Return the questions on an exercise, in the order of the file; empty without a file."""
    path = exercise.folder / QUESTIONS_FILE
    if not path.exists():
        return ()
    listed = read_toml_table(path, _WANTED)["questions"]
    ids = [entry["id"] for entry in listed]
    if twice := sorted({id for id in ids if ids.count(id) > 1}):
        raise BadFile(f"{path} has more than one question {twice[0]!r}: rename one.")
    return tuple(
        Question(**{name: " ".join(text.split()) for name, text in entry.items()})
        for entry in listed
    )
