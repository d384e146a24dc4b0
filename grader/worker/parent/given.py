"""Writes the arguments of a call into shared memory, and compares them after the call."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from grader.worker.child import frames, wire

_ARRAYS = Tensor, np.ndarray


@dataclass(frozen=True, slots=True)
class _Place:
    """A tensor or an array of a case, and where its bytes were written; None if it has none."""

    value: Any  # kept alive, so that its id stays
    form: dict[str, Any]
    written: tuple[int, bytes] | None


Places = dict[int, _Place]  # by the id of the value


def write_places_again(inputs: wire.Arena, places: Places) -> None:
    """Write the bytes of every tensor and array of the case, as it was sent last, once more."""
    for place in places.values():
        if place.written is not None:
            at, data = place.written
            inputs.take(at, len(data))[:] = data


class SentArguments:
    """The arguments of one call: written into the arena `inputs`, and copied for comparison.

    The worker may write to the arena at any time, so arguments are compared with copies.
    Lists of numbers do not lie in the arena: the worker sends them back after the call.
    With `watch` a tensor or an array keeps the place that it had in an earlier call of the case, so
    that the worker sees one object. Without it (timed calls) a worker cannot recognise an input.
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
        self._written: tuple[int, bytes] | None = None  # of the value being encoded
        self._at: dict[str, Any] | None = None  # the earlier form of the value being encoded
        self.lists: dict[str, Any] = {}
        self._changed: list[str] = []

    def encode(self, value: Any, label: str) -> Any:
        self._label = label
        if self._watch and isinstance(value, _ARRAYS):
            return self._encode_at_place(value)
        if self._watch and type(value) is tuple and _are_all_sent_arrays(value):
            return {"tuple": [self._encode_at_place(item) for item in value]}
        form = wire.encode_wire(value, self, self._handle)
        if self._watch and _is_sent_number_list(value):
            self.lists[label] = form
        return form

    def _encode_at_place(self, value: Tensor | np.ndarray[Any, Any]) -> Any:
        """Encode a tensor or an array; one of an earlier call keeps its place in the arena."""
        before = self._places.get(id(value))
        self._at = None if before is None else next(iter(before.form.values()))
        self._written = None
        form = wire.encode_wire(value, self, self._handle)
        self._at = None
        self._places[id(value)] = _Place(value, form, self._written)
        return form

    def compare_lists(self, forms: Any) -> None:
        """Compare the encoded lists that the worker returned with those that were sent."""
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
            self._written = at, bytes(data)
            self._copies.append((self._label, *self._written))
        return at

    def write_again(self) -> None:
        """Write the bytes of every tensor and array of the call once more, as they were sent."""
        for _, at, data in self._copies:
            self._inputs.take(at, len(data))[:] = data

    def modified_labels(self) -> tuple[str, ...]:
        """Return the labels of the arguments that the call has modified."""
        changed = [label for label, at, was in self._copies if not self._is_unchanged(at, was)]
        return (*changed, *self._changed)

    def _is_unchanged(self, at: int, was: bytes) -> bool:
        # As bytes: a view is compared byte by byte, which would take longer than most calls.
        return bytes(self._inputs.take(at, len(was))) == was


def _are_all_sent_arrays(values: tuple[Any, ...]) -> bool:
    return all(isinstance(x, _ARRAYS) for x in values)


def _is_sent_number_list(value: Any) -> bool:
    """Return whether `value` is a list of numbers, or of such lists."""
    return isinstance(value, list) and all(
        isinstance(x, (int, float)) or _is_sent_number_list(x) for x in value
    )
