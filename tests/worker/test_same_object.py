"""An input that is given twice is one object for the submission, with what now lies in it."""

from types import ModuleType

import numpy as np
import pytest
import torch

from grader.worker.in_process import in_process


@pytest.fixture
def client():
    module, seen = ModuleType("submission"), []
    module.alike = lambda a, b: a is b
    module.form = lambda x: (x.device, x.dtype, x.shape == (2, 3), x.stride() == (1, 2))
    module.total = lambda a, b: (a * b).sum()
    module.seen_before = lambda x: any(x is y for y in seen) or bool(seen.append(x))
    return in_process(module)


def call(client, name, *args, graph=False):
    return client.call(None, name, args, {}, graph=graph)


@pytest.mark.parametrize("x", [torch.ones(3), np.ones(3)], ids=["tensor", "array"])
def test_the_same_argument_twice_is_one_object(client, x):
    assert call(client, "alike", x, x).value is True
    assert call(client, "alike", x, x + 0).value is False


def test_the_gradients_of_a_tensor_given_twice_are_added_once(client):
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    answer = call(client, "total", x, x, graph=True)
    [gradient] = client.backward(answer.graph, [torch.tensor(1.0)])
    assert gradient.tolist() == [2.0, 4.0]


def test_an_input_changed_in_place_is_the_same_object_with_new_numbers(client):
    x = torch.ones(3)
    assert call(client, "seen_before", x).value is False
    x.mul_(2)
    assert call(client, "total", x, x).value == 12
    assert call(client, "seen_before", x).value is True


def test_a_new_case_has_new_objects(client):
    x = torch.ones(3)
    call(client, "seen_before", x)
    client.fresh()
    assert call(client, "seen_before", x).value is False


def test_a_tensor_without_numbers_is_given_as_it_is(client):
    x = torch.empty(3, 2, device="meta", dtype=torch.float16).mT
    form = torch.device("meta"), torch.float16, True, True
    assert call(client, "form", x).value == form
