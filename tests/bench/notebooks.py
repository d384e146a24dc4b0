"""Seconds a student for a class's notebooks: ours, and nbgrader's own executor on the same files.

`make bench-notebooks` releases the core track, hands in the solutions for a few students (ARGS=5),
and lets `nbgrader autograde` grade them: with our judge; by running the notebooks as they are, each
check of which grades in a process of its own (one student); and by running them with a bare
assertion in the place of every check, so that the executor has as little to do as can be.
"""

import json
import shutil
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from grader.core import catalog
from grader.core.catalog import ROOT
from tests.notebooks.course import answered, grader, hand_in, run

SLUGS = [e.slug for e in catalog.list_catalog_exercises() if e.track == "core"]
PLAIN = "c = get_config()\nc.CourseDirectory.course_id = 'attention-by-hand'\n"
PLAIN += "c.ExecutePreprocessor.timeout = 600\n"


def main(students: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder)
        grader("release", "-o", out, "--no-speed")
        ours, as_they_are, bare = (out / name for name in ("course", "as-they-are", "bare"))
        for number in range(students):
            for slug in SLUGS:
                hand_in(ours, f"student{number}", answered(ours, slug), slug=slug)
        for course in (as_they_are, bare):
            shutil.copytree(ours, course)
            (course / "nbgrader_config.py").write_text(PLAIN)
        for path in bare.rglob("*.ipynb"):
            path.write_text(json.dumps(plain(json.loads(path.read_text()))))
        for course in (as_they_are, bare):
            for slug in SLUGS:
                run("nbgrader", "generate_assignment", slug, "--force", cwd=course)
        table = Table("graded by", "students", "seconds a student")
        for name, course, count in (
            ("our judge", ours, students),
            ("nbgrader's executor, the notebooks as they are", as_they_are, 1),
            ("nbgrader's executor, a bare assertion for each check", bare, students),
        ):
            table.add_row(name, str(count), f"{seconds(course, count) / count:.1f}")
        Console().print(table)


def seconds(course: Path, students: int) -> float:
    """What `nbgrader autograde` takes for the first so many students."""
    for folder in sorted((course / "submitted").iterdir())[students:]:
        shutil.rmtree(folder)
    started = time.monotonic()
    for slug in SLUGS:
        run("nbgrader", "autograde", slug, cwd=course, PYTHONPATH=str(ROOT))
    return time.monotonic() - started


def plain(notebook: dict) -> dict:
    """The notebook with a bare assertion in the cells that check."""
    for cell in notebook["cells"]:
        name = cell.get("metadata", {}).get("nbgrader", {}).get("grade_id", "")
        if name == "setup":
            cell["source"] = "pass"
        if name.startswith("check-"):
            cell["source"] = f"assert {name.removeprefix('check-')} is not None"
    return notebook


if __name__ == "__main__":
    main(int(next(iter(sys.argv[1:]), 3)))
