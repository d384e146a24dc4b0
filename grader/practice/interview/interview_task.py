"""The file that an interview begins with: the task as comments, and what was written below it."""

import ast
import re
import textwrap
from pathlib import Path

from grader.authoring.skeletons import comment_sign, pristine
from grader.core.records import Exercise
from grader.core.translation import Words
from grader.submission.handed_files import MAX_BYTES

_WIDTH = 96
_WRITE = "Write all of this into this file; names and arguments stay as they are."


def task(exercise: Exercise, minutes: int, words: Words) -> str:
    """The text of the file: who is asked for what, each line a comment."""
    title = words.title(exercise)
    told = words("{title}: {minutes} min", title=f"{title} ({exercise.slug})", minutes=minutes)
    about = [told, words(_WRITE)]
    if exercise.not_allowed_text:
        about.append(words("Not allowed: {names}.", names=", ".join(exercise.not_allowed_text)))
    lines = [part for line in about for part in textwrap.wrap(line, _WIDTH)]
    source = pristine(exercise)
    asked = _python(source) if exercise.language == "python" else _cuda(source)
    sign = comment_sign(exercise)
    return "".join(f"{f'{sign} {line}'.rstrip()}\n" for line in [*lines, *asked]) + "\n"


def written(exercise: Exercise, path: Path) -> bytes | None:
    """The bytes of the file as it is now; None if there is nothing but comments in it."""
    if not path.is_file():
        return None
    with path.open("rb") as file:
        content = file.read(MAX_BYTES + 1)  # too large is still too large
    sign = comment_sign(exercise).encode()
    lines = (line.strip() for line in content.removeprefix(b"\xef\xbb\xbf").splitlines())
    return content if any(line and not line.startswith(sign) for line in lines) else None


def _python(source: str) -> list[str]:
    """Of every function and class its first lines and its docstring, and nothing between them."""
    lines = source.splitlines()
    found = []
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found += ["", *_outline(node, lines)]
    return found


def _outline(node: ast.FunctionDef | ast.ClassDef, lines: list[str]) -> list[str]:
    first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
    body = node.body
    told = ast.get_docstring(node) is not None
    last = (body[0].end_lineno or body[0].lineno) if told else body[0].lineno - 1
    found = lines[first - 1 : last]
    for part in body if isinstance(node, ast.ClassDef) else ():
        if isinstance(part, ast.FunctionDef):
            found += ["", *_outline(part, lines)]
        elif isinstance(part, ast.AnnAssign):
            found += ["", *lines[part.lineno - 1 : part.end_lineno]]
    return found


def _cuda(source: str) -> list[str]:
    """The declarations, with what is said above each."""
    declared = source[source.index("\n///") :]
    return re.sub(r" \{\s*\}", ";", declared).rstrip().splitlines()
