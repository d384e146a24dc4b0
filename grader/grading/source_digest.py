"""Digests the code that decides a verdict."""

import hashlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from grader.core import catalog
from grader.core.catalog import ROOT

# What a verdict depends on besides the exercise's own suite.
_JUDGING_FOLDERS = (
    *("reference", "grader/judging", "grader/diagnosis", "grader/submission"),
    *("grader/worker", "grader/timing", "grader/cuda", "grader/core"),
)
_PARTS_TOGETHER = ROOT / "grader/grading/exercise.py"


@cache
def digest_grading_code(slug: str) -> str:
    """Return the digest of an exercise's suite and of all code that judges it."""
    found = hashlib.sha256(digest_grading_folders(*_JUDGING_FOLDERS).encode())
    suite = catalog.find_catalog_suite(slug)
    for folder in (suite, *_find_digested_pack_reference(suite)):
        _add_files_to_digest(found, folder)
    found.update(_PARTS_TOGETHER.read_bytes())
    return found.hexdigest()


@cache
def digest_grading_folders(*folders: str) -> str:
    """Return the digest of every file of these folders, named by their paths in the project."""
    found = hashlib.sha256()
    for name in folders:
        _add_files_to_digest(found, ROOT / name)
    return found.hexdigest()


def _add_files_to_digest(found: "hashlib._Hash", folder: Path) -> None:
    """Add every file, under a name that does not depend on where the folder lies."""
    for path in sorted(_list_files_to_digest(folder)):
        found.update(f"{folder.name}/{path.relative_to(folder).as_posix()}\0".encode())
        found.update(hashlib.sha256(path.read_bytes()).digest())


def _list_files_to_digest(folder: Path) -> Iterator[Path]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return (p for p in files if "__pycache__" not in p.parts and p.suffix != ".pyc")


def _find_digested_pack_reference(suite: Path) -> tuple[Path, ...]:
    """Return the folder of references of the pack that a suite is part of; () for our own."""
    pack = suite.parents[1]
    return () if pack == ROOT / "grader" else (pack / "reference",)
