"""Clones of students' repositories. Whatever lies in one, nothing of it is run or followed.

A clone's own configuration, hooks, attributes and references are not asked: git is given an empty
repository of ours, to which only the clone's objects belong. See docs/classes.md.
"""

import os
import re
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from grader.classroom.collecting.source_files import folders
from grader.classroom.run.answer_files import is_folder
from grader.core.errors import UserError
from grader.submission.answer_file import Unreadable
from grader.submission.handed_files import printable

ID = re.compile("[0-9a-f]{40}")
SECONDS = 60  # for all that is asked of one clone
_MAX_REFERENCES = 5_000_000  # bytes
# Whatever a repository's configuration says: no hook, no other program, no way to the network.
QUIET = ("-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=", "-c", "protocol.allow=never")
_ENVIRONMENT = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_ALLOW_PROTOCOL": "none",  # stronger than a repository's own protocol.ext.allow
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ALLOC_LIMIT": "500m",  # what one object may take; git ends where it would be more
    "LC_ALL": "C",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Clone:
    """A folder that may be a repository; nothing in it has been looked at."""

    name: str  # the folder's, without .git
    path: Path
    git: Path  # where git keeps it

    @property
    def shown(self) -> str:
        return printable(self.path.name)


def clones(folder: Path) -> list[Clone]:
    """The repositories in a folder, bare ones too, by name."""
    return [clone for clone in map(_clone, folders(folder)) if clone]


def _clone(path: Path) -> Clone | None:
    name = path.name.removesuffix(".git")
    if os.path.lexists(path / ".git"):
        return Clone(name=name, path=path, git=path / ".git")
    if is_folder(path / "objects") and os.path.lexists(path / "HEAD"):
        return Clone(name=name, path=path, git=path)
    return None


def check(clone: Clone) -> None:
    """Raise `Unreadable` for what `git clone` does not make: links, and others' objects."""
    again = "Clone it again with `git clone --dissociate`."
    if not is_folder(clone.git) or not is_folder(clone.git / "objects"):
        raise Unreadable(f"{clone.shown} is no whole clone: its .git leads elsewhere. {again}")
    for folder, inner, names in os.walk(clone.git):
        for name in (*inner, *names):
            if os.path.islink(os.path.join(folder, name)):
                raise Unreadable(
                    f"{clone.shown} has a link in its .git, {printable(name)}. {again}"
                )
    if any((clone.git / "objects/info" / n).exists() for n in ("alternates", "http-alternates")):
        raise Unreadable(f"{clone.shown} borrows objects from another repository. {again}")


def reference(clone: Clone, name: str) -> str | None:
    """The commit that a reference names, HEAD or a full one; None if there is none."""
    try:
        text = _text(clone.git / name)
    except FileNotFoundError:
        text = _packed(clone, name)
    except OSError:
        return None
    target = text.removeprefix("ref: ").strip()
    if text.startswith("ref: "):
        is_plain = target.startswith("refs/") and ".." not in target
        return reference(clone, target) if is_plain and name == "HEAD" else None
    return target if ID.fullmatch(target) else None


def head(clone: Clone) -> str:
    """The branch that is checked out; empty if none is."""
    try:
        return _text(clone.git / "HEAD").strip().removeprefix("ref: ")
    except OSError:
        return ""


def _packed(clone: Clone, name: str) -> str:
    try:
        lines = _text(clone.git / "packed-refs").splitlines()
    except OSError:
        return ""
    return next((line[:40] for line in lines if line[40:] == f" {name}"), "")


def _text(path: Path) -> str:
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with open(handle, "rb") as file:
        return file.read(_MAX_REFERENCES).decode("utf-8", "replace")


@contextmanager
def beside(clone: Clone) -> Iterator[Mapping[str, str]]:
    """Return an environment in which git reads only the clone's object store."""
    check(clone)
    with TemporaryDirectory() as ours:
        for name in ("objects", "refs"):
            os.mkdir(os.path.join(ours, name))
        Path(ours, "HEAD").write_text("ref: refs/heads/none\n")
        yield {
            **plain_environment(), "GIT_DIR": ours,
            "GIT_OBJECT_DIRECTORY": os.path.abspath(clone.git / "objects"),
        }  # fmt: skip


def plain_environment() -> dict[str, str]:
    """The environment of a git that takes nothing from that of whoever calls it."""
    path = os.environ.get("PATH", os.defpath)
    return {"PATH": path, "HOME": os.devnull, **_ENVIRONMENT}


def git(
    arguments: Sequence[str], environment: Mapping[str, str], content: bytes = b""
) -> subprocess.CompletedProcess[bytes]:
    """Run one command of git, which is given `content`."""
    with _sentences():
        return subprocess.run(
            ["git", *QUIET, *arguments], env=environment, input=content, capture_output=True,
            timeout=SECONDS, check=False, cwd="/",
        )  # fmt: skip


@contextmanager
def started(
    arguments: Sequence[str], environment: Mapping[str, str]
) -> Iterator[subprocess.Popen[bytes]]:
    """A command of git that is asked and answers, for so many seconds in all."""
    with _sentences():
        process = subprocess.Popen(
            ["git", *QUIET, *arguments], env=environment, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd="/",
        )  # fmt: skip
    timer = threading.Timer(SECONDS, process.kill)
    timer.start()
    try:
        yield process
    finally:
        timer.cancel()
        process.kill()
        process.communicate()


@contextmanager
def _sentences() -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise UserError("git is not installed, which reads repositories: install it.") from None
    except subprocess.TimeoutExpired:
        raise Unreadable(f"git was not done with it after {SECONDS} seconds.") from None
