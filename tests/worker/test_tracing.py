"""What a worker records of a call, statement by statement, and what it does not."""

import numpy as np
import pytest
import torch

from grader.worker.child.tracing import MAX_RECORDED_NUMBERS, MAX_RECORDED_VALUES
from grader.worker.parent.faults import AnswerRaised
from tests.worker.asking import worker

SOURCE = """import numpy as np
import torch

def helper(y, n):
    doubled = y * n
    return doubled

def outer(x):
    scores = (
        x
        + 1
    )
    scores[0] = 7.0
    for i in range(2):
        total = helper(scores, 2) - i
    return total, scores

def numpy_only(x):
    powers = np.exp(x)
    return powers.sum()

def numpy_given(x, t):
    return x

def loops(x):
    for i in range(5000):
        y = x + i
    return y

def caught(x):
    try:
        y = x.reshape(-1, 1000)
    except RuntimeError:
        y = x * 2
    return y

def large(x):
    y = x.repeat(5000)
    return y[:1]

def refuses(x):
    wrong = x + 1
    raise ValueError("no")

class Kept:
    def __init__(self):
        self.length = 0
        self.keys = torch.zeros(3)

    def append(self, x):
        self.keys[self.length] = x
        self.length += 1
        return self.keys
"""


def traced(client, name, *args, on=None):
    found = []
    with client.trace_calls(found.append):
        value = client.call(on, name, args, {}, graph=False).value
    [trace] = found
    return value, trace


def test_each_statement_is_recorded_with_what_it_read(nursery):
    with worker(nursery, SOURCE) as (client, _):
        value, trace = traced(client, "outer", torch.ones(2))
    assert value[0].tolist() == [13.0, 3.0]
    seen = [(line, name, kind, tuple(sources)) for line, name, kind, sources, _ in trace]
    assert seen[:6] == [
        (8, "x", "input", ()),
        (9, "scores", "variable", (0,)),  # the first line of the statement
        (13, "scores", "variable", (1,)),  # changed in place
        (14, "i", "variable", ()),
        (15, "y", "argument", (2, 3)),
        (15, "n", "argument", (2, 3)),
    ]
    assert seen[6:9] == [
        (5, "doubled", "variable", (4, 5)),
        (6, "return", "return", (6,)),
        (15, "total", "variable", (2, 3, 7)),
    ]
    assert [x[2] for x in trace[-2:]] == ["answer", "answer"]
    assert trace[1][4].tolist() == [2.0, 2.0] and trace[2][4].tolist() == [7.0, 2.0]


def test_a_judged_call_is_not_traced(nursery):
    with worker(nursery, SOURCE) as (client, _):
        traced(client, "outer", torch.ones(2))
        sent = []
        exchange = client._exchange
        client._exchange = lambda request: sent.append(request) or exchange(request)
        client.call(None, "outer", [torch.ones(2)], {}, graph=False)
        assert "trace" not in sent[0]


def test_a_function_in_numpy_and_the_state_of_an_object_are_recorded(nursery):
    with worker(nursery, SOURCE, refuse=["numpy_only/aten::*", "numpy_given/aten::*"]) as (
        client,
        _,
    ):
        _, trace = traced(client, "numpy_only", np.zeros(3))
        assert [x[1] for x in trace] == ["x", "powers", "return"]
        _, trace = traced(client, "numpy_given", np.zeros(3), torch.ones(2))
        assert trace[1][4].tolist() == [1.0, 1.0]
        kept = client.call(None, "Kept", [], {}, graph=False).value
        _, trace = traced(client, "append", torch.tensor(5.0), on=kept)
    assert [(x[0], x[1]) for x in trace if x[2] == "variable"] == [
        (51, "self.keys"),
        (52, "self.length"),
    ]


def test_limits_hold_and_a_call_goes_on_beyond_them(nursery):
    with worker(nursery, SOURCE) as (client, _):
        value, trace = traced(client, "loops", torch.zeros(1))
        assert (value.item(), trace) == (4999.0, [])
        _, trace = traced(client, "large", torch.zeros(5))
    assert MAX_RECORDED_NUMBERS < 5 * 5000 and len(trace) <= MAX_RECORDED_VALUES
    assert [x[4] is None for x in trace] == [False, True, False]


def test_a_caught_exception_ends_no_trace_and_a_raised_one_comes_with_the_values_before(nursery):
    with worker(nursery, SOURCE) as (client, _):
        value, trace = traced(client, "caught", torch.ones(2))
        assert value.tolist() == [2.0, 2.0] and trace[-1][2] == "answer"
        found = []
        with client.trace_calls(found.append), pytest.raises(AnswerRaised, match="no"):
            client.call(None, "refuses", [torch.ones(2)], {}, graph=False)
        assert [(x[1], x[2]) for x in found[0]] == [("x", "input"), ("wrong", "variable")]
        assert client.call(None, "helper", [torch.ones(1), 3], {}, graph=False).value.item() == 3
