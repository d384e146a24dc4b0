"""A copy of the project's tree, in which a page's commands may write what they write."""

import os
import shutil
import sys
from pathlib import Path

import nbformat

from grader.core.catalog import ROOT
from tests.course.collected import clone

FOLDERS = ("grader", "reference", "solutions", "exercises", "docs", "tests", ".github", ".vscode")
FILES = ("Makefile", "pyproject.toml", "constraints.txt", "LICENSE", "README.md", "README.zh-CN.md")
SLUG = "ex01_softmax"
ROSTER = "student,login,id,name\nada,ada-l,11,Ada Lovelace\nben,ben,12,Ben Bitdiddle\n"


def copy_tree(folder: Path) -> Path:
    """Copy what `make` needs, and link the environment of this process as `.venv`."""
    unused = shutil.ignore_patterns("__pycache__", ".*_cache")
    for name in (*FOLDERS, ".devcontainer"):
        shutil.copytree(ROOT / name, folder / name, ignore=unused)
    for name in FILES:
        shutil.copy2(ROOT / name, folder / name)
    (folder / ".venv").symlink_to(Path(os.path.abspath(sys.executable)).parent.parent)
    return folder


def answer(slug: str = SLUG, note: str = "") -> str:
    return (ROOT / f"solutions/{slug}.py").read_text(encoding="utf-8") + f"\n# {note}\n"


def wrong_answer() -> str:
    return answer().replace("dim=dim", "dim=-1")


def put(folder: Path, text: str, name: str = f"{SLUG}.py") -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text, encoding="utf-8")


def notebook_of(text: str) -> str:
    return nbformat.writes(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(text)]))


def make_clones(folder: Path) -> None:
    """Make the clones of two students, and the roster beside them."""
    clone(folder / "hw1-ada-l", {f"{SLUG}.py": answer(note="ada").encode()})
    clone(folder / "ben", {f"{SLUG}.py": wrong_answer().encode()})
    pushed = "repository,pushed\nhw1-ada-l,2026-03-01T10:00:00Z\nben,2026-03-01T11:00:00Z\n"
    (folder / "pushes.csv").write_text(pushed, encoding="utf-8")
    (folder.parent / "roster.csv").write_text(ROSTER, encoding="utf-8")
