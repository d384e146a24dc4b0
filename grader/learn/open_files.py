"""Edits a file of answers that other editors may change too; no side loses a text.

A tab remembers the text that it last read from the file or wrote to it. If the file holds another
text when the tab saves, somebody else has written meanwhile: that version is kept beside the file
under a name that no answer has, and the tab's text becomes the file.
"""

import hashlib
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from grader.core import backup
from grader.core.errors import UserError
from grader.practice.watch.watched_files import FileSignature, read_file_signature
from grader.submission.answer_file import UnreadableFile, read_submission_bytes
from grader.submission.handed_files import MAX_ANSWER_BYTES

_BOM = "\ufeff"


class NotEditable(UserError):
    """Raised if a file cannot be edited as text; the message is a sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedFile:
    """What a save did."""

    kept: Path | None = None  # where the version of the other side went
    problem: str = ""  # why the file could not be written; its text is still in the editor


class OpenFile:
    """One tab's view of one file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._known: str | None = None  # the text of the file when this tab last saw it
        self._signature: FileSignature = None
        self._ends = "\n"
        self._begins = ""

    @property
    def exists(self) -> bool:
        """Return whether there was a file when this tab last looked."""
        return self._known is not None

    def read(self) -> str:
        """Return the text of the file; "" if there is none. Raises `NotEditable`."""
        signature = read_file_signature(self.path)
        self._known = self._read_text()
        self._signature = signature
        return self._known or ""

    def read_change(self) -> str | None:
        """Return the text that another program wrote since this tab last looked, else None.

        A file that was deleted gives None, and `exists` is False from then on. Raises `NotEditable`
        again and again until the file can be read.
        """
        signature = read_file_signature(self.path)
        if signature == self._signature:
            return None
        before = self._known
        text = self._read_text()
        self._signature, self._known = signature, text
        return None if text == before else text

    def save(self, text: str) -> SavedFile:
        """Write the text; keep the version of another program beside it if there is one."""
        try:
            there = self._read_text()
            kept = self._write(text, there)
        except NotEditable as problem:
            return SavedFile(problem=str(problem))
        except OSError as error:
            return SavedFile(problem=f"{self.path.name} cannot be written: {error.strerror}.")
        self._signature, self._known = read_file_signature(self.path), text
        return SavedFile(kept=kept)

    def keep_beside(self, text: str) -> Path:
        """Write a text beside the file, under a name that no answer has. Raises OSError."""
        return backup.write_beside(self.path, text)

    def digest(self) -> str:
        """Return the digest of the file's text, as this tab knows it."""
        return digest_text(self._known or "")

    def _read_text(self) -> str | None:
        try:
            self.path.lstat()
        except OSError:
            return None
        try:
            raw = read_submission_bytes(self.path, MAX_ANSWER_BYTES).decode("utf-8")
        except UnreadableFile as problem:
            raise NotEditable(str(problem)) from None
        except UnicodeDecodeError:
            raise NotEditable(f"{self.path.name} is not UTF-8 text: save it as UTF-8.") from None
        self._begins = _BOM if raw.startswith(_BOM) else ""
        self._ends = "\r\n" if "\r\n" in raw else "\n"
        return raw.removeprefix(_BOM).replace("\r\n", "\n").replace("\r", "\n")

    def _write(self, text: str, there: str | None) -> Path | None:
        """Write the text with the line ends of the file; return where the other version went."""
        if text == there:
            return None
        content = self._begins + text.replace("\n", self._ends)
        if there is not None and there != self._known:
            return backup.write_with_backup(self.path, content, [self.path])[0]
        replace_text(self.path.resolve(), content)
        return None


def digest_text(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def replace_text(path: Path, content: str) -> None:
    """Write a file in one step, so that nobody ever reads half of it; keep its mode."""
    new = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        new.write_text(content, encoding="utf-8", newline="")
        if path.exists():
            shutil.copymode(path, new)
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)
