"""Digests the code that decides a verdict."""

import hashlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from grader.core import catalog
from grader.core.catalog import ROOT

# What a verdict depends on besides the exercise's own suite.
_JUDGING_FOLDERS = (
    *("reference", "grader/judging", "grader/submission", "grader/worker"),
    *("grader/timing", "grader/cuda", "grader/core"),
)
_JUDGING_FILES = ("exercise.py",)  # of grader/grading: how the parts are put together


@cache
def code_digest(slug: str) -> str:
    """Return the digest of an exercise's suite and of all code that judges it."""
    found = hashlib.sha256()
    for name, path in sorted(_named_files(slug)):
        found.update(f"{name}\0".encode())
        found.update(hashlib.sha256(path.read_bytes()).digest())
    return found.hexdigest()


def _named_files(slug: str) -> Iterator[tuple[str, Path]]:
    """Yield every file, under a name that does not depend on where the project lies."""
    suite = catalog.suite_folder(slug)
    folders = {part: ROOT / part for part in _JUDGING_FOLDERS} | {f"grader/suites/{slug}": suite}
    if suite.parents[1] != ROOT / "grader":
        folders["pack/reference"] = suite.parents[1] / "reference"
    for front, folder in folders.items():
        for path in folder.rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts:
                yield f"{front}/{path.relative_to(folder).as_posix()}", path
    for name in _JUDGING_FILES:
        yield f"grader/grading/{name}", ROOT / "grader/grading" / name
