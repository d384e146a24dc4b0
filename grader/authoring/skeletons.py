"""Writes each exercise's skeleton `exercises/<slug>.py` and lesson, and the generated pages."""

import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

from grader.authoring import (
    allowed_page,
    architecture_page,
    exercise_index,
    lesson_notes,
)
from grader.core import catalog
from grader.core.catalog import ROOT
from grader.core.errors import UserError
from grader.core.records import Exercise
from grader.core.translation import LANGUAGES
from grader.submission import answer_file
from grader.submission.solution_text import BadSource, remove_solutions, split_cells

GAP_PATTERN, GAP = r"\n{4,}", "\n\n\n"  # a region at the top level leaves empty lines
_GENERATED_NOTE = re.compile(r"\A<!-- Generated from .* -->\n+")


class NoSkeleton(UserError):
    """Raised without a source for a skeleton; the message says why, and how to fix it."""


def write_all_skeletons() -> Iterator[tuple[str, str]]:
    """Write every skeleton, lesson and page; yield each path and its state."""
    for exercise in catalog.list_catalog_exercises():
        source = exercise.solution.read_text(encoding="utf-8")
        for language in LANGUAGES:
            lesson = exercise.home / answer_file.locate_lesson_of_submission(
                exercise.slug, language
            )
            lesson.parent.mkdir(parents=True, exist_ok=True)
            yield _write_changed_skeleton(lesson, make_lesson(exercise, source, language))
        answer = exercise.home / "exercises" / exercise.file
        answer.parent.mkdir(exist_ok=True)
        if answer.exists() and not answer_file.is_submission_file_untouched(answer):
            yield _show_skeleton_path(answer), "yours"
        else:
            yield _write_changed_skeleton(answer, make_skeleton(exercise, source))
    for page in (exercise_index, allowed_page, architecture_page):
        yield _write_changed_skeleton(ROOT / page.PATH, page.render_generated_page())


def make_untouched_skeleton(exercise: Exercise) -> str:
    """Return the skeleton as handed out, made from the solution or copied from a student's bundle.

    Raise `NoSkeleton` if there is neither a solution nor a copy.
    """
    source, copy = exercise.solution, ROOT / find_skeleton_copy(exercise)
    if source.is_file():
        return make_skeleton(exercise, source.read_text(encoding="utf-8"))
    if copy.is_file():
        return copy.read_text(encoding="utf-8")
    raise NoSkeleton(
        f"There is no skeleton of {exercise.slug} here: unpack the bundle of your course, or clone "
        "the project, and work in there."
    )


def find_skeleton_copy(exercise: Exercise) -> str:
    """Return the path of a bundle's skeleton (it has no solutions); no answer has that name."""
    return f"grader/skeletons/{exercise.file}.txt"


def make_skeleton(exercise: Exercise, source: str) -> str:
    """Return the code without solution regions, with digest and lesson in line one."""
    code = [
        _make_skeleton_cell(exercise, cell.text)
        for cell in split_cells(source)
        if cell.kind == "code"
    ]
    blank = "\n\n\n" if exercise.language == "python" else "\n\n"
    parts = blank.join(part.strip() for part in code if part.strip())
    body = f"{_write_skeleton_docstring(exercise)}\n\n{re.sub(GAP_PATTERN, GAP, parts)}\n"
    digest = answer_file.digest_submitted_skeleton(body)
    lesson = answer_file.locate_lesson_of_submission(exercise.slug)
    sign = find_skeleton_comment_sign(exercise)
    return f"{sign} Skeleton {exercise.slug} {digest}. The lesson: {lesson}\n{body}"


def make_lesson(exercise: Exercise, source: str, language: str = "en") -> str:
    """Return the lesson: the prose in one language, and the code without the answers."""
    parts = [f"<!-- Generated from solutions/{exercise.file} by `make skeletons`. -->"]
    language_of_code = "python" if exercise.language == "python" else "cpp"
    for cell in split_cells(source):
        if cell.kind == "code":
            if code := re.sub(GAP_PATTERN, GAP, _make_skeleton_cell(exercise, cell.text)).strip():
                parts.append(f"```{language_of_code}\n{code}\n```")
        elif cell.language == language:
            parts.append(cell.text)
    if picture := lesson_notes.write_picture_link(exercise.slug, language):
        title, _, rest = parts[1].partition("\n\n")
        parts[1] = f"{title}\n\n{picture}\n\n{rest}"
    parts.append(lesson_notes.write_lesson_papers(exercise.slug, language))
    return "\n\n".join(filter(None, parts)) + "\n"


def drop_generated_note(page: str) -> str:
    """Return a page without its first line, if that says from what the project generates it."""
    return _GENERATED_NOTE.sub("", page)


def _make_skeleton_cell(exercise: Exercise, code: str) -> str:
    try:
        return remove_solutions(code)
    except BadSource as problem:
        raise BadSource(f"solutions/{exercise.file}, in a cell, {problem}") from None


def _write_skeleton_docstring(exercise: Exercise) -> str:
    """Return the skeleton's docstring: the command that grades it, and the names not allowed."""
    names = ", ".join(exercise.not_allowed_text)
    refused = f"Not allowed: {names}. {exercise.cure}" if names else exercise.cure
    lines = textwrap.wrap(refused, 96, break_long_words=False, break_on_hyphens=False)
    first = f"{exercise.title}: write the bodies, then run `make grade EX={exercise.slug}`."
    if exercise.language == "python":
        lines = textwrap.wrap(refused, 98, break_long_words=False, break_on_hyphens=False)
        return "\n".join([f'"""{first}', "", *lines, '"""'])
    return "\n".join(f"// {line}".rstrip() for line in [first, "", *lines])


def find_skeleton_comment_sign(exercise: Exercise) -> str:
    """Return the sign with which a comment begins."""
    return "#" if exercise.language == "python" else "//"


def _write_changed_skeleton(path: Path, text: str) -> tuple[str, str]:
    name = _show_skeleton_path(path)
    if path.exists() and path.read_text(encoding="utf-8") == text:
        return name, "in step"
    path.write_text(text, encoding="utf-8")
    return name, "written"


def _show_skeleton_path(path: Path) -> str:
    """Return a file's path within the project; the whole path of a pack's file."""
    return str(path.relative_to(ROOT) if path.is_relative_to(ROOT) else path)
