"""The wire: what goes in comes out, and what is no frame is a WireError."""

import json
import math

import numpy as np
import pytest
import torch

from grader.worker.child import frames, wire


def crossed(value, *, copy=True):
    arena = wire.Arena(bytearray(1 << 20))
    header = wire.encode(value, arena, lambda _: 7)
    return wire.decode(json.loads(json.dumps(header)), arena, copy=copy)


@pytest.mark.parametrize(
    "value",
    [
        None, True, False, 0, -3, 2**70, 1.5, math.inf, -math.inf, "", "ä\n", [], (), {},
        [1, [2, (3,)]], {"a": 1, 2: [None]}, torch.float16, torch.device("cpu"),
    ],
)  # fmt: skip
def test_plain_values_come_back_as_they_were(value):
    got = crossed(value)
    assert got == value
    assert type(got) is type(value)


def test_nan_comes_back_as_nan():
    assert math.isnan(crossed(math.nan))


@pytest.mark.parametrize("dtype", wire.TENSOR_DTYPES.values(), ids=str)
@pytest.mark.parametrize("shape", [(), (0,), (1,), (2, 3), (2, 0, 3)])
def test_tensors_keep_dtype_shape_and_values(dtype, shape):
    x = torch.randn(shape).mul(100).to(dtype)
    got = crossed(x)
    assert got.dtype == dtype
    assert got.shape == x.shape
    assert torch.equal(got, x)


def test_tensors_keep_their_layout():
    base = torch.arange(24.0).reshape(2, 3, 4)
    for x in (base.mT, base[:, ::2], base[:1].expand(5, 3, 4), base[..., 1]):
        got = crossed(x)
        assert got.stride() == x.stride()
        assert torch.equal(got, x)


@pytest.mark.parametrize("dtype", wire.ARRAY_DTYPES.values(), ids=str)
def test_arrays_keep_dtype_layout_and_values(dtype):
    base = np.arange(24).reshape(2, 3, 4).astype(dtype)
    for x in (base, base.T, base[:, ::-1], base[..., ::2], base[:0], np.array(3, dtype)):
        got = crossed(x)
        assert got.dtype == x.dtype
        assert np.array_equal(got, x)
        assert x.size == 0 or got.strides == x.strides


def test_numpy_scalars_cross_as_arrays():
    assert isinstance(crossed(np.float64(2.5)), np.ndarray)


def test_whether_a_gradient_is_wanted_crosses():
    assert crossed(torch.ones(2, requires_grad=True)).requires_grad


def test_unknown_objects_become_references():
    assert crossed([object()]) == [wire.Ref(7)]


def test_a_shared_value_is_a_view_of_the_arena():
    arena = wire.Arena(bytearray(1 << 10))
    header = wire.encode(torch.zeros(3), arena, lambda _: 0)
    wire.decode(header, arena, copy=False)[0] = 5.0
    assert wire.decode(header, arena, copy=True)[0] == 5.0


def test_what_does_not_fit_is_refused():
    with pytest.raises(wire.ArenaFull):
        wire.encode(torch.zeros(100), wire.Arena(bytearray(64)), lambda _: 0)


# Two numbers in no bytes at all: taken at its word, it would be memory that nobody has written.
EMPTY_BUT_FULL = {"dtype": "float32", "shape": [2], "strides": [1], "start": 0, "at": 0, "bytes": 0}


def tensor(**changes):
    sound = {"dtype": "float32", "shape": [2, 2], "strides": [2, 1], "start": 0, "at": 0,
             "bytes": 16, "device": "cpu", "grad": False}  # fmt: skip
    return {"tensor": sound | changes}


@pytest.mark.parametrize(
    "lie",
    [
        tensor(dtype="float3"), tensor(shape=[2, 3]), tensor(shape=[-1, 2]), tensor(shape=[2]),
        tensor(strides=[2, -1]), tensor(strides=[2**62, 1]), tensor(start=-1), tensor(start=3),
        tensor(at=-1), tensor(at=10**9), tensor(bytes=-1), tensor(bytes=10**12), tensor(bytes=15),
        tensor(shape=[1.0, 2]), tensor(shape=[True, 2]), tensor(shape="22"), tensor(device="moon"),
        tensor(shape=[1] * 40, strides=[0] * 40), {"tensor": None}, {"tensor": {}}, {"array": EMPTY_BUT_FULL}, {"array": []},
        {"array": {"dtype": "object"}}, {"float": "1"}, {"float": 1.0}, {"dtype": "object"},
        {"handle": "7"}, {"handle": None}, {"dict": [[1]]}, {"dict": [[[], 1]]}, {"list": 3},
        {"pickle": "x"}, {"a": 1, "b": 2}, {}, [1], {"dict": [[{"list": []}, 1]]},
    ],
)  # fmt: skip
def test_lies_are_wire_errors(lie):
    with pytest.raises(frames.WireError):
        wire.decode(lie, wire.Arena(bytearray(64)), copy=True)


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
    assert frames.receive(reader(frames.frame({"op": "get", "n": [1, None]}))) == {
        "op": "get",
        "n": [1, None],
    }


@pytest.mark.parametrize(
    "data",
    [
        b"junkjunkjunk",
        b"ABH1" + (2**31).to_bytes(4, "little"),
        b"ABH1" + (3).to_bytes(4, "little") + b"{x}",
        b"ABH1" + (4).to_bytes(4, "little") + b"[12]",
        b"ABH1" + (4).to_bytes(4, "little") + b"\xff\xfe\xfd\xfc",
        b"ABH1" + (200_000).to_bytes(4, "little") + b"[" * 200_000,
    ],
)
def test_broken_frames_are_wire_errors(data):
    with pytest.raises(frames.WireError):
        frames.receive(reader(data))


def test_an_oversized_header_is_not_sent():
    with pytest.raises(frames.WireError):
        frames.frame({"x": "y" * frames.MAX_HEADER})
