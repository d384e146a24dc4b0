"""Which files are graded at all: read, parsed, and held to what the exercise allows. Never run."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from grader import catalog, submission
from grader.cuda import answer as cuda
from grader.cuda import outline as cuda_outline
from grader.judging import operators, outline
from grader.records import Exercise, Submission
from grader.worker.text import harmless
from grader.worker.walls import PROCESS, Wall


class NotGraded(Exception):
    """The file as a whole cannot be graded: a state and the student's sentence."""

    def __init__(self, state: str, sentence: str) -> None:
        super().__init__(sentence)
        self.state = state


@dataclass(frozen=True, slots=True, kw_only=True)
class Admitted:
    """A submission that may be asked, and what its text says before it is."""

    runs: Submission  # what a worker is given: the file itself, or what was made of it
    problems: Mapping[str, str]  # what is wrong with a name of it, as a sentence
    line_of: Callable[[str], int]  # of the first definition that a sentence names; 0 if none


def read(path: Path, exercise: Exercise) -> Submission:
    """The submission at `path`, if there is one and somebody has worked on it."""
    try:
        answer = submission.read(path, exercise.slug, catalog.names_read(exercise))
    except submission.Unreadable as problem:
        state = "missing" if "is not there" in str(problem) else "unreadable"
        raise NotGraded(state, str(problem)) from None
    if not answer.source or submission.is_untouched_skeleton(answer.source):
        lesson = submission.lesson_path(exercise.slug)
        raise NotGraded("not_started", f"Not started yet. The lesson: {lesson}")
    return answer


def admit(
    answer: Submission, exercise: Exercise, wall: Wall = PROCESS, *, on_cuda: bool = False
) -> Admitted:
    """A submission that is in its language and uses only what is allowed.

    wall  behind which a compiler runs, if its language has one
    """
    return (_cuda if exercise.language == "cuda" else _python)(answer, exercise, wall, on_cuda)


def runs(
    answer: Submission, exercise: Exercise, wall: Wall = PROCESS, *, on_cuda: bool = False
) -> Submission:
    """What a worker is given of a submission that was admitted before, or of a file of ours."""
    if exercise.language == "python" or answer.path.suffix == ".py":
        return answer
    return admit(answer, exercise, wall, on_cuda=on_cuda).runs


def _cuda(answer: Submission, exercise: Exercise, wall: Wall, on_cuda: bool) -> Admitted:
    text = answer.source
    try:
        made = cuda.module(text, exercise, answer.line, wall=wall, on_cuda=on_cuda)
    except cuda.Refused as problem:
        raise NotGraded("refused", harmless(str(problem))) from None
    except cuda.NotCpp as problem:
        raise NotGraded("unreadable", harmless(str(problem))) from None
    return Admitted(
        runs=replace(answer, source=made),
        problems=cuda_outline.problems(text, exercise),
        line_of=partial(cuda_outline.line_of, text),
    )


def _python(answer: Submission, exercise: Exercise, wall: Wall, on_cuda: bool) -> Admitted:
    try:
        tree = outline.parse(answer.source)
    except outline.NotPython as problem:
        raise NotGraded("unreadable", harmless(str(problem))) from None
    slugs = frozenset(e.slug for e in catalog.exercises()) - {exercise.slug}
    if refused := operators.refusals(tree, exercise, slugs, answer.line):
        raise NotGraded("refused", refused[0])
    return Admitted(
        runs=answer,
        problems=outline.problems(tree, exercise) | dict(answer.problems),
        line_of=partial(outline.line_of, tree),
    )
