"""Decides which files are graded: reads and parses them, checks what they use, never runs them."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from grader.core import catalog
from grader.core.records import Exercise, Submission
from grader.cuda import compiled_answer as cuda
from grader.submission import answer_file
from grader.submission.line_names import name_submission_line
from grader.submission.reader_client import UnreadableContent, ask_submission_reader
from grader.worker.parent.harmless_text import clean_worker_text
from grader.worker.parent.walls import PROCESS, Wall


class NotGraded(Exception):
    """The file as a whole cannot be graded: a state, the student's sentence, and its line."""

    def __init__(self, state: str, sentence: str, *, line: int = 0) -> None:
        super().__init__(sentence)
        self.state = state
        self.line = line  # of the file; 0 if it is not known


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmittedSubmission:
    """A submission that may be run, and what its text says before it is run."""

    runs: Submission  # what a worker is given: the file itself, or what was made of it
    problems: Mapping[str, str]  # what is wrong with a name of it, as a sentence
    line_of: Callable[[str], int]  # of the first definition that a sentence names; 0 if none


def read_begun_submission(path: Path, exercise: Exercise) -> Submission:
    """Read the submission at `path`. Raises `NotGraded` unless somebody has worked on it."""
    try:
        answer = answer_file.read_submission(
            path, exercise.slug, catalog.list_catalog_names(exercise)
        )
    except answer_file.UnreadableFile as problem:
        state = "missing" if "is not there" in str(problem) else "unreadable"
        raise NotGraded(state, str(problem)) from None
    if not answer.source or answer_file.is_submission_text_untouched(answer.source):
        lesson = answer_file.locate_lesson_of_submission(exercise.slug)
        raise NotGraded("not_started", f"Not started yet. The lesson: {lesson}")
    return answer


def admit_submission(
    answer: Submission, exercise: Exercise, wall: Wall = PROCESS, *, on_cuda: bool = False
) -> AdmittedSubmission:
    """Return a submission as it will run, and what each of its functions uses that is not allowed.

    Raises `NotGraded` if a text that should be CUDA C++ is not.

    wall  the wall behind which a compiler runs, if the language needs a compiler
    """
    found = read_submission_outline(answer, exercise)
    problems = {**found["problems"], **answer.problems}
    if exercise.language == "python":
        worked = replace(answer, source=found["runs"], theirs=True)
    else:
        try:
            made, program = cuda.build_cuda_module(
                answer.source, found["translated"], exercise, problems,
                partial(name_submission_line, answer.lines), wall=wall,
                on_cuda=on_cuda,
            )  # fmt: skip
        except cuda.NotCpp as problem:
            raise NotGraded("unreadable", clean_worker_text(str(problem))) from None
        worked = replace(answer, source=made, program=program)
    line_of = partial(find_submission_definition, found["lines"])
    return AdmittedSubmission(runs=worked, problems=problems, line_of=line_of)


def prepare_own_submission(
    answer: Submission, exercise: Exercise, wall: Wall = PROCESS, *, on_cuda: bool = False
) -> Submission:
    """Prepare one of the project's own files for a worker; a Python file may use anything."""
    if exercise.language == "python" or answer.path.suffix == ".py":
        return answer
    return admit_submission(answer, exercise, wall, on_cuda=on_cuda).runs


def read_submission_outline(answer: Submission, exercise: Exercise) -> dict[str, Any]:
    """Return the outline of a submission (its names, lines and problems), from its reader.

    Raises `NotGraded` for a text that cannot be read, or that uses what is not allowed.
    """
    given: dict[str, Any] = {"exercise": exercise, "lines": answer.lines}
    if exercise.language == "python":
        given["slugs"] = frozenset(e.slug for e in catalog.list_catalog_exercises()) - {
            exercise.slug
        }
    try:
        found: dict[str, Any] = ask_submission_reader(exercise.language, answer.source, **given)
    except UnreadableContent as problem:
        raise NotGraded("unreadable", str(problem)) from None
    for state in ("unreadable", "refused"):
        if state in found:
            sentence = found[state]
            named = None if answer.lines else re.match(r"Line (\d{1,6})\b", sentence)
            raise NotGraded(state, sentence, line=int(named[1]) if named else 0)
    return found


def find_submission_definition(lines: Mapping[str, int], sentence: str) -> int:
    """Return the line of the first definition that a sentence names; 0 if none."""
    named = (lines[word] for word in re.findall(r"\w+", sentence) if word in lines)
    return next(named, 0)
