"""Calls for trials: each yields all that a caller can see of its result."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from grader.judging.case import StudentFault
from grader.judging.draw import Draw


def attempt(call: Callable[[], Any]) -> Any:
    """Return a call's answer, or the name of the exception that the call raises."""
    try:
        return call()
    except StudentFault as fault:  # raised behind a wall
        return f"raises {fault.kind or type(fault).__name__}"
    except Exception as error:  # whatever a wrong answer raises is what the trial tells apart
        return f"raises {type(error).__name__}"


def called(call: Callable[..., Any], *args: Any, **kwargs: Any) -> Iterator[Any]:
    """Yield a call's answer, and then the arguments, which the call may have changed."""
    yield attempt(lambda: call(*args, **kwargs))
    yield [x for x in (*args, *kwargs.values()) if isinstance(x, Tensor | np.ndarray | list)]


def parameter_shapes(module: Any) -> dict[str, tuple[int, ...]]:
    """Return the names and shapes of what a module's checkpoint has."""
    return {name: tuple(x.shape) for name, x in sorted(module.state_dict().items())}


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
    total = torch.zeros((), dtype=torch.float64)
    for x in _list_trial_outputs(result):
        weights = draw.normal(*x.shape, dtype=torch.float64)
        if x.requires_grad:
            total = total + (x.double() * weights).sum()
    if not total.requires_grad:
        return None
    return attempt(lambda: Summed(torch.autograd.grad(total, leaves, allow_unused=True)))


def _is_trial_differentiable(x: Any) -> bool:
    return isinstance(x, Tensor) and x.is_floating_point()


def _list_trial_outputs(result: Any) -> Iterator[Tensor]:
    if _is_trial_differentiable(result):
        yield result
    elif isinstance(result, list | tuple):
        for item in result:
            yield from _list_trial_outputs(item)
