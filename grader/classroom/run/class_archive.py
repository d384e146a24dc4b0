"""Reads zips: the reader opens a student's, this module that of a whole class."""

import base64
import sys
import zipfile
from collections.abc import Callable, Iterable
from functools import cache, partial
from pathlib import Path
from typing import Any

from grader.classroom.run.answer_files import StudentFile
from grader.submission import zip_entries
from grader.submission.answer_file import UnreadableFile
from grader.submission.reader_client import UnreadableContent, ask_submission_reader


def unpack_student_files(content: bytes, shown: str) -> list[StudentFile]:
    """Return the files in a student's zip, at any depth. Raises `UnreadableFile`.

    shown   the name of the zip, for sentences
    """
    left = zip_entries.MAX_UNPACKED_BYTES

    @cache  # a file is read more than once, but counts once towards the limit
    def unpack(number: int) -> bytes:
        nonlocal left
        found = _ask_class_archive_reader("unzipped", content, shown, number=number, left=left)
        unpacked = base64.b64decode(found["content"])
        left -= len(unpacked)
        return unpacked

    return _list_class_archive_files(
        _ask_class_archive_reader("zipped", content, shown)["files"], unpack
    )


def unpack_class_files(path: Path) -> list[StudentFile]:
    """Yield the files in a zip of a whole class while the zip is open; zips may be among them.

    A platform writes this zip, so it may be large; each student's file in it has a size limit.
    """
    try:
        archive = zipfile.ZipFile(path)
    except zip_entries.ZIP_ERRORS:
        raise UnreadableFile(f"{path} cannot be opened as a zip: download it again.") from None
    except OSError as error:
        raise UnreadableFile(f"{path} cannot be read: {error.strerror}.") from None

    def unpack(number: int) -> bytes:
        try:
            return zip_entries.unpack_submitted_zip_entry(archive, number, sys.maxsize)
        except zip_entries.BadZip as problem:
            raise UnreadableFile(str(problem)) from None

    return _list_class_archive_files(
        zip_entries.list_submitted_zip_entries(archive, path.stat().st_size, of_class=True), unpack
    )


def _list_class_archive_files(
    found: Iterable[dict[str, Any]], unpack: Callable[[int], bytes]
) -> list[StudentFile]:
    return [
        StudentFile(
            name=f["name"], path=f["path"], problem=f["problem"], read=partial(unpack, f["number"])
        )
        for f in found
    ]


def _ask_class_archive_reader(
    question: str, content: bytes, shown: str, **given: int
) -> dict[str, Any]:
    try:
        found: dict[str, Any] = ask_submission_reader(question, content, shown=shown, **given)
    except UnreadableContent as problem:
        raise UnreadableFile(f"{shown}: {problem}") from None
    if "bad" in found:
        raise UnreadableFile(found["bad"])
    return found
