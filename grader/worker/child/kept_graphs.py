"""Keeps the autograd graphs of calls, and runs their backward passes."""

import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from .dispatch_guard import Rules
from .exact_types import make_worker_tensor_plain, read_worker_tensor
from .held_tensors import list_worker_tensors
from .upstream import sum_weighted_answer


@dataclass(frozen=True, slots=True)
class KeptGraph:
    """The inputs of a call that require a gradient, its results, and its function."""

    leaves: list[torch.Tensor]
    results: list[torch.Tensor]
    function: str

    def sum_results(self, gradients: Sequence[torch.Tensor | None]) -> torch.Tensor | None:
        """Return the sum whose gradients for the results are these; None if none flows."""
        sums = [
            sum_weighted_answer(x, g).double()
            for x, g in zip(self.results, gradients, strict=True)
            if g is not None and x.requires_grad
        ]
        return torch.stack(sums).sum() if sums else None

    def find_gradients(self, total: torch.Tensor | None) -> list[torch.Tensor | None]:
        """Return the gradients of the inputs for such a sum; this runs code of the answer."""
        for leaf in self.leaves:
            leaf.grad = None
        if total is not None:
            total.backward(retain_graph=True)  # type: ignore[no-untyped-call]
        return [read_worker_tensor(leaf, "grad") for leaf in self.leaves]


class KeptGraphs:
    """The graphs by the numbers of their calls."""

    def __init__(self) -> None:
        self._graphs: dict[int, KeptGraph] = {}
        # Not from zero: the number of a call means nothing in another worker's room.
        self._last = secrets.randbits(48)

    def __getitem__(self, number: int) -> KeptGraph:
        return self._graphs[number]

    def keep_graph(self, given: Any, result: Any, function: str) -> int:
        """Keep the graph of a call of `function`; return its number."""
        found = [x for x in list_worker_tensors(given) if read_worker_tensor(x, "requires_grad")]
        leaves = list({id(x): x for x in found}.values())
        results = [make_worker_tensor_plain(x) for x in list_worker_tensors(result)]
        self._last += 1
        self._graphs[self._last] = KeptGraph(leaves, results, function)
        return self._last

    def drop_graphs(self, rules: Rules, numbers: Iterable[int]) -> None:
        """Let go of graphs, under their rules, as objects are."""
        for number in numbers:
            if number in self._graphs:
                with rules.hold(self._graphs[number].function):
                    del self._graphs[number]
