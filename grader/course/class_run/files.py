"""Files as students hand them in: named for print, and read without following a link."""

import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from grader.submission import MAX_BYTES, Unreadable
from grader.worker.text import harmless

MAX_NOTEBOOK = 20_000_000
MAX_ZIP = 20_000_000
MAX_STAMP = 1_000  # nbgrader's timestamp.txt
_MAX_PRINTED = 300  # characters; a name in a zip may have 65,535
_TOO_LARGE = {  # by the suffix: how large, and what is said beyond that
    **dict.fromkeys(
        (".py", ".cu"), (MAX_BYTES, "{file} is too large: an answer has at most {bytes:,} bytes.")
    ),
    ".ipynb": (
        MAX_NOTEBOOK,
        "{file} is too large: a notebook has at most {bytes:,} bytes. "
        "Clear its outputs and save it again.",
    ),
    ".txt": (MAX_STAMP, "{file} is too large: a time stamp has at most {bytes:,} bytes."),
    ".zip": (
        MAX_ZIP,
        "{file} is too large: a zip has at most {bytes:,} bytes. Put only the answers into it.",
    ),
}
_LEFT_BY_MACHINES = ("__pycache__", "__MACOSX", "Thumbs.db", "desktop.ini")


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """Something with the place of a file in what was handed in; its content is not read yet."""

    name: str
    path: str  # from the top of what was handed in
    read: Callable[[], bytes]
    problem: str = ""  # why it is not read: the student's sentence
    id: str = ""  # of its content, where the source gives it one

    @property
    def shown(self) -> str:
        return printable(self.path)

    def content(self) -> bytes:
        """Its bytes; `Unreadable` says in a sentence why there are none."""
        if self.problem:
            raise Unreadable(self.problem)
        return self.read()


def printable(name: str) -> str:
    """A name in one line that can be printed anywhere, the end of it if it is long.

    A mark stands for every letter that is not seen, so that no name looks like another one.
    """
    line = harmless("".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in name))
    return f"…{line[-_MAX_PRINTED:]}" if len(line) > _MAX_PRINTED else line or "?"


def is_passed_over(name: str) -> bool:
    """Whether nobody meant to hand this in: hidden files, and what machines leave behind."""
    hidden = name.startswith(".") and name not in (".", "..")
    return hidden or name in _LEFT_BY_MACHINES


def is_folder(path: Path) -> bool:
    """Whether a folder lies at `path`, and no link to one."""
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except OSError:
        return False


def is_zip(name: str) -> bool:
    return name.lower().endswith(".zip")


def limit(name: str) -> int:
    """How many bytes an answer, a zip or a time stamp of this name may have."""
    return _TOO_LARGE[_suffix(name)][0]


def too_large(name: str, shown: str) -> Unreadable:
    """What is said of one that has more."""
    most, sentence = _TOO_LARGE[_suffix(name)]
    return Unreadable(sentence.format(file=shown, bytes=most))


def _suffix(name: str) -> str:
    return name[name.rindex(".") :].lower()


@contextmanager
def opened(folder: Path, shown: str) -> Iterator[int]:
    """A folder, as a descriptor: what is opened in it is in it, whatever is renamed meanwhile."""
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError as error:
        raise _cannot_be_read(shown, error) from None
    try:
        yield handle
    finally:
        os.close(handle)


def listed(folder: int, shown: str) -> list[File]:
    """What lies in an open folder, by name; not what is passed over."""
    try:
        with os.scandir(folder) as found:
            kept = sorted((e for e in found if not is_passed_over(e.name)), key=lambda e: e.name)
            return [_file(entry, folder) for entry in kept]
    except OSError as error:
        raise _cannot_be_read(shown, error) from None


def _file(entry: os.DirEntry[str], folder: int) -> File:
    shown, problem = printable(entry.name), ""
    if entry.is_symlink():
        problem = link(shown)
    elif entry.is_dir(follow_symlinks=False):
        problem = f"{shown} is a folder, which is not looked into: put its files where it lies."
    elif not entry.is_file(follow_symlinks=False):
        problem = f"{shown} is not a file."
    source = partial(read, entry.name, shown, folder)
    return File(name=entry.name, path=entry.name, read=source, problem=problem)


def read(path: str | Path, shown: str, folder: int | None = None) -> bytes:
    """The bytes of a regular file up to its limit; `Unreadable` says why there are none.

    Nothing waits for a pipe, and no more is read than the limit and one byte.
    """
    most = limit(str(path))
    try:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
        handle = os.open(path, flags, dir_fd=folder)
        try:
            status = os.fstat(handle)
            if not stat.S_ISREG(status.st_mode):
                raise Unreadable(f"{shown} is not a file.")
            if status.st_size > most:
                raise too_large(str(path), shown)
            with open(handle, "rb", closefd=False) as file:
                content = file.read(most + 1)
        finally:
            os.close(handle)
    except OSError as error:
        raise _cannot_be_read(shown, error) from None
    if len(content) > most:  # it grew
        raise too_large(str(path), shown)
    return content


def link(shown: str) -> str:
    """What is said of a link."""
    return f"{shown} is a link: hand in the file itself."


def _cannot_be_read(shown: str, error: OSError) -> Unreadable:
    if error.errno == errno.ELOOP:
        return Unreadable(link(shown))
    return Unreadable(f"{shown} cannot be read: {error.strerror}.")
