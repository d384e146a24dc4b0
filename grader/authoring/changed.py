"""Which exercises differ from what the main branch has of them."""

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

from grader.core.records import Exercise

MAIN = ("main", "origin/main")
_OF_ONE = re.compile(r"ex\d+_")
_ASIDE = ("mistakes.py", "variants.py")  # no change of a solution is judged by these, or by speed


def changed(exercises: Sequence[Exercise], root: Path) -> list[Exercise]:
    """The exercises whose checks, reference or solution differ from the merge base with main.

    Of a suite its Python counts, without the catalogues and the speed cases; so does what is not
    committed yet. On main itself the state before its last commit is compared with. A module of the
    reference that is no exercise's own is every exercise's. Where there is no git, no main, or no
    earlier commit, all of them.
    """
    base = _base(root)
    if base is None:
        return list(exercises)
    names = _git(root, "diff", "--name-only", base) or ""
    names += _git(root, "ls-files", "--others", "--exclude-standard") or ""
    paths = [root / name for name in names.splitlines()]
    if any(p.parent == root / "reference" and not _OF_ONE.match(p.name) for p in paths):
        return list(exercises)
    return [e for e in exercises if any(_is_of(e, path) for path in paths)]


def _is_of(exercise: Exercise, path: Path) -> bool:
    reference = exercise.home / "reference" / f"{exercise.slug}.py"
    of_suite = path.parent == exercise.folder and path.suffix == ".py"
    aside = path.name in _ASIDE or path.name.startswith("bench_")
    return path in (exercise.solution, reference) or (of_suite and not aside)


def _base(root: Path) -> str | None:
    """The commit to compare with; None if there is none."""
    head = _git(root, "rev-parse", "HEAD")
    for main in MAIN:
        base = _git(root, "merge-base", "HEAD", main)
        if base is not None and base != head:
            return base.strip()
        if base is not None:  # this is main
            before = _git(root, "rev-parse", "--verify", "--quiet", "HEAD~1")
            return before.strip() if before else None
    return None


def _git(root: Path, *args: str) -> str | None:
    """What git prints; None if it cannot."""
    try:
        done = subprocess.run(
            ["git", "-C", str(root), *args], capture_output=True, text=True, check=False
        )
    except OSError:
        return None
    return done.stdout if done.returncode == 0 else None
