"""What is in a zip that was handed in. It is unpacked in memory, and only what is asked for.

Whoever writes a zip chooses every number in it. What is believed is held against what is there:
the zip's own size, how many entries its directory can have and how long their names are, how much
an entry unpacks to, and how much all of them together.
"""

import io
import itertools
import re
import stat
import struct
import sys
import zipfile
import zlib
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from grader.course.class_run.files import (
    File,
    is_passed_over,
    is_zip,
    limit,
    link,
    printable,
    too_large,
)
from grader.submission import Unreadable

MAX_ENTRIES = 2_000
MAX_DESCRIBED = 1_000_000  # bytes of names, comments and extra fields: these cost time to parse
MAX_RATIO = 100
SMALL = 1_000_000  # bytes; what unpacks to no more may do so at any ratio
MAX_UNPACKED = 40_000_000  # bytes of all that is read

# Others unpack in steps that have no bound: 45 bytes of bzip2 can be a megabyte.
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_ENCRYPTED = 0x1 | 0x40 | 0x2000  # the flags: by a password, strongly, and the directory too
_ENTRY = re.compile(rb"PK\x01\x02(?=.{24}(.{6}))", re.DOTALL)
_SEPARATORS = re.compile(r"[/\\:]")
_BROKEN = (  # what `zipfile` raises
    zipfile.BadZipFile, zlib.error, struct.error, EOFError, OverflowError, ValueError, RuntimeError,
)  # fmt: skip


@dataclass(slots=True)
class _Archive:
    """A zip in memory, and how many bytes may still be unpacked."""

    zip: zipfile.ZipFile
    size: int
    left: int = MAX_UNPACKED
    of_class: bool = False  # written by a platform, with what each student handed in

    def read(self, entry: zipfile.ZipInfo, name: str) -> bytes:
        """The bytes of an entry. `zipfile` unpacks no more than the entry says that it has."""
        shown, most = printable(entry.filename), limit(name)
        if entry.file_size > most:
            raise too_large(name, shown)
        if entry.file_size > self.left:
            raise Unreadable(
                f"{shown} was not read: the answers in a zip have at most {MAX_UNPACKED:,} bytes "
                "together. Clear the outputs of the notebooks."
            )
        self.left -= entry.file_size
        try:
            with self.zip.open(entry) as file:
                content = file.read(most + 1)
        except _BROKEN:
            raise Unreadable(f"{shown} is damaged in its zip: pack it again.") from None
        if len(content) > most:
            raise too_large(name, shown)
        return content

    def problem(self, entry: zipfile.ZipInfo) -> str:
        """Why an entry is not read, whatever its content may be."""
        shown, mode = printable(entry.filename), entry.external_attr >> 16
        packed = min(entry.compress_size, self.size)
        if says := _problem_of_name(entry, shown):
            return says
        if stat.S_ISLNK(mode):
            return link(shown)
        if stat.S_IFMT(mode) not in (0, stat.S_IFREG):
            return f"{shown} is not a file."
        if entry.flag_bits & _ENCRYPTED:
            return f"{shown} is encrypted: pack it without a password."
        if entry.compress_type not in _METHODS:
            return f"{shown} is packed in an uncommon way: pack it as an ordinary zip."
        if entry.file_size > max(SMALL, MAX_RATIO * packed):
            return (
                f"{shown} unpacks to more than {MAX_RATIO} times its size: hand in the file itself."
            )
        if is_zip(entry.filename) and not self.of_class:
            return f"{shown} is a zip in a zip: put its files into one."
        return ""


def files(content: bytes, shown: str) -> list[File]:
    """The files in a zip, at any depth; `Unreadable` if it is none, or if it holds too much.

    shown   the name of the zip, for sentences
    """
    broken = Unreadable(f"{shown} cannot be opened as a zip: pack it again.")
    described = list(itertools.islice(_ENTRY.finditer(content), MAX_ENTRIES + 1))
    if len(described) > MAX_ENTRIES:
        raise Unreadable(
            f"{shown} holds more than {MAX_ENTRIES:,} files: put only the answers into it."
        )
    if sum(sum(struct.unpack("<3H", found[1])) for found in described) > MAX_DESCRIBED:
        raise broken
    try:
        archive = _Archive(zipfile.ZipFile(io.BytesIO(content)), len(content))
    except _BROKEN:
        raise broken from None
    found = (_file(archive, entry) for entry in archive.zip.infolist())
    return [file for file in found if file is not None]


def files_of_class(path: Path) -> list[File]:
    """The files in a zip of a whole class, for as long as it lies there; zips may be among them.

    A platform writes it, so it may be large; what a student chose in it is bounded file by file.
    """
    try:
        archive = _Archive(zipfile.ZipFile(path), path.stat().st_size, sys.maxsize, of_class=True)
    except _BROKEN:
        raise Unreadable(f"{path} cannot be opened as a zip: download it again.") from None
    except OSError as error:
        raise Unreadable(f"{path} cannot be read: {error.strerror}.") from None
    found = (_file(archive, entry) for entry in archive.zip.infolist())
    return [file for file in found if file is not None]


def _file(archive: _Archive, entry: zipfile.ZipInfo) -> File | None:
    """An entry; None for folders and for what nobody meant to hand in."""
    parts = entry.filename.split("/")
    if (parts[-1] == "" and len(parts) > 1) or any(map(is_passed_over, parts)):
        return None
    problem = archive.problem(entry)
    name = _SEPARATORS.split(entry.filename)[-1] if problem else parts[-1]
    source = partial(archive.read, entry, name)
    return File(name=name, path=entry.filename, read=source, problem=problem)


def _problem_of_name(entry: zipfile.ZipInfo, shown: str) -> str:
    name = entry.filename
    if not name or "\0" in entry.orig_filename:
        return f"{shown} has a name that no file can have: pack it again."
    if "\\" in name:
        return f"{shown} has a backslash in its name: pack it with another program."
    if name.startswith("/") or ".." in name.split("/") or re.match("[A-Za-z]:", name):
        return f"{shown} leads out of its zip: pack it again from its own folder."
    return ""
