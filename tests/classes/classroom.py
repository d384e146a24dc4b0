"""A small class on the disk, and `grader class` over it: as an instructor would start it, and here.

Here, in the process of the tests, a command costs no import of torch. What is about processes (a
signal, a pool, a machine of its own) is started.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

from typer.testing import CliRunner

from grader.cli.app import app
from grader.core.catalog import ROOT

RIGHT = (ROOT / "solutions/ex01_softmax.py").read_text(encoding="utf-8")
WRONG = RIGHT.replace("dim=dim", "dim=-1")
TIMES = re.compile(r'"seconds": [0-9.]+|<dd>[0-9.]+ s</dd>')


def fill(submissions: Path) -> Path:
    """Five students: right, wrong, in a zip, a broken file, nothing; and a stray file."""
    for student, text in (("ada", RIGHT), ("ben", WRONG), ("cy", "def softmax(:\n"), ("dee", None)):
        (submissions / student).mkdir(parents=True)
        if text:
            (submissions / student / "ex01_softmax.py").write_text(text)
    with zipfile.ZipFile(submissions / "eve.zip", "w") as archive:
        archive.writestr("homework/ex01_softmax.py", RIGHT)
    (submissions / "roster.csv").write_text("ada\n")
    return submissions


def command(submissions: Path, results: Path, *more: str) -> list[str]:
    options = ["ex01", "-o", str(results), "--no-speed", "--jobs", "2", "--lang", "en"]
    return [sys.executable, "-m", "grader", "class", str(submissions), *options, *more]


def environment() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": str(ROOT)}


def grade(
    submissions: Path, results: Path, *more: str, kill_before: str = ""
) -> subprocess.CompletedProcess:
    """A whole run; or one that is killed before a file of this name is in its place."""
    return grader(*command(submissions, results, *more)[3:], kill_before=kill_before)


_KILLED = """
import os, sys
replace = os.replace
def killing(old, new):
    if os.path.basename(new) == {name!r}:
        os.kill(os.getpid(), 9)
    replace(old, new)
if __name__ == "__main__":
    os.replace = killing
    from grader.cli.app import run_command_line
    run_command_line()
"""


def grader(*arguments: object, kill_before: str = "") -> subprocess.CompletedProcess:
    start = ["-c", _KILLED.format(name=kill_before)] if kill_before else ["-m", "grader"]
    return subprocess.run(
        [sys.executable, *start, *map(str, arguments)], env=environment(),
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip


def here(*arguments: object) -> subprocess.CompletedProcess:
    """What `grader` does and says in this process."""
    done = CliRunner().invoke(app, list(map(str, arguments)), catch_exceptions=False)
    return subprocess.CompletedProcess(arguments, done.exit_code, done.stdout, done.stderr)


def graded_here(submissions: Path, results: Path, *more: object) -> subprocess.CompletedProcess:
    """A whole run in this process."""
    return here(*command(submissions, results, *map(str, more))[3:])


def copied(submissions: Path, results: Path, folder: Path) -> tuple[Path, Path]:
    """A graded class once more, to be changed: its results are about the copy."""
    new = shutil.copytree(submissions, folder / "submissions")
    last = json.loads((results / ".run.json").read_text())
    copy = shutil.copytree(results, folder / "results")
    (copy / ".run.json").write_text(json.dumps({**last, "submissions": str(new)}))
    return new, copy


def written(results: Path) -> dict[str, str]:
    """All that a run wrote for people, without the times."""
    kept = [p for p in results.rglob("*") if p.is_file() and ".parts" not in p.parts]
    names = {str(p.relative_to(results)): p for p in kept if p.name not in (".lock", ".run.json")}
    return {name: TIMES.sub("", path.read_text()) for name, path in sorted(names.items())}


def verdicts(results: Path, student: str) -> dict[str, str]:
    report = json.loads((results / "students" / student / "report.json").read_text())
    return {c["id"]: c["verdict"] for c in report["exercises"][0]["checks"]}
