"""Whatever a zip says of itself, what is read of it is bounded, and each exercise gets its answer."""

import io
import random
import re
import struct
import tracemalloc
import zipfile
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grader.classroom.run import class_archive
from grader.classroom.run.gather_answers import gather_student_answers
from grader.core import catalog
from grader.submission.handed_files import MAX_ANSWER_BYTES, MAX_NOTEBOOK_BYTES, MAX_ZIP_BYTES
from grader.submission.readers import READERS
from grader.submission.zip_entries import MAX_ENTRIES, MAX_UNPACKED_BYTES
from tests.classes.handing import (
    ANSWER,
    NOTEBOOK,
    PY,
    SKELETON,
    SLUGS,
    in_chinese,
    of_zip,
    zipped,
)

OTHER = f"{SLUGS[1]}.py"
GOOD = zipped((PY, ANSWER))
STORED = zipped((PY, ANSWER), method=zipfile.ZIP_STORED)


class Counting:
    """zlib's unpacking, and how many bytes have come out of it."""

    def __init__(self):
        self.unpacked = 0
        self.start = zlib.decompressobj

    def __call__(self, *args):
        counted, unpacking = self, self.start(*args)

        class Counted:
            eof = property(lambda _: unpacking.eof)
            unconsumed_tail = property(lambda _: unpacking.unconsumed_tail)

            def decompress(self, *args):
                content = unpacking.decompress(*args)
                counted.unpacked += len(content)
                return content

            def flush(self):
                content = unpacking.flush()
                counted.unpacked += len(content)
                return content

        return Counted()


@pytest.fixture
def counting(monkeypatch):
    """What is unpacked, here and not in the reader."""

    def read_here(question, content, **given):
        return READERS[question](content, **given)

    counting = Counting()
    monkeypatch.setattr(zlib, "decompressobj", counting)
    monkeypatch.setattr(class_archive, "ask_submission_reader", read_here)
    return counting


def zeros(gigabytes: int) -> bytes:
    """So many zeros, deflated."""
    pack = zlib.compressobj(9, zlib.DEFLATED, -15)
    part = pack.compress(bytes(100_000_000)) + pack.flush(zlib.Z_FULL_FLUSH)
    return part * (10 * gigabytes) + pack.flush()


def of_stream(name: str, stream: bytes, size: int, checksum: int = 0) -> bytes:
    """A zip of one entry that says of a deflated stream what it likes."""
    sizes = struct.pack("<3L2H", checksum, len(stream), size, len(name), 0)
    head = b"\x14\0\0\0\x08\0\0\0\0\0" + sizes
    packed = b"PK\x03\x04" + head + name.encode() + stream
    listed = b"PK\x01\x02\x14\x03" + head + bytes(14) + name.encode()
    return packed + listed + struct.pack(
        "<4s4H2LH", b"PK\x05\x06", 0, 0, 1, 1, len(listed), len(packed), 0
    )  # fmt: skip


SLACK = 100_000  # bytes of what zlib and Python keep meanwhile


@pytest.mark.parametrize("name, size, checksum, state", [
    (PY, 0xFFFFFFF0, 0, "unreadable"),
    (PY, MAX_ANSWER_BYTES, 0, "unreadable"),
    (PY, MAX_ANSWER_BYTES, zlib.crc32(bytes(MAX_ANSWER_BYTES)), "graded"),
    (NOTEBOOK, MAX_NOTEBOOK_BYTES, 0, "unreadable"),
    (NOTEBOOK, MAX_NOTEBOOK_BYTES, zlib.crc32(bytes(MAX_NOTEBOOK_BYTES)), "graded"),
    (NOTEBOOK, MAX_NOTEBOOK_BYTES + 1, 0, "unreadable"),
])  # fmt: skip
def test_of_ten_gigabytes_no_more_is_unpacked_than_the_limit(
    tmp_path, counting, name, size, checksum, state
):
    packed = of_stream(name, zeros(10), size, checksum)
    most = size if size <= MAX_NOTEBOOK_BYTES else 0
    tracemalloc.start()
    answer = of_zip(tmp_path, packed).answers[0]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (answer.state, len(answer.content)) == (state, size if state == "graded" else 0)
    assert counting.unpacked <= most + SLACK
    # Beside the zip: what was unpacked, and once more in base64 on both sides.
    assert peak < MAX_ZIP_BYTES + len(packed) + 4 * most + 10 * SLACK


def test_all_answers_of_a_zip_together_have_a_limit(tmp_path, counting):
    exercises = catalog.list_catalog_exercises()[:4]  # two that fit, and two that do not
    some = random.Random(1)
    content = b"".join(some.randbytes(10) + bytes(490) for _ in range(MAX_NOTEBOOK_BYTES // 500))
    packed = zipped(*((f"{e.slug}.ipynb", content) for e in exercises))
    (tmp_path / "bob.zip").write_bytes(packed)
    answers = gather_student_answers(tmp_path / "bob.zip", exercises).answers
    fit = MAX_UNPACKED_BYTES // MAX_NOTEBOOK_BYTES
    assert [len(a.content) for a in answers] == [MAX_NOTEBOOK_BYTES] * fit + [0] * (
        len(answers) - fit
    )
    assert counting.unpacked <= MAX_UNPACKED_BYTES + SLACK
    says = (
        f"{answers[-1].name} was not read: the answers in a zip have at most 40,000,000 bytes "
        "together. Clear the outputs of the notebooks."
    )
    assert answers[-1].sentence == says
    assert in_chinese(says)


def over_the_same_data(names: list[str], content: bytes) -> bytes:
    """A zip whose entries, one for each name, all lie where the first of them lies."""
    packed = zipped((names[0], content))
    start, end = packed.index(b"PK\x01\x02"), packed.index(b"PK\x05\x06")
    entry = packed[start : end - len(names[0])]
    listed = b"".join(
        entry[:28] + struct.pack("<H", len(name)) + entry[30:] + name.encode() for name in names
    )
    count = len(names)
    end = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, count, count, len(listed), start, 0)
    return packed[:start] + listed + end


@pytest.mark.parametrize("names, most", [
    ([PY] * MAX_ENTRIES, 0),
    ([f"{n}/{PY}" for n in range(MAX_ENTRIES)], 0),
    ([f"{e.slug}{s}" for s in (".py", ".ipynb") for e in catalog.list_catalog_exercises()], MAX_ANSWER_BYTES),
    ([PY, *(f"{n}.bin" for n in range(MAX_ENTRIES - 1))], MAX_ANSWER_BYTES),
])  # fmt: skip
def test_entries_over_the_same_data_unpack_it_once_at_most(tmp_path, counting, names, most):
    (tmp_path / "bob.zip").write_bytes(over_the_same_data(names, b"#" * MAX_ANSWER_BYTES))
    bob = gather_student_answers(tmp_path / "bob.zip", catalog.list_catalog_exercises())
    assert counting.unpacked <= most
    assert len(bob.answers) == len(catalog.list_catalog_exercises())
    assert len(bob.notes) <= 11


def test_two_thousand_entries_may_be_there(tmp_path):
    others = [(f"{n}.txt", b"") for n in range(MAX_ENTRIES - 1)]
    bob = of_zip(tmp_path, zipped((PY, ANSWER), *others))
    assert bob.answers[0].content == ANSWER
    assert bob.notes[-1] == f"And {MAX_ENTRIES - 11} more."


def test_an_entry_beyond_all_bounds_is_damaged(tmp_path):
    start, end = GOOD.index(b"PK\x01\x02"), GOOD.index(b"PK\x05\x06")
    far = struct.pack("<HHQ", 1, 8, 2**64 - 1)
    entry = bytearray(GOOD[start:end] + far)
    entry[30:32], entry[42:46] = struct.pack("<H", len(far)), b"\xff" * 4
    last = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 1, 1, len(entry), start, 0)
    answer = of_zip(tmp_path, GOOD[:start] + bytes(entry) + last).answers[0]
    assert answer.sentence == f"{PY} is damaged in its zip: pack it again."


def large_numbers() -> bytes:
    """A zip with the records for files beyond 4 GiB."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as packed, packed.open(PY, "w", force_zip64=True) as entry:
        entry.write(ANSWER)
    return file.getvalue()


def test_a_zip_with_records_for_large_files_is_read(tmp_path):
    assert of_zip(tmp_path, large_numbers()).answers[0].content == ANSWER


SOME = zipped((f"hw/{PY}", ANSWER), ("hw/", b""), (f"hw/{OTHER}", SKELETON), ("王.txt", b""))
STARTS = [
    SOME,
    GOOD,
    STORED,
    large_numbers(),
    zipped(("in.zip", GOOD), (PY, ANSWER)),
    of_stream(PY, zeros(1), 9),
]
NUMBERS = [0, 1, 0x7F, 0xFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF, 2**63 - 1, 2**64 - 1]


@st.composite
def mutated(draw):
    """A zip with numbers written over it, and parts taken out of it or put in twice."""
    packed = bytearray(draw(st.sampled_from(STARTS)))
    for _ in range(draw(st.integers(1, 6))):
        back = draw(st.integers(0, min(len(packed), 400)))  # the directory lies at the end
        at = draw(st.sampled_from([len(packed) - back, min(back, len(packed))]))
        size = draw(st.sampled_from([1, 2, 4, 8]))
        number = draw(st.sampled_from(NUMBERS) | st.integers(0, 255)) % 256**size
        match draw(st.sampled_from(["write", "write", "write", "take", "twice"])):
            case "write":
                packed[at : at + size] = number.to_bytes(size, "little")
            case "take":
                del packed[at : at + number % 50]
            case "twice":
                packed[at:at] = packed[at : at + number % 50]
    return bytes(packed)


@settings(max_examples=300, deadline=None)
@given(packed=st.binary(max_size=300) | mutated())
def test_whatever_a_zip_is_each_exercise_gets_an_answer_or_a_sentence(tmp_path_factory, packed):
    bob = of_zip(tmp_path_factory.getbasetemp() / "any", packed)
    assert [answer.slug for answer in bob.answers] == SLUGS
    for answer in bob.answers:
        assert answer.state in ("graded", "missing", "unreadable")
        assert bool(answer.sentence) == (answer.state != "graded")
        assert len(answer.content) <= MAX_ANSWER_BYTES
    for text in (*bob.notes, *(text for a in bob.answers for text in (a.sentence, a.path))):
        assert not re.search("[\x00-\x1f\x7f-\x9f\ud800-\udfff]", text)
