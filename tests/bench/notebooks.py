"""Seconds a student for a class's notebooks: ours, and nbgrader's own executor on the same files.

`make bench-notebooks` releases the core track, hands in the solutions for a few students (ARGS=5),
and lets `nbgrader autograde` grade them in both ways. For nbgrader's own way the cells that check
get a plain assertion in the place of our check, so that it has least to do.
"""

import json
import shutil
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from grader import catalog
from tests.notebooks.course import answered, grader, hand_in, run

SLUGS = [e.slug for e in catalog.exercises() if e.track == "core"]
PLAIN = "c = get_config()\nc.CourseDirectory.course_id = 'attention-by-hand'\n"


def main(students: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder)
        grader("release", "-o", out, "--no-speed")
        ours, theirs = out / "course", out / "theirs"
        for number in range(students):
            for slug in SLUGS:
                hand_in(ours, f"student{number}", answered(ours, slug), slug=slug)
        shutil.copytree(ours, theirs)
        (theirs / "nbgrader_config.py").write_text(PLAIN)
        for path in theirs.rglob("*.ipynb"):
            path.write_text(json.dumps(plain(json.loads(path.read_text()))))
        for slug in SLUGS:
            run("nbgrader", "generate_assignment", slug, "--force", cwd=theirs)
        table = Table(
            "graded by",
            "seconds a student",
            "seconds in all",
            title=f"{students} students, {len(SLUGS)} exercises",
        )
        for name, course in (("ours", ours), ("nbgrader's executor", theirs)):
            started = time.monotonic()
            for slug in SLUGS:
                run("nbgrader", "autograde", slug, cwd=course)
            seconds = time.monotonic() - started
            table.add_row(name, f"{seconds / students:.1f}", f"{seconds:.0f}")
        Console().print(table)


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
