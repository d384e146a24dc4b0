"""A zip is believed in nothing: what is good in it is taken, and the rest gets a sentence."""

import io
import random
import stat
import struct
import zipfile

import pytest

from grader.core import catalog
from grader.core.sealed_bundle import SEALED_PAGE_NAME, STORED_CASES_FOLDER
from grader.release import bundle
from grader.submission.handed_files import MAX_ANSWER_BYTES, MAX_ZIP_BYTES
from grader.submission.zip_entries import MAX_ENTRIES
from tests.classes.handing import (
    A_LINK,
    ANSWER,
    NOTEBOOK,
    PY,
    SKELETON,
    SLUGS,
    directory,
    in_chinese,
    of_alice,
    of_kind,
    of_zip,
    patched,
    zipped,
)

OTHER = f"{SLUGS[1]}.py"
GOOD = zipped((PY, ANSWER))
STORED = zipped((PY, ANSWER), method=zipfile.ZIP_STORED)
CELLS = b'{"cells": [{"cell_type": "code", "source": "def softmax(x, dim=-1):\\n    return x"}]}'
UNTOUCHED = b'{"cells": []}'


@pytest.mark.parametrize(
    "path", [PY, f"hw/{PY}", f"a/b/c/{PY}", f"./{PY}", f"hw//{PY}", f"王/{PY}"]
)
@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_an_answer_is_found_at_any_depth(tmp_path, path, method):
    bob = of_zip(tmp_path, zipped((path, ANSWER), method=method))
    assert (bob.answers[0].content, bob.notes) == (ANSWER, ())
    assert bob.answers[0].path == f"{tmp_path.name}/bob.zip/{path}"


def test_nothing_is_written_to_the_disk(tmp_path):
    of_zip(tmp_path, zipped((f"hw/{PY}", ANSWER), ("hw/", b""), ("../x", b"")))
    assert [path.name for path in tmp_path.rglob("*")] == ["bob.zip"]


def test_a_notebook_in_a_zip_counts_beside_a_skeleton(tmp_path):
    bob = of_zip(tmp_path, zipped((f"exercises/{PY}", SKELETON), (f"notebooks/{NOTEBOOK}", b"{}")))
    assert (bob.answers[0].name, bob.answers[0].content, bob.notes) == (NOTEBOOK, b"{}", ())


def test_of_a_bundle_its_exercises_count(tmp_path):
    bob = of_zip(tmp_path, zipped((f"b/reference/{PY}", b"other"), (f"b/exercises/{PY}", ANSWER)))
    assert bob.answers[0].content == ANSWER


def test_the_references_file_is_no_answer_where_the_exercises_are_left_out(tmp_path):
    bob = of_zip(
        tmp_path, zipped((f"b/reference/{PY}", b"other"), (f"b/notebooks/{NOTEBOOK}", CELLS))
    )
    assert (bob.answers[0].name, bob.answers[0].content) == (NOTEBOOK, CELLS)


def test_the_courses_own_solution_is_no_answer_and_a_students_is(tmp_path):
    solution = (catalog.ROOT / "solutions" / PY).read_bytes()
    skeleton = (f"b/exercises/{PY}", SKELETON)
    assert (
        of_zip(tmp_path, zipped(skeleton, (f"b/solutions/{PY}", solution))).answers[0].content
        == SKELETON
    )
    assert (
        of_zip(tmp_path, zipped(skeleton, (f"b/solutions/{PY}", ANSWER))).answers[0].content
        == ANSWER
    )


TWICE = [
    ("an answer at the top beside a skeleton", PY, (PY, ANSWER), (f"exercises/{PY}", SKELETON), ANSWER),
    ("a skeleton from Windows", PY, (PY, ANSWER), (f"exercises/{PY}", SKELETON.replace(b"\n", b"\r\n")), ANSWER),
    ("an answer in another folder", PY, (f"b/hw1/{PY}", ANSWER), (f"b/exercises/{PY}", SKELETON), ANSWER),
    ("a skeleton at the top", PY, (PY, SKELETON), (f"exercises/{PY}", ANSWER), ANSWER),
    ("two skeletons", PY, (PY, SKELETON), (f"exercises/{PY}", SKELETON), SKELETON),
    ("one text", PY, (PY, ANSWER), (f"exercises/{PY}", ANSWER.replace(b"\n", b"\r\n")), ANSWER),
    ("a notebook beside an untouched one", NOTEBOOK, (NOTEBOOK, CELLS), (f"notebooks/{NOTEBOOK}", UNTOUCHED), CELLS),
    ("two begun files", PY, (PY, ANSWER), (f"exercises/{PY}", b"other"), None),
    ("two begun notebooks", NOTEBOOK, (NOTEBOOK, CELLS), (f"notebooks/{NOTEBOOK}", CELLS + b" "), None),
    ("two begun files and a skeleton", PY, (f"a/{PY}", ANSWER), (f"b/{PY}", b"other"), None),
]  # fmt: skip


@pytest.mark.parametrize("name, first, second, content", [t[1:] for t in TWICE], ids=[t[0] for t in TWICE])  # fmt: skip
def test_a_skeleton_never_wins_and_of_two_begun_files_none_is_guessed(
    tmp_path, name, first, second, content
):
    more = [] if content or name == NOTEBOOK else [(f"notebooks/{PY}", SKELETON)]
    answer = of_zip(tmp_path, zipped(first, second, *more)).answers[0]
    assert answer.content == (content or b"")
    said = f"{name} is there more than once ({first[0]}, {second[0]}): hand in one."
    assert answer.sentence == ("" if content else said)


def test_a_skeleton_does_not_hide_an_answer_that_cannot_be_read(tmp_path):
    linked = (of_kind(PY, stat.S_IFLNK | 0o777), b"/etc/passwd")
    answer = of_zip(tmp_path, zipped(linked, (f"exercises/{PY}", SKELETON))).answers[0]
    assert (answer.content, answer.sentence) == (b"", f"{PY} {A_LINK}")


def test_what_the_course_hands_out_has_no_remark(tmp_path):
    empty = tmp_path / "empty.ipynb"
    empty.write_bytes(UNTOUCHED)
    exercises = catalog.list_catalog_exercises()
    handed = dict(
        bundle.list_open_bundle_files(
            exercises, dict.fromkeys((e.slug for e in exercises), empty), "x"
        )
    )
    handed |= {SEALED_PAGE_NAME: b"", f"{STORED_CASES_FOLDER}/{SLUGS[0]}.safetensors": b""}
    packed = [
        (f"attention-by-hand/{name}", b"" if name.startswith("docs/") else content)
        for name, content in handed.items()
    ]
    mine = (f"attention-by-hand/notebooks/{SLUGS[0]}-final.txt", b"")
    assert of_zip(tmp_path, zipped(*packed, mine)).notes == (
        f"{mine[0]} is no answer to an exercise. Did you mean {PY}?",
    )


def test_the_folders_of_an_unpacked_bundle_have_no_remark_but_those_of_answers(tmp_path):
    names = [f"{name}/x" for name in ("docs", "grader", "notebooks", "reference")]
    bob = of_alice(tmp_path, dict.fromkeys([*names, "AI-POLICY.md", "Makefile"], b""))
    assert [note.split()[0] for note in bob.notes] == ["notebooks"]


OUT = "leads out of its zip: pack it again from its own folder."
ENCRYPTED = "is encrypted: pack it without a password."
UNCOMMON = "is packed in an uncommon way: pack it as an ordinary zip."
DAMAGED = "is damaged in its zip: pack it again."
BACKSLASH = "has a backslash in its name: pack it with another program."
TOO_LARGE = "is too large: an answer has at most 150,000 bytes."
RATIO = "unpacks to more than 100 times its size: hand in the file itself."


def damaged(packed: bytes) -> bytes:
    """A zip whose first entry does not unpack to what its checksum says."""
    at = packed.index(PY.encode()) + len(PY)
    return packed[:at] + bytes([packed[at] ^ 0xFF]) + packed[at + 1 :]


def named_with_a_null(packed: bytes) -> bytes:
    return packed.replace(f"{PY}/x".encode(), f"{PY}\0x".encode())


REFUSED = {
    "an absolute name": (zipped((f"/etc/{PY}", ANSWER)), f"/etc/{PY} {OUT}"),
    "a name that goes up": (zipped((f"../{PY}", ANSWER)), f"../{PY} {OUT}"),
    "a name that goes down and up": (zipped((f"a/../../{PY}", ANSWER)), f"a/../../{PY} {OUT}"),
    "a drive": (zipped((f"C:{PY}", ANSWER)), f"C:{PY} {OUT}"),
    "a drive and a folder": (zipped((f"c:/hw/{PY}", ANSWER)), f"c:/hw/{PY} {OUT}"),
    "a backslash": (zipped((f"hw\\{PY}", ANSWER)), f"hw\\{PY} {BACKSLASH}"),
    "a share": (zipped((f"\\\\host\\{PY}", ANSWER)), f"\\\\host\\{PY} {BACKSLASH}"),
    "a null byte in the name": (
        named_with_a_null(zipped((f"{PY}/x", ANSWER))),
        f"{PY} has a name that no file can have: pack it again."),
    "a link": (zipped((of_kind(PY, stat.S_IFLNK | 0o777), b"/etc/passwd")), f"{PY} {A_LINK}"),
    "a pipe": (zipped((of_kind(PY, stat.S_IFIFO | 0o644), b"")), f"{PY} is not a file."),
    "a device": (zipped((of_kind(PY, stat.S_IFBLK | 0o644), b"")), f"{PY} is not a file."),
    "a folder without a slash": (zipped((of_kind(PY, stat.S_IFDIR | 0o755), b"")), f"{PY} is not a file."),
    "encrypted": (patched(GOOD, "flags", 0x1), f"{PY} {ENCRYPTED}"),
    "strongly encrypted": (patched(GOOD, "flags", 0x41), f"{PY} {ENCRYPTED}"),
    "patch data": (patched(GOOD, "flags", 0x20), f"{PY} {DAMAGED}"),
    "an unknown method": (patched(GOOD, "method", 97), f"{PY} {UNCOMMON}"),
    "bzip2": (zipped((PY, ANSWER), method=zipfile.ZIP_BZIP2), f"{PY} {UNCOMMON}"),
    "LZMA": (zipped((PY, ANSWER), method=zipfile.ZIP_LZMA), f"{PY} {UNCOMMON}"),
    "damaged": (damaged(GOOD), f"{PY} {DAMAGED}"),
    "a smaller size than it has": (patched(GOOD, "unpacked", 3), f"{PY} {DAMAGED}"),
    "a size beyond the end": (patched(patched(STORED, "unpacked", 90_000), "packed", 90_000), f"{PY} {DAMAGED}"),
    "too large": (zipped((PY, random.Random(1).randbytes(MAX_ANSWER_BYTES + 1))), f"{PY} {TOO_LARGE}"),
    "too large, as it says": (patched(zipped((PY, random.Random(1).randbytes(MAX_ANSWER_BYTES))), "unpacked", MAX_ANSWER_BYTES + 1), f"{PY} {TOO_LARGE}"),
    "a bomb": (zipped((PY, bytes(2_000_000))), f"{PY} {RATIO}"),
    "a bomb, as it says": (patched(GOOD, "unpacked", 0xFFFFFFF0), f"{PY} {RATIO}"),
    "a bomb that says that it is large already": (
        patched(patched(GOOD, "unpacked", 0xFFFFFFF0), "packed", 0xFFFFFFF0), f"{PY} {RATIO}"),
    "twice at different depths": (
        zipped((f"hw/{PY}", ANSWER), (PY, b"other")),
        f"{PY} is there more than once (hw/{PY}, {PY}): hand in one."),
    "twice at one place": (
        zipped((PY, ANSWER), (PY, b"other")),
        f"{PY} is there more than once ({PY}, {PY}): hand in one."),
}  # fmt: skip


@pytest.mark.parametrize("packed, says", REFUSED.values(), ids=REFUSED)
def test_an_entry_that_is_not_read_has_a_sentence(tmp_path, packed, says):
    bob = of_zip(tmp_path, packed)
    assert (bob.answers[0].state, bob.answers[0].content) == ("unreadable", b"")
    assert bob.answers[0].sentence == says
    assert bob.answers[1].state == "missing"
    assert in_chinese(says)


def beside_another(packed: bytes) -> bytes:
    """The entries of a zip as they are, and a good answer after them."""
    file = io.BytesIO(packed)
    with zipfile.ZipFile(file, "a") as opened:
        opened.writestr(OTHER, ANSWER)
    return file.getvalue()


@pytest.mark.parametrize("packed, says", REFUSED.values(), ids=REFUSED)
def test_whatever_else_is_good_is_taken(tmp_path, packed, says):
    bob = of_zip(tmp_path, beside_another(packed))
    assert bob.answers[0].state == "unreadable"
    assert bob.answers[1].content == ANSWER


@pytest.mark.parametrize("name", ["an absolute name", "a link", "a backslash"])
def test_an_entry_that_can_be_read_goes_before_one_that_cannot(tmp_path, name):
    packed, says = REFUSED[name]
    file = io.BytesIO(packed)
    with zipfile.ZipFile(file, "a") as opened:
        opened.writestr(f"good/{PY}", ANSWER)
    bob = of_zip(tmp_path, file.getvalue())
    assert (bob.answers[0].content, bob.notes) == (ANSWER, (says,))


NOTED = [
    ("inner.zip", "inner.zip is a zip in a zip: put its files into one."),
    ("../../root/.bashrc", None),
    ("../../etc/passwd", f"../../etc/passwd {OUT}"),
    ("hw/notes.txt", "hw/notes.txt is no answer to an exercise."),
    (f"hw/{PY.upper()}", f"hw/{PY.upper()} is no answer to an exercise. Did you mean {PY}?"),
    ("hw/", None),
    ("a\x1b]0;title\x07b\nc", "a�]0;title�b�c is no answer to an exercise."),
    ("x" * 65_000, "…" + "x" * 300 + " is no answer to an exercise."),
]


@pytest.mark.parametrize("name, says", NOTED)
def test_what_else_is_in_a_zip_is_noted(tmp_path, name, says):
    bob = of_zip(tmp_path, zipped((PY, ANSWER), (name, b"")))
    assert bob.answers[0].content == ANSWER
    assert bob.notes == ((says,) if says else ())
    assert in_chinese(*bob.notes)


def test_a_name_that_is_not_utf_8_prints_harmlessly(tmp_path):
    gbk = "作业/说明.txt".encode("gbk")
    packed = zipped((PY, ANSWER), ("x" * len(gbk), b"")).replace(b"x" * len(gbk), gbk)
    bob = of_zip(tmp_path, packed)
    assert bob.answers[0].content == ANSWER
    assert len(bob.notes) == 1
    assert bob.notes[0].isprintable()


BROKEN = "bob.zip cannot be opened as a zip: pack it again."
NO_ZIP = [
    ("nothing", b"", BROKEN),
    ("no zip", b"Rar!\x1a\x07\x00" + bytes(100), BROKEN),
    ("cut", GOOD[:-30], BROKEN),
    ("its directory is elsewhere", GOOD[:-6] + b"\xff\xff\xff\x7f\0\0", None),
    ("its names are no UTF-8", patched(GOOD, "flags", 0x800).replace(PY.encode(), b"\xff" * len(PY)), BROKEN),
    ("of a later version", GOOD.replace(b"PK\x01\x02\x14\x03\x14", b"PK\x01\x02\x14\x03\xff"), BROKEN),
    ("larger than allowed", bytes(MAX_ZIP_BYTES) + GOOD,
     "bob.zip is too large: a zip has at most 20,000,000 bytes. Put only the answers into it."),
    ("too many entries", directory([b"x"] * (MAX_ENTRIES + 1)),
     "bob.zip holds more than 2,000 files: put only the answers into it."),
    ("too many entries for its own count", directory([b"x"] * 70_000),
     "bob.zip holds more than 2,000 files: put only the answers into it."),
    ("a directory that costs time", directory([b"x"] * 20, struct.pack("<HH", 9, 0) * 16_383), BROKEN),
]  # fmt: skip


@pytest.mark.parametrize("packed, says", [c[1:] for c in NO_ZIP], ids=[c[0] for c in NO_ZIP])
def test_a_zip_that_is_not_opened_has_a_sentence_for_each_exercise(tmp_path, packed, says):
    bob = of_zip(tmp_path, packed)
    if says is None:
        assert [answer.state for answer in bob.answers] == ["unreadable", "missing"]
        return
    assert [(a.state, a.sentence) for a in bob.answers] == [("unreadable", says)] * 2
    assert in_chinese(says)


def test_an_empty_zip_is_noted(tmp_path):
    bob = of_zip(tmp_path, zipped())
    assert [a.state for a in bob.answers] == ["missing", "missing"]
    assert bob.notes == (f"{tmp_path.name}/bob.zip holds no file.",)
