"""Results of proofs, kept under a digest of all that they depend on.

A store is a folder of JSON files, one for each kind of proof and exercise. What was kept under
another digest counts as nothing.
"""

import hashlib
import json
import platform
import sys
from collections.abc import Iterable, Mapping
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from grader.core.catalog import ROOT
from grader.core.records import Exercise

FOLDER = ROOT / ".proof"
# What decides over a verdict besides the exercise: judging, reading, the worker, the oracle.
JUDGING = (
    "grader/core", "grader/judging", "grader/submission", "grader/worker", "grader/cuda",
    "grader/grading", "grader/authoring", "reference",
)  # fmt: skip
WORDS = frozenset(
    {"zh.toml", "questions.toml", "hard.toml", "show.py", "trials.py"}
)  # decide nothing
PACKAGES = ("torch", "numpy", "triton", "pytest")


def digest(exercise: Exercise, *more: str) -> str:
    """The digest of all that a proof about an exercise depends on, and of `more`.

    That is the judging code, the oracle, the solution, the files of the suite and the versions.
    """
    files = [p for p in exercise.folder.rglob("*") if p.suffix in (".py", ".toml")]
    suite = [p for p in files if p.name not in WORDS]
    found = hashlib.sha256(_judging().encode())
    for path in sorted([exercise.solution, *suite]):
        found.update(f"\0{path.name}\0".encode() + path.read_bytes())
    for text in more:
        found.update(f"\0{text}".encode())
    return found.hexdigest()


@cache
def _judging() -> str:
    found = hashlib.sha256(json.dumps(_versions()).encode())
    for pattern in JUDGING:
        for path in sorted(_python_files(pattern)):
            found.update(f"\0{path.relative_to(ROOT)}\0".encode() + path.read_bytes())
    return found.hexdigest()


def _python_files(pattern: str) -> Iterable[Path]:
    folder = ROOT / pattern
    if not folder.is_dir():
        return ROOT.glob(pattern)
    files = (p for p in folder.rglob("*") if p.is_file() and "__pycache__" not in p.parts)
    return (p for p in files if p.suffix != ".pyc")


def _versions() -> dict[str, str]:
    found = {"python": sys.version, "machine": platform.machine()}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = ""
    return found


class Store:
    """Results by kind of proof, exercise and name."""

    def __init__(self, folder: Path = FOLDER) -> None:
        self._folder = folder

    def kept(self, kind: str, exercise: Exercise) -> dict[str, Any]:
        """The results of this kind that were kept under today's digest."""
        try:
            found = json.loads(self._file(kind, exercise).read_text(encoding="utf-8"))
        except (OSError, ValueError):  # none, or one that was broken off
            return {}
        if not isinstance(found, dict) or found.get("digest") != digest(exercise, kind):
            return {}
        return dict(found["results"])

    def keep(self, kind: str, exercise: Exercise, results: Mapping[str, Any]) -> None:
        """Keep results in the place of those that were kept before."""
        self._folder.mkdir(exist_ok=True)
        file = self._file(kind, exercise)
        written = file.with_suffix(".new")
        content = {"digest": digest(exercise, kind), "results": dict(results)}
        written.write_text(json.dumps(content), encoding="utf-8")
        written.replace(file)

    def _file(self, kind: str, exercise: Exercise) -> Path:
        return self._folder / f"{kind}-{exercise.slug}.json"
