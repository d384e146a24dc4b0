"""A wheel, built from a copy of what it is made of: a build leaves files beside its sources."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from grader.core.catalog import ROOT

PARTS = ("grader", "reference", "solutions", "docs/lessons", ".vscode")
FILES = ("pyproject.toml", "README.md", "LICENSE", "Makefile")
BUILD = "import sys; from grader.release import wheel_build; wheel_build.build_wheel(sys.argv[1])"


@pytest.fixture(scope="session")
def tree(tmp_path_factory) -> Path:
    """A copy of the project, in which an earlier build has left a right answer."""
    place = tmp_path_factory.mktemp("tree")
    for name in PARTS:
        shutil.copytree(ROOT / name, place / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in FILES:
        shutil.copy(ROOT / name, place)
    stale = place / "build/lib/grader/suites/ex01_softmax/variants.py"
    stale.parent.mkdir(parents=True)
    stale.write_text("def softmax(): ...")
    return place


def build_wheel(tree: Path) -> Path:
    """Build the wheel of a tree, as pip has it built."""
    done = subprocess.run(
        [sys.executable, "-c", BUILD, "dist"], cwd=tree, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    [wheel] = (tree / "dist").glob("*.whl")
    return wheel


@pytest.fixture(scope="session")
def wheel(tree) -> Path:
    return build_wheel(tree)
