"""What runs code of an answer runs under the rules of its function, also after the call."""

from collections import namedtuple

import numpy as np
import pytest
import torch

from grader.worker.child.exact_types import OPAQUE_OBJECT, make_worker_value_exact
from grader.worker.parent.faults import AnswerRaised
from tests.worker.asking import call, worker

LATE = """
import numpy as np
import torch

done = []

def compute(x):
    done.append(torch.tensor(x).exp().numpy())
    return done[-1]

class Late:
    def __init__(self, x): self.__dict__["x"] = x
    @property
    def found(self): return compute(self.x)
    def method(self): return compute(self.x)
    def __setattr__(self, name, value): compute(self.x)

def waits(x):
    try:
        yield x
    finally:
        compute(x)

def as_numpy(x): return Late(x)
def waiting(x):
    late = Late(x)
    late.__dict__["waits"] = waits(x)
    next(late.waits)
    return late
def asked(): return len(done)

class Raised(Exception):
    def __str__(self):
        compute(np.ones(2))
        return "told"
def raising(x): raise Raised

class Own(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x): return x.clone()
    @staticmethod
    def backward(ctx, grad): return grad.exp()
def graph(x): return Own.apply(x)
def hooked(x):
    y = x.clone()
    y.register_hook(lambda grad: grad.exp())
    return y

class Own_class(torch.Tensor):
    shape = property(lambda self: compute(np.ones(2)))
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        compute(np.ones(2))
        return super().__torch_function__(function, types, args, kwargs or {})
def of_own_class(x): return x.clone().as_subclass(Own_class)
"""
NUMPY = [f"{name}/aten::*" for name in ("as_numpy", "waiting", "raising", "graph", "hooked")]
REFUSED = r"NotAllowed: torch's .* is not allowed in"


@pytest.fixture
def client(nursery):
    with worker(nursery, LATE, refuse=NUMPY) as (client, _):
        yield client


WAYS = {
    "get": lambda client, late: client.get(late, "found"),
    "set": lambda client, late: client.set(late, "other", 1),
    "call": lambda client, late: call(client, "method", on=late),
}


@pytest.mark.parametrize("way", WAYS)
def test_an_object_has_the_rules_of_the_function_that_returned_it(client, way):
    late = call(client, "as_numpy", np.ones(2))
    with pytest.raises(AnswerRaised, match=REFUSED):
        WAYS[way](client, late)
    assert call(client, "asked") == 0


def test_an_object_that_is_dropped_has_them_too(client):
    client.drop_handle(call(client, "waiting", np.ones(2)))
    assert call(client, "asked") == 0


def test_the_text_of_an_exception_has_them_too(client):
    with pytest.raises(AnswerRaised):
        call(client, "raising", np.ones(2))
    assert call(client, "asked") == 0


@pytest.mark.parametrize("name", ["graph", "hooked"])
def test_a_backward_pass_has_them_too(nursery, name):
    text, x = LATE.replace("y = x.clone()", "y = x.view(-1)"), torch.ones(2, requires_grad=True)
    text = text.replace("return x.clone()", "return x.view(-1)")
    with worker(nursery, text, refuse=["aten::*"]) as (client, _):
        kept = client.call(None, name, [x], {}, graph=True)
        with pytest.raises(AnswerRaised, match=r"NotAllowed: torch's .* not allowed"):
            client.backward(kept.graph, [torch.ones(2)])


def test_a_tensor_of_an_own_class_is_sent_as_a_plain_one(client):
    x = torch.randn(3, requires_grad=True)
    kept = client.call(None, "of_own_class", [x], {}, graph=True)
    done = call(client, "asked")
    assert torch.equal(kept.value, x) and kept.value.requires_grad
    [gradient] = client.backward(kept.graph, [torch.full((3,), 2.0)])
    assert torch.equal(gradient, torch.full((3,), 2.0))
    assert call(client, "asked") == done <= 2  # the clone, and the change of class


class Lying(np.ndarray):
    dtype = property(lambda self: 1 / 0)
    __array__ = __len__ = __iter__ = property(lambda self: 1 / 0)


class LyingNumber(np.float32):
    __array__ = __float__ = item = dtype = property(lambda self: 1 / 0)


class LyingList(list):
    __iter__ = __len__ = __getitem__ = property(lambda self: 1 / 0)


class LyingDict(dict):
    __iter__ = items = keys = copy = property(lambda self: 1 / 0)


class LyingInteger(int):
    __int__ = __index__ = __abs__ = property(lambda self: 1 / 0)


class LyingObject:
    __class__ = property(lambda self: np.ndarray)


PAIR = namedtuple("Pair", "output weights")


@pytest.mark.parametrize(
    ("value", "exact"),
    [
        (np.arange(3).view(Lying), np.arange(3)),
        (LyingNumber(1.5), np.array(1.5, np.float32)),
        (np.float64(2.5), np.array(2.5)),
        (np.int8(3), 3),
        (np.str_("name"), "name"),
        (LyingList([1, 2]), [1, 2]),
        (LyingDict(a=1), {"a": 1}),
        (LyingInteger(4), 4),
        (PAIR(1, 2), (1, 2)),
        (torch.Size([2, 3]), (2, 3)),
        (torch.nn.Parameter(torch.ones(2)), torch.ones(2)),
        (LyingObject(), OPAQUE_OBJECT),
        (np.ma.array([1.0]), np.array([1.0])),
    ],
)
def test_a_value_is_read_as_the_type_that_its_class_is_derived_from(value, exact):
    found = make_worker_value_exact(value)
    assert type(found) is type(exact)
    same = np.array_equal if isinstance(exact, np.ndarray) else lambda a, b: a is b or bool(a == b)
    assert found is exact or (
        torch.equal(found, exact) if isinstance(exact, torch.Tensor) else same(found, exact)
    )
