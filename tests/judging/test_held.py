"""Answers that last, and calls that are made without gradients."""

import types

import pytest
import torch

from grader.core import catalog
from grader.judging import Student, lasting
from grader.judging.case import CURRENT_CASE, Case, StudentFault
from grader.judging.one_place import written_over
from grader.worker.parent.in_process import call_without_wall


def softmax(body):
    """The function `softmax` of an answer with this body."""
    CURRENT_CASE.set(Case())
    module = types.ModuleType("answer")
    module.softmax = body
    return Student(catalog.find_catalog_exercise("ex01"), call_without_wall(module)).softmax


def asked(body, changed=lambda x: x.neg_()):
    """A first answer, and a call for other numbers while it should last."""
    function, x = softmax(body), torch.randn(3, 5)
    with lasting(function, x):
        function(changed(x))


def test_a_new_answer_lasts():
    asked(lambda x, dim=-1: x.softmax(dim))


def test_an_answer_in_one_place_does_not_last():
    places = {}
    with pytest.raises(StudentFault, match=r"an earlier answer \(after later calls\)"):
        asked(lambda x, dim=-1: written_over(places, x.softmax(dim)))


def test_an_input_that_is_changed_without_gradients_is_seen():
    def body(x, dim=-1):
        weights = x.softmax(dim)
        return weights if torch.is_grad_enabled() else x.copy_(weights).clone()

    softmax(body)(torch.randn(3, 5))
    with pytest.raises(StudentFault, match="the call changed x in place"):
        asked(body)


def test_calls_are_made_without_gradients_and_others_with_them():
    enabled = []

    def body(x, dim=-1):
        enabled.append(torch.is_grad_enabled())
        return x.softmax(dim)

    function = softmax(body)
    function(torch.randn(3, 5))
    with lasting(function, torch.randn(3, 5)):
        function(torch.randn(3, 5))
    function(torch.randn(3, 5))
    assert enabled == [True, False, False, True]


@pytest.mark.parametrize("learns", [True, False])
def test_a_backward_pass_needs_a_graph_and_says_so(learns):
    weight = torch.ones(5, requires_grad=True)
    body = lambda x, dim=-1: x * weight if learns else (x * weight).detach()  # noqa: E731
    held = softmax(body).held(torch.ones(5))
    if learns:
        held.backward(torch.arange(5.0))
        assert weight.grad.tolist() == [0, 1, 2, 3, 4]
    else:
        with pytest.raises(StudentFault, match="no gradient flows through the output: its graph"):
            held.backward(torch.arange(5.0))
