"""Frames: what is written is read, and what is no frame is a WireError."""

import pytest

from grader.worker.child import frames


def reader(data: bytes):
    left = bytearray(data)

    def read(count: int) -> bytes:
        if count > len(left):
            raise EOFError
        taken = bytes(left[:count])
        del left[:count]
        return taken

    return read


def test_a_frame_comes_back():
    assert frames.receive_frame(reader(frames.encode_frame({"op": "get", "n": [1, None]}))) == {
        "op": "get",
        "n": [1, None],
    }


def framed(body: bytes) -> bytes:
    return b"ABH1" + len(body).to_bytes(4, "little") + body


@pytest.mark.parametrize(
    "data",
    [
        b"junkjunkjunk",
        b"ABH1" + (2**31).to_bytes(4, "little"),
        b"ABH1" + (frames.MAX_HEADER_BYTES + 1).to_bytes(4, "little") + b" " * (frames.MAX_HEADER_BYTES + 1),
        framed(b""), framed(b"{x}"), framed(b"[12]"), framed(b"null"), framed(b'"{}"'), framed(b"{} {}"),
        framed(b"\xff\xfe\xfd\xfc"), framed("{}".encode("utf-16")), framed(b"\xef\xbb\xbf{}"),
        framed(b'{"a": NaN}'), framed(b'{"a": -Infinity}'), framed(b'{"a": 1, "a": 1}'), framed(b'{"b": {"a": 1, "a": 2}}'),
        framed(b'{"a": ' + b"9" * 5000 + b"}"), framed(b'{"a": "\x00"}'), framed(b"{'a': 1}"),
        framed(b"[" * 200_000), framed(b'{"a":' * 100_000),
    ],
    ids=lambda data: f"{data!r:.40}",
)  # fmt: skip
def test_broken_frames_are_wire_errors(data):
    with pytest.raises(frames.WireError):
        frames.receive_frame(reader(data))


@pytest.mark.parametrize("cut", range(10))
def test_a_frame_that_ends_early_is_the_end(cut):
    with pytest.raises(EOFError):
        frames.receive_frame(reader(framed(b"{}")[:cut]))


def test_no_more_is_read_than_the_frame_has():
    read = reader(framed(b'{"a": 1}') + framed(b'{"a": 2}'))
    assert [frames.receive_frame(read)["a"], frames.receive_frame(read)["a"]] == [1, 2]


def test_an_oversized_header_is_not_sent():
    with pytest.raises(frames.WireError):
        frames.encode_frame({"x": "y" * frames.MAX_HEADER_BYTES})
