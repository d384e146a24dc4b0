"""Finds the exercises that differ from the main branch."""

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

from grader.authoring.proof_store import FILES_WITHOUT_VERDICT
from grader.core.records import Exercise

MAIN_BRANCHES = ("main", "origin/main")
_EXERCISE_FILE_NAME = re.compile(r"ex\d+_")
# Beside the speed cases, bench_*.py, which are left out by name.
_FILES_WITHOUT_CHECKS = ("mistakes.py", "steps.py", "variants.py")
_NAMING_FOLDERS = ("grader/diagnosis", "grader/judging")


def list_exercises_to_prove(exercises: Sequence[Exercise], root: Path) -> list[Exercise]:
    """Return the exercises whose checks, reference or solution differ from main's merge base.

    A suite's Python files count, without the catalogues and the speed cases; uncommitted files
    count too. On main itself the base is the commit before the last. A module of the reference
    that belongs to no exercise belongs to all. Without git, main or an earlier commit, all
    exercises are returned.
    """
    paths = _list_changed_paths(root)
    if paths is None or _is_shared_oracle_changed(paths, root):
        return list(exercises)
    return [e for e in exercises if any(_is_file_to_prove(e, path) for path in paths)]


def list_exercises_to_name(exercises: Sequence[Exercise], root: Path) -> list[Exercise]:
    """Return the exercises whose mistakes a report may now name otherwise than main does.

    These are the ones whose suite, catalogue, reference or solution differs; all, if the code that
    judges or names does, or where `list_exercises_to_prove` returns all.
    """
    paths = _list_changed_paths(root)
    if paths is None or _is_shared_oracle_changed(paths, root):
        return list(exercises)
    if any(path.is_relative_to(root / name) for path in paths for name in _NAMING_FOLDERS):
        return list(exercises)
    return [e for e in exercises if any(_is_file_to_name(e, path) for path in paths)]


def _list_changed_paths(root: Path) -> list[Path] | None:
    """Return the files that differ from main's merge base; None if there is no such commit."""
    base = _find_commit_proved_before(root)
    if base is None:
        return None
    names = _run_git_for_proof(root, "diff", "--name-only", base) or ""
    names += _run_git_for_proof(root, "ls-files", "--others", "--exclude-standard") or ""
    return [root / name for name in names.splitlines()]


def _is_shared_oracle_changed(paths: Sequence[Path], root: Path) -> bool:
    folder = root / "reference"
    return any(p.parent == folder and not _EXERCISE_FILE_NAME.match(p.name) for p in paths)


def _is_file_to_name(exercise: Exercise, path: Path) -> bool:
    of_suite = path.is_relative_to(exercise.folder) and path.suffix in (".py", ".toml")
    decides = path.name not in FILES_WITHOUT_VERDICT and not path.name.startswith("bench_")
    return (of_suite and decides) or _is_file_to_prove(exercise, path)


def _is_file_to_prove(exercise: Exercise, path: Path) -> bool:
    reference = exercise.home / "reference" / f"{exercise.slug}.py"
    of_suite = path.parent == exercise.folder and path.suffix == ".py"
    aside = path.name in _FILES_WITHOUT_CHECKS or path.name.startswith("bench_")
    return path in (exercise.solution, reference) or (of_suite and not aside)


def _find_commit_proved_before(root: Path) -> str | None:
    """Return the commit to compare with; None if there is no such commit."""
    head = _run_git_for_proof(root, "rev-parse", "HEAD")
    for main in MAIN_BRANCHES:
        base = _run_git_for_proof(root, "merge-base", "HEAD", main)
        if base is not None and base != head:
            return base.strip()
        if base is not None:  # this is main
            before = _run_git_for_proof(root, "rev-parse", "--verify", "--quiet", "HEAD~1")
            return before.strip() if before else None
    return None


def _run_git_for_proof(root: Path, *args: str) -> str | None:
    """Return the output of a git command; None if the command fails."""
    try:
        done = subprocess.run(
            ["git", "-C", str(root), *args], capture_output=True, text=True, check=False
        )
    except OSError:
        return None
    return done.stdout if done.returncode == 0 else None
