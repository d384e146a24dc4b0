"""Keeps results by their keys. A result is there whole or not at all, however a run ends."""

import json
import os
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PARTIAL_PREFIX = ".writing-"  # begins the name of a file that is not whole yet
MAX_BYTES = 16 * 2**20  # of a result's file; a longer one was not written by us


@dataclass(frozen=True, slots=True)
class ResultStore:
    """A folder of results, each in a file named by its key."""

    folder: Path

    def get(self, key: str) -> dict[str, Any] | None:
        """Return the result of a key; None if there is none, or if its file is damaged."""
        with suppress(OSError, ValueError, TypeError, KeyError, RecursionError):
            if not (path := self.path(key)).is_file():  # to open a pipe would wait
                return None
            with path.open("rb") as file:
                found = json.loads(file.read(MAX_BYTES))
            if isinstance(found, dict) and found.get("key") == key:
                return dict(found["result"])
        return None

    def put(self, key: str, result: dict[str, Any]) -> None:
        """Keep a result."""
        text = json.dumps({"key": key, "result": result}, ensure_ascii=False)
        write_file_whole(self.path(key), text)

    def path(self, key: str) -> Path:
        """Return the file of a key, whether it is there or not."""
        return self.folder / key[:2] / f"{key}.json"


def does_file_hold_content(path: Path, text: str | bytes) -> bool:
    """Return whether a file has exactly this content."""
    with suppress(FileNotFoundError):
        return path.is_file() and path.read_bytes() == _encode_stored_text(text)
    return False


def write_file_whole(path: Path, text: str | bytes) -> None:
    """Replace a file in one step, so that readers see its old or its new content, never a part.

    A file that already has this content is not touched.
    """
    if does_file_hold_content(path, text):
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, made = tempfile.mkstemp(dir=path.parent, prefix=PARTIAL_PREFIX)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(_encode_stored_text(text))
            file.flush()
            os.fsync(file.fileno())
        os.chmod(made, 0o644)
        os.replace(made, path)
    except OSError as error:
        with suppress(FileNotFoundError):
            os.unlink(made)
        error.filename = os.fspath(path)  # a full disk does not name it
        raise


def remove_partly_written_files(folder: Path) -> None:
    """Remove what a killed run was writing."""
    for path in folder.rglob(f"{PARTIAL_PREFIX}*"):
        path.unlink(missing_ok=True)


def _encode_stored_text(text: str | bytes) -> bytes:
    return text if isinstance(text, bytes) else text.encode("utf-8", "replace")
