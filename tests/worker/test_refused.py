"""What an exercise does not allow is refused in its worker, by whatever way it is reached."""

import pytest
import torch

from grader.core import catalog
from grader.worker import faults
from tests.worker.asking import call, worker

SOURCE = """
import torch

def softmax(x):
    return torch.nn.functional.softmax(x, -1)

def private(x):
    return torch._softmax(x, -1, False)

def special(x):
    return torch.special.softmax(x, -1)

def method(x):
    return x.log_softmax(-1)

def script(x):
    return torch.jit.CompilationUnit("def f(x):\\n    return torch.softmax(x, -1)\\n").f(x)

def mapped(x):
    return torch.vmap(lambda row: row.softmax(-1))(x)

def fused(x):
    return torch.nn.functional.scaled_dot_product_attention(x, x, x)

def dispatcher(x):
    return torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(x, x, x)[0]

def attention_module(x):
    return torch.nn.modules.activation.MultiheadAttention(4, 1)(x[0], x[0], x[0])

def by_hand(x):
    powers = torch.exp(x - x.amax(-1, keepdim=True))
    return powers / powers.sum(-1, keepdim=True) @ x
"""
SOFTMAX = ("softmax", "private", "special", "method", "script", "mapped")
ATTENTION = ("fused", "dispatcher", "attention_module")


@pytest.fixture(scope="module", params=["ex01_softmax", "ex03_sdpa"])
def client(request, nursery):
    refused = catalog.find(request.param).refused
    with worker(nursery, SOURCE, refuse=refused) as (client, _):
        yield client, request.param


@pytest.mark.parametrize("graph", [False, True])
@pytest.mark.parametrize("name", [*SOFTMAX, *ATTENTION, "by_hand"])
def test_operators_are_refused_where_all_ways_to_them_end(client, name, graph):
    client, slug = client
    x = torch.randn(1, 2, 4, 4, requires_grad=graph)
    if name in ATTENTION or (name in SOFTMAX and slug == "ex01_softmax"):
        says = r"not allowed in this exercise|Can't get source|Compiled functions can't"
        with pytest.raises(faults.Raised, match=says):
            call(client, name, x, graph=graph)
    else:
        assert call(client, name, x, graph=graph).shape == x.shape


def test_an_exercise_that_refuses_nothing_refuses_nothing(nursery):
    with worker(nursery, SOURCE) as (client, _):
        for name in (*SOFTMAX, *ATTENTION):
            call(client, name, torch.randn(1, 2, 4, 4))
