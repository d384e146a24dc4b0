"""Brings the handed files into a learner's folder; never touches what the learner has changed."""

import difflib
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import Enum, auto
from pathlib import Path

from grader import __version__
from grader.core import backup
from grader.core.catalog import ANSWERS_FOLDER
from grader.core.result_store import write_file_whole
from grader.practice.folder.handed_course import list_handed_files
from grader.practice.folder.handed_record import (
    HandedRecord,
    digest_handed_file,
    write_handed_record,
)
from grader.submission.answer_file import (
    UnreadableFile,
    is_submission_file_untouched,
    read_submission_bytes,
)

_MAX_BYTES = 1 << 20  # of a handed file; a longer one is the learner's


class HandedState(Enum):
    """What became of a handed file."""

    ADDED = auto()  # it was not there
    REPLACED = auto()  # the learner had not changed the earlier one
    KEPT = auto()  # the learner's stays, and the new one lies beside it


@dataclass(frozen=True, slots=True, kw_only=True)
class BroughtFile:
    """A file that an init or an update brought, and what it changed in a skeleton."""

    name: str
    state: HandedState
    beside: str = ""  # the name of the new file beside the learner's
    changes: tuple[str, ...] = ()  # lines of a diff from the skeleton that the answer began with


def bring_handed_files(folder: Path, record: HandedRecord, language: str) -> list[BroughtFile]:
    """Bring all files into a folder, and remember them; return those that are new or changed."""
    found, digests, skeletons = list[BroughtFile](), dict[str, str](), dict[str, str]()
    handed = [*list_handed_files(language)]
    if record.notebooks:
        from grader.practice.folder.handed_notebooks import list_handed_notebooks  # takes a second

        handed += list_handed_notebooks(language, record.repository)
    for name, content in handed:
        found += _bring_handed_file(folder, name, content, record)
        digests[name] = digest_handed_file(name, content)
        if name.startswith(f"{ANSWERS_FOLDER}/"):
            skeletons[name] = content.decode()
    after = replace(
        record, version=__version__, language=language, digests=digests, skeletons=skeletons
    )
    write_handed_record(folder, after)
    return found


def _bring_handed_file(
    folder: Path, name: str, content: bytes, record: HandedRecord
) -> Iterator[BroughtFile]:
    """Write a file where nothing of the learner's stands in its place; yield it if it is new."""
    path = folder / name
    if not os.path.lexists(path):
        write_file_whole(path, content)
        yield BroughtFile(name=name, state=HandedState.ADDED)
        return
    there = _read_learners_file(path)
    if there == content:
        return
    if there is not None and (record.has_handed(name, there) or is_submission_file_untouched(path)):
        write_file_whole(path, content)
        yield BroughtFile(name=name, state=HandedState.REPLACED)
    elif not record.has_handed(name, content):  # else the learner has seen it
        new = backup.write_beside(path, content.decode())
        yield BroughtFile(
            name=name, state=HandedState.KEPT, beside=new.relative_to(folder).as_posix(),
            changes=_compare_skeletons(record.skeletons.get(name, ""), content.decode()),
        )  # fmt: skip


def _read_learners_file(path: Path) -> bytes | None:
    """Return the content of a plain file of moderate size; None of anything else."""
    with suppress(UnreadableFile):
        return None if path.is_symlink() else read_submission_bytes(path, _MAX_BYTES)
    return None


def _compare_skeletons(old: str, new: str) -> tuple[str, ...]:
    """Return the changed lines below the first; none if the old skeleton is not known."""
    if not old:
        return ()
    lines = difflib.unified_diff(old.splitlines()[1:], new.splitlines()[1:], lineterm="", n=1)
    return tuple(line for line in lines if not line.startswith(("---", "+++", "@@")))
