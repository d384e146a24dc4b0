"""Writes what a student starts from: `exercises/<slug>.py`, the lesson, and the pages of all."""

import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

from grader.authoring import allowed_page, architecture_page, exercise_index
from grader.core import catalog
from grader.core.catalog import ROOT
from grader.core.errors import UserError
from grader.core.records import Exercise
from grader.core.translation import LANGUAGES
from grader.submission import answer_file
from grader.submission.solution_text import BadSource, cells, stubbed

EMPTIED, SPACE = r"\n{4,}", "\n\n\n"  # a region at the top level leaves a hole


class NoSkeleton(UserError):
    """There is nothing to make a skeleton from. The message is a sentence with the cure."""


def write_all() -> Iterator[tuple[str, str]]:
    """Write every skeleton and lesson; yields each path and what became of it."""
    for exercise in catalog.exercises():
        source = exercise.solution.read_text(encoding="utf-8")
        for language in LANGUAGES:
            lesson = exercise.home / answer_file.lesson_path(exercise.slug, language)
            lesson.parent.mkdir(parents=True, exist_ok=True)
            yield _put(lesson, lesson_text(exercise, source, language))
        answer = exercise.home / "exercises" / exercise.file
        answer.parent.mkdir(exist_ok=True)
        if answer.exists() and not answer_file.is_untouched(answer):
            yield _name(answer), "yours"
        else:
            yield _put(answer, skeleton_text(exercise, source))
    for page in (exercise_index, allowed_page, architecture_page):
        yield _put(ROOT / page.PATH, page.page())


def pristine(exercise: Exercise) -> str:
    """The skeleton as it is handed out: made from the solution, or in a student's bundle the copy.

    Raises `NoSkeleton` where there is neither.
    """
    source, copy = exercise.solution, ROOT / copy_path(exercise)
    if source.is_file():
        return skeleton_text(exercise, source.read_text(encoding="utf-8"))
    if copy.is_file():
        return copy.read_text(encoding="utf-8")
    raise NoSkeleton(
        f"There is no skeleton of {exercise.slug} here: unpack the bundle of your course, or clone "
        "the project, and work in there."
    )


def copy_path(exercise: Exercise) -> str:
    """Where a bundle, which has no solutions, has the skeleton once more; no answer's name."""
    return f"grader/skeletons/{exercise.file}.txt"


def skeleton_text(exercise: Exercise, source: str) -> str:
    """The skeleton: the code without its solution regions, its digest and lesson in line one."""
    code = [_stubbed(exercise, cell.text) for cell in cells(source) if cell.kind == "code"]
    blank = "\n\n\n" if exercise.language == "python" else "\n\n"
    parts = blank.join(part.strip() for part in code if part.strip())
    body = f"{_opening(exercise)}\n\n{re.sub(EMPTIED, SPACE, parts)}\n"
    digest = answer_file.skeleton_digest(body)
    lesson = answer_file.lesson_path(exercise.slug)
    sign = comment_sign(exercise)
    return f"{sign} Skeleton {exercise.slug} {digest}. The lesson: {lesson}\n{body}"


def lesson_text(exercise: Exercise, source: str, language: str = "en") -> str:
    """The lesson: the prose in one language, and the code without the answers."""
    parts = [f"<!-- Generated from solutions/{exercise.file} by `make skeletons`. -->"]
    language_of_code = "python" if exercise.language == "python" else "cpp"
    for cell in cells(source):
        if cell.kind == "code":
            if code := re.sub(EMPTIED, SPACE, _stubbed(exercise, cell.text)).strip():
                parts.append(f"```{language_of_code}\n{code}\n```")
        elif cell.language == language:
            parts.append(cell.text)
    return "\n\n".join(parts) + "\n"


def _stubbed(exercise: Exercise, code: str) -> str:
    try:
        return stubbed(code)
    except BadSource as problem:
        raise BadSource(f"solutions/{exercise.file}, in a cell, {problem}") from None


def _opening(exercise: Exercise) -> str:
    """The module's docstring: how to be graded, and what may not be used."""
    names = ", ".join(exercise.not_allowed_text)
    refused = f"Not allowed: {names}. {exercise.cure}" if names else exercise.cure
    lines = textwrap.wrap(refused, 96, break_long_words=False, break_on_hyphens=False)
    first = f"{exercise.title}: write the bodies, then run `make grade EX={exercise.slug}`."
    if exercise.language == "python":
        lines = textwrap.wrap(refused, 98, break_long_words=False, break_on_hyphens=False)
        return "\n".join([f'"""{first}', "", *lines, '"""'])
    return "\n".join(f"// {line}".rstrip() for line in [first, "", *lines])


def comment_sign(exercise: Exercise) -> str:
    """The sign with which a comment begins."""
    return "#" if exercise.language == "python" else "//"


def _put(path: Path, text: str) -> tuple[str, str]:
    name = _name(path)
    if path.exists() and path.read_text(encoding="utf-8") == text:
        return name, "in step"
    path.write_text(text, encoding="utf-8")
    return name, "written"


def _name(path: Path) -> str:
    """Of a file of ours, its path in the tree; of a pack's, the whole path."""
    return str(path.relative_to(ROOT) if path.is_relative_to(ROOT) else path)
