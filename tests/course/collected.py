"""Sources as a class leaves them: clones, hostile ones too, uploads and nbgrader's folders."""

import os
import subprocess
from pathlib import Path

from typer.testing import CliRunner, Result

from grader.cli.app import app

SLUG, OTHER = "ex02_masking", "ex01_softmax"
ANSWER = b"def causal_mask(n):\n    return n\n"
ROSTER = "student,login,id\nada,ada-l,11\nben,ben,12\neve,eve,13\n"
AT = "2026-03-01T18:00:00+01:00"
LATER = "2026-03-03T09:30:00+01:00"
_QUIET = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
_WHO = [part for pair in ("user.name=a", "user.email=a@b", "gc.auto=0") for part in ("-c", pair)]


def git(folder: Path, *arguments: str, content: bytes = b"", **environment: str) -> str:
    """What a command of git prints."""
    done = subprocess.run(
        ["git", *_WHO, *arguments], cwd=folder, input=content, capture_output=True,
        env={**os.environ, **_QUIET, **environment},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode("utf-8", "replace").strip()


def clone(folder: Path, files: dict[str, bytes]) -> Path:
    """A repository with one commit; to look at, a clone is no different."""
    folder.mkdir(parents=True)
    git(folder, "init", "-q", "-b", "main")
    commit(folder, files)
    return folder


def commit(folder: Path, files: dict[str, bytes], date: str = "2001-01-01T00:00:00Z") -> str:
    """Commit files on a day of the student's own choice; the commit's id."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "--allow-empty", "-m", "x",
        GIT_AUTHOR_DATE=date, GIT_COMMITTER_DATE=date)  # fmt: skip
    return git(folder, "rev-parse", "HEAD")


def pushes(folder: Path, *rows: str) -> None:
    (folder / "pushes.csv").write_text("\n".join(["repository,pushed,commit", *rows]) + "\n")


def collect(folder: Path, source: Path, *options: str, roster: str | bytes = ROSTER) -> Result:
    """Run `grader collect` into `folder/submissions`."""
    path = folder / "roster.csv"
    path.write_bytes(roster if isinstance(roster, bytes) else roster.encode())
    given = [str(path), str(source), "-o", str(folder / "submissions"), *options]
    return CliRunner().invoke(app, ["collect", *given])


def files(folder: Path) -> dict[str, bytes]:
    """The answers in the submissions, by their paths."""
    found = (folder / "submissions").glob("*/*")
    return {
        path.relative_to(folder / "submissions").as_posix(): path.read_bytes() for path in found
    }


def times(folder: Path) -> list[str]:
    """The lines of `submitted.csv` below the first."""
    first, *lines = (folder / "submissions/submitted.csv").read_text().splitlines()
    assert first == "student,exercise,submitted"
    return lines
