"""Lists a handed-in zip, and unpacks in memory only the entries that are needed.

Whoever writes a zip chooses every number in it. So the numbers are checked against what is there:
the zip's own size, how many entries its directory can have and how long their names are, and how
much an entry unpacks to.
"""

import base64
import io
import itertools
import re
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterator
from typing import Any

from grader.submission.handed_files import (
    clean_submitted_name,
    describe_submitted_link,
    describe_too_large_submission,
    find_submission_size_limit,
    is_handed_in_accidentally,
    is_submitted_zip,
)

MAX_ENTRIES = 2_000
MAX_DESCRIPTION_BYTES = (
    1_000_000  # bytes of names, comments and extra fields: these cost time to parse
)
MAX_COMPRESSION_RATIO = 100
SMALL_ENTRY_BYTES = 1_000_000  # bytes; what unpacks to no more may do so at any ratio
MAX_UNPACKED_BYTES = 40_000_000  # bytes of all that is read

# Others unpack in steps that have no bound: 45 bytes of bzip2 can be a megabyte.
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_ENCRYPTED = 0x1 | 0x40 | 0x2000  # the flags: by a password, strongly, and the directory too
_DIRECTORY_ENTRY = re.compile(rb"PK\x01\x02(?=.{24}(.{6}))", re.DOTALL)
_SEPARATORS = re.compile(r"[/\\:]")
ZIP_ERRORS = (  # what `zipfile` raises
    zipfile.BadZipFile, zlib.error, struct.error, EOFError, OverflowError, ValueError, RuntimeError,
)  # fmt: skip


class BadZip(Exception):
    """Raised when a zip cannot be read; the message is the student's sentence."""


def list_submitted_zip_files(content: bytes, *, shown: str) -> dict[str, Any]:
    """Return the files in a zip, at any depth; {"bad": a sentence} if it cannot be read.

    {"files": [{...}, as `list_submitted_zip_entries` yields them]}

    shown  the zip's name, as sentences show it
    """
    try:
        return {
            "files": [
                *list_submitted_zip_entries(_open_submitted_zip(content, shown), len(content))
            ]
        }
    except BadZip as problem:
        return {"bad": str(problem)}


def unpack_submitted_zip_file(
    content: bytes, *, shown: str, number: int, left: int
) -> dict[str, str]:
    """Return the content of an entry: {"content": in base64}; or {"bad": a sentence}.

    number  the entry's number, as `list_submitted_zip_files` gave it
    left    how many bytes may still be unpacked of this zip
    """
    try:
        archive = _open_submitted_zip(content, shown)
        return {
            "content": base64.b64encode(unpack_submitted_zip_entry(archive, number, left)).decode()
        }
    except BadZip as problem:
        return {"bad": str(problem)}


def _open_submitted_zip(content: bytes, shown: str) -> zipfile.ZipFile:
    broken = BadZip(f"{shown} cannot be opened as a zip: pack it again.")
    described = list(itertools.islice(_DIRECTORY_ENTRY.finditer(content), MAX_ENTRIES + 1))
    if len(described) > MAX_ENTRIES:
        raise BadZip(
            f"{shown} holds more than {MAX_ENTRIES:,} files: put only the answers into it."
        )
    if sum(sum(struct.unpack("<3H", found[1])) for found in described) > MAX_DESCRIPTION_BYTES:
        raise broken
    try:
        return zipfile.ZipFile(io.BytesIO(content))
    except ZIP_ERRORS:
        raise broken from None


def list_submitted_zip_entries(
    archive: zipfile.ZipFile, size: int, *, of_class: bool = False
) -> Iterator[dict[str, Any]]:
    """Yield each entry except folders and files handed in by accident.

    Yields {"number", "path", "name", "problem": why it is not read, or ""}.

    size      of the zip in bytes
    of_class  whether a platform wrote it, with what each student handed in; zips may be in it
    """
    for number, entry in enumerate(archive.infolist()):
        parts = entry.filename.split("/")
        if (parts[-1] == "" and len(parts) > 1) or any(map(is_handed_in_accidentally, parts)):
            continue
        problem = _check_submitted_zip_entry(entry, size, of_class)
        name = _SEPARATORS.split(entry.filename)[-1] if problem else parts[-1]
        yield {"number": number, "path": entry.filename, "name": name, "problem": problem}


def unpack_submitted_zip_entry(archive: zipfile.ZipFile, number: int, left: int) -> bytes:
    """Return the bytes of an entry. `zipfile` unpacks no more than the entry's stated size."""
    entry = archive.infolist()[number]
    shown, name = clean_submitted_name(entry.filename), entry.filename.split("/")[-1]
    if entry.file_size > find_submission_size_limit(name):
        raise BadZip(describe_too_large_submission(name, shown))
    if entry.file_size > left:
        raise BadZip(
            f"{shown} was not read: the answers in a zip have at most {MAX_UNPACKED_BYTES:,} bytes "
            "together. Clear the outputs of the notebooks."
        )
    try:
        with archive.open(entry) as file:
            content = file.read(find_submission_size_limit(name) + 1)
    except ZIP_ERRORS:
        raise BadZip(f"{shown} is damaged in its zip: pack it again.") from None
    if len(content) > find_submission_size_limit(name):
        raise BadZip(describe_too_large_submission(name, shown))
    return content


def _check_submitted_zip_entry(entry: zipfile.ZipInfo, size: int, of_class: bool) -> str:
    """Return why an entry is not read, whatever its content; "" if it is."""
    shown, mode = clean_submitted_name(entry.filename), entry.external_attr >> 16
    if says := _check_submitted_zip_name(entry, shown):
        return says
    if stat.S_ISLNK(mode):
        return describe_submitted_link(shown)
    if stat.S_IFMT(mode) not in (0, stat.S_IFREG):
        return f"{shown} is not a file."
    if entry.flag_bits & _ENCRYPTED:
        return f"{shown} is encrypted: pack it without a password."
    if entry.compress_type not in _METHODS:
        return f"{shown} is packed in an uncommon way: pack it as an ordinary zip."
    if entry.file_size > max(
        SMALL_ENTRY_BYTES, MAX_COMPRESSION_RATIO * min(entry.compress_size, size)
    ):
        return (
            f"{shown} unpacks to more than {MAX_COMPRESSION_RATIO} times its size: hand in the "
            "file itself."
        )
    if is_submitted_zip(entry.filename) and not of_class:
        return f"{shown} is a zip in a zip: put its files into one."
    return ""


def _check_submitted_zip_name(entry: zipfile.ZipInfo, shown: str) -> str:
    name = entry.filename
    if not name or "\0" in entry.orig_filename:
        return f"{shown} has a name that no file can have: pack it again."
    if "\\" in name:
        return f"{shown} has a backslash in its name: pack it with another program."
    if name.startswith("/") or ".." in name.split("/") or re.match("[A-Za-z]:", name):
        return f"{shown} leads out of its zip: pack it again from its own folder."
    return ""
