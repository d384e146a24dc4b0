"""An input that is given twice is one object for the submission, with what now lies in it."""

from types import ModuleType

import numpy as np
import pytest
import torch

from grader.worker.parent.faults import AnswerRaised
from grader.worker.parent.in_process import call_without_wall


@pytest.fixture
def client():
    module, seen = ModuleType("submission"), []
    module.alike = lambda a, b: a is b
    module.alike_in_pairs = lambda a, b: a[0] is b[1]
    module.form = lambda x: (x.device, x.dtype, x.shape == (2, 3), x.stride() == (1, 2))
    module.total = lambda a, b: (a * b).sum()
    module.seen_before = lambda x: any(x is y for y in seen) or bool(seen.append(x))
    module.doubled = lambda x: x.mul_(2)
    module.overwrite = lambda x: x.data.mul_(3).sum()
    module.pair = lambda x: (x.clone(), [x.numpy().copy()])
    return call_without_wall(module)


def call(client, name, *args, graph=False, hold=False):
    return client.call(None, name, args, {}, graph=graph, hold=hold)


@pytest.mark.parametrize("x", [torch.ones(3), np.ones(3)], ids=["tensor", "array"])
def test_the_same_argument_twice_is_one_object(client, x):
    assert call(client, "alike", x, x).value is True
    assert call(client, "alike", x, x + 0).value is False


def test_a_tensor_in_two_tuples_is_one_object(client):
    x = torch.ones(3)
    assert call(client, "alike_in_pairs", (x, x + 1), (x + 2, x)).value is True
    assert call(client, "alike_in_pairs", (x, x + 1), (x, x + 2)).value is False


def test_the_gradients_of_a_tensor_given_twice_are_added_once(client):
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    answer = call(client, "total", x, x, graph=True)
    [gradient] = client.backward(answer.graph, [torch.tensor(1.0)])
    assert gradient.tolist() == [2.0, 4.0]


def test_gradients_are_those_of_the_numbers_given_whatever_became_of_them(client):
    """The worker's tensors lie in shared memory, over which a later call may write."""
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    answer = call(client, "total", x, x, graph=True)
    call(client, "overwrite", x)
    with torch.no_grad():
        x.mul_(7)
    [gradient] = client.backward(answer.graph, [torch.tensor(1.0)])
    assert gradient.tolist() == [2.0, 4.0]


def test_gradients_of_a_call_are_those_of_its_own_numbers_though_it_was_called_again(client):
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    answer = call(client, "total", x, x, graph=True)
    with torch.no_grad():
        x.mul_(7)
    call(client, "total", x, x, graph=True)
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


def test_an_answer_that_is_held_can_be_given_to_a_later_call(client):
    x, [array] = call(client, "pair", torch.ones(3), hold=True).value
    assert call(client, "alike", x, x).value is True
    assert call(client, "total", x, torch.ones(3)).value == 3
    assert client.get(array, "value").tolist() == [1, 1, 1]


def test_a_change_of_an_answer_that_is_held_is_seen(client):
    x, _ = call(client, "pair", torch.ones(3), hold=True).value
    call(client, "doubled", x)
    assert client.get(x, "value").tolist() == [2, 2, 2]


def test_an_answer_that_no_worker_could_send_is_named_without_a_wall_too():
    module = ModuleType("submission")
    module.long = lambda: "x" * 2_000_000
    with pytest.raises(AnswerRaised, match="WireError: the answer cannot be sent: a header of 2"):
        call(call_without_wall(module), "long")
