"""What an exercise does not allow is refused in its worker, by whatever way it is reached."""

import numpy as np
import pytest
import torch

from grader.core import catalog
from grader.worker.parent import faults
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
    refused = catalog.find_catalog_exercise(request.param).refused
    with worker(nursery, SOURCE, refuse=refused) as (client, _):
        yield client, request.param


@pytest.mark.parametrize("graph", [False, True])
@pytest.mark.parametrize("name", [*SOFTMAX, *ATTENTION, "by_hand"])
def test_operators_are_refused_where_all_ways_to_them_end(client, name, graph):
    client, slug = client
    x = torch.randn(1, 2, 4, 4, requires_grad=graph)
    if name in ATTENTION or (name in SOFTMAX and slug == "ex01_softmax"):
        says = r"not allowed in this exercise|Can't get source|Compiled functions can't"
        with pytest.raises(faults.AnswerRaised, match=says):
            call(client, name, x, graph=graph)
    else:
        assert call(client, name, x, graph=graph).shape == x.shape


def test_an_exercise_that_refuses_nothing_refuses_nothing(nursery):
    with worker(nursery, SOURCE) as (client, _):
        for name in (*SOFTMAX, *ATTENTION):
            call(client, name, torch.randn(1, 2, 4, 4))


IN_NUMPY = """
import numpy as np
import torch

soft = torch.softmax

def helper(x):
    return soft(torch.from_numpy(x), -1).numpy()

def softmax_numpy(x, way):
    return {"direct": direct, "helper": helper, "no gradient": no_gradient, "mapped": mapped,
            "tensor": tensor, "falls back": falls_back, "numpy": by_hand}[way](x)

def direct(x):
    return torch.exp(torch.from_numpy(x)).numpy()

def no_gradient(x):
    with torch.inference_mode():
        return torch.from_numpy(x).exp().numpy()

def mapped(x):
    return torch.vmap(lambda row: row.exp())(torch.from_numpy(x)).numpy()

def tensor(x):
    return np.asarray(torch.tensor(x) * 2)

def falls_back(x):
    try:
        return direct(x)
    except RuntimeError:
        return by_hand(x)

def by_hand(x):
    assert not isinstance(x, torch.Tensor)
    return np.exp(x)

class Layer:
    def softmax_numpy(self, x):
        return direct(x)
"""


@pytest.fixture(scope="module")
def in_numpy(nursery):
    refused = catalog.find_catalog_exercise("ex01").refused
    with worker(nursery, IN_NUMPY, refuse=refused) as (client, _):
        yield client


@pytest.mark.parametrize("way", ["direct", "helper", "no gradient", "mapped", "tensor"])
def test_a_function_in_numpy_may_call_no_operator_of_torch(in_numpy, way):
    with pytest.raises(faults.AnswerRaised, match=r"not allowed in softmax_numpy: write .* NumPy"):
        call(in_numpy, "softmax_numpy", np.ones((2, 3)), way)


@pytest.mark.parametrize("way", ["numpy", "falls back"])
def test_a_function_in_numpy_is_otherwise_free(in_numpy, way):
    assert call(in_numpy, "softmax_numpy", np.zeros((2, 3)), way).tolist() == [[1.0] * 3] * 2


def test_its_neighbours_and_methods_of_its_name_may_use_torch(in_numpy):
    assert call(in_numpy, "direct", np.zeros(2)).tolist() == [1.0, 1.0]
    layer = call(in_numpy, "Layer")
    assert call(in_numpy, "softmax_numpy", np.zeros(2), on=layer).tolist() == [1.0, 1.0]


def test_functions_in_numpy_are_those_that_return_arrays():
    found = {
        f.name
        for e in catalog.list_catalog_exercises()
        for f in e.functions.values()
        if catalog.is_declared_in_numpy(f)
    }
    assert found == {
        "softmax_numpy", "attention_numpy", "multi_head_attention_numpy", "softmax_backward",
        "attention_backward",
    }  # fmt: skip
