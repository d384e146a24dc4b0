"""Reads a student's file. Nothing here runs it."""

import hashlib
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from grader.core.catalog import suffix
from grader.core.records import Submission
from grader.submission.handed_files import MAX_BYTES
from grader.submission.notebook_cells import MAX_BYTES as MAX_NOTEBOOK
from grader.submission.reader_client import Unread, ask_reader

_LANGUAGE_OF_SUFFIX = {".py": "Python", ".cu": "CUDA"}


class Unreadable(Exception):
    """A submission that cannot be graded as it stands; the message is the student's sentence."""


def locate(place: Path, slug: str) -> Path:
    """Return the file of one exercise in `place`, which is a folder of answers or a single answer.

    In a folder a notebook counts where there is no plain file, or one that nobody has changed.
    """
    if not place.is_dir():
        return place
    answer, notebook = place / f"{slug}{suffix(slug)}", place / f"{slug}.ipynb"
    if notebook.is_file() and (is_untouched(answer) or not answer.exists()):
        return notebook
    return answer


def read_answer(path: Path, slug: str, names: Sequence[str] = ()) -> Submission:
    """Read the submission at `path`. Raises `Unreadable` with the reason.

    names  what the exercise asks for: of a notebook, what these need is taken
    """
    plain = suffix(slug)
    if path.suffix not in (plain, ".ipynb"):
        raise Unreadable(
            f"{path.name} is not a {_LANGUAGE_OF_SUFFIX[plain]} file: name it {slug}{plain}."
        )
    in_cells = path.suffix == ".ipynb"
    content = read_bytes(path, MAX_NOTEBOOK if in_cells else MAX_BYTES)
    found: dict[str, Any] = (
        _source_of_notebook(content, names, plain)
        if in_cells
        else {"source": _decode_source(content, path)}
    )
    if len(found["source"]) > MAX_BYTES:
        raise Unreadable(f"{path.name} is too large: an answer has at most {MAX_BYTES:,} bytes.")
    return Submission(
        slug=slug,
        path=path,
        sha256=hashlib.sha256(content).hexdigest(),
        source=found["source"],
        lines=tuple((cell, line) for cell, line in found.get("lines", ())),
        problems=found.get("problems", {}),
    )


def read_bytes(path: Path, most: int) -> bytes:
    """Return the bytes of a file. Raises `Unreadable` if it is none, or has more than `most`."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise Unreadable(f"{path.name} is not a file.")
        with path.open("rb") as file:
            content = file.read(most + 1)
    except FileNotFoundError:
        raise Unreadable(f"{path.name} is not there. `make skeletons` writes it.") from None
    except OSError as error:
        raise Unreadable(f"{path.name} cannot be read: {error.strerror}.") from None
    if len(content) > most:
        raise Unreadable(f"{path.name} is too large: an answer has at most {most:,} bytes.")
    return content


def _decode_source(content: bytes, path: Path) -> str:
    try:
        source = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise Unreadable(f"{path.name} is not UTF-8 text: save it as UTF-8.") from None
    if not source.strip():
        raise Unreadable(f"{path.name} is empty. `make skeletons` writes the task into it again.")
    if "\0" in source:
        raise Unreadable(f"{path.name} contains null bytes: save it as plain text.")
    return source.replace("\r\n", "\n")


def _source_of_notebook(content: bytes, names: Sequence[str], plain: str) -> dict[str, Any]:
    language = "cuda" if plain == ".cu" else "python"
    try:
        found: dict[str, Any] = ask_reader(
            "notebook", content, names=tuple(names), language=language
        )
    except Unread as problem:
        raise Unreadable(str(problem)) from None
    if "bad" in found:
        raise Unreadable(found["bad"])
    return found


def skeleton_digest(body: str) -> str:
    """Return the digest of a skeleton below its first line, which carries the digest."""
    return hashlib.sha256(body.encode()).hexdigest()[:16]


def is_untouched(path: Path) -> bool:
    """Return whether the file at `path` is a generated skeleton that nobody has changed."""
    try:
        return is_untouched_skeleton(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError):
        return False


def is_untouched_skeleton(source: str) -> bool:
    """Return whether this source is a generated skeleton that nobody has changed."""
    first, _, body = source.partition("\n")
    return first.startswith(("# Skeleton", "// Skeleton")) and skeleton_digest(body) in first


def lesson_path(slug: str, language: str = "en") -> str:
    """Return the path of an exercise's lesson, from the root of the project."""
    return f"docs/lessons/{slug}.{language}.md"
