"""A course in a folder, and what students make of its notebooks."""

import json
import os
import subprocess
import sys
from copy import deepcopy
from pathlib import Path

import nbformat
from nbgrader.apps import NbGraderAPI
from typer.testing import CliRunner

from grader.cli.app import app
from grader.core import catalog
from grader.core.catalog import ROOT
from grader.core.translation import Words
from grader.release import course_release
from grader.release.notebook_pages import build_released_notebook

SLUG = "ex01_softmax"
BIN = Path(sys.executable).parent
SECONDS = 300


def run(*command: object, cwd: Path, fails: bool = False, **environment: str) -> str:
    """What a command printed; it must succeed, unless it `fails`."""
    path = f"{BIN}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, capture_output=True, text=True, timeout=SECONDS,
        env=os.environ | {"PATH": path, "JUPYTER_PLATFORM_DIRS": "1"} | environment, check=False,
    )  # fmt: skip
    said = done.stdout + done.stderr
    assert fails or done.returncode == 0, said
    assert "Traceback" not in said or "nbgrader" in said, said
    return said


def grader(*arguments: object, root: Path = ROOT, fails: bool = False) -> str:
    return run(
        sys.executable, "-m", "grader", *arguments, cwd=root, fails=fails, PYTHONPATH=str(root)
    )


def asked(*arguments: object, fails: bool = False) -> str:
    """What the command prints, asked in this process: for all that is not about the process."""
    done = CliRunner().invoke(app, [str(part) for part in arguments])
    assert fails or done.exit_code == 0, done.output
    return done.output


def api(course: Path) -> NbGraderAPI:
    """nbgrader as formgrader has it."""
    config = course_release.load_nbgrader_config(course)
    config.CourseDirectory.root = str(course)
    return NbGraderAPI(config=config)


def autograded(course: Path, student: str, slug: str = SLUG) -> None:
    """Grade a student (or those whose names match `*`) by nbgrader's Python API, again if need be."""
    done = api(course).autograde(slug, student, force=True, create=True)
    assert done["success"], done


def released(course: Path, slug: str = SLUG) -> nbformat.NotebookNode:
    return nbformat.read(course / "release" / slug / f"{slug}.ipynb", as_version=4)


def solution(slug: str = SLUG) -> dict[str, str]:
    """The text of each answer cell with the solution in it, by the cell's id."""
    built = build_released_notebook(catalog.find_catalog_exercise(slug), Words("en"))
    return {
        id_of(cell): cell.source
        for cell in built.cells
        if cell.metadata.get("nbgrader", {}).get("solution")
    }


def id_of(cell) -> str:
    return cell.metadata.get("nbgrader", {}).get("grade_id", "")


def answered(course: Path, slug: str = SLUG, **texts: str) -> nbformat.NotebookNode:
    """The released notebook with texts in its answer cells; the solution's own by default."""
    made = released(course, slug)
    wanted = solution(slug) | texts
    for cell in made.cells:
        if id_of(cell) in wanted:
            cell.source = wanted[id_of(cell)]
    return made


def at(notebook, name: str) -> int:
    """The place of the cell with an id."""
    return next(n for n, cell in enumerate(notebook.cells) if id_of(cell) == name)


def hand_in(course: Path, student: str, notebook, timestamp: str = "", slug: str = SLUG) -> Path:
    """Put a notebook (or any text or bytes) where nbgrader collects it."""
    folder = course / "submitted" / student / slug
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{slug}.ipynb"
    if isinstance(notebook, bytes | str):
        file.write_bytes(notebook if isinstance(notebook, bytes) else notebook.encode())
    else:
        file.write_text(json.dumps(notebook), encoding="utf-8")
    if timestamp:
        (folder / "timestamp.txt").write_text(timestamp)
    return file


def code(source: str, **metadata: object) -> nbformat.NotebookNode:
    return nbformat.v4.new_code_cell(source, metadata=metadata)


def copy_of(cell):
    copied = deepcopy(cell)
    copied["id"] = "copied"
    return copied


def scores(course: Path) -> dict[str, float]:
    """By student, what the gradebook says of the exercise."""
    from nbgrader.api import Gradebook

    with Gradebook(f"sqlite:///{course / 'gradebook.db'}") as gradebook:
        found = gradebook.assignment_submissions(SLUG)
        return {submission.student.id: submission.score for submission in found}


def comments(course: Path, student: str) -> str:
    from nbgrader.api import Gradebook

    with Gradebook(f"sqlite:///{course / 'gradebook.db'}") as gradebook:
        notebook = gradebook.find_submission_notebook(SLUG, SLUG, student)
        return "\n".join(c.auto_comment or "" for c in notebook.comments)
