"""The arguments of a call: written into the inputs, and compared after it."""

from collections.abc import Callable
from typing import Any

import numpy as np
from torch import Tensor

from grader.worker.child import frames, wire

# The tensors and arrays given in a case by their id, each with its form; kept, so the id stays.
Places = dict[int, tuple[Any, dict[str, Any]]]


class Given:
    """What one call is given: written into the inputs, with a copy that is the grader's own.

    The worker may write to the inputs at any time, so what it was given is not read from there.
    Lists of numbers do not lie in the inputs: the worker sends them back as the call leaves them.
    A tensor or an array that is given again in the same case goes where it was, so that the worker
    meets one object; with `watch` only, since answers that are timed may not know an input again.
    """

    def __init__(
        self, inputs: wire.Arena, places: Places, handle: Callable[[Any], int], *, watch: bool
    ) -> None:
        self._inputs = inputs
        self._places = places
        self._handle = handle
        self._watch = watch
        self._label = ""
        self._copies: list[tuple[str, int, bytes]] = []
        self._at: dict[str, Any] | None = None  # the form of what is being given again
        self.lists: dict[str, Any] = {}
        self._changed: list[str] = []

    def encode(self, value: Any, label: str) -> Any:
        self._label = label
        if self._watch and isinstance(value, Tensor | np.ndarray):
            return self._known(value)
        if self._watch and type(value) is tuple and _all_arrays(value):
            return {"tuple": [self._known(item) for item in value]}
        form = wire.encode(value, self, self._handle)
        if self._watch and _is_list(value):
            self.lists[label] = form
        return form

    def _known(self, value: Tensor | np.ndarray[Any, Any]) -> Any:
        """The form of a tensor or an array, at its place if it was given before."""
        _, before = self._places.get(id(value), (None, None))
        self._at = None if before is None else next(iter(before.values()))
        form = wire.encode(value, self, self._handle)
        self._at = None
        self._places[id(value)] = value, form
        return form

    def lists_after(self, forms: Any) -> None:
        """Compare the lists that came back with those that were sent, in the form of the wire."""
        match forms:
            case {"list": [*after]} if len(after) == len(self.lists):
                pairs = zip(self.lists.items(), after, strict=True)
                self._changed = [label for (label, before), now in pairs if now != before]
            case _:
                raise frames.WireError("a call without its lists")

    def put(self, data: memoryview) -> int:
        if self._at is not None and self._at["bytes"] == data.nbytes:
            at: int = self._at["at"]
            self._inputs.take(at, data.nbytes)[:] = data.cast("B") if data.nbytes else b""
        else:
            at = self._inputs.put(data)
        if self._watch:
            self._copies.append((self._label, at, bytes(data)))
        return at

    def modified(self) -> tuple[str, ...]:
        """The labels of what now differs from what was given."""
        changed = [label for label, at, was in self._copies if not self._still(at, was)]
        return (*changed, *self._changed)

    def _still(self, at: int, was: bytes) -> bool:
        # As arrays: comparing memory byte by byte would take longer than most calls.
        now, then = (np.frombuffer(x, np.uint8) for x in (self._inputs.take(at, len(was)), was))
        return np.array_equal(now, then)


def _all_arrays(values: tuple[Any, ...]) -> bool:
    return all(isinstance(x, Tensor | np.ndarray) for x in values)


def _is_list(value: Any) -> bool:
    """Whether this is a list of numbers, or of such lists."""
    return isinstance(value, list) and all(
        isinstance(x, bool | int | float) or _is_list(x) for x in value
    )
