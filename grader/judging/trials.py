"""Calls for trials: each yields all that a caller can see of its result."""

import re
from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter
from typing import Any

import numpy as np
import torch
from torch import Tensor

from grader.judging.case import StudentFault
from grader.judging.draw import Draw
from grader.judging.student_calls import StudentObject
from grader.worker.child.raised import VALUE_ERROR_MARK

_PARAMETER = re.compile(r"(.+\.)?weight|.+\.bias")  # PyTorch's names; a mask may be "bias"
RAISES = "raises "  # begins what stands for an exception


def attempt(call: Callable[[], Any]) -> Any:
    """Return a call's answer, or the name of the exception that the call raises."""
    try:
        return call()
    except Exception as error:  # whatever a wrong answer raises is what the trial tells apart
        return RAISES + name_raised_kind(error)


def name_raised_kind(error: Exception) -> str:
    """Return the kind of an exception; "ValueError" for a class that is derived from it.

    A `StudentFault` was raised behind a wall; its kind is that of the answer's own exception.
    """
    kind = error.kind if isinstance(error, StudentFault) else ""
    if isinstance(error, ValueError) or kind.endswith(VALUE_ERROR_MARK):
        return ValueError.__name__
    return kind or type(error).__name__


def called(call: Callable[..., Any], *args: Any, **kwargs: Any) -> Iterator[Any]:
    """Yield a call's answer, and then the arguments, which the call may have changed."""
    yield attempt(lambda: call(*args, **kwargs))
    yield [x for x in (*args, *kwargs.values()) if isinstance(x, Tensor | np.ndarray | list)]


def parameter_shapes(module: Any) -> dict[str, tuple[int, ...]]:
    """Return the names and shapes of a module's parameters, by name; its buffers are its own."""
    state = sorted(module.state_dict().items())
    return {name: tuple(x.shape) for name, x in state if _PARAMETER.fullmatch(name)}


def parameter_gradients(
    draw: Draw, module: Any, *args: Any, without: Sequence[str] = (), **kwargs: Any
) -> Any:
    """Return the gradients of a module's parameters through one call, in the order of their names.

    without  names of parameters that are left out
    """
    module.zero_grad()
    given = [x.detach().clone() if isinstance(x, Tensor) else x for x in args]
    for x in filter(_is_trial_differentiable, given):
        x.requires_grad_()
    result = attempt(lambda: module(*given, **kwargs))
    total = _sum_trial_outputs(draw, result)
    if not total.requires_grad:
        return None
    names = [f"{name}.grad" for name in parameter_shapes(module) if name not in without]
    if (failed := attempt(total.backward)) is not None:
        return failed
    if isinstance(module, StudentObject):
        return attempt(lambda: Summed(module.read_each(names)))
    return attempt(lambda: Summed(attrgetter(name)(module) for name in names))


class Summed(list[Any]):
    """Values that are sums of rounded numbers of about 1, such as gradients."""


def differentiated(
    draw: Draw, call: Callable[..., Any], *args: Any, **kwargs: Any
) -> Iterator[Any]:
    """Yield as `called` does, and then the gradients of every floating-point argument.

    What is differentiated is a sum: every output that requires a gradient, times drawn weights.
    """
    given = [x.detach().clone() if _is_trial_differentiable(x) else x for x in args]
    named = {k: x.detach().clone() if _is_trial_differentiable(x) else x for k, x in kwargs.items()}
    leaves = [x.requires_grad_() for x in (*given, *named.values()) if _is_trial_differentiable(x)]
    result = attempt(lambda: call(*given, **named))
    yield result
    yield [x for x in (*given, *named.values()) if isinstance(x, Tensor)]
    yield gradients(draw, result, leaves)


def gradients(draw: Draw, result: Any, leaves: Sequence[Tensor]) -> Any:
    """Return the gradients of `leaves` (None for a leaf without one) through `result`."""
    total = _sum_trial_outputs(draw, result)
    if not total.requires_grad:
        return None
    return attempt(lambda: Summed(torch.autograd.grad(total, leaves, allow_unused=True)))


def _sum_trial_outputs(draw: Draw, result: Any) -> Tensor:
    """Return the sum of every output that requires a gradient, times drawn weights."""
    total = torch.zeros((), dtype=torch.float64)
    for x in _list_trial_outputs(result):
        weights = draw.normal(*x.shape, dtype=torch.float64)
        if x.requires_grad:
            total = total + (x.double() * weights).sum()
    return total


def _is_trial_differentiable(x: Any) -> bool:
    return isinstance(x, Tensor) and x.is_floating_point()


def _list_trial_outputs(result: Any) -> Iterator[Tensor]:
    if _is_trial_differentiable(result):
        yield result
    elif isinstance(result, list | tuple):
        for item in result:
            yield from _list_trial_outputs(item)
