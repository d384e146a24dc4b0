"""Autograd across the wire: forward and backward passes that run in the worker."""

import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from grader.judging.case import StudentFault
from grader.worker.parent.client import WorkerAnswer


class GradientExchange:
    """One call with its backward passes; the worker drops the graph when this object is gone."""

    def __init__(
        self,
        ask: Callable[[], WorkerAnswer],
        backward: Callable[[int, Sequence[Tensor | None]], Any],
        drop: Callable[[int], None],
    ) -> None:
        self._ask = ask
        self._backward = backward
        self._drop = drop
        self.value: Any = None
        self.graph = 0

    def forward(self) -> list[Tensor]:
        answer = self._ask()
        self.value = answer.value
        if answer.graph is not None:
            self.graph = answer.graph
            weakref.finalize(self, self._drop, answer.graph).atexit = False
        return list(iterate_judged_tensors(answer.value))

    def backward(self, gradients: Sequence[Tensor | None], leaves: Sequence[Tensor]) -> list[Any]:
        answer = self._backward(self.graph, gradients)
        fits = isinstance(answer, list) and len(answer) == len(leaves)
        for g, x in zip(answer, leaves, strict=True) if fits else ():
            fits &= g is None or (
                isinstance(g, Tensor) and _describe_judged_tensor(g) == _describe_judged_tensor(x)
            )
        if not fits:
            raise StudentFault("the worker sent gradients that fit no input")
        return list(answer)


def _describe_judged_tensor(x: Tensor) -> tuple[Any, ...]:
    return x.shape, x.dtype, x.device


class RemoteFunction(torch.autograd.Function):
    """Autograd's view of a call that runs in the worker."""

    @staticmethod
    def forward(ctx: Any, exchange: GradientExchange, *leaves: Tensor) -> tuple[Tensor, ...]:
        results = exchange.forward()
        ctx.exchange = exchange
        ctx.save_for_backward(*leaves)
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(*(x for x in results if not x.requires_grad))
        return tuple(x.detach() for x in results)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Any, ...]:
        return (None, *ctx.exchange.backward(gradients, ctx.saved_tensors))


def iterate_judged_tensors(value: Any) -> Iterator[Tensor]:
    """Yield every tensor in nested lists, tuples and dicts, in the order of the wire."""
    match value:
        case Tensor():
            yield value
        case list() | tuple():
            for item in value:
                if type(item) is not float:  # rows have thousands of them
                    yield from iterate_judged_tensors(item)
        case dict():
            for item in value.values():
                yield from iterate_judged_tensors(item)


def replace_judged_tensors(value: Any, outputs: Iterator[Tensor]) -> Any:
    """Replace the tensors of `value` by `outputs`, the tensors that autograd knows."""
    match value:
        case Tensor():
            return next(outputs)
        case list() | tuple():
            return type(value)(replace_judged_tensors(item, outputs) for item in value)
        case dict():
            return {key: replace_judged_tensors(item, outputs) for key, item in value.items()}
    return value


def detach_judged_answer(value: Any) -> Any:
    """Detach all tensors of an answer, whose parameters may have required a gradient."""
    return replace_judged_tensors(value, (x.detach() for x in iterate_judged_tensors(value)))
