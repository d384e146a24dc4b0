"""The digest of the code that decides a verdict."""

import hashlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from grader.core import catalog
from grader.core.catalog import ROOT

# What a verdict depends on besides the exercise's own suite.
_PARTS = (
    *("reference", "grader/judging", "grader/submission", "grader/worker"),
    *("grader/timing", "grader/cuda", "grader/core"),
)
_FILES = ("exercise.py",)  # of grader/grading: how the parts are put together


@cache
def digest(slug: str) -> str:
    """The digest of the suite of an exercise and of all that judges it."""
    found = hashlib.sha256()
    for name, path in sorted(_files(slug)):
        found.update(f"{name}\0".encode())
        found.update(hashlib.sha256(path.read_bytes()).digest())
    return found.hexdigest()


def _files(slug: str) -> Iterator[tuple[str, Path]]:
    """Every file, under a name that is the same wherever the project and its packs lie."""
    suite = catalog.suite_folder(slug)
    folders = {part: ROOT / part for part in _PARTS} | {f"grader/suites/{slug}": suite}
    if suite.parents[1] != ROOT / "grader":
        folders["pack/reference"] = suite.parents[1] / "reference"
    for front, folder in folders.items():
        for path in folder.rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts:
                yield f"{front}/{path.relative_to(folder).as_posix()}", path
    for name in _FILES:
        yield f"grader/grading/{name}", ROOT / "grader/grading" / name
