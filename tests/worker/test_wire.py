"""The wire: what goes in comes out, and what has not exactly its form is a WireError."""

import json
import math

import numpy as np
import pytest
import torch

from grader.worker.child import frames, wire


def sent(value):
    """A value as a worker gets it from the grader."""
    arena = wire.Arena(bytearray(1 << 20))
    header = wire.encode_wire(value, arena, lambda _: 7)
    return wire.decode_wire(json.loads(json.dumps(header)), arena, untrusted=False)


def answered(value):
    """A value as the grader gets it from a worker."""
    arena = wire.Arena(bytearray(1 << 20))
    header = wire.encode_wire(value, arena, lambda _: 7, dense=True)
    return wire.decode_wire(json.loads(json.dumps(header)), arena, untrusted=True)


@pytest.mark.parametrize(
    "value",
    [
        None, True, False, 0, -3, 2**70, 1.5, math.inf, -math.inf, "", "ä\n", [], (), {},
        [1, [2, (3,)]], {"a": 1, 2: [None]}, [0.5, -1.0], (0.5, -1.0), [True, False], [True, 0.5],
        [0.5, math.inf], [math.inf, -math.inf], [1e308, 1e308], [1, 0.5], [[0.5], []], torch.float16, torch.device("cpu"),
        torch.device("meta"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("crossed", [sent, answered])
def test_plain_values_come_back_as_they_were(crossed, value):
    got = crossed(value)
    assert got == value
    assert type(got) is type(value)


def test_nan_comes_back_as_nan():
    assert math.isnan(answered(math.nan))
    assert [math.isnan(x) for x in answered([0.5, math.nan])] == [False, True]


def test_the_types_of_numbers_in_a_list_come_back():
    for values in ([0.5, 1.0], [True, False], [True, 1, 1.0], [1, 2]):
        assert [type(x) for x in answered(values)] == [type(x) for x in values]


def test_what_is_sent_of_a_list_is_no_part_of_it():
    values = [0.5, 1.0]
    form = wire.encode_wire(values, wire.Arena(bytearray(64)), lambda _: 7)
    got = wire.decode_wire(form, wire.Arena(bytearray(64)), untrusted=False)
    values[0] = got[1] = 7.0
    assert form == {"list": [0.5, 1.0]}


def test_an_empty_view_may_lie_behind_its_storage():
    got = answered(torch.empty(0).as_strided((2, 0), (3, 1), 5))
    assert got.shape == (2, 0)


def test_a_tensor_with_less_storage_than_it_needs_is_refused():
    x = torch.ones(2, 3)
    x.untyped_storage().resize_(20)
    with pytest.raises(frames.WireError, match="storage is smaller"):
        answered(x)


@pytest.mark.parametrize("crossed", [sent, answered])
@pytest.mark.parametrize("dtype", wire.TENSOR_DTYPES.values(), ids=str)
@pytest.mark.parametrize("shape", [(), (0,), (1,), (2, 3), (2, 0, 3)])
def test_tensors_keep_dtype_shape_and_values(crossed, dtype, shape):
    x = torch.randn(shape).mul(100).to(dtype)
    got = crossed(x)
    assert got.dtype == dtype
    assert got.shape == x.shape
    assert torch.equal(got, x)


BASE = torch.arange(24.0).reshape(2, 3, 4)
VIEWS = [BASE.mT, BASE[:, ::2], BASE[:1].expand(5, 3, 4), BASE[..., 1], BASE[:0].mT]


@pytest.mark.parametrize("x", VIEWS, ids=lambda x: str(x.stride()))
def test_a_worker_gets_tensors_in_their_layout_and_answers_densely(x):
    assert sent(x).stride() == x.stride()
    assert answered(x).is_contiguous()
    assert torch.equal(sent(x), x)
    assert torch.equal(answered(x), x)


@pytest.mark.parametrize("dtype", wire.ARRAY_DTYPES.values(), ids=str)
def test_arrays_keep_dtype_and_values_and_on_their_way_in_their_layout(dtype):
    base = np.arange(24).reshape(2, 3, 4).astype(dtype)
    for x in (base, base.T, base[:, ::-1], base[..., ::2], base[:0], np.array(3, dtype)):
        for got in (sent(x), answered(x)):
            assert got.dtype == x.dtype
            assert got.shape == x.shape
            assert np.array_equal(got, x)
        assert x.size == 0 or sent(x).strides == x.strides
        assert answered(x).flags.c_contiguous


def test_an_answer_that_spans_little_memory_may_be_expanded():
    assert np.array_equal(answered(np.broadcast_to(np.float32(2), (3, 4))), np.full((3, 4), 2))


def test_numpy_scalars_cross_as_arrays():
    assert isinstance(answered(np.float64(2.5)), np.ndarray)


@pytest.mark.parametrize("crossed", [sent, answered])
def test_whether_a_gradient_is_wanted_crosses(crossed):
    assert crossed(torch.ones(2, requires_grad=True)).requires_grad


def test_a_view_that_wants_a_gradient_says_so_where_none_is_recorded():
    with torch.no_grad():
        assert sent(torch.ones(2, 3)[None].requires_grad_()).requires_grad


def test_unknown_objects_become_references():
    assert answered([object(), torch.float8_e5m2]) == [
        wire.ObjectReference(7),
        wire.ObjectReference(7, "dtype"),
    ]


def test_what_the_grader_sends_is_a_view_and_what_it_gets_a_copy():
    arena = wire.Arena(bytearray(1 << 10))
    header = wire.encode_wire([torch.zeros(3), np.zeros(3)], arena, lambda _: 0)
    for x in wire.decode_wire(header, arena, untrusted=False):
        x[0] = 5.0
    assert [x[0] for x in wire.decode_wire(header, arena, untrusted=False)] == [5.0, 5.0]

    arena = wire.Arena(bytearray(1 << 10))
    header = wire.encode_wire([torch.zeros(3), np.zeros(3)], arena, lambda _: 0, dense=True)
    got = wire.decode_wire(header, arena, untrusted=True)
    arena.view[:] = bytes([255]) * len(arena.view)
    assert [x[0] for x in got] == [0.0, 0.0]


@pytest.mark.parametrize("kind", ["tensor", "array"])
def test_a_bool_is_true_or_false_whatever_byte_it_was(kind):
    arena = wire.Arena(bytearray(range(8)))
    form = {"dtype": "bool", "shape": [8], "at": 0, "bytes": 8}
    form |= {"device": "cpu", "grad": False} if kind == "tensor" else {}
    got = wire.decode_wire({kind: form}, arena, untrusted=True)
    assert bytes(memoryview(np.asarray(got))) == bytes([0, *[1] * 7])


def test_what_does_not_fit_is_refused():
    with pytest.raises(wire.ArenaFull):
        wire.encode_wire(torch.zeros(100), wire.Arena(bytearray(64)), lambda _: 0)


def tensor(**changes):
    return {"tensor": array()["array"] | {"device": "cpu", "grad": False} | changes}


def array(**changes):
    return {"array": {"dtype": "float32", "shape": [2, 2], "at": 0, "bytes": 16} | changes}


def nested(depth, leaf=None):
    for _ in range(depth):
        leaf = {"list": [leaf]}
    return leaf


LIES = [
    tensor(dtype="float3"), tensor(dtype=[]), tensor(dtype=None), tensor(dtype="float64"),
    tensor(shape=[2, 3]), tensor(shape=[2]), tensor(shape=[-1, 2]), tensor(shape=[-2, -2]),
    tensor(shape=[1.0, 4]), tensor(shape=[True, 4]), tensor(shape="22"), tensor(shape={}),
    tensor(shape=None), tensor(shape=[[2], 2]), tensor(shape=[1] * 40 + [4]), tensor(shape=[2**62, 2**62]),
    tensor(shape=[2**64]), tensor(shape=[0, 2**40], bytes=0), tensor(shape=[10**4299, 0], bytes=0),
    tensor(at=-1), tensor(at=10**9), tensor(at=49), tensor(at=2**64), tensor(at=True), tensor(at="0"),
    tensor(bytes=-1), tensor(bytes=10**12), tensor(bytes=15), tensor(bytes=17), tensor(bytes=16.0),
    tensor(bytes=0), tensor(bytes=True, shape=[1], dtype="uint8"),
    tensor(device="moon"), tensor(device="meta"), tensor(device="mps:99"), tensor(device="cuda:99"),
    tensor(device="cuda:-1"), tensor(device="cpu:3"), tensor(device=""), tensor(device=0), tensor(device=[]),
    tensor(grad=1), tensor(grad=None), tensor(grad=True, dtype="int32"),
    tensor(strides=[0, 0], start=0), tensor(strides=[2, 1]), tensor(more=1),
    {"tensor": None}, {"tensor": {}}, {"tensor": []}, {"tensor": {"bytes": 16}},
    array(dtype="object"), array(dtype="bfloat16"), array(dtype="V8"), array(shape=[2, 3]),
    array(shape=[10**9, 10**9]), array(bytes=0), array(at=-16), array(strides=[0, 0], start=0),
    array(shape=[2], bytes=0), array(device="cpu"), {"array": []}, {"array": {"dtype": "object"}},
    {"float": "1"}, {"float": 1.0}, {"float": "infinity"}, {"float": []}, math.inf, math.nan, 1 << 1000,
    {"dtype": "object"}, {"dtype": []}, {"dtype": "__class__"},
    {"device": "moon"}, {"device": "xla"}, {"device": "privateuseone"}, {"device": "cuda:" + "9" * 99}, {"device": 0},
    {"handle": "7"}, {"handle": None}, {"handle": [True, "A"]}, {"handle": [0, "A"]}, {"handle": [-1, "A"]},
    {"handle": [2**63, "A"]}, {"handle": [1.0, "A"]}, {"handle": [1, None]}, {"handle": [1, "A" * 101]},
    {"handle": [1, "A", "B"]}, {"handle": []},
    {"list": 3}, {"list": "abc"}, {"list": {"a": 1}}, {"tuple": "abc"}, {"dict": {"a": 1}}, {"dict": [[1]]},
    {"dict": ["ab"]}, {"dict": [{"a": 1, "b": 2}]}, {"dict": [[{"list": []}, 1]]}, {"dict": [[1, 2, 3]]}, {"dict": None},
    {"pickle": "x"}, {"": None}, {"a": 1, "b": 2}, {}, [], [1],
    nested(65), nested(300), {"list": [0] * (1 << 16)}, {"list": [0.5] * (1 << 16)},
    {"list": [0.5, math.inf]}, {"tuple": [math.nan, 0.5]}, nested(64, {"list": [0.5]}),
]  # fmt: skip


@pytest.mark.parametrize("lie", LIES)
def test_lies_are_wire_errors(lie):
    arena = wire.Arena(bytearray(64))
    for item in (lie, {"list": [None, {"tuple": [lie]}]}):
        with pytest.raises(frames.WireError) as caught:
            wire.decode_wire(item, arena, untrusted=True)
        assert len(str(caught.value)) < 100


def test_the_largest_that_is_allowed():
    arena = wire.Arena(bytearray(64))
    assert wire.decode_wire((1 << 1000) - 1, arena, untrusted=True) == (1 << 1000) - 1
    assert (
        len(wire.decode_wire({"list": [0] * ((1 << 16) - 1)}, arena, untrusted=True))
        == (1 << 16) - 1
    )
    wire.decode_wire(nested(64), arena, untrusted=True)


def test_what_is_beyond_the_limits_is_not_sent():
    endless = []
    endless.append(endless)
    for value in (1 << 1000, [0] * (1 << 16), [0.5] * (1 << 16), [True] * (1 << 16), endless):
        with pytest.raises(frames.WireError):
            wire.encode_wire(value, wire.Arena(bytearray(64)), lambda _: 0)


@pytest.mark.parametrize("form", [tensor, array])
def test_one_reply_takes_no_more_bytes_than_there_are(form):
    arena = wire.Arena(bytearray(64))
    assert len(wire.decode_wire({"list": [form()] * 4}, arena, untrusted=True)) == 4
    with pytest.raises(frames.WireError, match="more bytes together"):
        wire.decode_wire({"list": [form()] * 5}, arena, untrusted=True)


@pytest.mark.parametrize("at, size", [(-1, 1), (0, -1), (0, 65), (64, 1), (2**64, 0)])
def test_only_what_is_there_can_be_taken(at, size):
    with pytest.raises(frames.WireError):
        wire.Arena(bytearray(64)).take(at, size)


class Changing:
    """Memory that a worker writes to while the grader reads: every look at it sees other bytes."""

    def __init__(self, size):
        self.memory, self.looks = bytearray(size), 0

    @property
    def view(self):
        return self.memory

    def take(self, at, size):
        self.looks += 1
        return bytes([self.looks]) * size


@pytest.mark.parametrize("form", [tensor, array])
def test_shared_memory_is_looked_at_once(form):
    memory = Changing(64)
    wire.decode_wire(form(dtype="bool", shape=[16]), memory, untrusted=True)
    assert memory.looks == 1
