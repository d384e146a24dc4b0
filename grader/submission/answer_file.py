"""Reads a student's file. Nothing here runs it."""

import hashlib
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from grader.core.catalog import find_catalog_suffix, list_catalog_names
from grader.core.records import Exercise, Submission
from grader.submission.handed_files import MAX_ANSWER_BYTES
from grader.submission.line_names import unify_submission_line_ends
from grader.submission.notebook_cells import MAX_FILE_BYTES as MAX_NOTEBOOK
from grader.submission.reader_client import UnreadableContent, ask_submission_reader

_LANGUAGE_OF_SUFFIX = {".py": "Python", ".cu": "CUDA"}


class UnreadableFile(Exception):
    """A submission that cannot be graded as it stands; the message is the student's sentence."""


def locate_submission(place: Path, slug: str) -> Path:
    """Return the file of one exercise in `place`, which is a folder of answers or a single answer.

    In a folder a notebook counts where there is no plain file, or one that nobody has changed.
    """
    if not place.is_dir():
        return place
    answer, notebook = place / f"{slug}{find_catalog_suffix(slug)}", place / f"{slug}.ipynb"
    if notebook.is_file() and (is_submission_file_untouched(answer) or not answer.exists()):
        return notebook
    return answer


def read_submission(path: Path, slug: str, names: Sequence[str] = ()) -> Submission:
    """Read the submission at `path`. Raises `UnreadableFile` with the reason.

    names  what the exercise asks for; of a notebook, only these and what they need are taken
    """
    plain = find_catalog_suffix(slug)
    if path.suffix not in (plain, ".ipynb"):
        raise UnreadableFile(
            f"{path.name} is not a {_LANGUAGE_OF_SUFFIX[plain]} file: name it {slug}{plain}."
        )
    in_cells = path.suffix == ".ipynb"
    content = read_submission_bytes(path, MAX_NOTEBOOK if in_cells else MAX_ANSWER_BYTES)
    found: dict[str, Any] = (
        _extract_notebook_submission(content, names, plain)
        if in_cells
        else {"source": _decode_submission(content, path)}
    )
    if len(found["source"]) > MAX_ANSWER_BYTES:
        raise UnreadableFile(
            f"{path.name} is too large: an answer has at most {MAX_ANSWER_BYTES:,} bytes."
        )
    return Submission(
        slug=slug,
        path=path,
        sha256=hashlib.sha256(content).hexdigest(),
        source=found["source"],
        lines=tuple((cell, line) for cell, line in found.get("lines", ())),
        problems=found.get("problems", {}),
    )


def read_submission_bytes(path: Path, most: int) -> bytes:
    """Return a file's bytes. Raises `UnreadableFile` if it is no file, or has more than `most`."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise UnreadableFile(f"{path.name} is not a file.")
        with path.open("rb") as file:
            content = file.read(most + 1)
    except FileNotFoundError:
        raise UnreadableFile(
            f"{path.name} is not there. `make reset EX={path.stem}` writes it."
        ) from None
    except OSError as error:
        raise UnreadableFile(f"{path.name} cannot be read: {error.strerror}.") from None
    if len(content) > most:
        raise UnreadableFile(f"{path.name} is too large: an answer has at most {most:,} bytes.")
    return content


def _decode_submission(content: bytes, path: Path) -> str:
    try:
        source = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UnreadableFile(f"{path.name} is not UTF-8 text: save it as UTF-8.") from None
    if not source.strip():
        raise UnreadableFile(
            f"{path.name} is empty. `make reset EX={path.stem}` writes the task into it again."
        )
    if path.suffix == ".py" and source.lstrip().startswith("{") and '"cells"' in source:
        raise UnreadableFile(f"{path.name} is a notebook: name it {path.stem}.ipynb.")
    if "\0" in source:
        raise UnreadableFile(f"{path.name} contains null bytes: save it as plain text.")
    return unify_submission_line_ends(source)


def _extract_notebook_submission(
    content: bytes, names: Sequence[str], plain: str
) -> dict[str, Any]:
    language = "cuda" if plain == ".cu" else "python"
    try:
        found: dict[str, Any] = ask_submission_reader(
            "notebook", content, names=tuple(names), language=language
        )
    except UnreadableContent as problem:
        raise UnreadableFile(str(problem)) from None
    if "bad" in found:
        raise UnreadableFile(found["bad"])
    return found


def digest_submitted_skeleton(body: str) -> str:
    """Return the digest of a skeleton below its first line, which carries the digest."""
    return hashlib.sha256(body.encode()).hexdigest()[:16]


def is_submission_file_untouched(path: Path) -> bool:
    """Return whether the file at `path` is a generated skeleton that nobody has changed."""
    try:
        return is_submission_text_untouched(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError):
        return False


def is_submission_text_untouched(source: str) -> bool:
    """Return whether this source is a generated skeleton that nobody has changed."""
    first, _, body = source.partition("\n")
    return (
        first.startswith(("# Skeleton", "// Skeleton")) and digest_submitted_skeleton(body) in first
    )


def is_submission_content_untouched(content: bytes, exercise: Exercise, name: str) -> bool:
    """Return whether these are the bytes of a skeleton or a notebook that nobody has changed.

    name  the file's; its line ends may be those of any system
    """
    if name.lower().endswith(".ipynb"):
        asked = list_catalog_names(exercise)
        try:
            return not _extract_notebook_submission(content, asked, exercise.suffix)["source"]
        except UnreadableFile:
            return False
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return False
    return is_submission_text_untouched(unify_submission_line_ends(text))


def locate_lesson_of_submission(slug: str, language: str = "en") -> str:
    """Return the path of an exercise's lesson, from the root of the project."""
    return f"docs/lessons/{slug}.{language}.md"
