"""Remembers which files a learner was handed, so that an update knows what the learner changed.

The file `.attention-by-hand.json` holds the version, the language, the digest of every handed file,
and the text of every skeleton, so that an update can say what changed. If it is damaged, it counts
as empty: then everything in the folder is the learner's, and nothing is replaced.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from grader.core.advice import RECORD_FILE
from grader.core.catalog import ANSWERS_FOLDER
from grader.core.result_store import write_file_whole
from grader.core.translation import LANGUAGES
from grader.submission.answer_file import UnreadableFile, read_submission_bytes

_MAX_BYTES = 4 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class HandedRecord:
    """What was handed out at the last init or update."""

    version: str = ""
    language: str = ""  # "" if it is not known
    digests: Mapping[str, str] = field(default_factory=dict)  # by path in the folder
    skeletons: Mapping[str, str] = field(default_factory=dict)
    notebooks: bool = False  # whether the learner asked for them
    repository: str = ""  # from which Colab opens them

    def has_handed(self, name: str, content: bytes) -> bool:
        """Return whether a file with this content was handed out under this name."""
        return self.digests.get(name) == digest_handed_file(name, content)


def digest_handed_file(name: str, content: bytes) -> str:
    """Return the digest of a handed file; for a skeleton, of the text below its first line.

    The first line gives the path of the lesson, in one language or the other.
    """
    text = content.replace(b"\r\n", b"\n")
    body = text.partition(b"\n")[2] if name.startswith(f"{ANSWERS_FOLDER}/") else text
    return hashlib.sha256(body).hexdigest()


def read_handed_record(folder: Path) -> HandedRecord | None:
    """Return the record of a folder; an empty one if it is damaged, None if there is none."""
    path = folder / RECORD_FILE
    if not path.exists():
        return None
    try:
        found: Any = json.loads(read_submission_bytes(path, _MAX_BYTES))
    except (UnreadableFile, ValueError, RecursionError):
        return HandedRecord()
    if not isinstance(found, dict):
        return HandedRecord()
    language = found.get("language")
    return HandedRecord(
        version=str(found.get("version", "")),
        language=language if language in LANGUAGES else "",
        digests=_read_record_texts(found.get("digests")),
        skeletons=_read_record_texts(found.get("skeletons")),
        notebooks=found.get("notebooks") is True,
        repository=str(found.get("repository", "")),
    )


def _read_record_texts(found: object) -> dict[str, str]:
    entries = found.items() if isinstance(found, dict) else ()
    return {name: text for name, text in entries if isinstance(text, str)}


def write_handed_record(folder: Path, record: HandedRecord) -> None:
    """Replace the record of a folder."""
    entries = {
        "version": record.version, "language": record.language,
        "digests": dict(record.digests), "skeletons": dict(record.skeletons),
        "notebooks": record.notebooks, "repository": record.repository,
    }  # fmt: skip
    text = json.dumps(entries, indent=1, ensure_ascii=False) + "\n"
    write_file_whole(folder / RECORD_FILE, text)
