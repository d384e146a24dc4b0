"""Draws docs/report.svg: a real run of the grader on a student in the middle of the track.

The answers are the solutions of ex01 and ex02, ex03 with a mistake in it, and skeletons beyond.
Run by `make picture`.
"""

import io
import os
import re
import shutil
import tempfile
from pathlib import Path

from rich.console import Console

from grader.authoring.skeletons import make_skeleton
from grader.core import catalog
from grader.grading.session import grade_all_exercises
from grader.reporting import terminal

ROOT = Path(__file__).resolve().parent.parent
RIGHT = "math.sqrt(q.shape[-1])"
WRONG = "q.shape[-1]"  # d instead of its square root


def answers(folder: Path) -> None:
    """Write the student's files."""
    folder.mkdir()
    for exercise in catalog.list_catalog_exercises():
        source = exercise.solution.read_text(encoding="utf-8")
        name = exercise.slug.split("_")[0]
        if name == "ex03":
            assert RIGHT in source
            source = source.replace(RIGHT, WRONG)
        elif name not in ("ex01", "ex02"):
            source = make_skeleton(exercise, source)
        (folder / exercise.file).write_text(source, encoding="utf-8")


def main() -> None:
    with tempfile.TemporaryDirectory() as place:
        os.chdir(place)
        shutil.copy(ROOT / "Makefile", place)  # so that the report names its goals
        answers(Path("exercises"))
        report = grade_all_exercises(
            catalog.list_catalog_exercises(), Path("exercises"), seed="4f1d09c2a77be350"
        )
        console = Console(record=True, width=100, file=io.StringIO())
        terminal.print_terminal_report(report, console)
        os.chdir(ROOT)
    # Rich names a font elsewhere; without it the reader's own is taken, and nothing is loaded.
    drawn = re.sub(
        r"\s*@font-face \{.*?\}", "", console.export_svg(title="make grade"), flags=re.DOTALL
    )
    (ROOT / "docs" / "report.svg").write_text(drawn, encoding="utf-8")
    print("docs/report.svg")


if __name__ == "__main__":
    main()
