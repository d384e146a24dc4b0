"""Keeps answers in the submission's process, to see whether later calls change them."""

import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from grader.judging.agree import inputs_left_alone, same
from grader.judging.case import fail_check, find_case
from grader.judging.gradients import iterate_judged_tensors
from grader.worker.parent.client import Client, ObjectHandle

Guard = Callable[..., Any]  # `Connection.guard` of one call: turns a failure into a fault


class HeldTensor:
    """A tensor or an array that a call returned, and that a later call can be given."""

    def __init__(self, handle: ObjectHandle, client: Client, guard: Guard) -> None:
        self._handle = handle
        self._client = client
        self._guard = guard
        weakref.finalize(self, client.drop_handle, handle).atexit = False

    def now(self) -> Any:
        """Fetch the present values of the tensor."""
        value = self._guard(self._client.get, self._handle, "value")
        if isinstance(value, Tensor):
            value = value.detach()
        find_case().returned(value, "an earlier answer", find_case().last_call)
        return value

    def change(self, method: str, *args: Any) -> None:
        """Call a method that changes the tensor in place, such as `zero_`."""
        name = f"value.{method}"
        self._guard(self._client.call, self._handle, name, args, {}, graph=False, hold=True)

    def backward(self, upstream: Tensor) -> None:
        """Run a backward pass in the worker, for the gradients of a module's parameters.

        It is the way where no input requires a gradient. Fails if the answer has no graph.
        """
        if self._guard(self._client.get, self._handle, "value.requires_grad") is not True:
            problem = "no gradient flows through the output: its graph was cut on the way"
            raise fail_check(problem, find_case().last_call)
        self.change("backward", upstream)

    def __repr__(self) -> str:
        return "an earlier answer"


def hold_judged_tensors(value: Any, client: Client, guard: Guard) -> Any:
    """Replace each handle in an answer by a `HeldTensor`."""
    match value:
        case ObjectHandle():
            return HeldTensor(value, client, guard)
        case list() | tuple():
            return type(value)(hold_judged_tensors(item, client, guard) for item in value)
    return value


@contextmanager
def lasting(function: Any, *args: Any, **kwargs: Any) -> Iterator[None]:
    """Pass if the calls made within do not change the answer to these arguments.

    The first of those calls should return an answer of the same form with other numbers: if the
    submission keeps its answers in one buffer, this call overwrites the earlier answer. The calls
    run under `torch.no_grad()`, unless an argument requires a gradient. No call may change its
    inputs.
    """
    learns = any(x.requires_grad for x in iterate_judged_tensors([args, kwargs]))
    with torch.set_grad_enabled(learns), inputs_left_alone():
        answers = function.held(*args, **kwargs)
        kept = [x for x in _flatten_judged_answers(answers) if isinstance(x, HeldTensor)]
        before = [x.now() for x in kept]
        yield
    for answer, was in zip(kept, before, strict=True):
        same(answer.now(), was, says="an earlier answer (after later calls)")


def _flatten_judged_answers(value: Any) -> Iterator[Any]:
    if isinstance(value, list | tuple):
        for item in value:
            yield from _flatten_judged_answers(item)
    else:
        yield value
