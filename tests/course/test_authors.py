"""docs/authors.md, followed line by line in a copy of the tree."""

import json
import os
import re
import shutil
import subprocess
import sys

import pytest

from grader.core import catalog
from tests.conftest import ROOT

pytestmark = pytest.mark.weekly  # a minute
SLUG = "ex18_alibi"
FOLDERS = ("grader", "reference", "solutions", "exercises", "docs")


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """A copy of the tree with the core track alone, which makes it quicker to look through."""
    copy = tmp_path_factory.mktemp("tree")
    others = [f"{e.slug}*" for e in catalog.list_catalog_exercises() if e.track != "core"]
    unused = shutil.ignore_patterns("__pycache__", *others)
    for name in FOLDERS:
        shutil.copytree(ROOT / name, copy / name, ignore=unused)
    return copy


@pytest.fixture(scope="module")
def steps(tree):
    """Each command of the page: [command, what the page says, what came, exit status]."""
    done = subprocess.run(
        [sys.executable, ROOT / "tests/course/following.py", "docs/authors.md"],
        cwd=tree, env={**os.environ, "COLUMNS": "100", "LC_ALL": "C.UTF-8"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def fits(says: str, came: str) -> bool:
    """Whether this came, where a line of three dots is any number of lines."""
    parts = re.split(r"^\.\.\.\n", says, flags=re.MULTILINE)
    return re.fullmatch(r"(.*\n)??".join(map(re.escape, parts)), came, re.DOTALL) is not None


def last(steps, command: str) -> str:
    """What the last command of this kind printed."""
    return next(came for said, _, came, _ in reversed(steps) if f" {command}" in said)


def test_every_command_prints_what_the_page_says(steps):
    assert len(steps) >= 8
    wrong = [(command, came) for command, says, came, _ in steps if not fits(says, came)]
    assert wrong == []
    assert [command for command, _, _, status in steps if status] == []


def test_every_file_of_the_exercise_stands_on_the_page(tree, steps):
    page = (tree / "docs/authors.md").read_text(encoding="utf-8")
    written = [
        *(tree / "grader/suites" / SLUG).glob("*.*"),
        tree / f"solutions/{SLUG}.py",
        tree / f"reference/{SLUG}.py",
    ]
    names = [f"\n`{path.relative_to(tree)}`\n" for path in written if path.name != "exercise.toml"]
    assert len(names) == 11
    assert [name for name in names if name not in page] == []


def test_the_draft_lists_its_open_places_and_is_no_breach(steps):
    [first, _] = [came for command, _, came, _ in steps if command.endswith(" house")]
    lines = first.splitlines()
    assert sum(f"draft {SLUG}: " in line and " is open: " in line for line in lines) >= 20
    assert f"draft {SLUG}: 2 named mistakes; it needs 10. Name more." in lines
    assert lines[-1] == "The house is in order."


def test_at_the_end_the_exercise_is_done(tree, steps):
    assert last(steps, "house") == "The house is in order.\n"
    told = last(steps, "mutants")
    assert len(re.findall(r"^caught ", told, re.MULTILINE)) >= 10
    assert "MISSED" not in told
    assert "Everything holds" in told
    assert SLUG in (tree / "docs/exercises.md").read_text(encoding="utf-8")
