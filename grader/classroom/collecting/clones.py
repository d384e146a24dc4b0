"""Reads clones of students' repositories. Nothing that lies in a clone is run or followed.

A clone's own configuration, hooks, attributes and references are not used: git reads an empty
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

from grader.classroom.collecting.source_files import list_collected_folders
from grader.classroom.run.answer_files import is_student_folder
from grader.core.errors import UserError
from grader.submission.answer_file import UnreadableFile
from grader.submission.handed_files import clean_submitted_name

OBJECT_ID = re.compile("[0-9a-f]{40}")
GIT_TIMEOUT_SECONDS = 60  # for each git process on a clone
_MAX_REFERENCE_BYTES = 5_000_000
# Whatever a repository's configuration says: no hook, no other program, no way to the network.
_SAFE_GIT_OPTIONS = (
    "-c",
    "core.hooksPath=/dev/null",
    "-c",
    "core.fsmonitor=",
    "-c",
    "protocol.allow=never",
)
_GIT_ENVIRONMENT = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_ALLOW_PROTOCOL": "none",  # stronger than a repository's own protocol.ext.allow
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ALLOC_LIMIT": "500m",  # of memory for one object; git exits if an object needs more
    "LC_ALL": "C",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Clone:
    """A folder that may be a repository; its contents are not checked yet."""

    name: str  # of the folder, without .git
    path: Path
    git: Path  # the folder of git's data

    @property
    def shown(self) -> str:
        return clean_submitted_name(self.path.name)


def find_collected_clones(folder: Path) -> list[Clone]:
    """Return the repositories in a folder, bare ones too, sorted by name."""
    return [clone for clone in map(_open_collected_clone, list_collected_folders(folder)) if clone]


def _open_collected_clone(path: Path) -> Clone | None:
    name = path.name.removesuffix(".git")
    if os.path.lexists(path / ".git"):
        return Clone(name=name, path=path, git=path / ".git")
    if is_student_folder(path / "objects") and os.path.lexists(path / "HEAD"):
        return Clone(name=name, path=path, git=path)
    return None


def check_collected_clone(clone: Clone) -> None:
    """Raise `UnreadableFile` for a clone with links or borrowed objects; `git clone` makes none."""
    again = "Clone it again with `git clone --dissociate`."
    if not is_student_folder(clone.git) or not is_student_folder(clone.git / "objects"):
        raise UnreadableFile(f"{clone.shown} is no whole clone: its .git leads elsewhere. {again}")
    for folder, inner, names in os.walk(clone.git):
        for name in (*inner, *names):
            if os.path.islink(os.path.join(folder, name)):
                raise UnreadableFile(
                    f"{clone.shown} has a link in its .git, {clean_submitted_name(name)}. {again}"
                )
    if any((clone.git / "objects/info" / n).exists() for n in ("alternates", "http-alternates")):
        raise UnreadableFile(f"{clone.shown} borrows objects from another repository. {again}")


def read_clone_reference(clone: Clone, name: str) -> str | None:
    """Return the commit of a reference, HEAD or a full name; None if the reference names none."""
    try:
        text = _read_clone_reference_file(clone.git / name)
    except FileNotFoundError:
        text = _read_packed_clone_reference(clone, name)
    except OSError:
        return None
    target = text.removeprefix("ref: ").strip()
    if text.startswith("ref: "):
        is_plain = target.startswith("refs/") and ".." not in target
        return read_clone_reference(clone, target) if is_plain and name == "HEAD" else None
    return target if OBJECT_ID.fullmatch(target) else None


def read_clone_branch(clone: Clone) -> str:
    """Return the full name of the checked-out branch; HEAD's commit or '' if there is no branch."""
    try:
        return _read_clone_reference_file(clone.git / "HEAD").strip().removeprefix("ref: ")
    except OSError:
        return ""


def _read_packed_clone_reference(clone: Clone, name: str) -> str:
    try:
        lines = _read_clone_reference_file(clone.git / "packed-refs").splitlines()
    except OSError:
        return ""
    return next((line[:40] for line in lines if line[40:] == f" {name}"), "")


def _read_clone_reference_file(path: Path) -> str:
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with open(handle, "rb") as file:
        return file.read(_MAX_REFERENCE_BYTES).decode("utf-8", "replace")


@contextmanager
def isolate_clone_environment(clone: Clone) -> Iterator[Mapping[str, str]]:
    """Yield an environment in which git reads only the clone's object store."""
    check_collected_clone(clone)
    with TemporaryDirectory() as ours:
        for name in ("objects", "refs"):
            os.mkdir(os.path.join(ours, name))
        Path(ours, "HEAD").write_text("ref: refs/heads/none\n")
        yield {
            **build_plain_clone_environment(), "GIT_DIR": ours,
            "GIT_OBJECT_DIRECTORY": os.path.abspath(clone.git / "objects"),
        }  # fmt: skip


def build_plain_clone_environment() -> dict[str, str]:
    """Return an environment for git that takes only PATH from the caller's environment."""
    path = os.environ.get("PATH", os.defpath)
    return {"PATH": path, "HOME": os.devnull, **_GIT_ENVIRONMENT}


def run_git_in_clone(
    arguments: Sequence[str], environment: Mapping[str, str], content: bytes = b""
) -> subprocess.CompletedProcess[bytes]:
    """Run one git command with `content` on its standard input."""
    with _explain_clone_git_errors():
        return subprocess.run(
            ["git", *_SAFE_GIT_OPTIONS, *arguments], env=environment, input=content,
            capture_output=True, timeout=GIT_TIMEOUT_SECONDS, check=False, cwd="/",
        )  # fmt: skip


@contextmanager
def start_git_in_clone(
    arguments: Sequence[str], environment: Mapping[str, str]
) -> Iterator[subprocess.Popen[bytes]]:
    """Start a git command and yield its process; kill the process after the time limit."""
    with _explain_clone_git_errors():
        process = subprocess.Popen(
            ["git", *_SAFE_GIT_OPTIONS, *arguments], env=environment, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd="/",
        )  # fmt: skip
    timer = threading.Timer(GIT_TIMEOUT_SECONDS, process.kill)
    timer.start()
    try:
        yield process
    finally:
        timer.cancel()
        process.kill()
        process.communicate()


@contextmanager
def _explain_clone_git_errors() -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise UserError("git is not installed, which reads repositories: install it.") from None
    except subprocess.TimeoutExpired:
        raise UnreadableFile(
            f"git was not done with it after {GIT_TIMEOUT_SECONDS} seconds."
        ) from None
