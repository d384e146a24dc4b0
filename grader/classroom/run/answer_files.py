"""Reads files as students hand them in, without following a link."""

import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from grader.submission.answer_file import UnreadableFile
from grader.submission.handed_files import (
    clean_submitted_name,
    describe_submitted_link,
    describe_too_large_submission,
    find_submission_size_limit,
    is_handed_in_accidentally,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StudentFile:
    """A file that was handed in; its content is not read yet."""

    name: str
    path: str  # from the top of what was handed in
    read: Callable[[], bytes]
    problem: str = ""  # why it is not read: the student's sentence
    id: str = ""  # of its content, where the source gives it one

    @property
    def shown(self) -> str:
        return clean_submitted_name(self.path)

    def content(self) -> bytes:
        """Return the bytes of the file. Raises `UnreadableFile` with a sentence."""
        if self.problem:
            raise UnreadableFile(self.problem)
        return self.read()


def is_student_folder(path: Path) -> bool:
    """Return whether a folder, and no link to one, lies at `path`."""
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except OSError:
        return False


@contextmanager
def open_student_folder(folder: Path, shown: str) -> Iterator[int]:
    """Open a folder as a descriptor; files opened in it lie in it, even if it is renamed."""
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError as error:
        raise _refuse_student_file(shown, error) from None
    try:
        yield handle
    finally:
        os.close(handle)


def list_student_folder(folder: int, shown: str) -> list[StudentFile]:
    """Return the entries of an open folder by name, without files handed in by accident."""
    try:
        with os.scandir(folder) as found:
            kept = sorted(
                (e for e in found if not is_handed_in_accidentally(e.name)), key=lambda e: e.name
            )
            return [_describe_student_file(entry, folder) for entry in kept]
    except OSError as error:
        raise _refuse_student_file(shown, error) from None


def _describe_student_file(entry: os.DirEntry[str], folder: int) -> StudentFile:
    shown, problem = clean_submitted_name(entry.name), ""
    if entry.is_symlink():
        problem = describe_submitted_link(shown)
    elif entry.is_dir(follow_symlinks=False):
        problem = f"{shown} is a folder, which is not looked into: put its files where it lies."
    elif not entry.is_file(follow_symlinks=False):
        problem = f"{shown} is not a file."
    source = partial(read_student_file, entry.name, shown, folder)
    return StudentFile(name=entry.name, path=entry.name, read=source, problem=problem)


def read_student_file(path: str | Path, shown: str, folder: int | None = None) -> bytes:
    """Return the bytes of a regular file up to its limit. Raises `UnreadableFile` with the reason.

    Nothing waits for a pipe, and no more is read than the limit and one byte.
    """
    most = find_submission_size_limit(str(path))
    try:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
        handle = os.open(path, flags, dir_fd=folder)
        try:
            status = os.fstat(handle)
            if not stat.S_ISREG(status.st_mode):
                raise UnreadableFile(f"{shown} is not a file.")
            if status.st_size > most:
                raise UnreadableFile(describe_too_large_submission(str(path), shown))
            with open(handle, "rb", closefd=False) as file:
                content = file.read(most + 1)
        finally:
            os.close(handle)
    except OSError as error:
        raise _refuse_student_file(shown, error) from None
    if len(content) > most:  # it grew
        raise UnreadableFile(describe_too_large_submission(str(path), shown))
    return content


def _refuse_student_file(shown: str, error: OSError) -> UnreadableFile:
    if error.errno == errno.ELOOP:
        return UnreadableFile(describe_submitted_link(shown))
    return UnreadableFile(f"{shown} cannot be read: {error.strerror}.")
