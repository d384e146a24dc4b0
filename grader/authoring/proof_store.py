"""Stores results of proofs with a digest of all files and versions that they depend on.

A store is a folder of JSON files, one for each kind of proof and exercise. Results with an
older digest are ignored.
"""

import hashlib
import json
import platform
import sys
from collections.abc import Mapping
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from grader.core.catalog import ROOT
from grader.core.records import Exercise
from grader.grading.source_digest import digest_grading_folders

STORE_FOLDER = ROOT / ".proof"
# The folders that decide a verdict besides the exercise: judging, reading, the worker, the oracle.
JUDGING_FOLDERS = (
    "grader/core", "grader/judging", "grader/diagnosis", "grader/submission", "grader/worker",
    "grader/cuda", "grader/grading", "grader/authoring", "reference",
)  # fmt: skip
FILES_WITHOUT_VERDICT = frozenset(
    {"zh.toml", "questions.toml", "hard.toml", "play.py", "show.py", "trials.py"}
)
PACKAGES = ("torch", "numpy", "triton", "pytest")


def digest_proof(exercise: Exercise, *more: str) -> str:
    """Return the digest of all files and versions that a proof depends on, and of `more`.

    These are the judging code, the oracle, the solution, the files of the suite and the versions.
    """
    files = [p for p in exercise.folder.rglob("*") if p.suffix in (".py", ".toml")]
    suite = [p for p in files if p.name not in FILES_WITHOUT_VERDICT]
    found = hashlib.sha256(_digest_code_of_proof().encode())
    for path in sorted([exercise.solution, *suite]):
        found.update(f"\0{path.name}\0".encode() + path.read_bytes())
    for text in more:
        found.update(f"\0{text}".encode())
    return found.hexdigest()


@cache
def _digest_code_of_proof() -> str:
    code = digest_grading_folders(*JUDGING_FOLDERS)
    return hashlib.sha256(f"{json.dumps(_read_versions_of_proof())}\0{code}".encode()).hexdigest()


def _read_versions_of_proof() -> dict[str, str]:
    found = {"python": sys.version, "machine": platform.machine()}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = ""
    return found


class ProofStore:
    """A folder of results by kind of proof, exercise and name."""

    def __init__(self, folder: Path = STORE_FOLDER) -> None:
        self._folder = folder

    def read_results(self, kind: str, exercise: Exercise) -> dict[str, Any]:
        """Return the stored results of this kind; {} if their digest is not today's."""
        try:
            found = json.loads(self._result_path(kind, exercise).read_text(encoding="utf-8"))
        except (OSError, ValueError):  # no file, or a broken one
            return {}
        if not isinstance(found, dict) or found.get("digest") != digest_proof(exercise, kind):
            return {}
        return dict(found["results"])

    def write_results(self, kind: str, exercise: Exercise, results: Mapping[str, Any]) -> None:
        """Store results in the place of earlier ones of this kind."""
        self._folder.mkdir(exist_ok=True)
        file = self._result_path(kind, exercise)
        written = file.with_suffix(".new")
        content = {"digest": digest_proof(exercise, kind), "results": dict(results)}
        written.write_text(json.dumps(content), encoding="utf-8")
        written.replace(file)

    def _result_path(self, kind: str, exercise: Exercise) -> Path:
        return self._folder / f"{kind}-{exercise.slug}.json"
