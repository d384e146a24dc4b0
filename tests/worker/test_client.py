"""The client believes nothing that comes back: a value of the right form, Raised, or NoAnswer."""

import json
import time

import pytest
import torch

from grader.worker.child import wire
from grader.worker.parent.client import (
    CALLABLE_ATTRIBUTE,
    Client,
    ObjectHandle,
    decode_worker_exception,
)
from grader.worker.parent.faults import AnswerRaised, NoAnswer


class Fake:
    """A client, and the worker behind it, which replies with what `lie` makes of a request."""

    def __init__(self, lie, inputs=None):
        self.lie = lie
        self.inputs = inputs or wire.Arena(bytearray(1 << 10))
        self.requests, self.rejected = [], 0
        answers = wire.Arena(bytearray(1 << 10))
        self.client = Client(self.exchange, self.inputs, answers, lambda: 1, self.reject)

    def exchange(self, request):
        self.requests.append(request)
        return json.loads(json.dumps(self.lie(request)))

    def reject(self):
        self.rejected += 1

    def call(self, *args, graph=False, **kwargs):
        return self.client.call(None, "f", args, kwargs, graph=graph)


def test_a_call_without_gradients_says_so():
    fake = Fake(lambda request: {"id": request["id"], "value": None})
    fake.call(1)
    with torch.no_grad():
        fake.call(1)
    assert [request.get("no_grad") for request in fake.requests] == [None, True]


def replies(reply):
    """A worker that answers every request with `reply`."""
    return Fake(lambda request: {"id": request["id"]} | reply)


ERROR = {"type": "ValueError", "message": "no", "line": 3}
NO_REPLIES = [
    {}, {"values": 1}, {"value": 1, "more": 1}, {"value": 1, "call": 1}, {"value": 1, "error": ERROR},
    {"error": None}, {"error": "no"}, {"error": []}, {"error": {}}, {"error": ERROR, "call": 1},
    {"error": ERROR | {"more": 1}}, {"error": {"type": "A", "message": "b"}},
    {"error": ERROR | {"type": 3}}, {"error": ERROR | {"message": None}}, {"error": ERROR | {"message": ["b"]}},
    {"value": {"pickle": ""}}, {"value": [1]}, {"value": {"handle": [True, "A"]}},
    {"id": None, "value": 1}, {"id": 1, "value": 1}, {"id": [], "value": 1}, {"id": "0" * 16, "value": 1},
]  # fmt: skip


@pytest.mark.parametrize("reply", NO_REPLIES, ids=str)
@pytest.mark.parametrize(
    "ask",
    [
        lambda fake: fake.call(),
        lambda fake: fake.client.get(None, "x"),
        lambda fake: fake.client.set(None, "x", 1),
        lambda fake: fake.client.backward(1, [None]),
    ],
    ids=["call", "get", "set", "backward"],
)
def test_what_has_not_the_form_of_a_reply_is_no_answer_and_rejected(ask, reply):
    fake = replies(reply)
    with pytest.raises(
        NoAnswer, match=r"^the worker sent something that is no answer \(\D{,60}\)$"
    ):
        ask(fake)
    assert fake.rejected == 1


@pytest.mark.parametrize(
    "number", [None, True, 0, -1, 2**63, 10**400, 1.0, "1", [1]], ids=lambda n: f"{n!r:.9}"
)
def test_a_kept_graph_has_a_number(number):
    with pytest.raises(NoAnswer, match="a call without its number"):
        replies({"value": 1, "call": number}).call(graph=True)
    with pytest.raises(NoAnswer, match="a call without its number"):
        replies({"value": 1}).call(graph=True)
    assert replies({"value": 1, "call": 5}).call(graph=True).graph == 5


def test_only_attributes_are_callable():
    with pytest.raises(NoAnswer):
        replies({"callable": True}).call()
    with pytest.raises(NoAnswer):
        replies({"callable": False}).client.get(None, "x")


def values(*items, **more):
    return {"value": {"list": list(items)}, "callable": []} | more


@pytest.mark.parametrize(
    "reply",
    [
        values(), values(1, 2, 3, 4), values(1, 2, callable=[2]), values(1, 2, callable=[-1]),
        values(1, 2, callable=[True]), values(1, callable=1), values(1, callable=None), values(1, more=1),
        values(1, error=ERROR), {"value": {"list": [1]}}, {"value": 1, "callable": []},
        {"value": {"tuple": [1]}, "callable": []}, {"callable": [0]}, values(*[0] * wire.MAX_VALUES),
        values(*[{"tensor": {"dtype": "uint8", "shape": [999], "at": 0, "bytes": 999, "device": "cpu", "grad": False}}] * 2),
    ],
    ids=lambda reply: f"{reply!r:.70}",
)  # fmt: skip
def test_what_cannot_be_the_values_of_several_names_is_no_answer_and_rejected(reply):
    fake = replies(reply)
    with pytest.raises(NoAnswer, match="the worker sent something that is no answer"):
        fake.client.get_first(None, ["x", "y", "z"])
    assert fake.rejected == 1


def test_several_names_are_one_request():
    fake = replies(values(1, None, callable=[1]))
    assert fake.client.get_first(None, ["x", "y", "z"]) == [1, CALLABLE_ATTRIBUTE]
    assert [request["names"] for request in fake.requests] == [["x", "y", "z"]]


def test_a_reply_that_was_there_before_its_request_is_no_answer():
    sent = []

    def late_by_one(request):
        sent.append({"id": request["id"], "value": len(sent)})
        return sent[-2] if len(sent) > 1 else sent[0]

    fake = Fake(late_by_one)
    assert fake.call().value == 0
    with pytest.raises(NoAnswer, match="a reply to another request"):
        fake.call()


def test_nobody_can_tell_the_number_of_the_next_request():
    fake = replies({"value": 1})
    for _ in range(100):
        fake.call()
    numbers = [request["id"] for request in fake.requests]
    assert len(set(numbers)) == 100
    assert all(len(number) == 16 for number in numbers)


def test_an_exception_is_raised():
    fake = replies({"error": ERROR})
    with pytest.raises(AnswerRaised, match="line 3: ValueError: no"):
        fake.call()
    assert fake.rejected == 0


@pytest.mark.parametrize(
    "line", [None, True, 0, -1, 10**7, 10**400, 1.0, "3", [3]], ids=lambda n: f"{n!r:.9}"
)
def test_a_line_that_no_file_has_is_left_out(line):
    assert decode_worker_exception(ERROR | {"line": line}).line is None


def test_the_text_of_an_exception_is_short_and_harmless():
    error = decode_worker_exception(
        {"type": "A\n::x\ud800\x1b" * 99, "message": "\n::\ud800\x1b" * 10**5, "line": 1}
    )
    assert len(error.kind) <= 200
    assert "\n" not in error.kind
    assert len(error.message) <= 4000
    assert not {"\x1b", "\ud800"} & set(str(error))
    assert not any(line.startswith("::") for line in str(error).splitlines())


def test_a_message_of_many_lines_takes_no_time():
    started = time.thread_time()
    decode_worker_exception(
        ERROR | {"message": "\n" * 50_000}
    )  # seconds, if all of it were searched
    assert time.thread_time() - started < 1


def test_the_type_of_an_object_is_one_harmless_line():
    fake = replies({"value": {"handle": [4, "\nA\x1b[31m\n::B\ud800"]}})
    assert fake.call().value == ObjectHandle(4, 1, "A[31m : :B?")


def test_whatever_a_worker_writes_to_its_inputs_is_seen():
    def overwrite(request):
        fake.inputs.view[:] = bytes([255]) * len(fake.inputs.view)
        return {"id": request["id"], "value": None}

    fake = Fake(overwrite)
    x = torch.zeros(3)
    answer = fake.call(x, 5, [x.numpy(), {"a": x}], mask=x, scale=2.0)
    assert answer.modified == ("0", "2", "2", "mask")
    assert torch.equal(x, torch.zeros(3))


@pytest.mark.parametrize("lists", [None, [[1]], {"list": []}, {"list": [1, 2]}, {"value": 1}])
def test_a_call_without_its_lists_is_no_answer(lists):
    fake = replies({"value": None, "lists": lists})
    with pytest.raises(NoAnswer, match="a call without its lists"):
        fake.call([[1]])


def test_what_was_given_is_not_read_from_where_the_worker_writes():
    class Raced(wire.Arena):
        def put(self, data):
            at = super().put(data)
            self.view[at] ^= 255  # the worker was quick
            return at

    fake = replies({"value": None})
    assert fake.call(torch.zeros(3)).modified == ()
    fake = Fake(fake.lie, Raced(bytearray(1 << 10)))
    assert fake.call(torch.zeros(3)).modified == ("0",)
