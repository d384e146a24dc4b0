"""Whatever a worker sends, the grader gets a value, an exception of the submission's, or a fault.

A fake worker reads each request and writes bytes of its choice. Most are replies that a real one
could have written, with one thing changed.
"""

import contextlib
import copy
import functools
import json
import mmap
import socket
import threading
import time
from collections import Counter

import numpy as np
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from grader.worker.child import frames, wire
from grader.worker.parent.client import CALLABLE_ATTRIBUTE, Client, ObjectHandle
from grader.worker.parent.faults import AnswerRaised, NoAnswer, WorkerDied, WorkerFault
from grader.worker.parent.patience import Patience, send_request_to_worker

ARENA = 1 << 14
ID = "0123456789abcdef"  # stands for the number of the request
SECONDS = 2  # of processor time for what was sent; no example takes a tenth of it


class Arenas:
    """The memory of both sides; the worker's side of it writes what it likes."""

    def __init__(self):
        self.inputs, self.answers = (wire.Arena(mmap.mmap(-1, ARENA)) for _ in range(2))


def served(arenas, data, ask):
    """What `ask(client)` comes to if the worker answers with `data`, and the request's own ID."""
    ours, theirs = socket.socketpair()

    def work():
        with contextlib.suppress(OSError, EOFError), theirs:
            request = frames.receive_frame(lambda count: theirs.recv(count, socket.MSG_WAITALL))
            theirs.sendall(data.replace(ID.encode(), request["id"].encode()))

    def exchange(request):
        try:
            return send_request_to_worker(ours, request, Patience(60, dict))
        except frames.WireError as error:
            raise NoAnswer(str(error)) from None
        except EOFError:
            raise WorkerDied from None

    worker = threading.Thread(target=work)
    worker.start()
    try:
        return ask(Client(exchange, arenas.inputs, arenas.answers, lambda: 1))
    finally:
        ours.close()
        worker.join()


def outcome(arenas, data, ask):
    """The value or the fault. Both are held to what the rest of the grader counts on."""
    started = time.thread_time()
    try:
        value = served(arenas, data, ask)
    except (AnswerRaised, NoAnswer, WorkerDied) as fault:
        text = str(fault)
        assert len(text) < 3000
        text.encode()
        assert "\x1b" not in text
        value = fault
    assert time.thread_time() - started < SECONDS
    assert size(value) <= ARENA
    return value


def size(value, depth=0):
    """The bytes of all arrays in a value, which is of known types through and through."""
    assert depth <= wire.MAX_NESTING_DEPTH
    match value:
        case torch.Tensor():
            assert type(value) is torch.Tensor
            assert value.device == torch.device("cpu")
            assert value.is_contiguous()
            raw = value.detach().clone().reshape(-1).view(torch.uint8)
            assert value.dtype != torch.bool or raw.numel() == 0 or raw.max() <= 1
            return raw.numel()
        case np.ndarray():
            assert value.dtype.name in wire.ARRAY_DTYPES
            assert value.flags.c_contiguous and value.flags.writeable
            assert value.dtype != bool or set(value.tobytes()) <= {0, 1}
            return value.copy().nbytes
        case list() | tuple():
            return sum(size(item, depth + 1) for item in value)
        case dict():
            return sum(size(item, depth + 1) for pair in value.items() for item in pair)
        case ObjectHandle() | wire.ObjectReference():
            assert 0 < value.id < 2**63
            assert len(value.type) <= 2 * wire.MAX_NAME_CHARACTERS
        case int():
            assert value.bit_length() <= wire.MAX_INTEGER_BITS
        case None | float() | str() | torch.dtype() | torch.device() | WorkerFault():
            pass
        case _:
            assert value is CALLABLE_ATTRIBUTE
    return 0


ASKS = {
    "call": lambda client: client.call(None, "f", [torch.ones(2)], {}, graph=False).value,
    "graph": lambda client: client.call(None, "f", [torch.ones(2)], {}, graph=True).value,
    "get": lambda client: client.get_first(None, ["x", "y", "z"]),
    "backward": lambda client: client.backward(1, [torch.ones(2)]),
}

LEAVES = [
    None, True, 3, -(2**70), 0.5, float("inf"), "text", "\ud800\x1b\n::", object(),
    torch.float16, torch.device("cpu"), torch.ones(2, 3), torch.ones(3, requires_grad=True),
    torch.zeros(0, 4), torch.tensor(True), torch.ones(4, 4, dtype=torch.bfloat16).mT,
    np.ones((2, 3)), np.array([True, False]), np.float32(1), np.zeros((0, 2), np.int8), np.complex64(1j),
]  # fmt: skip
VALUES = st.recursive(
    st.sampled_from(LEAVES),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.sampled_from(["a", "b", 3]), inner, max_size=3)
    ),
    max_leaves=6,
)
ERRORS = st.fixed_dictionaries(
    {"type": st.text(), "message": st.text(), "line": st.none() | st.integers()}
)


@st.composite
def replies(draw, arenas, ask):
    """A reply that a real worker could have written."""
    if draw(st.sampled_from([False, False, False, True])):
        return {"id": ID, "error": draw(ERRORS)}
    value = draw(st.lists(VALUES, min_size=1, max_size=3) if ask == "get" else VALUES)
    form = wire.encode_wire(value, arenas.answers, lambda _: 7, dense=True)
    methods = draw(st.lists(st.integers(0, len(value) - 1))) if ask == "get" else []
    return {"id": ID, "value": form} | more_of(ask, methods)


def more_of(ask, methods=()):
    """What a reply has beside its value."""
    return {"graph": {"call": 5}, "get": {"callable": list(methods)}}.get(ask, {})


EDGES = [0, 1, -1, 15, ARENA, ARENA + 1, 2**31, 2**32, 2**62, 2**63, 2**64, 10**400, True, 2.0, "1"]
SHAPES = st.lists(st.sampled_from([0, 1, 2, 3, ARENA, 2**40, 2**62, -1]), max_size=20)
WORDS = [
    "tensor", "array", "list", "tuple", "dict", "float", "dtype", "device", "handle", "value", "error", "call",
    "callable", "shape", "strides", "start", "at", "bytes", "grad", "id", "bool", "float64", "complex128",
    "cuda", "cuda:0", "meta", "mps:0", "cpu:1", "nan", "\ud800", "\x1b[2J",
]  # fmt: skip
JUNK = st.one_of(
    st.none(), st.sampled_from(EDGES), SHAPES, st.sampled_from(WORDS), st.text(max_size=5),
    st.floats(allow_nan=True), st.just([]), st.just({}), st.just("x" * 5000),
    st.dictionaries(st.sampled_from(WORDS), st.none() | st.sampled_from(EDGES) | SHAPES, max_size=3),
    st.integers(1, 200).map(lambda n: json.loads('{"list":[' * n + "]}" * n)),
)  # fmt: skip


def places(node, path=()):
    """The path of every part of a JSON value, itself first."""
    yield path
    items = (
        node.items()
        if isinstance(node, dict)
        else enumerate(node)
        if isinstance(node, list)
        else ()
    )
    for key, inner in items:
        yield from places(inner, (*path, key))


@st.composite
def changed(draw, reply):
    """`reply` with one part of it replaced, removed, renamed, repeated or added."""
    tree = {"reply": copy.deepcopy(reply)}
    *way, last = draw(st.sampled_from([path for path in places(tree) if path]))
    node = functools.reduce(lambda node, key: node[key], way, tree)
    match draw(st.sampled_from(["replace", "remove", "rename", "repeat", "add"])):
        case "remove":
            del node[last]
        case "rename" if isinstance(node, dict):
            node[draw(st.sampled_from(WORDS))] = node.pop(last)
        case "repeat" if isinstance(node, list):
            node += [node[last]] * draw(st.sampled_from([1, 100, 5000]))
        case "add" if isinstance(node[last], dict):
            node[last][draw(st.sampled_from(WORDS))] = draw(JUNK)
        case "add" if isinstance(node[last], list):
            node[last].append(draw(JUNK))
        case _:
            node[last] = draw(JUNK)
    return tree.get("reply", {})


@st.composite
def broken(draw, data):
    """The bytes of a frame, with some of them changed."""
    at = draw(st.integers(0, len(data)))
    match draw(st.sampled_from(["cut", "change", "insert", "size", "again", "junk"])):
        case "cut":
            return data[:at]
        case "change":
            return data[:at] + draw(st.binary(min_size=1, max_size=4)) + data[at + 1 :]
        case "insert":
            return data[:at] + draw(st.sampled_from(PIECES)) + data[at:]
        case "size":
            return data[:4] + draw(st.binary(min_size=4, max_size=4)) + data[8:]
        case "again":
            return data + data[: draw(st.integers(0, len(data)))]
    return draw(st.binary(max_size=40))


PIECES = [
    b"[" * 5000,
    b" " * (1 << 20),
    b"\xff",
    b"\x00",
    b"NaN",
    b"1e999",
    b"9" * 5000,
    b'"id": 1,',
    b"{}",
]


def framed(body):
    """A frame as `frames` would not write it."""
    return frames.FRAME_MAGIC + len(body).to_bytes(4, "little") + body


def as_json(reply):
    return framed(json.dumps(reply).encode())


def fuzzed(examples, change):
    """How often each kind of outcome was met, in replies with one change to each of them."""
    met = Counter()

    @settings(
        max_examples=examples, derandomize=True, database=None, deadline=None,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(data=st.data(), ask=st.sampled_from(sorted(ASKS)), scribble=st.booleans())
    def one(data, ask, scribble):
        arenas = Arenas()
        reply = data.draw(replies(arenas, ask))
        if scribble:
            arenas.answers.view[:] = b"\xff" * ARENA
        got = outcome(arenas, change(data, reply), ASKS[ask])
        met[type(got) if isinstance(got, WorkerFault) else "value"] += 1
        after = {"id": ID, "value": {"list": [1]}} | more_of(ask)
        assert outcome(arenas, as_json(after), ASKS[ask]) == [1]

    one()
    return met


def test_real_replies_are_values_and_exceptions():
    met = fuzzed(100, lambda data, reply: as_json(reply))
    assert met.keys() == {"value", AnswerRaised}


def test_replies_with_one_thing_changed():
    met = fuzzed(500, lambda data, reply: as_json(data.draw(changed(reply))))
    assert met.keys() == {"value", AnswerRaised, NoAnswer}
    assert met[NoAnswer] > 160


def test_frames_with_some_bytes_changed():
    met = fuzzed(300, lambda data, reply: data.draw(broken(as_json(reply))))
    assert met.keys() == {"value", AnswerRaised, NoAnswer, WorkerDied}
    assert met[NoAnswer] > 60
