"""Folders and zips as students hand them in, the hostile ones too."""

import contextlib
import io
import os
import re
import signal
import struct
import tempfile
import warnings
import zipfile
from pathlib import Path

import pytest

from grader.classroom.run.gather_answers import HandedAnswers, gather_student_answers
from grader.core import catalog
from grader.core.translation import Words

EXERCISES = catalog.list_catalog_exercises()[:2]
SLUGS = [exercise.slug for exercise in EXERCISES]
PY, NOTEBOOK = f"{SLUGS[0]}.py", f"{SLUGS[0]}.ipynb"
ANSWER = b"def softmax(x):\n    return x\n"
SKELETON = (catalog.ROOT / "exercises" / PY).read_bytes()
HAN = re.compile("[\u4e00-\u9fff]")
A_LINK = "is a link: hand in the file itself."
DIRECTORY_ENTRY = "<4s4B4HL2L5H2L"


def laid(folder: Path, files: dict[str | bytes, bytes]) -> Path:
    """Write files into `folder`, by their paths in it."""
    for name, content in files.items():
        path = Path(os.fsdecode(os.path.join(os.fsencode(folder), os.fsencode(name))))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def zipped(*entries: tuple[str | zipfile.ZipInfo, bytes], method=zipfile.ZIP_DEFLATED) -> bytes:
    """A zip of these names and contents, in their order; the same name may come twice."""
    file = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(file, "w", method) as archive:
        warnings.simplefilter("ignore")
        for name, content in entries:
            archive.writestr(name, content)
    return file.getvalue()


def of_kind(name: str, mode: int) -> zipfile.ZipInfo:
    """A zip's entry of a kind: a link, a pipe."""
    entry = zipfile.ZipInfo(name)
    entry.external_attr = mode << 16
    return entry


def patched(archive: bytes, field: str, value: int) -> bytes:
    """A zip of one entry with another number in a field of its directory."""
    at, size = {"method": (10, 2), "flags": (8, 2), "packed": (20, 4), "unpacked": (24, 4)}[field]
    start = archive.index(b"PK\x01\x02") + at
    return archive[:start] + value.to_bytes(size, "little") + archive[start + size :]


def directory(names: list[bytes], extra: bytes = b"") -> bytes:
    """A zip that is a directory and nothing else."""
    entries = b"".join(
        struct.pack(DIRECTORY_ENTRY, b"PK\x01\x02", 20, 3, 20, *[0] * 8, len(name), len(extra), *[0] * 5)
        + name + extra
        for name in names
    )  # fmt: skip
    count = len(names) & 0xFFFF
    return entries + struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, count, count, len(entries), 0, 0)


def of_alice(folder: Path, contents=None, exercises=EXERCISES) -> HandedAnswers:
    """What is found of alice, with these files in her folder."""
    return gather_student_answers(laid(folder / "submissions" / "alice", contents or {}), exercises)


def of_zip(folder: Path, content: bytes) -> HandedAnswers:
    """What is found in a zip that a student handed in."""
    laid(folder, {"bob.zip": content})
    return gather_student_answers(folder / "bob.zip", EXERCISES)


def in_chinese(*sentences: str) -> bool:
    """Whether each of our sentences has a Chinese one."""
    return all(HAN.search(line) for s in sentences for line in Words("zh").said(s).splitlines())


def a_link(path: Path) -> None:
    path.symlink_to("/etc/hostname")


@contextlib.contextmanager
def as_an_ordinary_user():
    """Root may read everything: be somebody else for a while."""
    if os.geteuid() != 0:
        yield
        return
    try:
        os.seteuid(65534)
    except OSError as error:
        pytest.skip(f"root cannot become an ordinary user here: {error.strerror}")
    try:
        yield
    finally:
        os.seteuid(0)


@contextlib.contextmanager
def folder_for_everybody():
    """A folder that an ordinary user can reach, which those of pytest are not."""
    with tempfile.TemporaryDirectory() as name:
        os.chmod(name, 0o755)
        yield Path(name)


@contextlib.contextmanager
def at_once(seconds: int = 20):
    """What hangs fails."""

    def too_late(*_):
        raise AssertionError(f"still waiting after {seconds} s")

    before = signal.signal(signal.SIGALRM, too_late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
