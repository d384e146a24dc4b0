"""A submission that writes to its own control socket: one check fails, and the next one passes."""

import json

import numpy as np
import pytest
import torch

from grader.worker.parent.faults import AnswerRaised, AnswerTimedOut, NoAnswer, WorkerDied
from grader.worker.parent.shared_memory import ARENA_BYTES
from tests.conftest import solution
from tests.worker.asking import call, worker


@pytest.fixture
def diagnosis_seconds() -> float:
    """Of a report the verdicts are meant; but what explains them meets such answers too."""
    return 0.2


LIAR = """
import os, stat, sys, threading, time

def socket():
    for fd in range(3, 20):
        try:
            if stat.S_ISSOCK(os.fstat(fd).st_mode):
                return fd
        except OSError:
            pass

def number():
    frame = sys._getframe()
    while "id" not in frame.f_locals.get("request", {}):
        frame = frame.f_back
    return frame.f_locals["request"]["id"].encode()

def lie(data, then):
    os.write(socket(), data.tobytes().replace(b"0123456789abcdef", number()))
    if then == "exit":
        os._exit(0)

def twice(x):
    return x * 2

def long():
    return "x" * 2_000_000

def crash():
    os._exit(1)

class Thing:
    def __init__(self, name):
        self.name = name
"""

HALF = ARENA_BYTES // 2
ID = "0123456789abcdef"  # stands for the number of the request


def framed(body):
    return b"ABH1" + len(body).to_bytes(4, "little") + body


def reply(**content):
    return framed(json.dumps({"id": ID} | content).encode())


def tensor(**changes):
    form = {"dtype": "float32", "shape": [2], "at": 0, "bytes": 8, "device": "cpu", "grad": False}
    return {"tensor": form | changes}


LIES = {
    "junk": b"junk" * 10,
    "another protocol": b"HTTP/1.1 200 OK\r\n\r\n",
    "the wrong magic": b"ABH2" + framed(b"{}")[4:],
    "too large": b"ABH1" + (1 << 31).to_bytes(4, "little"),
    "no JSON": framed(b"{x}"),
    "no object": framed(b"[]"),
    "no text": framed(b"\xff" * 9),
    "NaN": framed(b'{"id": "%s", "value": NaN}' % ID.encode()),
    "a key twice": framed(b'{"id": "%s", "value": 1, "value": 2}' % ID.encode()),
    "deep": framed(b"[" * 200_000),
    "a verdict": reply(verdict="passed"),
    "no number": framed(b'{"value": null}'),
    "the number of another": framed(b'{"id": "0", "value": null}'),
    "a load": framed(b'{"value": null, "id": null}'),
    "callable": reply(callable=True),
    "an error without a line": reply(error={"type": "A", "message": "b"}),
    "an error of numbers": reply(error={"type": 1, "message": 2, "line": 3}),
    "a pickle": reply(value={"pickle": "gASV"}),
    "deep lists": framed(b'{"id": "%s", "value": ' % ID.encode() + b'{"list":[' * 80 + b"]}" * 80 + b"}"),
    "many values": reply(value={"list": [0] * 70_000}),
    "a large int": reply(value=10**400),
    "an object without a number": reply(value={"handle": [True, "A"]}),
    "outside": reply(value=tensor(at=ARENA_BYTES)),
    "before": reply(value=tensor(at=-8)),
    "expanded": reply(value=tensor(shape=[10**9, 10**9], strides=[0, 0], start=0)),
    "larger than its bytes": reply(value=tensor(shape=[3])),
    "often": reply(value={"list": [tensor(shape=[HALF // 4], bytes=HALF)] * 3}),
    "no such device": reply(value=tensor(device="cuda:77")),
    "meta": reply(value=tensor(device="meta")),
    "object arrays": reply(value={"array": {"dtype": "object", "shape": [1], "at": 0, "bytes": 8}}),
}  # fmt: skip


@pytest.fixture
def client(nursery):
    with worker(nursery, LIAR, call_seconds=2.0) as (client, _):
        yield client


def lie(client, data, then):
    return call(client, "lie", np.frombuffer(data, np.uint8), then)


@pytest.mark.parametrize("then", ["return", "exit"])
@pytest.mark.parametrize("data", LIES.values(), ids=LIES)
def test_a_lie_is_no_answer_and_the_next_call_is_answered(client, data, then):
    with pytest.raises(
        NoAnswer, match=r"^the worker sent something that is no answer \(.{5,90}\)$"
    ):
        lie(client, data, then)
    assert torch.equal(call(client, "twice", torch.ones(2)), torch.full((2,), 2.0))


@pytest.mark.parametrize("data", [b"", b"ABH1", framed(b"{}")[:-1], b"ABH1\0\0\1\0" + b"{"])
def test_a_frame_that_ends_early(client, data):
    with pytest.raises(WorkerDied, match="ended itself"):
        lie(client, data, "exit")
    assert call(client, "twice", 4) == 8


def test_a_frame_that_never_ends(client):
    with pytest.raises(AnswerTimedOut):
        lie(client, b"ABH1\0\0\1\0", "return")
    assert call(client, "twice", 4) == 8


def test_an_answer_given_twice_is_taken_once(client):
    assert lie(client, reply(value=5), "return") == 5
    with pytest.raises(NoAnswer, match="a reply to another request"):
        call(client, "twice", 4)
    assert call(client, "twice", 4) == 8


def test_an_answer_that_is_too_long_is_named(client):
    with pytest.raises(
        AnswerRaised, match="WireError: the answer cannot be sent: a header of 2,000,0"
    ):
        call(client, "long")
    assert call(client, "twice", 4) == 8


def test_the_object_of_a_worker_that_ended_is_not_another_one_in_the_next(client):
    old = call(client, "Thing", "old")
    with pytest.raises(WorkerDied):
        call(client, "crash")
    call(client, "Thing", "new")
    with pytest.raises(AnswerRaised, match="KeyError"):
        client.get(old, "name")


LYING = """
    import os, stat
    for fd in range(3, 20):
        try:
            if stat.S_ISSOCK(os.fstat(fd).st_mode):
                os.write(fd, {data!r})
        except OSError:
            pass
"""


OF_THE_OTHER = "values", "dim", "large_scores", "precisions", "gradient", "manners"


@pytest.mark.parametrize("name", ["junk", "no JSON", "a verdict"])
def test_a_check_of_a_lying_function_fails_and_those_of_others_pass(graded, list_open, name):
    head, mark, rest = solution("ex01_softmax").partition("    wide = x.astype")
    report = graded("ex01_softmax", head + LYING.format(data=LIES[name]) + mark + rest)
    failed = {c.id: c.why for c in report.checks if c.verdict == "failed"}
    assert failed.keys() == {"test_numpy_values"}
    assert failed["test_numpy_values"].startswith("the worker sent something that is no answer")
    passed = {c.id for c in report.checks if c.verdict == "passed"}
    assert report.state == "graded"
    assert passed == {f"test_{c}" for c in OF_THE_OTHER}
