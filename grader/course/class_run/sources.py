"""The digest of the code that decides a verdict."""

import hashlib
from functools import cache
from pathlib import Path

from grader.catalog import ROOT

# What a verdict depends on besides the exercise's own suite.
_PARTS = ("reference", "grader/judging", "grader/worker", "grader/timing", "grader/cuda")
_FILES = ("bindings.py", "catalog.py", "cells.py", "records.py", "scoring.py", "submission.py")


@cache
def digest(slug: str) -> str:
    """The digest of the suite of an exercise and of all that judges it."""
    found = hashlib.sha256()
    for path in sorted(_files(slug)):
        found.update(f"{path.relative_to(ROOT).as_posix()}\0".encode())
        found.update(hashlib.sha256(path.read_bytes()).digest())
    return found.hexdigest()


def _files(slug: str) -> list[Path]:
    folders = (*_PARTS, f"grader/suites/{slug}")
    found = [path for folder in folders for path in (ROOT / folder).rglob("*")]
    kept = [path for path in found if path.is_file() and "__pycache__" not in path.parts]
    return [*kept, *(ROOT / "grader" / name for name in _FILES)]
