"""Which files are graded at all: read, parsed, and held to what the exercise allows. Never run."""

import ast
from pathlib import Path

from grader import catalog, submission
from grader.judging import operators, outline
from grader.records import Exercise, Submission
from grader.worker.text import harmless


class NotGraded(Exception):
    """The file as a whole cannot be graded: a state and the student's sentence."""

    def __init__(self, state: str, sentence: str) -> None:
        super().__init__(sentence)
        self.state = state


def read(path: Path, exercise: Exercise) -> Submission:
    """The submission at `path`, if there is one and somebody has worked on it."""
    try:
        answer = submission.read(path, exercise.slug, exercise.names)
    except submission.Unreadable as problem:
        state = "missing" if "is not there" in str(problem) else "unreadable"
        raise NotGraded(state, str(problem)) from None
    if not answer.source or submission.is_untouched_skeleton(answer.source):
        lesson = submission.lesson_path(exercise.slug)
        raise NotGraded("not_started", f"Not started yet. The lesson: {lesson}")
    return answer


def admit(answer: Submission, exercise: Exercise) -> ast.Module:
    """The tree of a submission that is Python and uses only what is allowed."""
    try:
        tree = outline.parse(answer.source)
    except outline.NotPython as problem:
        raise NotGraded("unreadable", harmless(str(problem))) from None
    slugs = frozenset(e.slug for e in catalog.exercises()) - {exercise.slug}
    if refused := operators.refusals(tree, exercise, slugs, answer.line):
        raise NotGraded("refused", refused[0])
    return tree
