"""Writes the file that an interview begins with, and reads what was written below the task."""

import ast
import re
import textwrap
from pathlib import Path

from grader.authoring.skeletons import find_skeleton_comment_sign, make_untouched_skeleton
from grader.core.records import Exercise
from grader.core.translation import Words
from grader.submission.handed_files import MAX_ANSWER_BYTES

_LINE_COLUMNS = 96
_WRITE_SENTENCE = "Write all of this into this file; names and arguments stay as they are."


def write_interview_task(exercise: Exercise, minutes: int, words: Words) -> str:
    """Return the text of the file: the task, each line a comment."""
    title = words.title(exercise)
    told = words("{title}: {minutes} min", title=f"{title} ({exercise.slug})", minutes=minutes)
    about = [told, words(_WRITE_SENTENCE)]
    if exercise.not_allowed_text:
        names = words(", ").join(map(words.said, exercise.not_allowed_text))
        about.append(words("Not allowed: {names}.", names=names))
    lines = [part for line in about for part in textwrap.wrap(line, _LINE_COLUMNS)]
    source = make_untouched_skeleton(exercise)
    asked = (
        _outline_interview_python(source)
        if exercise.language == "python"
        else _outline_interview_cuda(source)
    )
    sign = find_skeleton_comment_sign(exercise)
    return "".join(f"{f'{sign} {line}'.rstrip()}\n" for line in [*lines, *asked]) + "\n"


def read_interview_answer(exercise: Exercise, path: Path) -> bytes | None:
    """Return the bytes of the file as it is now; None if it holds nothing but comments."""
    if not path.is_file():
        return None
    with path.open("rb") as file:
        content = file.read(MAX_ANSWER_BYTES + 1)  # too large is still too large
    sign = find_skeleton_comment_sign(exercise).encode()
    lines = (line.strip() for line in content.removeprefix(b"\xef\xbb\xbf").splitlines())
    return content if any(line and not line.startswith(sign) for line in lines) else None


def _outline_interview_python(source: str) -> list[str]:
    """Return the first lines and the docstring of every function and class, without bodies."""
    lines = source.splitlines()
    found = []
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found += ["", *_outline_interview_definition(node, lines)]
    return found


def _outline_interview_definition(
    node: ast.FunctionDef | ast.ClassDef, lines: list[str]
) -> list[str]:
    first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
    body = node.body
    told = ast.get_docstring(node) is not None
    last = (body[0].end_lineno or body[0].lineno) if told else body[0].lineno - 1
    found = lines[first - 1 : last]
    for part in body if isinstance(node, ast.ClassDef) else ():
        if isinstance(part, ast.FunctionDef):
            found += ["", *_outline_interview_definition(part, lines)]
        elif isinstance(part, ast.AnnAssign):
            found += ["", *lines[part.lineno - 1 : part.end_lineno]]
    return found


def _outline_interview_cuda(source: str) -> list[str]:
    """Return the declarations, each with the comment above it."""
    declared = source[source.index("\n///") :]
    return re.sub(r" \{\s*\}", ";", declared).rstrip().splitlines()
