"""Tells which traced values also occur in right answers, and what right answers compute instead.

Two answers that compute the same in other ways have other values on the way: scores before or after
they are scaled, powers of scores with or without their maximum. So "no right answer has it" is said
only of a value that is not a part of a right one, nor the same numbers in another order, nor
something that grows with them.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from grader.diagnosis.traced_values import (
    Array,
    Trace,
    TracedValue,
    are_traced_numbers_close,
    are_traced_values_equal,
)


class Explained(IntEnum):
    """How a right answer has a value."""

    NO = 0
    PERHAPS = 1  # the same numbers in another order or shape, a part of them, or in the same ranks
    YES = 2


@dataclass(frozen=True, slots=True)
class Explanation:
    """How right answers have a value, and what they compute from the same values."""

    explained: Explained
    known: bool  # a right answer has these numbers, if from others, and they are not all the same
    sources: int  # different values that it was computed from, whole numbers left out
    named: bool  # whether `instead` has the same name
    instead: tuple[TracedValue, ...]  # from the same values, if right answers have all of these


class RightValues:
    """All values of right answers on the same inputs, in classes of equal values."""

    def __init__(self, traces: Iterable[Trace]) -> None:
        self._classes: list[TracedValue] = []  # a value of each class
        self._by_size: dict[int, list[int]] = {}
        # For the classes that a value is computed from: the classes and names of such values.
        self._ways: dict[frozenset[int], set[tuple[int, str]]] = {}
        self._whole: set[int] = set()
        for trace in traces:
            numbers = [self._add(one) for one in trace]
            for one, number in zip(trace, numbers, strict=True):
                if number is not None:
                    came = _list_classes_of_traced_sources(one, numbers)
                    self._ways.setdefault(came, set()).add((number, one.name))

    def _add(self, one: TracedValue) -> int | None:
        """Return the class of a value, which may be new; None of whole and of large values."""
        if one.value is None:
            return None
        if one.whole:
            self._whole.add(int(one.value))
            return None
        known = self._find_class(one)
        if known is not None:
            return known
        self._classes.append(one)
        self._by_size.setdefault(one.value.size, []).append(len(self._classes) - 1)
        return len(self._classes) - 1

    def _find_class(self, one: TracedValue) -> int | None:
        assert one.value is not None
        same = self._by_size.get(one.value.size, [])
        return next((n for n in same if are_traced_values_equal(one, self._classes[n])), None)

    def _has_way(self, number: int, came: frozenset[int]) -> bool:
        return any(number == other for other, _ in self._ways.get(came, ()))

    def _list_arguments(self, one: TracedValue, came: frozenset[int]) -> tuple[TracedValue, ...]:
        """Return what right answers have in the place of an argument, of the same as it."""
        if one.kind != "argument":
            return ()
        ways = sorted(self._ways.get(came, ()))
        return tuple(self._classes[n] for n, name in ways if name == one.name)

    def explain_trace(self, trace: Trace, *, by_shape: bool = False) -> list[Explanation]:
        """Return for each value of a trace whether right answers have it.

        by_shape  an axis of length 1 counts, where right answers have a value of the same name
        """
        numbers: list[int | None] = []
        found: list[Explanation] = []
        for one in trace:
            plain = one.value is not None and not one.whole
            numbers.append(self._find_class(one) if plain else None)
            sound = all(found[at].explained is Explained.YES for at in one.sources)
            came = _list_classes_of_traced_sources(one, numbers)
            explained = self._explain(one, numbers[-1], came, sound)
            named, others = self._find_counterparts(one, came) if sound and came else ((), ())
            # Right answers compute another value of this shape and name from the same two values.
            if explained is Explained.PERHAPS and len(came) > 1 and _has_shape_of(one, named):
                explained = Explained.NO
            if by_shape and named and not _has_shape_of(one, named):
                explained = Explained.NO
            given = self._list_arguments(one, came) if sound else ()
            if given and not any(are_traced_values_equal(one, x) for x in given):
                explained, named = Explained.NO, given  # as where two arguments are exchanged
            if any(_is_scaled_by_rows(one, x) for x in (*named, *others)):
                explained = max(explained, Explained.PERHAPS)
            known = numbers[-1] is not None and not _is_traced_value_one_number(one)
            found.append(Explanation(explained, known, len(came), bool(named), named or others))
        return found

    def _explain(
        self, one: TracedValue, number: int | None, came: frozenset[int], sound: bool
    ) -> Explained:
        if one.value is None:
            return Explained.PERHAPS
        if one.whole:
            return Explained.YES if int(one.value) in self._whole else Explained.NO
        if number is not None:
            if one.kind == "input" or (sound and self._has_way(number, came)):
                return Explained.YES
            # Of one number alone, or a copy: it says little, unless it was computed from the same.
            weak = number in came or _is_traced_value_one_number(one)
            return Explained.PERHAPS if one.sources and (weak or not sound) else Explained.YES
        others = self._list_perhaps(one.value.size)
        perhaps = any(_is_perhaps_traced_value(one, other) for other in others)
        return Explained.PERHAPS if perhaps else Explained.NO

    def _find_counterparts(
        self, one: TracedValue, came: frozenset[int]
    ) -> tuple[tuple[TracedValue, ...], tuple[TracedValue, ...]]:
        """Return what right answers compute from the same values: under this name, and others."""
        found = sorted((n, name) for n, name in self._ways.get(came, ()) if n not in came)
        named, others = (
            tuple(self._classes[n] for n, name in found if (name == one.name) is same)
            for same in (True, False)
        )
        return named, others

    def _list_perhaps(self, size: int) -> Iterator[TracedValue]:
        for other, numbers in self._by_size.items():
            if size and other and (other % size == 0 or size % other == 0):
                yield from (self._classes[n] for n in numbers)


def _has_shape_of(one: TracedValue, others: Iterable[TracedValue]) -> bool:
    shapes = {x.value.shape for x in others if x.value is not None}
    return one.value is not None and one.value.shape in shapes


def _is_scaled_by_rows(one: TracedValue, other: TracedValue) -> bool:
    """Return whether each row of one value is a multiple of the other's row, plus a constant.

    Such are unscaled scores, scores less a maximum, and powers that are not divided by their sum.
    """
    a, b = one.value, other.value
    if a is None or b is None or a.shape != b.shape or a.ndim == 0 or a.dtype != b.dtype:
        return False
    if a.dtype == bool or a.shape[-1] < 3:
        return False
    seen = np.isfinite(a) & np.isfinite(b)
    a, b = np.where(seen, a, 0.0), np.where(seen, b, 0.0)
    count = seen.sum(-1, keepdims=True).clip(min=1)
    a, b = (np.where(seen, x - x.sum(-1, keepdims=True) / count, 0.0) for x in (a, b))
    factor = (a * b).sum(-1, keepdims=True) / (b * b).sum(-1, keepdims=True).clip(min=1e-30)
    close = max(one.close, other.close)
    return bool((np.abs(a - factor * b) <= close * np.abs(a).max(initial=0.0)).all())


def _list_classes_of_traced_sources(one: TracedValue, numbers: list[int | None]) -> frozenset[int]:
    """Return the classes of the values that a value was computed from."""
    return frozenset(n for at in one.sources if (n := numbers[at]) is not None)


def _is_perhaps_traced_value(one: TracedValue, other: TracedValue) -> bool:
    a, b = one.value, other.value
    if a is None or b is None or a.size < 2 or b.size < 2:
        return False
    close = max(one.close, other.close)
    if a.size != b.size:
        small, large = sorted((a.ravel(), b.ravel()), key=len)
        return _is_traced_array_part_of(small, large, close)
    a, b = a.ravel().astype(np.float64), b.ravel().astype(np.float64)
    if are_traced_numbers_close(np.sort(a), np.sort(b), close):
        return True
    return _have_same_ranks(a, b) or _have_same_ranks(a, -b)


def _is_traced_value_one_number(one: TracedValue) -> bool:
    """Return whether all numbers of a value are the same."""
    return one.value is not None and np.unique(one.value).size <= 1


def is_traced_value_plain_number(one: TracedValue) -> bool:
    """Return whether a value is whole or filled with one number, as buffers are to begin with."""
    if one.value is None or one.whole:
        return True
    return _is_traced_value_one_number(one) and (one.value.ndim > 0 or one.value in (0.0, 1.0))


def _is_traced_array_part_of(small: Array, large: Array, close: float) -> bool:
    """Return whether each number of one is a number of the other."""
    near = np.sort(large[np.isfinite(large)].astype(np.float64))
    wanted = small[np.isfinite(small)].astype(np.float64)
    if not near.size or not wanted.size or small.dtype == bool:
        return False
    at = np.searchsorted(near, wanted).clip(0, near.size - 1)
    apart = np.minimum(np.abs(near[at] - wanted), np.abs(near[np.maximum(at - 1, 0)] - wanted))
    return bool((apart <= 0.01 * close * np.abs(near).max()).all())


def _have_same_ranks(a: Array, b: Array) -> bool:
    """Return whether one is a growing function of the other, number by number."""
    finite = np.isfinite(a) & np.isfinite(b)
    if finite.sum() < 3:
        return False
    order = np.argsort(b[finite], kind="stable")
    steps = np.diff(a[finite][order])
    return bool((steps >= 0).all() and (steps > 0).any())
